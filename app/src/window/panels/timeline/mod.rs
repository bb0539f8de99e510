//! CTAs over time: one group per SM, one lane per residency slot, bandwidth under the same axis; the
//! measured run over the simulated one where both are there.
//!
//! ```text
//! header, legends
//! minimap
//! ruler
//! SM names │ lanes of a run (or two)        scrollbar
//!          │ counters
//! drawer: figures of the range
//! ```

mod blocks;
mod counters;
mod drawer;
mod drawn;
mod header;
mod input;
mod legend;
mod minimap;
mod names;
mod over;
mod paint;
mod place;
mod pointer;
mod regions;
mod scrollbar;
mod state;

use std::sync::Arc;

use egui::{Rect, Sense, Ui, vec2};

pub use self::state::State;
use crate::runs::run::Run;
use crate::runs::shown::Shown;
use crate::timeline::only::Only;
use crate::window::frame::Frame;
use crate::window::hatch;
use crate::window::panels::parts::{empty, no_run};

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame<'_>, state: &mut State) {
    let sources = state.sources;
    let Some((shown, runs)) =
        frame.shown.map(|shown| (shown, shown.runs(sources).collect::<Vec<_>>())).filter(|(_, runs)| !runs.is_empty())
    else {
        empty(ui, frame.tokens, no_run(frame));
        return;
    };
    let cause = header::header(ui, frame, (shown, &runs), state);
    let all = ui.available_size().max(vec2(80.0, 60.0));
    let (whole, _) = ui.allocate_exact_size(all, Sense::hover());
    let under = whole.with_min_y(whole.bottom() - drawer::height(state, whole.height()));
    let map = regions::map(whole);
    let canvas = Rect::from_min_max(egui::pos2(whole.left(), map.bottom()), under.right_top());
    self::canvas(ui, frame, (shown, &runs), (canvas, map), (state, cause));
    drawer::show(ui, frame, (shown, &runs), under, state);
}

/// Lanes and counters, with all that lies over and beside them.
fn canvas(
    ui: &mut Ui,
    frame: &Frame<'_>,
    (shown, runs): (&Shown, &[&Arc<Run>]),
    (outer, map): (Rect, Rect),
    (state, hovered): (&mut State, Option<engine::metrics::BubbleCause>),
) {
    let response = ui.interact(outer, ui.scope_id().with("lanes"), Sense::click_and_drag());
    let counters = runs.iter().copied().find(|run| !run.capture.counters.is_empty());
    let regions = regions::of(outer, counters.map(|run| counters::heights(&run.capture)), runs.len());
    let end = shown.end(state.sources);
    let part = |state: &State| blocks::part(runs, state.axis.view(end), regions.lanes, (&state.folds, state.by_gpc));
    input::input(ui, &response, &part(state), end, state);
    names::clicks(ui, &part(state), &regions, state);
    let blocks = part(state);
    // Fewer SMs than before, or lower ones: what was scrolled to may be past the last.
    let most = blocks.iter().map(|block| block.layout.height() - block.layout.rect.height()).fold(0.0, f32::max);
    state.axis.scroll = state.axis.scroll.clamp(0.0, most);
    state.layouts = blocks.iter().map(|block| (block.source(), block.layout.clone())).collect();
    let over =
        |pos: &egui::Pos2| regions.lanes.contains(*pos) || regions.strip.is_some_and(|strip| strip.contains(*pos));
    let pointer_at = response.hover_pos().filter(over).map(|pos| pos.x);
    state.pointer = pointer_at.and_then(|x| blocks.first().map(|block| block.layout.time(x)));
    let marks = regions::Marks {
        range: state.axis.range,
        measured_at: state.measured_at,
        named: &state.marks,
        folds: &state.folds,
        cause: state.only.and_then(Only::cause),
        hovered,
        only: state.only,
        hatch: hatch::of(ui.ctx()),
        pointer_at,
    };
    drawn::Drawn::of(ui.ctx(), &mut state.drawn, frame, shown, (&blocks, &marks));
    paint::all(ui, frame, (shown, counters), (&blocks, &state.drawn), &regions, &marks);
    pointer::pointer(frame, &response, &blocks, shown, state);
    if let Some(block) = blocks.first().filter(|_| map.height() > 0.0) {
        let looked_at = (&mut state.map, &mut state.axis, end);
        minimap::show(ui, frame, (shown, block.run), (map, &block.layout), looked_at);
    }
    for block in &blocks {
        scrollbar::of_lanes(ui, frame, &block.layout, (block.source().name(), &mut state.axis));
    }
    if let Some(last) = blocks.last() {
        scrollbar::of_time(ui, frame, &last.layout, (end, &mut state.axis));
    }
    for block in &blocks {
        over::pauses(ui, frame, block);
        names::nodes(ui, block);
        names::nodes_of_ctas(ui, block);
        if let Some(reason) = block.run.damage.of_spans() {
            over::lost(ui, frame, block, &reason);
        }
    }
}
