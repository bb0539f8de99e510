//! A moment for somebody else: as a link that opens there again, and as a picture.

use std::path::PathBuf;

use egui::containers::menu::{MenuButton, MenuConfig};
use egui::{PopupCloseBehavior, RichText, TextEdit, Ui};

use crate::timeline::playback::Moment;
use crate::window::command::Command;
use crate::window::frame::Frame;

/// Where the run and the picture go.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths {
    run: String,
    picture: String,
}

/// The menu; it stays open while one types.
pub(super) fn menu(ui: &mut Ui, frame: &Frame<'_>, at: Moment, paths: &mut Paths) {
    let config = MenuConfig::new().close_behavior(PopupCloseBehavior::CloseOnClickOutside);
    let button = MenuButton::new("Share").config(config).ui(ui, |ui| {
        link(ui, frame, at, &mut paths.run);
        ui.separator();
        if save(ui, &mut paths.picture, ("picture", "moment.png or moment.svg"), "Save the picture") {
            frame.send(Command::SaveMoment(PathBuf::from(paths.picture.trim())));
            ui.close();
        }
    });
    button.0.on_hover_text("this moment as a link or as a picture");
}

fn link(ui: &mut Ui, frame: &Frame<'_>, at: Moment, path: &mut String) {
    if frame.is_in_file {
        if ui.button(format!("Copy the link to {at}")).clicked() {
            frame.send(Command::CopyLink(None));
            ui.close();
        }
        return;
    }
    ui.label(RichText::new("A link names a file, and this run is in none yet.").color(frame.tokens.faint));
    if save(ui, path, ("run", "run.pscope"), "Save the run and copy the link") {
        frame.send(Command::CopyLink(Some(PathBuf::from(path.trim()))));
        ui.close();
    }
}

/// A path with a button; whether that was clicked.
fn save(ui: &mut Ui, path: &mut String, (name, hint): (&str, &str), verb: &str) -> bool {
    let label = ui.label(name).id;
    let mut saved = false;
    ui.horizontal(|ui| {
        let edit = ui.add(TextEdit::singleline(path).hint_text(hint).desired_width(220.0)).labelled_by(label);
        let enter = edit.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
        let named = !path.trim().is_empty();
        if ui.button("Browse…").on_hover_text("the desktop's own dialog, where it has one").clicked()
            && let Some(picked) = rfd::FileDialog::new().save_file()
        {
            *path = picked.display().to_string();
        }
        saved = ui.add_enabled(named, egui::Button::new(verb)).clicked() || (enter && named);
    });
    saved
}
