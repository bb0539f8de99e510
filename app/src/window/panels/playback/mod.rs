//! Playback and the SM grid: one moment that all views show. The scheduler's choices come first, then what each slot of
//! each SM does.

mod grid;
mod share;

use std::sync::Arc;

use egui::{RichText, Ui};
use engine::units::{Bytes, Nanos, counted, grouped};

use crate::runs::now::Now;
use crate::runs::run::Run;
use crate::runs::shown::{Shown, Sources};
use crate::timeline::lanes::Entity;
use crate::timeline::playback::{Events, Extent, Moment, Playback, SLOWER, Step};
use crate::window::chip;
use crate::window::frame::Frame;
use crate::window::panels::parts::{empty, no_run};
use crate::window::selection::Selection;

/// The moment, and the event times of the run that is played.
#[derive(Debug, Default)]
pub struct State {
    /// Where playback stands.
    pub playback: Playback,
    /// Found once for a run, when a step first asks for them.
    events: Option<(Arc<Run>, Events)>,
    paths: share::Paths,
}

/// The run that is played.
pub fn front(shown: &Shown, sources: Sources) -> Option<&Arc<Run>> {
    shown.runs(sources).next()
}

impl State {
    /// What is played.
    pub fn extent(shown: &Shown, sources: Sources, range: Option<(f64, f64)>) -> Extent {
        let end = front(shown, sources).map_or(0, |run| run.lanes.end);
        Extent { choices: shown.planned.plan.decisions.len(), end, range }
    }

    /// What all views show of the moment, while playback is on.
    pub fn now(&self, shown: Option<&Shown>, sources: Sources) -> Option<Now> {
        let shown = shown?;
        self.playback.at.map(|at| Now::of(at, shown, front(shown, sources)))
    }

    /// One step on or back.
    pub fn step(&mut self, by: Step, forward: bool, shown: &Shown, (sources, range): (Sources, Option<(f64, f64)>)) {
        let extent = Self::extent(shown, sources, range);
        let Some(run) = front(shown, sources) else { return };
        let own = self.events.take().filter(|(of, _)| Arc::ptr_eq(of, run));
        // Sorted once for a run.
        let (_, events) =
            self.events.insert(own.unwrap_or_else(|| (Arc::clone(run), Events::of(&run.capture.spans, &run.lanes))));
        self.playback.step(by, forward, events, extent);
    }
}

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame<'_>, state: &mut State, (sources, range): (Sources, Option<(f64, f64)>)) {
    let Some((shown, run)) = frame.shown.and_then(|shown| Some((shown, front(shown, sources)?))) else {
        return empty(ui, frame.tokens, no_run(frame));
    };
    if !frame.is_picture {
        transport(ui, frame, shown, state, (sources, range));
    }
    if let Some(reason) = run.damage.of_spans() {
        ui.label(RichText::new(format!("What is left is played: {reason}.")).color(frame.tokens.warn));
    }
    match &frame.now {
        Some(_) if run.lanes.end == 0 => empty(ui, frame.tokens, "There is no CTA left to play."),
        Some(now) => {
            told(ui, frame, shown, run, now);
            grid::show(ui, frame, shown, run, now);
        }
        None => empty(ui, frame.tokens, "Play shows the scheduler's choices in their order, then each CTA on its SM."),
    }
}

/// Play, step, speed, and where in the run.
fn transport(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, state: &mut State, of: (Sources, Option<(f64, f64)>)) {
    let extent = State::extent(shown, of.0, of.1);
    ui.horizontal_wrapped(|ui| {
        let name = if state.playback.plays { "Pause" } else { "Play" };
        if ui.button(name).on_hover_text("Space").clicked() {
            state.playback.toggle(extent);
        }
        for (name, by) in [("event", Step::Event), ("wave", Step::Wave), ("1 %", Step::Time)] {
            if ui.button(format!("< {name}")).clicked() {
                state.step(by, false, shown, of);
            }
            if ui.button(format!("{name} >")).clicked() {
                state.step(by, true, shown, of);
            }
        }
        let label = ui.label("slower by").id;
        let told = |slower: f64| if slower < 1.0 { format!("{slower}") } else { grouped(slower as u64) };
        let combo = egui::ComboBox::from_id_salt("speed").width(80.0).selected_text(told(state.playback.slower));
        let combo = combo.show_ui(ui, |ui| {
            for slower in SLOWER {
                ui.selectable_value(&mut state.playback.slower, slower, told(slower));
            }
        });
        combo.response.labelled_by(label);
        ui.checkbox(&mut state.playback.repeats, "loop")
            .on_hover_text("over the range that is selected on the timeline, or the run");
        if let Some(at) = state.playback.at {
            share::menu(ui, frame, at, &mut state.paths);
        }
        if state.playback.at.is_some() && ui.button("Off").on_hover_text("show the whole run again").clicked() {
            state.playback.at = None;
            state.playback.plays = false;
        }
    });
    let Some(at) = state.playback.at else { return };
    ui.horizontal(|ui| {
        ui.spacing_mut().slider_width = (ui.available_width() - 190.0).max(80.0);
        match at {
            Moment::Choices(made) => {
                let mut made = made;
                let slider = egui::Slider::new(&mut made, 0.0..=extent.choices as f64).integer().text("choices made");
                if ui.add(slider).changed() {
                    state.playback.at = Some(Moment::Choices(made));
                }
                if ui.button("to the run").clicked() {
                    state.playback.at = Some(Moment::Time(0.0));
                }
            }
            Moment::Time(time) => {
                let mut time = time;
                let told = |time: f64, _: std::ops::RangeInclusive<usize>| Nanos(time.max(0.0) as u64).to_string();
                let slider = egui::Slider::new(&mut time, 0.0..=extent.end as f64).custom_formatter(told).text("time");
                if ui.add(slider).changed() {
                    state.playback.at = Some(Moment::Time(time));
                }
                if ui.button("to the choices").clicked() {
                    state.playback.at = Some(Moment::Choices(0.0));
                }
            }
        }
    });
}

/// The moment in words and figures.
fn told(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, run: &Run, now: &Now) {
    let t = frame.tokens;
    match now.at {
        Moment::Choices(made) => {
            let all = &shown.planned.plan.decisions;
            let decision = (made as usize).checked_sub(1).and_then(|at| all.get(at.min(all.len().saturating_sub(1))));
            let text =
                decision.map_or_else(|| "The tree as it was found.".to_owned(), engine::decision::Decision::sentence);
            ui.add(egui::Label::new(RichText::new(text)).wrap());
        }
        Moment::Time(time) => {
            let (spans, at) = (&run.capture.spans, time.max(0.0) as u64);
            let (_, _, bytes) = run.lanes.within(spans, 0..at);
            let (begun, last) = run.lanes.begun(spans, at);
            let busy = now.slots.iter().filter(|doing| doing.span().is_some()).count();
            ui.horizontal_wrapped(|ui| {
                ui.label(RichText::new(Nanos(time as u64).to_string()).strong());
                ui.label(format!(
                    "{} begun · {busy} of {} slots busy · ≈ {} of KV asked for",
                    counted(begun as u64, "CTA"),
                    now.slots.len(),
                    Bytes(bytes as u64)
                ));
                chip::show(ui, t, run);
            });
            if let Some(span) = last {
                let found = spans.get(span);
                // A wave is as many CTAs as there are slots.
                let slots = run.lanes.lanes.len().max(1);
                let (wave, waves) = (begun.div_ceil(slots), spans.len().div_ceil(slots));
                let what = match run.lanes.entities.get(span) {
                    Some(Entity::Pack(pack)) => format!("pack {}", pack.0),
                    Some(Entity::Merge) => "merge".to_owned(),
                    Some(Entity::Prefill) => "prefill".to_owned(),
                    Some(Entity::Both) => "prefill and decode".to_owned(),
                    Some(Entity::Unknown) | None => "a CTA that the plan has not".to_owned(),
                };
                let text = format!(
                    "wave {wave} of {waves} · last dispatched: CTA {} of launch {} ({what}) to SM {} slot {}",
                    found.cta, found.launch, found.sm, found.slot
                );
                let response = ui.add(egui::Label::new(RichText::new(text).color(t.faint)).sense(egui::Sense::click()));
                frame.link(&response, Selection::Cta(run.source(), span));
            }
        }
    }
}
