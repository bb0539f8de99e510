//! Bubbles to work with: idle time by cause, and the longest idle stretches, each a click away.

use std::sync::Arc;

use egui::{RichText, ScrollArea, Sense, Ui, vec2};
use engine::metrics::{BubbleCause, Gap};
use engine::units::{Nanos, grouped};

use super::parts::{empty, no_run};
use crate::runs::run::Run;
use crate::runs::shown::Sources;
use crate::timeline::bubbles::colour;
use crate::window::command::Command;
use crate::window::frame::Frame;
use crate::window::selection::Selection;

/// Stretches that are listed; the rest is counted.
const MOST: usize = 40;

/// The longest stretches of the runs that are shown, found once for each.
#[derive(Clone, Debug, Default)]
pub struct State {
    of: Vec<Longest>,
}

#[derive(Clone, Debug)]
struct Longest {
    run: Arc<Run>,
    /// The longest of all, longest first.
    all: Vec<usize>,
    /// The longest of each cause that there is, most slot time first.
    causes: Vec<(BubbleCause, Nanos, usize)>,
}

fn length(gap: &Gap) -> Nanos {
    gap.end.saturating_sub(gap.begin)
}

impl Longest {
    fn of(run: &Arc<Run>) -> Self {
        let gaps = run.gaps.all();
        let mut all: Vec<usize> = (0..gaps.len()).collect();
        let most = MOST.min(all.len());
        let longest = |at: &usize| (std::cmp::Reverse(length(&gaps[*at])), *at);
        if most > 0 && most < all.len() {
            all.select_nth_unstable_by_key(most - 1, longest);
            all.truncate(most);
        }
        all.sort_unstable_by_key(longest);
        let first = |cause| (0..gaps.len()).filter(|at| gaps[*at].cause == cause).min_by_key(longest);
        let bubbles = run.bubbles.bubbles.iter();
        let mut causes: Vec<_> =
            bubbles.filter_map(|bubble| Some((bubble.cause, bubble.slot_time, first(bubble.cause)?))).collect();
        causes.sort_by_key(|(cause, time, _)| (std::cmp::Reverse(*time), *cause));
        Self { run: Arc::clone(run), all, causes }
    }
}

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame<'_>, state: &mut State) {
    let runs: Vec<&Arc<Run>> = frame.shown.into_iter().flat_map(|shown| shown.runs(Sources::Both)).collect();
    if runs.is_empty() {
        state.of.clear();
        empty(ui, frame.tokens, no_run(frame));
        return;
    }
    let fresh = state.of.len() == runs.len() && state.of.iter().zip(&runs).all(|(own, run)| Arc::ptr_eq(&own.run, run));
    if !fresh {
        state.of = runs.into_iter().map(Longest::of).collect();
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
    ui.label(RichText::new(format!("Bubbles, {}", source.name())).strong());
    if let Some(reason) = run.damage.of_causes() {
        ui.add(egui::Label::new(RichText::new(format!("not known: {reason}")).color(frame.tokens.warn)).wrap());
        return;
    }
    for (cause, time, at) in &longest.causes {
        let share = run.bubbles.share(*time) * 100.0;
        let name = format!("{} · {time} of slot time · {share:.1} %", cause.name().replace('-', " "));
        row(ui, frame, (*cause, &name), Selection::Gap(source, *at));
    }
    ui.add_space(4.0);
    ui.label(RichText::new("longest stretches").color(frame.tokens.faint));
    for at in &longest.all {
        let Some(gap) = run.gaps.all().get(*at) else { continue };
        let name =
            format!("SM {} slot {} · {} · {}", gap.sm, gap.slot, length(gap), gap.cause.name().replace('-', " "));
        row(ui, frame, (gap.cause, &name), Selection::Gap(source, *at));
    }
    let more = run.gaps.all().len().saturating_sub(longest.all.len());
    if more > 0 {
        ui.label(RichText::new(format!("and {} shorter ones", grouped(more as u64))).color(frame.tokens.faint));
    }
    ui.add_space(8.0);
}

/// A line that selects a bubble, with a button that goes there.
fn row(ui: &mut Ui, frame: &Frame<'_>, (cause, name): (BubbleCause, &str), what: Selection) {
    ui.horizontal(|ui| {
        let (swatch, _) = ui.allocate_exact_size(vec2(9.0, 9.0), Sense::hover());
        ui.painter().rect_filled(swatch, 2.0, colour(frame.tokens, cause));
        if ui.small_button("show me").on_hover_text("select it and go there in the timeline").clicked() {
            frame.send(Command::Reveal(what));
        }
        let label = ui.add(egui::Button::selectable(frame.selected.what == what, name).truncate());
        frame.link(&label, what);
    });
}
