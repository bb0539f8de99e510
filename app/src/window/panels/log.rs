//! Warnings, errors and times, newest last.

use egui::{RichText, ScrollArea, Ui};

use crate::window::command::Command;
use crate::window::frame::{Frame, Level};
use crate::window::panels::parts::empty;

/// Draws the log.
pub fn show(ui: &mut Ui, frame: &Frame<'_>) {
    if frame.log.is_empty() {
        empty(ui, frame.tokens, "Nothing to report yet.");
        return;
    }
    if frame.unread > 0 {
        frame.send(Command::ReadLog);
    }
    ScrollArea::vertical().stick_to_bottom(true).auto_shrink(false).show(ui, |ui| {
        for (level, line) in frame.log {
            let (sign, colour) = match level {
                Level::Info => ("·", frame.tokens.faint),
                Level::Warning => ("!", frame.tokens.warn),
                Level::Error => ("×", frame.tokens.error),
            };
            ui.add(egui::Label::new(RichText::new(format!("{sign} {line}")).color(colour)).wrap());
        }
    });
}
