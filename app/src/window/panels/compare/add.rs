//! What else can be a row: the chosen way on another device, and captures.

use std::path::PathBuf;

use egui::containers::menu::{MenuButton, MenuConfig};
use egui::{PopupCloseBehavior, RichText, TextEdit, Ui};

use crate::window::command::Command;
use crate::window::frame::Frame;

/// The menu of rows to add; it stays open while one types.
pub(super) fn menu(ui: &mut Ui, frame: &Frame<'_>, path: &mut String) {
    let config = MenuConfig::new().close_behavior(PopupCloseBehavior::CloseOnClickOutside);
    MenuButton::new("Add a row").config(config).ui(ui, |ui| {
        devices(ui, frame);
        ui.separator();
        capture(ui, frame, path);
    });
}

fn devices(ui: &mut Ui, frame: &Frame<'_>) {
    ui.label(RichText::new("the chosen way on another device, simulated").color(frame.tokens.faint));
    for device in engine::hw::builtin().iter().filter(|device| device.key != frame.options.device.key) {
        let is_row = frame.rows.devices.contains(&device.key);
        let fits = if device.calibrated { "" } else { " (not calibrated)" };
        if ui.selectable_label(is_row, format!("{}{fits}", device.name)).clicked() {
            frame.send(Command::RowOfDevice(device.key.clone()));
        }
    }
}

fn capture(ui: &mut Ui, frame: &Frame<'_>, path: &mut String) {
    let label = ui.label(RichText::new("a capture (.pscope)").color(frame.tokens.faint)).id;
    ui.horizontal(|ui| {
        let edit = ui.add(TextEdit::singleline(path).hint_text("path").desired_width(260.0)).labelled_by(label);
        let enter = edit.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
        let named = !path.trim().is_empty();
        if ui.add_enabled(named, egui::Button::new("Add")).clicked() || (enter && named) {
            frame.send(Command::AddRow(PathBuf::from(path.trim())));
            ui.close();
        }
        if ui.button("Browse…").on_hover_text("the desktop's own dialog, where it has one").clicked()
            && let Some(picked) = rfd::FileDialog::new().add_filter("captures", &["pscope"]).pick_file()
        {
            frame.send(Command::AddRow(picked));
            ui.close();
        }
    });
}
