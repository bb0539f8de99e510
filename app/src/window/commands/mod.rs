//! The one place in which commands change the window's state.

mod edit;
mod files;
mod measure;
mod run;
mod session;
pub mod table;
mod view;

use std::sync::Arc;

use egui::{Context, Theme};
use engine::workload::BatchSpec;

use self::table::Action;
use super::app::App;
use super::command::Command;
use super::dock::default_dock;
use super::panel::Panel;
use super::panels::tree::Acted;
use super::selection::Selection;
use crate::document::edit::Edit;
use crate::jobs::state::Work;
use crate::samples;

impl App {
    pub(in crate::window) fn apply(&mut self, ctx: &Context, command: Command) {
        match command {
            Command::Act(action) => self.act(ctx, action),
            Command::Select(what) => self.selected = what,
            Command::Draw { spec, name, node } => {
                self.edit(Edit::Draw(Arc::from(spec), name));
                if let Some(node) = node {
                    self.selected = Selection::Node(node);
                }
            }
            Command::Reveal(what) => self.reveal(what),
            Command::Hover(what) => self.hovered = what,
            Command::OpenPath(path) => self.open_path(&path),
            Command::SavePath(path) => self.save_path(&path),
            Command::SavePicture(path) => self.save_picture(&path),
            Command::Sample(key) => {
                if let Some(sample) = samples::find(key) {
                    self.take_text(sample.text);
                }
            }
            Command::Repeats(repeats) => self.gpu.repeats = repeats,
            Command::DropProblem => self.gpu.problem = None,
            Command::CompareOnce
                if matches!(self.engine.work(), Work::Planning(_)) || self.compared_of == Some(self.newest) => {}
            Command::CompareOnce | Command::Compare => self.compare(),
            Command::Retry(part) => self.retry(part),
            Command::Show(panel) => {
                self.bring_up(panel);
                if panel == Panel::Compare && self.compared.is_empty() {
                    self.compare();
                }
            }
            other => {
                if let Some(edit) = self.edit_of(other) {
                    self.edit(edit);
                }
            }
        }
    }

    fn act(&mut self, ctx: &Context, action: Action) {
        match self.states.tree.act(action, &self.document.spec) {
            Acted::Drew(command) => return self.apply(ctx, command),
            Acted::Done => return,
            Acted::No => {}
        }
        if self.play(action) {
            return;
        }
        if let Some(shown) = &self.shown
            && self.states.timeline.act(action, shown, self.selected)
        {
            return;
        }
        match action {
            Action::Run => self.run(),
            Action::RunGpu => self.measure(),
            Action::Cancel => self.stop(),
            Action::Sources => self.states.timeline.sources = self.next_sources(),
            Action::Undo => self.travel(true),
            Action::Redo => self.travel(false),
            Action::Open => self.chrome.ask_open(),
            Action::Picture => self.chrome.ask_picture(&self.document.spec.name),
            Action::Save => self.chrome.ask_save(&self.document.spec.name),
            Action::Clear => self.edit(Edit::Batch(Arc::new(BatchSpec::empty(self.document.spec.shape)))),
            Action::Appearance => ctx.set_theme(if ctx.theme() == Theme::Dark { Theme::Light } else { Theme::Dark }),
            Action::Colour => self.by_tile = !self.by_tile,
            Action::Palette => self.chrome.toggle_palette(),
            Action::Keys => self.chrome.keys = !self.chrome.keys,
            Action::Layout => self.dock = default_dock(),
            Action::Deselect if self.chrome.close() => {}
            Action::Deselect if self.states.tree.is_drawing() => {
                self.states.tree.cancel().into_iter().for_each(|command| self.apply(ctx, command));
            }
            Action::Deselect if self.is_running() || self.is_measuring() => self.stop(),
            Action::Deselect => {
                self.selected = Selection::None;
                self.states.timeline.axis.range = None;
            }
            other => self.selected = self.moved(other),
        }
    }
}
