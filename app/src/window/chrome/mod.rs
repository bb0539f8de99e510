//! Around the panels: menus, run controls, the story of the run, banners, and the windows over them.

mod banner;
mod bar;
mod import;
mod keys;
mod menus;
mod offers;
mod palette;
mod prompt;
mod status;
mod story;

use egui::{RichText, Ui};

use crate::window::command::Command;
use crate::window::commands::table::Action;
use crate::window::frame::Frame;
use crate::window::panel::Panel;

pub(super) use banner::banner;
pub(super) use status::Status;
pub(super) use story::story;

/// Windows over the panels.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The key list is shown.
    pub(super) keys: bool,
    palette: Option<palette::State>,
    prompt: Option<prompt::State>,
    import: Option<import::State>,
    picked: Option<Command>,
}

impl State {
    pub(super) fn toggle_palette(&mut self) {
        self.palette = if self.palette.is_some() { None } else { Some(palette::State::default()) };
    }

    /// Asks for a file; false if the action needs none.
    pub(super) fn ask(&mut self, action: Action, name: &str, panel: Panel) -> bool {
        match action {
            Action::Import => self.import = Some(import::State::default()),
            _ => match prompt::State::of(action, name, panel) {
                Some(prompt) => self.prompt = Some(prompt),
                None => return false,
            },
        }
        true
    }

    /// What was chosen, once.
    pub(super) fn take_picked(&mut self) -> Option<Command> {
        self.picked.take()
    }

    /// Closes what is open; false if nothing was.
    pub(super) fn close(&mut self) -> bool {
        let open = self.keys || self.palette.is_some() || self.prompt.is_some() || self.import.is_some();
        (self.keys, self.palette, self.prompt, self.import) = (false, None, None, None);
        open
    }
}

/// Menus and run controls.
pub(super) fn top(ui: &mut Ui, frame: &Frame<'_>, status: &Status<'_>) {
    let margin = egui::Frame::new().fill(frame.tokens.panel).inner_margin(egui::Margin::symmetric(8, 5));
    egui::Panel::top("top").frame(margin).show(ui, |ui| {
        ui.horizontal_wrapped(|ui| {
            ui.label(RichText::new("packscope").strong().color(frame.tokens.accent));
            menus::menus(ui, frame, status);
        });
        ui.horizontal_wrapped(|ui| {
            bar::choices(ui, frame, status);
            ui.separator();
            bar::controls(ui, frame, status);
        });
    });
}

/// Palette, key list and dialogs.
pub(super) fn windows(ui: &Ui, frame: &Frame<'_>, status: &Status<'_>, state: &mut State) {
    let ctx = ui.ctx().clone();
    keys::show(&ctx, &mut state.keys);
    if let Some(mut palette) = state.palette.take() {
        state.palette = palette.show(&ctx, frame, status).then_some(palette);
    }
    if let Some(mut prompt) = state.prompt.take() {
        match prompt.show(&ctx) {
            prompt::Answer::Waits => state.prompt = Some(prompt),
            prompt::Answer::Closed => {}
            prompt::Answer::Picked(command) => state.picked = Some(command),
        }
    }
    if let Some(mut import) = state.import.take()
        && import.show(&ctx, frame)
    {
        state.import = Some(import);
    }
}
