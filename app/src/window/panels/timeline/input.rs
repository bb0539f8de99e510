//! What wheel and drags over the lanes do.

use egui::{PointerButton, Response, Ui};

use super::blocks::{self, Block};
use super::state::State;
use crate::timeline::layout::Layout;

/// Zooms, pans, scrolls, and draws a range.
pub(super) fn input(ui: &Ui, response: &Response, blocks: &[Block<'_>], end: u64, state: &mut State) {
    let Some(axis) = blocks.first().map(|block| &block.layout) else { return };
    if let Some(pos) = response.hover_pos() {
        let (zoom, scroll) = ui.input(|input| (input.zoom_delta(), input.smooth_scroll_delta()));
        let shift = ui.input(|input| input.modifiers.shift);
        let block = blocks::at(blocks, pos.y).map_or(axis, |block| &block.layout);
        if (zoom - 1.0).abs() > 1e-4 && shift {
            state.axis.stretch(block, zoom, pos.y);
        } else if (zoom - 1.0).abs() > 1e-4 {
            state.axis.zoom(end, f64::from(zoom), Some(axis.time(pos.x)));
        } else {
            if scroll.x.abs() > 0.0 {
                state.axis.pan(end, f64::from(-scroll.x / axis.rect.width().max(1.0)));
            }
            let most = blocks.iter().map(|block| block.layout.height() - block.layout.rect.height());
            state.axis.scroll = (state.axis.scroll - scroll.y).clamp(0.0, most.fold(0.0, f32::max));
        }
    }
    let at = |pos: egui::Pos2| snapped(blocks, axis, end, pos);
    for button in [PointerButton::Primary, PointerButton::Middle] {
        if response.drag_started_by(button) {
            // A press is a drag some pixels later: it began where it was pressed.
            let origin = ui.input(|input| input.pointer.press_origin());
            state.drag_from = origin.or(response.interact_pointer_pos()).map(at);
        }
        if response.dragged_by(button)
            && let (Some(from), Some(pos)) = (state.drag_from, response.interact_pointer_pos())
        {
            let to = at(pos);
            state.axis.range = Some((from.min(to), from.max(to)));
            state.measured_at = Some(pos.y);
        }
    }
    if response.drag_stopped() {
        state.measured_at = None;
    }
    if response.drag_stopped_by(PointerButton::Middle)
        && let Some((from, to)) = state.axis.range.take()
    {
        state.axis.place(end, from, to);
    }
}

/// Time under the pointer, at the edge of a slice where one is within 6 pixels.
fn snapped(blocks: &[Block<'_>], axis: &Layout, end: u64, pos: egui::Pos2) -> f64 {
    let time = axis.time(pos.x).clamp(0.0, end as f64);
    let near = axis.ns_per_px() * 6.0;
    let Some(Block { run, layout, .. }) = blocks::at(blocks, pos.y) else { return time };
    let lane = layout.lane_at(pos.y).and_then(|lane| run.lanes.lanes.get(lane));
    let Some(lane) = lane else { return time };
    let spans = &run.capture.spans;
    let probes = [time, time - near, time + near];
    let edges = probes.into_iter().filter_map(|probe| run.lanes.hit(spans, lane, probe.max(0.0) as u64));
    edges
        .flat_map(|at| [spans.begin[at] as f64, spans.end[at] as f64])
        .filter(|edge| (edge - time).abs() <= near)
        .min_by(|a, b| (a - time).abs().total_cmp(&(b - time).abs()))
        .unwrap_or(time)
}
