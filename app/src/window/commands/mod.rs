//! The one place in which commands change the window's state.

mod edit;
mod export;
mod files;
mod kept;
mod measure;
mod rows;
mod run;
mod session;
mod share;
mod studies;
pub mod table;
mod view;

use std::sync::Arc;

use egui::{Context, Theme};
use engine::workload::BatchSpec;

use self::table::Action;
use super::app::App;
use super::command::{Banner, Command, Target};
use super::dock::{default_dock, toggle_rail};
use super::find;
use super::panel::Panel;
use super::panels::tree::Acted;
use super::selection::Selection;
use crate::document::edit::Edit;
use crate::jobs::state::Work;
use crate::jobs::studies::Study;
use crate::picture::look::Look;
use crate::samples;
use view::STEP;

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
            Command::RevealSm(sm) => self.reveal_sm(sm),
            Command::Hover(what) => self.hovered = what,
            Command::OpenPath(path) => self.open_path(&path),
            Command::SavePath(path) => self.save_path(&path),
            Command::Picture { panel, visible, look, to } => self.picture(ctx, (panel, visible), look, to),
            Command::Export(format, path) => self.export(format, &path),
            Command::Sample(key) => {
                if let Some(sample) = samples::find(key) {
                    self.take_text(sample.text);
                }
            }
            Command::Repeats(repeats) => self.gpu.repeats = repeats,
            Command::Dismiss(Banner::Gpu) => self.gpu.problem = None,
            Command::Dismiss(Banner::Problem) => self.problem = None,
            Command::Dismiss(Banner::Damage) => self.damage_is_told = true,
            Command::ReadLog => self.read = self.log.len(),
            Command::CompareOnce
                if matches!(self.engine.work(), Work::Planning(_)) || self.compared_of == Some(self.newest) => {}
            Command::CompareOnce | Command::Compare => self.compare(),
            Command::AddRow(path) => self.add_row(&path),
            Command::RowOfDevice(key) => self.row_of_device(key),
            Command::DropRow(path) => self.drop_row(&path),
            Command::Replay(asked) => self.study(Study::Replay(asked)),
            Command::OpenStep(at) => self.open_step(at),
            Command::OpenPoint(row) => self.open_point(row),
            Command::StopStudy => _ = self.studies.stop(),
            Command::CopyLink(save) => self.copy_link(ctx, save.as_deref()),
            Command::SaveMoment(path) => self.save_moment(&path),
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
        if let Some(command) = self.replay.as_ref().and_then(|replay| self.states.steps.act(action, replay)) {
            return self.apply(ctx, command);
        }
        if self.play(action) || self.chrome.ask(action, &self.document.spec.name, self.in_front()) {
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
            Action::WorstStep => self.open_worst(),
            Action::Sources => self.states.timeline.sources = self.next_sources(),
            Action::Undo => self.travel(true),
            Action::Redo => self.travel(false),
            Action::CopyPicture => self.picture(ctx, (self.in_front(), true), Look::default(), Target::Clipboard),
            Action::Clear => self.edit(Edit::Batch(Arc::new(BatchSpec::empty(self.document.spec.shape)))),
            Action::Appearance => ctx.set_theme(if ctx.theme() == Theme::Dark { Theme::Light } else { Theme::Dark }),
            Action::Colour => self.by_tile = !self.by_tile,
            Action::Palette => self.chrome.toggle_palette(),
            Action::Keys => self.chrome.keys = !self.chrome.keys,
            Action::Larger => self.scale(ctx, self.scale + STEP),
            Action::Smaller => self.scale(ctx, self.scale - STEP),
            Action::Present => self.present(ctx),
            Action::Rail => toggle_rail(&mut self.dock),
            Action::LongestBubble => self.reveal_longest(),
            Action::Layout => self.dock = default_dock(),
            Action::Search => self.find.toggle(find::Of::Anything),
            Action::FindSm => self.find.toggle(find::Of::Sm),
            Action::LookBack => self.look(true),
            Action::LookAhead => self.look(false),
            Action::Deselect if self.chrome.close() || self.find.close() => {}
            Action::Deselect if self.presented.is_some() => self.present(ctx),
            Action::Deselect if self.states.tree.is_drawing() => {
                self.states.tree.cancel().into_iter().for_each(|command| self.apply(ctx, command));
            }
            Action::Deselect if self.is_running() || self.is_measuring() => self.stop(),
            Action::Deselect => {
                self.selected = Selection::None;
                self.states.timeline.axis.range = None;
                self.states.timeline.only = None;
            }
            other => self.go_on(other),
        }
    }
}
