//! Small parts that several panels draw, and differences in words.

use egui::{RichText, Ui};
use engine::units::Nanos;

use crate::runs::run::Run;
use crate::theme::Tokens;
use crate::window::frame::Frame;

/// A figure with its name and where it comes from.
pub(crate) fn figure(ui: &mut Ui, tokens: &Tokens, name: &str, value: &str, source: &str) {
    ui.horizontal(|ui| {
        ui.label(RichText::new(name).color(tokens.faint));
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            ui.label(RichText::new(source).small().color(tokens.faint));
            ui.label(RichText::new(value).strong());
        });
    });
}

/// A sentence where there is nothing to show.
pub(crate) fn empty(ui: &mut Ui, tokens: &Tokens, text: &str) {
    ui.add_space(12.0);
    ui.vertical_centered(|ui| ui.label(RichText::new(text).color(tokens.faint)));
}

/// What to say in a view that has no run.
pub(crate) fn no_run(frame: &Frame<'_>) -> &'static str {
    match frame.shown {
        Some(shown) if shown.planned.batch.requests().is_empty() => {
            "The batch is empty. Add a tree or requests on the left, or pick a sample."
        }
        Some(_) => "There is a plan, but it did not run; the banner says why.",
        None => "Planning…",
    }
}

/// A difference of times with its sign: `+340 ns`, `−12.1 µs`.
pub(crate) fn signed(difference: i64) -> String {
    let sign = if difference < 0 { '−' } else { '+' };
    format!("{sign}{}", Nanos(difference.unsigned_abs()))
}

/// How far a simulated time is from the measured one: `+3.1 %`.
pub(crate) fn percent_of(simulated: Nanos, measured: Nanos) -> String {
    let change = (simulated.as_f64() / measured.as_f64().max(1.0) - 1.0) * 100.0;
    let sign = if change < 0.0 { '−' } else { '+' };
    format!("{sign}{:.1} %", change.abs())
}

/// Both makespans; their difference only where both have the same source.
pub(crate) fn makespans(before: &Run, after: &Run) -> String {
    let (old, new) = (before.times().median, after.times().median);
    if before.source() != after.source() {
        return format!("makespan {old} {} before, {new} {} now", before.words(), after.words());
    }
    let change = (new.as_f64() / old.as_f64().max(1.0) - 1.0) * 100.0;
    format!("makespan {new}, before {old} ({change:+.1} %, {})", after.words())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use engine::cancel::Cancel;
    use engine::capture::Source;
    use engine::session::{PlanOptions, RunOptions, plan_spec, simulate};
    use engine::workload::BatchSpec;

    use super::*;

    #[test]
    fn a_measured_makespan_is_not_subtracted_from_a_simulated_one() {
        let spec = BatchSpec::from_ron(crate::samples::find("teach-2-two-levels").unwrap().text).unwrap();
        let planned = plan_spec(&spec, &PlanOptions::new(&engine::hw::builtin()[0])).unwrap();
        let run = |source| {
            let mut capture = simulate(&planned, &RunOptions::default(), &Cancel::default()).unwrap();
            capture.provenance.source = source;
            Run::of(capture, Duration::ZERO)
        };
        let (simulated, measured) = (run(Source::Simulated), run(Source::Measured));
        let same = makespans(&simulated, &simulated);
        assert!(same.contains("(+0.0 %, simulated"), "{same}");
        for text in [makespans(&simulated, &measured), makespans(&measured, &simulated)] {
            assert!(!text.contains('%') && text.contains("simulated") && text.contains("measured"), "{text}");
        }
    }
}
