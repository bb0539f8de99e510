//! The menus: the table of commands by groups, and below some of them the lists of what there is to choose from.

use egui::{RichText, ScrollArea, Ui};

use super::offers::{self, Offer};
use super::status::Status;
use crate::window::command::Command;
use crate::window::commands::table::{Action, COMMANDS, GROUPS};
use crate::window::frame::Frame;

/// Tallest list of a menu.
const TALLEST: f32 = 420.0;

pub(super) fn menus(ui: &mut Ui, frame: &Frame<'_>, status: &Status<'_>) {
    for group in GROUPS {
        let name = match status.unread {
            0 => group.to_owned(),
            unread if group == "View" => format!("View · {unread}"),
            _ => group.to_owned(),
        };
        let open = ui.menu_button(name, |ui| {
            focus_first(ui);
            commands(ui, frame, status, group);
            match group {
                "File" => {
                    ui.separator();
                    list(ui, frame, "Recent files", || offers::recent(status));
                    list(ui, frame, "Samples", offers::samples);
                }
                "Run" => {
                    ui.separator();
                    list(ui, frame, "Scheduler", || offers::schedulers(frame));
                    list(ui, frame, "Strategy", || offers::strategies(frame));
                    list(ui, frame, "Device", || offers::devices(frame, status));
                }
                "View" => {
                    ui.separator();
                    list(ui, frame, "Panels", offers::panels);
                }
                _ => {}
            }
        });
        if group == "View" && status.unread > 0 {
            open.response.on_hover_text("warnings and errors in the log that were not looked at");
        }
    }
}

fn commands(ui: &mut Ui, frame: &Frame<'_>, status: &Status<'_>, group: &str) {
    for entry in COMMANDS.iter().filter(|entry| entry.group == group) {
        let blocked = status.blocked.filter(|_| entry.action == Action::RunGpu);
        let (name, possible) = status.entry(entry);
        let enabled = blocked.is_none() && possible;
        let button = egui::Button::new(name).shortcut_text(entry.keys_text(ui.ctx()));
        if ui.add_enabled(enabled, button).on_disabled_hover_text(blocked.unwrap_or_default()).clicked() {
            frame.send(Command::Act(entry.action));
        }
    }
}

/// A menu of a menu, made when it is opened.
fn list(ui: &mut Ui, frame: &Frame<'_>, name: &str, offers: impl FnOnce() -> Vec<Offer>) {
    ui.menu_button(name, |ui| {
        focus_first(ui);
        let all = offers();
        if all.is_empty() {
            ui.label(RichText::new("none yet").color(frame.tokens.faint));
        }
        ScrollArea::vertical().max_height(TALLEST).show(ui, |ui| {
            for offer in all {
                let button = egui::Button::selectable(offer.chosen, &offer.name);
                if ui.add(button).on_hover_text(&offer.about).clicked() {
                    frame.send(offer.command);
                    ui.close();
                }
            }
        });
    });
}

/// The first entry of a menu that opens with a key has the focus, so that arrows go on from there.
fn focus_first(ui: &mut Ui) {
    let pressed = ui.input(|input| input.key_pressed(egui::Key::ArrowDown));
    if pressed && ui.memory(|memory| memory.focused().is_none()) {
        ui.memory_mut(|memory| memory.move_focus(egui::FocusDirection::Next));
    }
}
