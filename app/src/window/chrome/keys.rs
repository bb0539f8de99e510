//! The list of all keys.

use egui::{Align2, Context, ScrollArea};

use crate::theme;
use crate::window::commands::table::COMMANDS;

/// What the mouse does, which the table of commands does not hold.
const MOUSE: [(&str, &str); 6] = [
    ("Ctrl+wheel", "zoom at the pointer"),
    ("Shift+wheel", "pan"),
    ("Ctrl+Shift+wheel", "taller or lower lanes"),
    ("drag", "range with statistics"),
    ("middle drag", "zoom to range"),
    ("double click", "zoom to CTA, or fit"),
];

pub(super) fn show(ctx: &Context, open: &mut bool) {
    let window = egui::Window::new(theme::title("All keys"))
        .open(open)
        .anchor(Align2::CENTER_CENTER, [0.0, 0.0])
        .resizable(false);
    // Never taller than the window that it lies over.
    let tallest = (ctx.content_rect().height() - 80.0).max(120.0);
    window.show(ctx, |ui| {
        ScrollArea::vertical().max_height(tallest).show(ui, |ui| {
            egui::Grid::new("keys").num_columns(3).striped(true).spacing([24.0, 4.0]).show(ui, |ui| {
                for entry in COMMANDS.iter().filter(|entry| entry.keys.is_some()) {
                    ui.label(entry.group);
                    ui.label(entry.name);
                    ui.monospace(entry.keys_text(ui.ctx()));
                    ui.end_row();
                }
                for (input, what) in MOUSE {
                    ui.label("Timeline");
                    ui.label(what);
                    ui.monospace(input);
                    ui.end_row();
                }
            });
        });
    });
}
