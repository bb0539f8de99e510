//! Bubbles to work with: idle time by cause, and the longest idle stretches, each a click away.

use std::sync::Arc;

use egui::{RichText, ScrollArea, Sense, Ui, vec2};
use engine::metrics::BubbleCause;
use engine::units::{Nanos, grouped};

use super::parts::{empty, no_run};
use crate::runs::run::Run;
use crate::runs::shown::Sources;
use crate::timeline::only::Only;
use crate::window::command::Command;
use crate::window::frame::Frame;
use crate::window::hatch;
use crate::window::selection::Selection;

/// Stretches that are listed; the rest is counted.
const MOST: usize = 40;

/// The longest stretches of the runs that are shown, found once for each and for the cause that is looked at.
#[derive(Clone, Debug, Default)]
pub struct State {
    of: Vec<Longest>,
}

#[derive(Clone, Debug)]
struct Longest {
    run: Arc<Run>,
    /// The cause that is looked at.
    only: Option<BubbleCause>,
    /// The longest of that, or of all, longest first.
    all: Vec<usize>,
    /// The longest of each cause that there is, most slot time first.
    causes: Vec<(BubbleCause, Nanos, usize)>,
}

impl Longest {
    fn of(run: &Arc<Run>, only: Option<BubbleCause>) -> Self {
        let first = |cause| run.gaps.longest(Some(cause), 1).first().copied();
        let bubbles = run.bubbles.bubbles.iter();
        let mut causes: Vec<_> =
            bubbles.filter_map(|bubble| Some((bubble.cause, bubble.slot_time, first(bubble.cause)?))).collect();
        causes.sort_by_key(|(cause, time, _)| (std::cmp::Reverse(*time), *cause));
        Self { run: Arc::clone(run), only, all: run.gaps.longest(only, MOST), causes }
    }
}

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame<'_>, state: &mut State, only: &mut Option<Only>) {
    let runs: Vec<&Arc<Run>> = frame.shown.into_iter().flat_map(|shown| shown.runs(Sources::Both)).collect();
    if runs.is_empty() {
        state.of.clear();
        empty(ui, frame.tokens, no_run(frame));
        return;
    }
    let cause = only.and_then(Only::cause);
    let is_own = |(own, run): (&Longest, &&Arc<Run>)| Arc::ptr_eq(&own.run, run) && own.only == cause;
    let fresh = state.of.len() == runs.len() && state.of.iter().zip(&runs).all(is_own);
    if !fresh {
        state.of = runs.into_iter().map(|run| Longest::of(run, cause)).collect();
    }
    if let Some(cause) = cause
        && ui.button(format!("{} alone; show all", cause.words())).clicked()
    {
        *only = None;
    }
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        for longest in &state.of {
            of_run(ui, frame, longest);
        }
    });
}

fn of_run(ui: &mut Ui, frame: &Frame<'_>, longest: &Longest) {
    let run = &longest.run;
    let source = run.source();
    ui.label(RichText::new(format!("Bubbles by slot time, {}", source.name())).strong());
    if let Some(reason) = run.damage.of_causes() {
        ui.add(egui::Label::new(RichText::new(format!("not known: {reason}")).color(frame.tokens.warn)).wrap());
        return;
    }
    let own = |cause: BubbleCause| longest.only.is_none_or(|only| only == cause);
    for (cause, time, at) in longest.causes.iter().filter(|(cause, ..)| own(*cause)) {
        let share = run.bubbles.share(*time) * 100.0;
        let name = format!("{} · {share:.1} % · {time}", cause.words());
        row(ui, frame, (*cause, &name), Selection::Gap(source, *at));
    }
    ui.add_space(4.0);
    ui.label(RichText::new("longest stretches").color(frame.tokens.faint));
    for at in &longest.all {
        let Some(gap) = run.gaps.get(*at) else { continue };
        let name = format!("SM {} slot {} · {} · {}", gap.sm, gap.slot, gap.length(), gap.cause.words());
        row(ui, frame, (gap.cause, &name), Selection::Gap(source, *at));
    }
    let more = run.gaps.len().saturating_sub(longest.all.len());
    if more > 0 && longest.only.is_none() {
        ui.label(RichText::new(format!("and {} shorter ones", grouped(more as u64))).color(frame.tokens.faint));
    }
    ui.add_space(8.0);
}

/// A line that selects a bubble, with a button that goes there.
fn row(ui: &mut Ui, frame: &Frame<'_>, (cause, name): (BubbleCause, &str), what: Selection) {
    ui.horizontal(|ui| {
        let (swatch, _) = ui.allocate_exact_size(vec2(12.0, 11.0), Sense::hover());
        hatch::fill(ui, frame.tokens, swatch, cause);
        let there = "select it and go there in the timeline";
        if !frame.is_picture && ui.small_button("show me").on_hover_text(there).clicked() {
            frame.send(Command::Reveal(what));
        }
        let label = ui.add(egui::Button::selectable(frame.selected.what == what && !frame.is_picture, name).truncate());
        frame.link(&label, what);
    });
}
