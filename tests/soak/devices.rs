//! Device files: built-in ones with other figures, in range and far out of it.

use anyhow::{Context as _, Result};
use engine::hw;
use engine::session::PlanOptions;
use engine::workload::{AttentionShape, BatchSpec, parse_prefill, parse_tree};
use serde::{Deserialize, Serialize};

use crate::checks::{Choice, Tried, plan_and_run, refused};
use crate::draw::Draw;

/// The text of a device file, and the batch that is run on it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DeviceCase {
    text: String,
    tree: String,
    prefill: Option<String>,
    choice: Choice,
}

/// A case of a seed.
pub(crate) fn draw(draw: &mut Draw) -> Result<DeviceCase> {
    let device = draw.of(hw::builtin());
    let mut text = hw::to_ron(device).context("writing a built-in device")?;
    for _ in 0..draw.within(1, 3) {
        if draw.one_in(3) { scaled(draw, &mut text) } else { draw.other_number(&mut text) }
    }
    if draw.one_in(6) {
        draw.damage(&mut text);
    }
    let tree = draw.pick(["1,4,16_128,32,32", "1,64_512,40", "2,8_64,700"]).to_owned();
    let prefill = draw.one_in(3).then(|| "100@400".to_owned());
    Ok(DeviceCase { text, tree, prefill, choice: Choice::draw(draw) })
}

/// Multiplies one of the figures: neighbours of what is right, for the edges of ranges.
fn scaled(draw: &mut Draw, text: &mut String) {
    let lines: Vec<&str> = text.lines().collect();
    let at = draw.at(lines.len());
    let factor = draw.pick([0.01, 0.1, 0.5, 0.9, 2.0, 10.0, 100.0]);
    let figure = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        let value = value.strip_suffix(',')?;
        let scaled = value.parse::<f64>().ok()? * factor;
        let scaled = if value.contains('.') { scaled } else { scaled.round() };
        Some(format!("{name}: {scaled},"))
    };
    let Some(line) = lines.get(at).and_then(|line| figure(line)) else { return };
    let mut all: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    all[at] = line;
    *text = all.join("\n");
}

/// Reads the device, and runs the batch on it.
pub(crate) fn try_out(case: &DeviceCase) -> Tried {
    let device = match hw::from_ron(&case.text) {
        Ok(device) => device,
        Err(error) => return refused(&error),
    };
    let spec = match batch(case) {
        Ok(spec) => spec,
        Err(error) => return refused(&error),
    };
    let choice = &case.choice;
    let base = PlanOptions::new(&device);
    let options = PlanOptions { scheduler: choice.scheduler.clone(), strategy: choice.strategy, ..base };
    plan_and_run(&spec, &options, choice.l2)
}

fn batch(case: &DeviceCase) -> engine::Result<BatchSpec> {
    let mut spec = parse_tree(&case.tree, AttentionShape::default())?;
    if let Some(prefill) = &case.prefill {
        spec.requests.push(parse_prefill(prefill)?);
    }
    Ok(spec)
}
