//! What went wrong, each with a way to take the line away.

use egui::{Color32, RichText, Ui};

use super::status::Status;
use crate::runs::damage::UNKNOWN;
use crate::runs::shown::Sources;
use crate::window::command::{Banner, Command};
use crate::window::frame::Frame;

/// What went wrong, and that what is on the screen is older.
pub(crate) fn banner(ui: &mut Ui, frame: &Frame<'_>, status: &Status<'_>) {
    if let Some(problem) = status.gpu_problem {
        let more = "Batch, plan and simulation are as they were; the next run opens the GPU anew.";
        line(ui, frame, (Banner::Gpu, frame.tokens.error), |ui| {
            ui.label(RichText::new(problem).color(frame.tokens.error).strong());
            ui.label(more);
        });
    }
    damage(ui, frame, status);
    let Some(problem) = status.problem else { return };
    line(ui, frame, (Banner::Problem, frame.tokens.error), |ui| {
        ui.label(RichText::new(problem).color(frame.tokens.error).strong());
        if frame.stale && frame.shown.is_some() {
            ui.label("The views show the last batch that worked.");
        }
    });
}

/// A line across the window.
fn line(ui: &mut Ui, frame: &Frame<'_>, (what, colour): (Banner, Color32), draw: impl FnOnce(&mut Ui)) {
    let fill = crate::theme::mix(frame.tokens.panel, colour, 0.16);
    let margin = egui::Frame::new().fill(fill).inner_margin(egui::Margin::symmetric(10, 6));
    egui::Panel::top(format!("banner {what:?}")).frame(margin).show(ui, |ui| {
        ui.horizontal_wrapped(|ui| {
            draw(ui);
            if ui.small_button("×").on_hover_text("take this line away; the log keeps it").clicked() {
                frame.send(Command::Dismiss(what));
            }
        });
    });
}

/// What the file of the shown capture had lost.
fn damage(ui: &mut Ui, frame: &Frame<'_>, status: &Status<'_>) {
    let missing: Vec<&str> = frame
        .shown
        .into_iter()
        .flat_map(|shown| shown.runs(Sources::Both))
        .flat_map(|run| run.damage.missing())
        .map(String::as_str)
        .collect();
    let Some((first, more)) = missing.split_first().filter(|_| !status.damage_is_told) else { return };
    line(ui, frame, (Banner::Damage, frame.tokens.warn), |ui| {
        let text = format!("This capture is damaged; it lacks {first}.");
        ui.label(RichText::new(text).color(frame.tokens.warn).strong());
        if !more.is_empty() {
            ui.label(format!("And {} more; the log has them.", more.len())).on_hover_text(more.join("\n"));
        }
        ui.label(format!("Figures that this makes untrue stand as {UNKNOWN}."));
    });
}
