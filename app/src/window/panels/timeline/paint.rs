//! Painting of the timeline: ruler, lanes, selection.

use std::fmt::Write as _;
use std::sync::Arc;

use egui::{Align2, FontId, Painter, Rect, Shape, Stroke, StrokeKind, Ui, pos2, vec2};
use engine::capture::Source;
use engine::units::Nanos;

use super::blocks::{self, Block};
use super::drawn::Drawn;
use super::regions::{GUTTER, Marks, Regions};
use super::{counters, names, over};
use crate::runs::run::Run;
use crate::runs::shown::Shown;
use crate::theme::mix;
use crate::timeline::layout::{Layout, labelled, ticks};
use crate::window::chip;
use crate::window::frame::Frame;
use crate::window::hatch;

pub(super) fn all(
    ui: &Ui,
    frame: &Frame<'_>,
    (shown, counted): (&Shown, Option<&Arc<Run>>),
    (blocks, drawn): (&[Block<'_>], &[Drawn]),
    regions: &Regions,
    marks: &Marks<'_>,
) {
    let Some(axis) = blocks.first().map(|block| block.layout.clone()) else { return };
    let painter = ui.painter_at(regions.gutter.union(regions.ruler).union(regions.strip.unwrap_or(regions.ruler)));
    for block in blocks {
        painter.rect_filled(block.layout.rect, 0.0, frame.tokens.canvas);
    }
    ruler(&painter, frame, &axis, regions);
    for (block, drawn) in blocks.iter().zip(drawn) {
        let Block { title: place, layout, .. } = block;
        let clipped = ui.painter_at(layout.rect);
        clipped.add(Shape::Mesh(Arc::clone(&drawn.bubbles)));
        drawn.lanes.paint(&clipped);
        // In a picture each rectangle with a texture is a bubble.
        if block.source() == Source::Simulated && !frame.is_picture {
            hatch::grain(&clipped, frame.tokens, layout.rect);
        }
        outlines(&clipped, frame, block);
        names::of_ctas(&clipped, frame, shown, block);
        clipped.extend(drawn.over.iter().map(|mesh| Shape::Mesh(Arc::clone(mesh))));
        over::ends(&clipped, frame, blocks, block);
        over::bubble(&clipped, frame, block);
        let gutter_rect = Rect::from_x_y_ranges(regions.gutter.x_range(), layout.rect.y_range());
        names::of_sms(&ui.painter_at(gutter_rect), frame, (layout, marks.folds), regions);
        if let Some(place) = place {
            title(&painter, frame, block, *place);
        }
    }
    if let (Some(strip), Some(run)) = (regions.strip, counted) {
        let painter = ui.painter_at(strip.expand2(vec2(GUTTER, 0.0)));
        counters::paint(&painter, frame, (shown, run), &axis, strip, marks.pointer_at);
    }
    over::named(&painter, frame, &axis, (regions, marks.named));
    over::played(&painter, frame, &axis, regions);
    if let Some(x) = marks.pointer_at {
        painter.vline(x, regions.lanes.y_range(), Stroke::new(1.0, frame.tokens.faint.gamma_multiply(0.6)));
    }
    over::range(&painter, frame, &axis, (regions, marks));
}

/// The source of a block, what is in it and how long its spans go.
fn title(painter: &Painter, frame: &Frame<'_>, block: &Block<'_>, place: Rect) {
    painter.rect_filled(place, 0.0, frame.tokens.panel);
    let source = block.source();
    let name = chip::paint(painter, frame.tokens, block.run, place.left_center() + vec2(1.0, 0.0));
    let traced = if source == Source::Measured { " in the traced run" } else { "" };
    // Where spans are lost, the last that is left does not end the run.
    let mut text = blocks::content(block.run);
    if block.run.damage.of_spans().is_none() {
        let _ = write!(text, " · last CTA ends at {}{traced}", Nanos(block.run.lanes.end));
    }
    painter.text(
        name.right_center() + vec2(8.0, 0.0),
        Align2::LEFT_CENTER,
        text,
        FontId::proportional(11.0),
        frame.tokens.faint,
    );
}

fn ruler(painter: &Painter, frame: &Frame<'_>, layout: &Layout, regions: &Regions) {
    for (tick, label) in labelled(&ticks(layout.view, layout.rect.width(), 96.0)) {
        let x = layout.x(tick);
        let line = Stroke::new(1.0, mix(frame.tokens.canvas, frame.tokens.line, 0.6));
        painter.vline(x, regions.lanes.y_range(), line);
        let place = pos2(x + 3.0, regions.ruler.center().y);
        painter.text(place, Align2::LEFT_CENTER, label, FontId::proportional(11.0), frame.tokens.faint);
        painter.vline(x, regions.ruler.y_range(), Stroke::new(1.0, frame.tokens.line));
    }
}

/// Frames around what is hovered and what is selected.
fn outlines(painter: &Painter, frame: &Frame<'_>, block: &Block<'_>) {
    let Block { run, layout, .. } = block;
    let capture = &run.capture;
    for (lit, width) in [(frame.hovered, 1.0), (frame.selected, 2.0)] {
        let Some(at) = lit.span_in(run.source()).filter(|at| *at < capture.spans.len()) else { continue };
        let span = capture.spans.get(at);
        let lane = span.sm as usize * layout.slots + span.slot as usize;
        let top = layout.top(lane);
        let bottom = top + layout.lane_height(lane);
        let place = Rect::from_x_y_ranges(layout.x(span.begin.as_f64())..=layout.x(span.end.as_f64()), top..=bottom);
        painter.rect_stroke(place.expand(1.0), 1.0, Stroke::new(width, frame.tokens.text), StrokeKind::Outside);
    }
}
