//! What stands over the lanes: which runs are shown, what colours CTAs and what the colours mean; then a line a run.

use std::sync::Arc;

use egui::{RichText, Ui};
use engine::capture::Source;
use engine::metrics::BubbleCause;

use super::blocks;
use super::legend;
use super::state::State;
use crate::runs::headline;
use crate::runs::run::Run;
use crate::runs::shown::{Shown, Sources};
use crate::window::chip;
use crate::window::command::Command;
use crate::window::commands::table::Action;
use crate::window::frame::Frame;
use crate::window::panels::figures;
use crate::window::panels::parts::percent_of;

/// Why SMs are not folded into their GPCs.
const UNKNOWN_GPCS: &str = "It is not known which SMs of this run are of one GPC. No driver tells it: a run on a GPU with \
                            clusters, from Hopper on, finds it out, and the simulator knows it of an invented GPU alone.";
/// Height of the panel under which the lanes have the place of the lines of the runs.
const LOW: f32 = 300.0;

/// Controls first, so that they stay where they are; then a line for each run. In a low panel the bubbles are left to the
/// panel of their own. Gives the cause under the pointer.
pub(super) fn header(
    ui: &mut Ui,
    frame: &Frame<'_>,
    (shown, runs): (&Shown, &[&Arc<Run>]),
    state: &mut State,
) -> Option<BubbleCause> {
    let is_low = ui.available_height() < LOW;
    ui.horizontal_wrapped(|ui| {
        controls(ui, frame, (shown, runs), state);
        if let (Some(run), false) = (runs.first(), is_low) {
            legend::of_ctas(ui, frame, (&shown.planned.plan, run), &mut state.only);
        }
        // One run has no title over its lanes.
        if let ([run], false) = (runs, is_low) {
            let text = RichText::new(blocks::content(run)).color(frame.tokens.faint);
            ui.label(text).on_hover_text(run.damage.of_spans().unwrap_or_default());
        }
        if let ([measured, simulated], false) = (runs, is_low) {
            let off = percent_of(simulated.times().median, measured.times().median);
            let text = RichText::new(format!("the simulator is {off} off")).color(frame.tokens.faint);
            ui.label(text).on_hover_text("simulated makespan over the median of the measured ones (derived)");
        }
    });
    let mut cause = None;
    for run in runs.iter().filter(|_| !is_low) {
        ui.horizontal_wrapped(|ui| {
            legend::bar(ui, frame, run);
            makespan(ui, frame, run);
            cause = legend::of_bubbles(ui, frame, run, &mut state.only).or(cause);
        });
    }
    cause
}

fn controls(ui: &mut Ui, frame: &Frame<'_>, (shown, runs): (&Shown, &[&Arc<Run>]), state: &mut State) {
    if shown.measured.is_some() && shown.simulated.is_some() {
        ui.label("show");
        for (sources, name) in [
            (Sources::Both, "both"),
            (Sources::Only(Source::Measured), "measured only"),
            (Sources::Only(Source::Simulated), "simulated only"),
        ] {
            ui.selectable_value(&mut state.sources, sources, name);
        }
    }
    let mut by_tile = frame.by_tile;
    ui.label("colour");
    ui.selectable_value(&mut by_tile, false, "pack");
    ui.selectable_value(&mut by_tile, true, "tile");
    if by_tile != frame.by_tile {
        frame.send(Command::Act(Action::Colour));
    }
    if ui.button("Fit").clicked() {
        frame.send(Command::Act(Action::Fit));
    }
    let is_known = runs.iter().any(|run| run.gpcs.is_some());
    let gpcs = ui.add_enabled(is_known, egui::Button::selectable(state.by_gpc && is_known, "by GPC"));
    if gpcs.clicked() {
        frame.send(Command::Act(Action::Gpcs));
    }
    gpcs.on_hover_text("one strip for all SMs of a GPC").on_disabled_hover_text(UNKNOWN_GPCS);
    let folds = egui::Button::new("All SMs alike");
    let about = "take back which SMs were folded or unfolded by a click on their names";
    if ui.add_enabled(!state.folds.is_empty(), folds).on_hover_text(about).clicked() {
        state.folds.clear();
    }
}

/// The makespan of a run with its source; where simulated, how far off it may be; where measured, with count and spread, and
/// with the length of the traced run that the lanes show.
fn makespan(ui: &mut Ui, frame: &Frame<'_>, run: &Run) {
    chip::show(ui, frame.tokens, run);
    ui.label(RichText::new(format!("makespan {}", headline::makespan(&run.capture))).strong());
    if run.source() == Source::Measured {
        let hover = figures::of_measured(run)
            .into_iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect::<Vec<_>>()
            .join("\n");
        ui.label(RichText::new(headline::spread(&run.capture)).color(frame.tokens.faint)).on_hover_text(hover);
    }
    if let Some(traced) = run.lanes_are_of() {
        ui.label(RichText::new(traced).color(frame.tokens.faint)).on_hover_text(headline::TRACED);
    }
    chip::expected(ui, frame.tokens, run);
}
