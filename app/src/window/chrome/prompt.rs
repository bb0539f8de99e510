//! The prompts for a file: to open, to save, and to hand on what is shown as a picture or in another program's format.

use std::path::PathBuf;

use egui::{Align2, ComboBox, Context, Key, TextEdit, Ui};

use crate::picture::look::{Look, Width};
use crate::theme;
use crate::window::command::{Command, Format, Target};
use crate::window::commands::table::Action;
use crate::window::panel::Panel;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    Open,
    Save,
    Picture,
    Export(Format),
}

impl Asking {
    fn title(self) -> &'static str {
        match self {
            Self::Open => "Open a batch or device (.ron) or a capture (.pscope)",
            Self::Save => "Save the batch",
            Self::Picture => "Export a picture (.svg, .png, or .apng of the timeline as it goes)",
            Self::Export(Format::Capture) => "Save the run as a capture (.pscope)",
            Self::Export(Format::Perfetto) => "Export a trace for ui.perfetto.dev",
            Self::Export(Format::Csv) => "Export tables (CSV) into a folder",
            Self::Export(Format::Json) => "Export the figures as JSON",
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Self::Open => "",
            Self::Save => ".ron",
            Self::Picture => ".svg",
            Self::Export(Format::Capture) => ".pscope",
            Self::Export(Format::Perfetto) => ".pftrace",
            Self::Export(Format::Csv) => "-tables",
            Self::Export(Format::Json) => ".json",
        }
    }

    fn verb(self) -> &'static str {
        if self == Self::Open { "Open" } else { "Save" }
    }
}

/// What a picture is to show.
#[derive(Debug)]
struct Picture {
    panel: Panel,
    visible: bool,
    dark: bool,
    width: String,
}

/// A prompt that is open.
#[derive(Debug)]
pub(super) struct State {
    asking: Asking,
    path: String,
    picture: Picture,
    /// The path has not had the focus yet.
    fresh: bool,
}

/// What came of a prompt in one frame.
pub(super) enum Answer {
    /// Nothing yet.
    Waits,
    /// It was closed.
    Closed,
    /// A file was chosen.
    Picked(Command),
}

/// A name as files have them.
fn plain(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    if name.is_empty() { "batch".to_owned() } else { name.chars().map(letter).collect() }
}

impl State {
    /// The prompt that an action asks for, with a file named after the batch; of the picture of a panel.
    pub(super) fn of(action: Action, name: &str, panel: Panel) -> Option<Self> {
        let asking = match action {
            Action::Open => Asking::Open,
            Action::Save => Asking::Save,
            Action::Picture => Asking::Picture,
            Action::SaveCapture => Asking::Export(Format::Capture),
            Action::Perfetto => Asking::Export(Format::Perfetto),
            Action::Csv => Asking::Export(Format::Csv),
            Action::Json => Asking::Export(Format::Json),
            _ => return None,
        };
        let path = if asking == Asking::Open { String::new() } else { format!("{}{}", plain(name), asking.ending()) };
        let panel = if panel.has_picture() { panel } else { Panel::Timeline };
        let picture = Picture { panel, visible: true, dark: false, width: Width::default().to_string() };
        Some(Self { asking, path, picture, fresh: true })
    }

    fn command(&self, path: PathBuf) -> Option<Command> {
        Some(match self.asking {
            Asking::Open => Command::OpenPath(path),
            Asking::Save => Command::SavePath(path),
            Asking::Picture => self.picture.command(Target::File(path))?,
            Asking::Export(format) => Command::Export(format, path),
        })
    }

    /// Draws it.
    pub(super) fn show(&mut self, ctx: &Context) -> Answer {
        let mut answer = Answer::Waits;
        egui::Window::new(theme::title(self.asking.title()))
            .anchor(Align2::CENTER_CENTER, [0.0, 0.0])
            .collapsible(false)
            .resizable(false)
            .show(ctx, |ui| {
                if self.asking == Asking::Picture {
                    self.picture.show(ui);
                }
                // Asked before the field: it gives its focus up with either key.
                let (enter, escape) = ui.input(|input| (input.key_pressed(Key::Enter), input.key_pressed(Key::Escape)));
                let label = ui.label("path").id;
                let edit = ui.add(TextEdit::singleline(&mut self.path).desired_width(460.0)).labelled_by(label);
                if std::mem::take(&mut self.fresh) {
                    edit.request_focus();
                }
                let entered = enter && edit.lost_focus();
                if let Some(path) = self.buttons(ui, entered, &mut answer)
                    && let Some(command) = self.command(path)
                {
                    answer = Answer::Picked(command);
                }
                if escape {
                    answer = Answer::Closed;
                }
            });
        answer
    }

    /// The buttons under the path; gives the path that was chosen.
    fn buttons(&mut self, ui: &mut Ui, entered: bool, answer: &mut Answer) -> Option<PathBuf> {
        let mut chosen = None;
        ui.horizontal(|ui| {
            let typed = PathBuf::from(self.path.trim());
            let some = !typed.as_os_str().is_empty();
            if ui.add_enabled(some, egui::Button::new(self.asking.verb())).clicked() || (entered && some) {
                chosen = Some(typed);
            }
            if ui.button("Browse…").on_hover_text("the desktop's own dialog, where it has one").clicked() {
                chosen = self.browse();
            }
            if self.asking == Asking::Picture
                && ui.button("Copy").on_hover_text("to the clipboard, as a PNG").clicked()
                && let Some(command) = self.picture.command(Target::Clipboard)
            {
                *answer = Answer::Picked(command);
            }
            if ui.button("Close").clicked() {
                *answer = Answer::Closed;
            }
        });
        chosen
    }

    fn browse(&self) -> Option<PathBuf> {
        let name = if self.asking == Asking::Open { "" } else { self.path.as_str() };
        let dialog = rfd::FileDialog::new().set_file_name(name);
        match self.asking {
            Asking::Open => dialog.pick_file(),
            Asking::Export(Format::Csv) => dialog.pick_folder(),
            _ => dialog.save_file(),
        }
    }
}

impl Picture {
    fn command(&self, to: Target) -> Option<Command> {
        let look = Look { dark: self.dark, width: Width::parse(&self.width)? };
        Some(Command::Picture { panel: self.panel, visible: self.visible, look, to })
    }

    /// View, part, ground and width.
    fn show(&mut self, ui: &mut Ui) {
        ui.horizontal(|ui| {
            let label = ui.label("view").id;
            let combo = ComboBox::from_id_salt("view").selected_text(self.panel.title()).height(360.0);
            let combo = combo.show_ui(ui, |ui| {
                for panel in Panel::ALL.into_iter().filter(|panel| panel.has_picture()) {
                    ui.selectable_value(&mut self.panel, panel, panel.title());
                }
            });
            combo.response.labelled_by(label);
            ui.add_enabled_ui(self.panel.has_time(), |ui| {
                ui.selectable_value(&mut self.visible, true, "time in sight");
                ui.selectable_value(&mut self.visible, false, "all of it");
            });
            ui.separator();
            ui.selectable_value(&mut self.dark, false, "light");
            ui.selectable_value(&mut self.dark, true, "dark");
        });
        ui.horizontal(|ui| {
            let label = ui.label("width").id;
            ui.add(TextEdit::singleline(&mut self.width).desired_width(80.0)).labelled_by(label);
            for (width, name) in [("1200px", "screen"), ("85mm", "a column"), ("180mm", "a page")] {
                if ui.selectable_label(self.width == width, name).on_hover_text(width).clicked() {
                    width.clone_into(&mut self.width);
                }
            }
            if Width::parse(&self.width).is_none() {
                ui.colored_label(ui.visuals().error_fg_color, "write 320px to 6400px, or 40mm to 800mm");
            }
        });
    }
}
