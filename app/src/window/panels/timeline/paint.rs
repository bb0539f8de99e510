//! Painting of the timeline: ruler, lanes, selection, range.

use std::fmt::Write as _;
use std::sync::Arc;

use egui::emath::Rot2;
use egui::{Align2, FontId, Painter, Pos2, Rect, Stroke, StrokeKind, TextureHandle, Ui, pos2, vec2};
use engine::capture::Source;
use engine::metrics::BubbleCause;
use engine::units::Nanos;

use super::blocks::{self, Block};
use crate::runs::now::Now;
use crate::runs::run::Run;
use crate::runs::shown::Shown;
use crate::theme::mix;
use crate::timeline::axis::NAMED;
use crate::timeline::bubbles;
use crate::timeline::lanes::Piece;
use crate::timeline::layout::{Layout, ticks};
use crate::timeline::marks;
use crate::window::frame::Frame;
use crate::window::panels::timeline::counters;
use crate::window::selection::Selection;

/// Parts of the panel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Regions {
    /// Names of the SMs.
    gutter: Rect,
    /// Time ruler.
    ruler: Rect,
    /// Lanes.
    pub(super) lanes: Rect,
    /// Counters over time.
    pub(super) strip: Option<Rect>,
}

/// Widths from which a CTA carries its number, that it is one, and its pack and tile.
const SHORT_NAME: f32 = 30.0;
const MIDDLE_NAME: f32 = 60.0;
const LONG_NAME: f32 = 140.0;
const GUTTER: f32 = 64.0;
const RULER: f32 = 20.0;
/// Least height of the lanes beside the counters.
const LANES: f32 = 110.0;

/// Parts the panel; the counters want `counters` pixels and give way where lanes would have too few.
pub(super) fn regions(outer: Rect, counters: Option<f32>) -> Regions {
    let strip = counters.filter(|height| outer.height() > height + LANES);
    let bottom = outer.bottom() - strip.map_or(0.0, |height| height + 6.0);
    let left = outer.left() + GUTTER;
    Regions {
        gutter: Rect::from_min_max(pos2(outer.left(), outer.top() + RULER), pos2(left, bottom)),
        ruler: Rect::from_min_max(pos2(left, outer.top()), pos2(outer.right(), outer.top() + RULER)),
        lanes: Rect::from_min_max(pos2(left, outer.top() + RULER), pos2(outer.right(), bottom)),
        strip: strip.map(|_| Rect::from_min_max(pos2(left, bottom + 6.0), outer.right_bottom())),
    }
}

/// What lies over or under the lanes.
#[derive(Clone)]
pub(super) struct Marks {
    /// Range with statistics.
    pub(super) range: Option<(f64, f64)>,
    /// Times that were marked.
    pub(super) named: marks::Marks,
    /// Cause that the pointer is on in the legend.
    pub(super) cause: Option<BubbleCause>,
    /// Hatch of bubbles.
    pub(super) hatch: TextureHandle,
    /// Where the pointer is in time.
    pub(super) pointer_at: Option<f32>,
}

pub(super) fn all(
    ui: &Ui,
    frame: &Frame<'_>,
    (shown, counted): (&Shown, Option<&Arc<Run>>),
    blocks: &[Block<'_>],
    regions: &Regions,
    marks: &Marks,
) {
    let Some(axis) = blocks.first().map(|block| block.layout) else { return };
    let painter = ui.painter_at(regions.gutter.union(regions.ruler).union(regions.strip.unwrap_or(regions.ruler)));
    for block in blocks {
        painter.rect_filled(block.layout.rect, 0.0, frame.tokens.canvas);
    }
    ruler(&painter, frame, &axis, regions);
    let tint = |cause| {
        let plain = bubbles::colour(frame.tokens, cause);
        if marks.cause.is_some_and(|lit| lit != cause) {
            mix(plain, frame.tokens.canvas, 0.8)
        } else {
            mix(plain, frame.tokens.canvas, 0.25)
        }
    };
    for block in blocks {
        let Block { run, title: place, layout } = block;
        let clipped = ui.painter_at(layout.rect);
        clipped.add(bubbles::mesh((&run.lanes, &run.gaps), layout, marks.hatch.id(), tint));
        lanes(&clipped, frame, shown, block);
        ends(&clipped, frame, blocks, block);
        bubble(&clipped, frame, block);
        let gutter_rect = Rect::from_x_y_ranges(regions.gutter.x_range(), layout.rect.y_range());
        gutter(&ui.painter_at(gutter_rect), frame, layout, regions);
        if let Some(place) = place {
            title(&painter, frame, block, *place);
        }
    }
    if let (Some(strip), Some(run)) = (regions.strip, counted) {
        let painter = ui.painter_at(strip.expand2(vec2(GUTTER, 0.0)));
        counters::paint(&painter, frame, (shown, run), &axis, strip, marks.pointer_at);
    }
    named(&painter, frame, &axis, (regions, &marks.named));
    played(&painter, frame, &axis, regions);
    if let Some(x) = marks.pointer_at {
        painter.vline(x, regions.lanes.y_range(), Stroke::new(1.0, frame.tokens.faint.gamma_multiply(0.6)));
    }
    if let Some((from, to)) = marks.range {
        let area = Rect::from_x_y_ranges(axis.x(from)..=axis.x(to), regions.lanes.y_range());
        let fill = frame.tokens.accent.gamma_multiply(0.18);
        painter.rect(area, 0.0, fill, Stroke::new(1.0, frame.tokens.accent), StrokeKind::Inside);
        painter.text(
            area.center_top() + vec2(0.0, 4.0),
            Align2::CENTER_TOP,
            Nanos((to - from) as u64),
            FontId::proportional(12.0),
            frame.tokens.text,
        );
    }
}

/// Marked times with their names.
fn named(painter: &Painter, frame: &Frame<'_>, axis: &Layout, (regions, all): (&Regions, &marks::Marks)) {
    for mark in all.all().iter().filter(|mark| (axis.view.begin..=axis.view.end).contains(&mark.at)) {
        let x = axis.x(mark.at);
        let stroke = Stroke::new(1.5, frame.tokens.text);
        painter.vline(x, regions.ruler.top()..=regions.lanes.bottom(), stroke);
        let galley = painter.layout_no_wrap(mark.name.clone(), FontId::proportional(11.0), frame.tokens.text);
        let place = pos2((x + 3.0).min(regions.ruler.right() - galley.size().x), regions.ruler.top());
        painter.rect_filled(Rect::from_min_size(place, galley.size()).expand(1.0), 2.0, frame.tokens.panel);
        painter.galley(place, galley, frame.tokens.text);
    }
}

/// The source of a block, what is in it and how long its spans go.
fn title(painter: &Painter, frame: &Frame<'_>, block: &Block<'_>, place: Rect) {
    painter.rect_filled(place, 0.0, frame.tokens.panel);
    let source = block.source();
    let name = painter.text(
        place.left_center() + vec2(3.0, 0.0),
        Align2::LEFT_CENTER,
        block.run.words(),
        FontId::proportional(12.0),
        frame.tokens.warn,
    );
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

/// Where the run ends, and dashed where the other one does.
fn ends(painter: &Painter, frame: &Frame<'_>, blocks: &[Block<'_>], block: &Block<'_>) {
    let Layout { rect, .. } = block.layout;
    for other in blocks.iter().filter(|other| other.run.damage.of_spans().is_none()) {
        let x = block.layout.x(other.run.lanes.end as f64);
        if other.source() == block.source() {
            painter.vline(x, rect.y_range(), Stroke::new(1.0, frame.tokens.faint));
            continue;
        }
        let stroke = Stroke::new(1.5, frame.tokens.accent);
        painter.extend(egui::Shape::dashed_line(&[pos2(x, rect.top()), pos2(x, rect.bottom())], stroke, 5.0, 4.0));
        let text = format!("{} ends", other.source().name());
        let right = x + 90.0 < rect.right();
        let (anchor, by) = if right { (Align2::LEFT_BOTTOM, 4.0) } else { (Align2::RIGHT_BOTTOM, -4.0) };
        let place = pos2(x + by, rect.bottom() - 2.0);
        let size = vec2(80.0, 14.0);
        let back = anchor.anchor_size(place, size);
        painter.rect_filled(back, 2.0, frame.tokens.canvas.gamma_multiply(0.8));
        painter.text(place, anchor, text, FontId::proportional(11.0), frame.tokens.accent);
    }
}

fn ruler(painter: &Painter, frame: &Frame<'_>, layout: &Layout, regions: &Regions) {
    for tick in ticks(layout.view, layout.rect.width(), 96.0) {
        let x = layout.x(tick);
        let line = Stroke::new(1.0, mix(frame.tokens.canvas, frame.tokens.line, 0.6));
        painter.vline(x, regions.lanes.y_range(), line);
        let place = pos2(x + 3.0, regions.ruler.center().y);
        painter.text(place, Align2::LEFT_CENTER, Nanos(tick as u64), FontId::proportional(11.0), frame.tokens.faint);
        painter.vline(x, regions.ruler.y_range(), Stroke::new(1.0, frame.tokens.line));
    }
}

fn lanes(painter: &Painter, frame: &Frame<'_>, shown: &Shown, block: &Block<'_>) {
    let Block { run, layout, .. } = block;
    let capture = &run.capture;
    let focused = frame.selected.draws_others_back();
    let colour = |piece: &Piece| {
        let plain = frame.entity_colour(shown, piece.entity);
        let folded = if piece.count > 1 { mix(plain, frame.tokens.canvas, 0.15) } else { plain };
        if focused && !frame.lights(shown, piece.entity) { frame.tokens.dimmed(folded) } else { folded }
    };
    let (mesh, _) = layout.mesh(&run.lanes, &capture.spans, colour);
    painter.add(mesh);
    for (lit, width) in [(frame.hovered, 1.0), (frame.selected, 2.0)] {
        let Some(at) = lit.span_in(run.source()).filter(|at| *at < capture.spans.len()) else { continue };
        let span = capture.spans.get(at);
        let lane = span.sm as usize * layout.slots + span.slot as usize;
        let top = layout.top(lane);
        let place =
            Rect::from_x_y_ranges(layout.x(span.begin.as_f64())..=layout.x(span.end.as_f64()), top..=top + layout.lane);
        painter.rect_stroke(place.expand(1.0), 1.0, Stroke::new(width, frame.tokens.text), StrokeKind::Outside);
    }
    names(painter, frame, shown, block);
}

/// The selected bubble, with an arrow to each CTA that bounds it.
/// The end of the run before the gesture that goes on, and the moment of playback: what is later is still to come.
fn played(painter: &Painter, frame: &Frame<'_>, axis: &Layout, regions: &Regions) {
    let t = frame.tokens;
    let lanes = regions.lanes;
    if let Some(before) = frame.ghost {
        let x = axis.x(before.lanes.end as f64);
        let line = [pos2(x, lanes.top()), pos2(x, lanes.bottom())];
        painter.extend(egui::Shape::dashed_line(&line, Stroke::new(1.5, t.accent), 5.0, 4.0));
        painter.text(line[0], Align2::RIGHT_TOP, "before ", FontId::proportional(11.0), t.accent);
    }
    if let Some(time) = frame.now.as_ref().and_then(Now::time) {
        let area = lanes.union(regions.strip.unwrap_or(lanes));
        let x = axis.x(time).clamp(area.left(), area.right());
        painter.rect_filled(area.with_min_x(x), 0.0, t.canvas.gamma_multiply(0.72));
        painter.vline(x, area.y_range(), Stroke::new(2.0, t.accent));
    }
}

fn bubble(painter: &Painter, frame: &Frame<'_>, block: &Block<'_>) {
    let Block { run, layout, .. } = block;
    let Selection::Gap(source, at) = frame.selected.what else { return };
    let Some(gap) = run.gaps.all().get(at).filter(|_| source == run.source()) else { return };
    let place = |sm: u32, slot: u32, begin: Nanos, end: Nanos| {
        let top = layout.top(sm as usize * layout.slots + slot as usize);
        Rect::from_x_y_ranges(layout.x(begin.as_f64())..=layout.x(end.as_f64()), top..=top + layout.lane)
    };
    let own = place(gap.sm, gap.slot, gap.begin, gap.end);
    let stroke = Stroke::new(2.0, frame.tokens.accent);
    painter.rect_stroke(own.expand(1.0), 1.0, stroke, StrokeKind::Outside);
    for bound in frame.bounds.iter().filter(|bound| **bound < run.capture.spans.len()) {
        let span = run.capture.spans.get(*bound);
        let cta = place(span.sm, span.slot, span.begin, span.end);
        // What starts late bounds a bubble with its begin, what runs on with its end.
        let starts = match gap.cause {
            BubbleCause::LaunchRamp => true,
            BubbleCause::InterKernelGap | BubbleCause::DependencyWait => span.begin >= gap.begin,
            _ => false,
        };
        let x = if starts { cta.left() } else { cta.right() };
        painter.rect_stroke(cta.expand(1.0), 1.0, Stroke::new(1.5, frame.tokens.accent), StrokeKind::Outside);
        arrow(painter, own.center(), pos2(x, cta.center().y), stroke);
    }
}

/// A line with a small head, whatever its length.
fn arrow(painter: &Painter, from: Pos2, to: Pos2, stroke: Stroke) {
    const HEAD: f32 = 9.0;
    painter.line_segment([from, to], stroke);
    let back = (from - to).normalized() * HEAD;
    for turn in [0.45, -0.45] {
        painter.line_segment([to, to + Rot2::from_angle(turn) * back], stroke);
    }
}

/// Names inside CTAs, where there is room.
fn names(painter: &Painter, frame: &Frame<'_>, shown: &Shown, block: &Block<'_>) {
    let Block { run, layout, .. } = block;
    if layout.lane < NAMED {
        return;
    }
    let font = FontId::proportional(10.5);
    layout.pieces(&run.lanes, &run.capture.spans, |_, piece, rect| {
        if rect.width() < SHORT_NAME || piece.count > 1 {
            return;
        }
        let cta = run.capture.spans.cta[piece.first];
        let pack = piece.entity.pack();
        let tile = pack.and_then(|pack| shown.planned.plan.packs.get(pack.at())).map(|pack| pack.tile);
        let text = match (pack, tile) {
            (Some(pack), Some(tile)) if rect.width() >= LONG_NAME => format!("CTA {cta} · pack {} · {tile}", pack.0),
            _ if rect.width() >= MIDDLE_NAME => format!("CTA {cta}"),
            _ => cta.to_string(),
        };
        let lit = !frame.selected.draws_others_back() || frame.lights(shown, piece.entity);
        let colour = if lit { frame.tokens.on(frame.entity_colour(shown, piece.entity)) } else { frame.tokens.faint };
        let place = rect.left_center() + vec2(4.0, 0.0);
        painter.with_clip_rect(rect.intersect(layout.rect)).text(
            place,
            Align2::LEFT_CENTER,
            text,
            font.clone(),
            colour,
        );
    });
}

fn gutter(painter: &Painter, frame: &Frame<'_>, layout: &Layout, regions: &Regions) {
    let every = (14.0 / layout.group()).ceil().max(1.0) as usize;
    for lane in layout.visible().step_by(layout.slots) {
        let sm = lane / layout.slots;
        if sm.is_multiple_of(every) {
            let y = layout.top(lane) + (layout.group() / 2.0).clamp(6.0, 8.0);
            let place = pos2(regions.gutter.right() - 6.0, y);
            painter.text(
                place,
                Align2::RIGHT_CENTER,
                format!("SM {sm}"),
                FontId::proportional(10.5),
                frame.tokens.faint,
            );
        }
    }
}
