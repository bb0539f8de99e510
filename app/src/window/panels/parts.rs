//! Small parts that several panels draw, and differences in words.

use egui::{RichText, Ui};
use engine::units::Nanos;

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
