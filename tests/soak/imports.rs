//! Traces for `import`: rows that nest, repeat and do not fit; windows and steps of any size.

use std::fmt::Write as _;

use engine::import;
use engine::workload::{self, AttentionShape};
use serde::{Deserialize, Serialize};

use crate::batches::same_in_a_file;
use crate::checks::{Choice, Tried, plan_and_run, refused};
use crate::draw::Draw;

/// A trace, and what of it is imported.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ImportCase {
    trace: String,
    window: String,
    step: u64,
    choice: Choice,
}

/// A case of a seed.
pub(crate) fn draw(draw: &mut Draw) -> ImportCase {
    let rows = if draw.one_in(10) { 130 } else { draw.within(1, 20) };
    // Each row longer than the last by a piece nests as deeply as rows can.
    let nested = draw.one_in(4);
    let mut trace = String::new();
    for row in 0..rows {
        let pieces = if nested { row + 1 } else { draw.within(1, 6) };
        let length = pieces * 512 - draw.below(512);
        let ids: Vec<u64> = (0..pieces).map(|piece| if nested || piece < 2 { piece } else { draw.below(30) }).collect();
        let length = if draw.one_in(300) { draw.any() } else { length };
        let output = draw.mostly(0, 200);
        // Writing to a String cannot fail.
        let _ = writeln!(
            trace,
            "{{\"timestamp\": {row}, \"input_length\": {length}, \"output_length\": {output}, \"hash_ids\": {ids:?}}}"
        );
    }
    if draw.one_in(4) {
        draw.damage(&mut trace);
    }
    let start = if draw.one_in(3) { draw.mostly(0, rows) } else { 0 };
    let count = if draw.one_in(6) { draw.mostly(0, 40) } else { rows.saturating_sub(start) };
    let mut window = format!("{start}:{count}");
    if draw.one_in(10) {
        draw.damage(&mut window);
    }
    ImportCase { trace, window, step: draw.mostly(0, 300), choice: Choice::draw(draw) }
}

/// Reads the trace, takes the window, and plans what came of it: an imported batch is one that is taken.
pub(crate) fn try_out(case: &ImportCase) -> Tried {
    let imported = (|| {
        let (start, count) = workload::parse_window(&case.window)?;
        let trace = import::read_mooncake(case.trace.as_bytes())?;
        import::spec_from_window(&trace, AttentionShape::default(), start, count, case.step)
    })();
    let spec = match imported {
        Ok(spec) => spec,
        Err(error) => return refused(&error),
    };
    if let Err(error) = spec.build() {
        return refused(&error);
    }
    same_in_a_file(&spec)?;
    match case.choice.options() {
        Ok(options) => plan_and_run(&spec, &options, case.choice.l2),
        Err(error) => refused(&error),
    }
}
