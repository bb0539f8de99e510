//! The steps of a replay: a trace as several ways serve it, a strip for each, on one axis and one scale. A step that is
//! clicked, or walked to with the arrow keys, opens as a batch in every view.

mod form;
mod model;
mod paint;

use std::sync::Arc;

use egui::{DragValue, RichText, ScrollArea, Ui};
use engine::replay::Percentiles;
use engine::units::Nanos;

use self::form::Form;
use self::model::{By, Column, columns, end, name};
use crate::runs::replay::{At, Replay};
use crate::window::command::Command;
use crate::window::commands::table::Action;
use crate::window::frame::Frame;
use crate::window::panels::parts::empty;

/// The fields, what the axis tells, and the step that is open.
#[derive(Debug, Default)]
pub struct State {
    form: Form,
    by: By,
    opened: Option<At>,
    /// The strip has the keyboard.
    focused: bool,
    drawn: Option<Drawn>,
}

/// Columns of each way, kept for as long as replay, width and axis are the same.
#[derive(Debug)]
struct Drawn {
    of: Arc<Replay>,
    width: f32,
    by: By,
    ways: Vec<Vec<Column>>,
}

impl State {
    /// Whether the strip has the keyboard, so that arrows walk the steps.
    pub fn has_focus(&self) -> bool {
        self.focused
    }

    /// A trace that was opened: the fields ask for it.
    pub fn take_trace(&mut self, path: &std::path::Path, format: &'static str) {
        self.form.path = path.display().to_string();
        self.form.format = format;
    }

    /// The step that was opened last.
    pub fn opened(&self) -> Option<At> {
        self.opened
    }

    /// A step was opened, or another replay came of which none is.
    pub fn set_opened(&mut self, at: Option<At>) {
        self.opened = at;
    }

    /// The step that an arrow key goes to, while the strip has the keyboard.
    pub fn act(&self, action: Action, replay: &Replay) -> Option<Command> {
        let at = self.opened.unwrap_or(At { way: 0, step: 0 });
        let to = match action {
            _ if !self.focused => None,
            Action::ArrowLeft | Action::ArrowRight => replay.beside(at, action == Action::ArrowRight),
            Action::ArrowUp => Some(At { way: at.way.checked_sub(1)?, ..at }),
            Action::ArrowDown => Some(At { way: at.way + 1, ..at }).filter(|at| at.way < replay.ways.len()),
            _ => None,
        }?;
        let last = replay.ways.get(to.way)?.steps.len().checked_sub(1)?;
        Some(Command::OpenStep(At { step: to.step.min(last), ..to }))
    }

    fn drawn(&mut self, replay: &Arc<Replay>, width: f32) -> &[Vec<Column>] {
        let by = self.by;
        let kept = self.drawn.take().filter(|drawn| {
            Arc::ptr_eq(&drawn.of, replay) && drawn.by == by && (drawn.width - width).abs() < f32::EPSILON
        });
        let make = || {
            let end = end(replay, by);
            let ways = replay.ways.iter().map(|way| columns(&way.steps, by, end, width)).collect();
            Drawn { of: Arc::clone(replay), width, by, ways }
        };
        &self.drawn.insert(kept.unwrap_or_else(make)).ways
    }
}

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame<'_>, state: &mut State) {
    if !frame.is_picture {
        state.form.show(ui, frame);
        ui.separator();
    }
    let Some(replay) = frame.replay else {
        let text = "A trace is served step by step, as an engine does it, under each way. Name a trace, and Replay.";
        return empty(ui, frame.tokens, text);
    };
    if !frame.is_picture {
        header(ui, frame, replay, state);
    }
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        summary(ui, frame, replay);
        let width = paint::width(ui);
        let opened = state.opened;
        state.focused = paint::strips(ui, frame, replay, (state.drawn(replay, width), opened));
    });
}

/// Which trace, which axis, and which step is open.
fn header(ui: &mut Ui, frame: &Frame<'_>, replay: &Replay, state: &mut State) {
    ui.horizontal_wrapped(|ui| {
        let notes = replay.trace.notes.join("\n");
        ui.label(RichText::new(replay.title()).strong()).on_hover_text(if notes.is_empty() {
            "no notes"
        } else {
            &notes
        });
        ui.selectable_value(&mut state.by, By::Number, "by step").on_hover_text("each step as wide as the others");
        ui.selectable_value(&mut state.by, By::Time, "by time").on_hover_text("each step as wide as it takes");
        ui.separator();
        let at = state.opened.unwrap_or(At { way: 0, step: 0 });
        let last = replay.ways.get(at.way).map_or(0, |way| way.steps.len().saturating_sub(1));
        if ui.add_enabled(at.step > 0, egui::Button::new("<").small()).on_hover_text("the step before").clicked() {
            frame.send(Command::OpenStep(At { step: at.step - 1, ..at }));
        }
        let mut step = at.step;
        let label = ui.label("step").id;
        if ui.add(DragValue::new(&mut step).range(0..=last)).labelled_by(label).changed() {
            frame.send(Command::OpenStep(At { step, ..at }));
        }
        if ui.add_enabled(at.step < last, egui::Button::new(">").small()).on_hover_text("the next step").clicked() {
            frame.send(Command::OpenStep(At { step: at.step + 1, ..at }));
        }
        if let Some(way) = replay.ways.get(at.way) {
            ui.label(format!("of {}", name(way)));
        }
        let worst = egui::Button::new("Worst step");
        let about = "open the step that loses most to the first way on the same batch";
        if ui.add_enabled(replay.worst().is_some(), worst).on_hover_text(about).clicked() {
            frame.send(Command::Act(Action::WorstStep));
        }
    });
}

/// The figures of each way.
fn summary(ui: &mut Ui, frame: &Frame<'_>, replay: &Replay) {
    let t = frame.tokens;
    let time = |times: Option<Percentiles>, which: fn(&Percentiles) -> Nanos| {
        times.as_ref().map_or_else(|| "—".to_owned(), |times| which(times).to_string())
    };
    egui::Grid::new("ways of the replay").striped(true).spacing([14.0, 2.0]).show(ui, |ui| {
        let headings = ["way", "steps", "tokens/s", "TTFT p50", "time/token p50", "p99", "attention", "steps lost"];
        for heading in headings {
            ui.label(RichText::new(heading).small().color(t.faint));
        }
        ui.end_row();
        for way in &replay.ways {
            let figures = &way.summary;
            ui.label(RichText::new(name(way)).strong());
            for text in [
                way.steps.len().to_string(),
                format!("{:.0}", figures.throughput()),
                time(figures.ttft, |times| times.p50),
                time(figures.time_per_output_token, |times| times.p50),
                time(figures.time_per_output_token, |times| times.p99),
                figures.attention.to_string(),
                figures.steps_lost.to_string(),
            ] {
                ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| ui.label(text));
            }
            ui.end_row();
        }
    });
    let device = replay.asked.ways.first().map(|way| &way.device);
    let source = device.map_or_else(String::new, |device| {
        let fits = if device.calibrated { "" } else { ", not calibrated" };
        format!("attention simulated on {}{fits}; the rest of a layer is the least by a roofline", device.name)
    });
    ui.label(RichText::new(source).small().color(t.warn));
}
