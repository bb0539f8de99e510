//! Draws each part of the window by itself, so that one that panics does not take the others with it.
//!
//! A part that failed is not drawn again until the person asks for it or another run is shown: in its place
//! stands what failed, what it said, and a way to try again or to save the batch.

use std::cell::RefCell;

use egui::{RichText, ScrollArea, Ui, UiBuilder};

use crate::jobs::mishap;
use crate::jobs::mishap::Mishap;
use crate::window::command::Command;
use crate::window::commands::table::Action;
use crate::window::frame::Frame;
use crate::window::panel::{Panel, Part};

/// The parts that failed.
#[derive(Debug, Default)]
pub(super) struct Guard {
    failed: RefCell<Vec<Failure>>,
    /// What parts failed with on the run before.
    before: Vec<Failure>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    part: Part,
    mishap: Mishap,
    /// It is in the log.
    told: bool,
}

impl Guard {
    /// What a part failed with, while that stands.
    pub(super) fn failure(&self, part: Part) -> Option<Mishap> {
        self.failed.borrow().iter().find(|failure| failure.part == part).map(|failure| failure.mishap.clone())
    }

    /// Failures that were not told yet, each as a sentence.
    pub(super) fn untold(&mut self) -> Vec<String> {
        let new = self.failed.get_mut().iter_mut().filter(|failure| !failure.told);
        let line = |failure: &mut Failure| {
            failure.told = true;
            format!("{} failed to draw: {}", failure.part.name(), failure.mishap)
        };
        new.map(line).collect()
    }

    /// Lets a part be drawn again.
    pub(super) fn retry(&mut self, part: Part) {
        self.failed.get_mut().retain(|failure| failure.part != part);
    }

    /// Lets all parts be drawn again, and gives those that had failed. One that fails as before is not told again.
    pub(super) fn retry_all(&mut self) -> Vec<Part> {
        self.before = std::mem::take(self.failed.get_mut());
        self.before.iter().map(|failure| failure.part).collect()
    }

    /// Draws a part unless it has failed; says what it failed with, now or before.
    fn attempt(&self, part: Part, draw: impl FnOnce()) -> Option<Mishap> {
        let before = self.failure(part);
        before.or_else(|| {
            let mishap = mishap::catch(draw).err()?;
            let failure = Failure { part, mishap: mishap.clone(), told: true };
            let told = self.before.contains(&failure);
            self.failed.borrow_mut().push(Failure { told, ..failure });
            Some(mishap)
        })
    }

    /// Draws a part that takes its place from the window's edge.
    pub(super) fn edge(&self, ui: &mut Ui, frame: &Frame<'_>, part: Part, draw: impl FnOnce(&mut Ui)) {
        let Some(mishap) = self.attempt(part, || draw(ui)) else { return };
        let margin = egui::Frame::new().fill(frame.tokens.panel).inner_margin(6);
        let id = format!("failed {}", part.name());
        egui::Panel::top(id).frame(margin).show(ui, |ui| told(ui, frame, part, &mishap));
    }

    /// Draws a panel into all that is left of `ui`; one that fails half-way is painted over.
    pub(super) fn panel(&self, ui: &mut Ui, frame: &Frame<'_>, panel: Panel, draw: impl FnOnce(&mut Ui)) {
        let (part, place) = (Part::Panel(panel), ui.available_rect_before_wrap());
        let builder = UiBuilder::new().max_rect(place);
        let mut child = ui.new_child(builder.clone().id_salt(panel.title()));
        let Some(mishap) = self.attempt(part, || draw(&mut child)) else {
            ui.advance_cursor_after_rect(child.min_rect());
            return;
        };
        ui.painter().rect_filled(place, 0.0, frame.tokens.panel);
        ui.scope_builder(builder.id_salt("failed"), |ui| {
            ScrollArea::vertical().auto_shrink(false).show(ui, |ui| told(ui, frame, part, &mishap));
        });
    }
}

/// What stands in the place of a part that failed.
fn told(ui: &mut Ui, frame: &Frame<'_>, part: Part, mishap: &Mishap) {
    let name = part.name();
    let title = format!("{}{} failed to draw", name[..1].to_uppercase(), &name[1..]);
    ui.label(RichText::new(title).color(frame.tokens.error).strong());
    ui.add(egui::Label::new(mishap.to_string()).wrap());
    let text = "This is a fault of packscope; please report it. The rest goes on; save your batch.";
    ui.add(egui::Label::new(RichText::new(text).color(frame.tokens.faint)).wrap());
    ui.horizontal_wrapped(|ui| {
        if ui.button("Try again").clicked() {
            frame.send(Command::Retry(part));
        }
        if ui.button("Save the batch…").clicked() {
            frame.send(Command::Act(Action::Save));
        }
    });
}
