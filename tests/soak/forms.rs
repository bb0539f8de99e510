//! The forms that are typed: `--tree`, `--decode`, `--prefill`, `--heads`.

use engine::workload::{AttentionShape, BatchSpec, parse_decode, parse_heads, parse_prefill, parse_tree, parse_window};
use serde::{Deserialize, Serialize};

use crate::checks::{Choice, Tried, plan_and_run, refused};
use crate::draw::Draw;

/// What is typed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FormsCase {
    tree: Option<String>,
    decode: Vec<String>,
    prefill: Vec<String>,
    heads: Option<String>,
    window: Option<String>,
    choice: Choice,
}

/// A case of a seed.
pub(crate) fn draw(draw: &mut Draw) -> FormsCase {
    let tree = (!draw.one_in(4)).then(|| {
        let text = tree(draw);
        typed(draw, text)
    });
    let decode = (0..draw.below(3)).map(|_| {
        let text = format!("{}x{}", draw.mostly(1, 20), draw.mostly(1, 3000));
        typed(draw, text)
    });
    let decode = decode.collect();
    let prefill = (0..draw.below(2)).map(|_| {
        let text = format!("{}@{}", draw.mostly(1, 300), draw.mostly(300, 3000));
        typed(draw, text)
    });
    let prefill = prefill.collect();
    let heads = draw.one_in(3).then(|| {
        let text = draw.pick(["32/8", "16/16", "8/1", "64/8"]).to_owned();
        typed(draw, text)
    });
    let window = draw.one_in(3).then(|| {
        let text = format!("{}:{}", draw.any(), draw.any());
        typed(draw, text)
    });
    FormsCase { tree, decode, prefill, heads, window, choice: Choice::draw(draw) }
}

fn tree(draw: &mut Draw) -> String {
    let levels = if draw.one_in(12) { draw.within(1, 70) } else { draw.within(1, 4) };
    let mut nodes = vec![1];
    for _ in 1..levels {
        let above = nodes[nodes.len() - 1];
        nodes.push(if above < 60 { above * draw.within(1, 5) } else { above });
    }
    let tokens: Vec<String> = nodes.iter().map(|_| draw.mostly(1, 12).saturating_mul(32).to_string()).collect();
    let nodes: Vec<String> = nodes.iter().map(u64::to_string).collect();
    format!("{}_{}", nodes.join(","), tokens.join(","))
}

/// As somebody types it.
fn typed(draw: &mut Draw, mut text: String) -> String {
    if draw.one_in(4) {
        draw.damage(&mut text);
    }
    text
}

/// Reads the forms into a batch, and plans it.
pub(crate) fn try_out(case: &FormsCase) -> Tried {
    if let Some(Err(error)) = case.window.as_deref().map(parse_window) {
        refused(&error)?;
    }
    let options = case.choice.options();
    match batch(case).and_then(|spec| options.map(|options| (spec, options))) {
        Ok((spec, options)) => plan_and_run(&spec, &options, case.choice.l2),
        Err(error) => refused(&error),
    }
}

fn batch(case: &FormsCase) -> engine::Result<BatchSpec> {
    let mut shape = AttentionShape::default();
    if let Some(heads) = &case.heads {
        (shape.query_heads, shape.kv_heads) = parse_heads(heads)?;
    }
    let mut spec = match &case.tree {
        Some(tree) => parse_tree(tree, shape)?,
        None => BatchSpec::empty(shape),
    };
    for text in &case.decode {
        spec.requests.push(parse_decode(text)?);
    }
    for text in &case.prefill {
        spec.requests.push(parse_prefill(text)?);
    }
    Ok(spec)
}
