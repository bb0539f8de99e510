//! Batch files from a grammar of their schema, with figures in and out of range and damaged text.

use engine::workload::{AttentionShape, BatchSpec, Dtype, NodeSpec, RequestSpec, SCHEMA};
use packscope::samples;
use serde::{Deserialize, Serialize};

use crate::checks::{Choice, Tried, plan_and_run, refused};
use crate::draw::Draw;

/// The text of a batch file, and what it is planned with.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BatchCase {
    text: String,
    choice: Choice,
}

/// A case of a seed.
pub(crate) fn draw(draw: &mut Draw) -> BatchCase {
    let mut text = if draw.one_in(10) {
        draw.of(samples::samples()).text.to_owned()
    } else {
        spec(draw).to_ron().unwrap_or_default()
    };
    if draw.one_in(4) {
        draw.damage(&mut text);
    }
    BatchCase { text, choice: Choice::draw(draw) }
}

/// Reads, plans, runs.
pub(crate) fn try_out(case: &BatchCase) -> Tried {
    match BatchSpec::from_ron(&case.text) {
        Ok(mut spec) => {
            same_in_a_file(&spec)?;
            spec.scene = None;
            match case.choice.options() {
                Ok(options) => plan_and_run(&spec, &options, case.choice.l2),
                Err(error) => refused(&error),
            }
        }
        Err(error) => refused(&error),
    }
}

/// A batch is written and read back as it is.
pub(crate) fn same_in_a_file(spec: &BatchSpec) -> Result<(), String> {
    let text = spec.to_ron().map_err(|error| format!("a batch that cannot be written: {error}"))?;
    let again = BatchSpec::from_ron(&text).map_err(|error| format!("a written batch that cannot be read: {error}"))?;
    if again == *spec { Ok(()) } else { Err("a batch that reads back other than written".to_owned()) }
}

/// Any batch: mostly a small one that can be planned.
pub(crate) fn spec(draw: &mut Draw) -> BatchSpec {
    let shape = shape(draw);
    let roots = (0..draw.below(4)).map(|_| node(draw, &shape, 0)).collect();
    let mut requests: Vec<RequestSpec> = Vec::new();
    if draw.one_in(3) {
        requests.extend((0..draw.within(1, 4)).map(|_| request(draw, &shape)));
    }
    let schema = if draw.one_in(50) { draw.any32() } else { SCHEMA };
    let name = if draw.one_in(20) { "a\tname\u{7}\u{202e}\n" } else { "drawn" };
    BatchSpec { schema, name: name.to_owned(), look_for: String::new(), scene: None, shape, roots, requests }
}

fn shape(draw: &mut Draw) -> AttentionShape {
    let (query_heads, kv_heads) =
        draw.pick([(32, 8), (32, 8), (32, 32), (16, 4), (8, 1), (32, 2), (7, 7), (64, 8), (28, 4), (40, 8), (48, 1)]);
    let mut shape = AttentionShape {
        query_heads,
        kv_heads,
        head_dim: draw.pick([128, 128, 128, 64, 256]),
        dtype: draw.pick(Dtype::ALL),
        block_size: draw.pick([1, 8, 16, 32, 32, 64, 256]),
    };
    if draw.one_in(30) {
        let figure = draw.any32();
        let fields = [&mut shape.query_heads, &mut shape.kv_heads, &mut shape.head_dim, &mut shape.block_size];
        let at = draw.at(fields.len());
        *fields.into_iter().nth(at).unwrap_or(&mut 0) = figure;
    }
    shape
}

/// A node; whole blocks above leaves, mostly.
fn node(draw: &mut Draw, shape: &AttentionShape, depth: u32) -> NodeSpec {
    let block = u64::from(shape.block_size);
    let children: Vec<NodeSpec> = if depth < 5 && !draw.one_in(3) {
        (0..draw.within(1, 3)).map(|_| node(draw, shape, depth + 1)).collect()
    } else {
        Vec::new()
    };
    let tokens = if children.is_empty() || draw.one_in(60) {
        draw.mostly(1, 700)
    } else {
        block.saturating_mul(draw.mostly(1, 12))
    };
    let repeat = if depth == 0 { 1 } else { draw.mostly(1, 3) };
    let requests = draw.one_in(5).then(|| draw.mostly(0, 3));
    let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    NodeSpec { tokens, repeat: small(repeat), requests: requests.map(small), children }
}

fn request(draw: &mut Draw, shape: &AttentionShape) -> RequestSpec {
    let kv = draw.mostly(1, 3000);
    match draw.below(4) {
        0 => RequestSpec::Decode { kv, count: u32::try_from(draw.mostly(1, 8)).unwrap_or(u32::MAX) },
        1 => {
            let count = kv.div_ceil(u64::from(shape.block_size).max(1)).min(300);
            let first = draw.mostly(0, 100) as u32;
            let blocks = (0..count as u32).map(|block| first.wrapping_add(block)).collect();
            RequestSpec::Blocks { kv, blocks }
        }
        _ => RequestSpec::Prefill { chunk: if draw.one_in(20) { draw.any() } else { draw.within(1, kv.max(1)) }, kv },
    }
}
