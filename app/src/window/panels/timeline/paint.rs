//! Painting of the timeline: ruler, lanes, selection, range, bandwidth.

use egui::{Align2, FontId, Painter, Rect, Stroke, StrokeKind, TextureHandle, Ui, pos2, vec2};
use engine::capture::{Capture, CounterSeries};
use engine::metrics::BubbleCause;
use engine::units::Nanos;

use super::super::Frame;
use super::gaps;
use super::layout::{Layout, ticks};
use crate::window::lanes::Piece;
use crate::window::selection::Selection;
use crate::window::theme::mix;
use crate::window::worker::Shown;

/// Parts of the panel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Regions {
    /// Names of the SMs.
    gutter: Rect,
    /// Time ruler.
    ruler: Rect,
    /// Lanes.
    pub(super) lanes: Rect,
    /// Bandwidth over time.
    strip: Option<Rect>,
}

const GUTTER: f32 = 64.0;
const RULER: f32 = 20.0;
const STRIP: f32 = 62.0;

pub(super) fn regions(outer: Rect, counters: bool) -> Regions {
    let strip = (counters && outer.height() > 180.0).then_some(STRIP);
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
    /// Cause that the pointer is on in the legend.
    pub(super) cause: Option<BubbleCause>,
    /// Hatch of bubbles.
    pub(super) hatch: TextureHandle,
}

pub(super) fn all(
    ui: &Ui,
    frame: &Frame<'_>,
    run: (&Shown, &Capture),
    layout: &Layout,
    regions: &Regions,
    marks: &Marks,
) {
    let (shown, capture) = run;
    let painter = ui.painter_at(regions.gutter.union(regions.ruler).union(regions.strip.unwrap_or(regions.ruler)));
    painter.rect_filled(regions.lanes, 0.0, frame.tokens.canvas);
    ruler(&painter, frame, layout, regions);
    let tint = |cause| {
        let plain = gaps::colour(frame.tokens, cause);
        if marks.cause.is_some_and(|lit| lit != cause) {
            mix(plain, frame.tokens.canvas, 0.8)
        } else {
            mix(plain, frame.tokens.canvas, 0.25)
        }
    };
    ui.painter_at(regions.lanes).add(gaps::mesh((&shown.lanes, &shown.gaps), layout, marks.hatch.id(), tint));
    lanes(&ui.painter_at(regions.lanes), frame, shown, capture, layout);
    gutter(&ui.painter_at(regions.gutter), frame, layout, regions);
    if let Some(strip) = regions.strip {
        bandwidth(&ui.painter_at(strip.expand2(vec2(GUTTER, 0.0))), frame, capture, layout, strip);
    }
    if let Some((from, to)) = marks.range {
        let area = Rect::from_x_y_ranges(layout.x(from)..=layout.x(to), regions.lanes.y_range());
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

fn lanes(painter: &Painter, frame: &Frame<'_>, shown: &Shown, capture: &Capture, layout: &Layout) {
    let focused = frame.selected.is_some();
    let colour = |piece: &Piece| {
        let plain = frame.pack_colour(shown, piece.entity);
        let folded = if piece.count > 1 { mix(plain, frame.tokens.canvas, 0.15) } else { plain };
        if focused && !frame.lights(shown, piece.entity) { frame.tokens.dimmed(folded) } else { folded }
    };
    let (mesh, _) = layout.mesh(&shown.lanes, &capture.spans, colour);
    painter.add(mesh);
    for (lit, width) in [(frame.hovered, 1.0), (frame.selected, 2.0)] {
        let Selection::Cta(at) = lit.what else { continue };
        if at >= capture.spans.len() {
            continue;
        }
        let span = capture.spans.get(at);
        let lane = span.sm as usize * layout.slots + span.slot as usize;
        let top = layout.top(lane);
        let place =
            Rect::from_x_y_ranges(layout.x(span.begin.as_f64())..=layout.x(span.end.as_f64()), top..=top + layout.lane);
        painter.rect_stroke(place.expand(1.0), 1.0, Stroke::new(width, frame.tokens.text), StrokeKind::Outside);
    }
    names(painter, frame, shown, capture, layout);
    let end = layout.x(capture.makespan().as_f64());
    painter.vline(end, layout.rect.y_range(), Stroke::new(1.0, frame.tokens.faint));
}

/// Names inside CTAs, where there is room.
fn names(painter: &Painter, frame: &Frame<'_>, shown: &Shown, capture: &Capture, layout: &Layout) {
    if layout.lane < 12.0 {
        return;
    }
    layout.pieces(&shown.lanes, &capture.spans, |_, piece, rect| {
        if rect.width() < 56.0 || piece.count > 1 {
            return;
        }
        let Some(pack) = shown.planned.plan.packs.get(piece.entity as usize) else { return };
        let text = format!("{} · {}", piece.entity, pack.tile);
        let colour = frame.tokens.on(frame.pack_colour(shown, piece.entity));
        painter.text(
            rect.left_center() + vec2(4.0, 0.0),
            Align2::LEFT_CENTER,
            text,
            FontId::proportional(10.5),
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

fn bandwidth(painter: &Painter, frame: &Frame<'_>, capture: &Capture, layout: &Layout, strip: Rect) {
    painter.rect_filled(strip, 0.0, frame.tokens.canvas);
    let peak = capture.provenance.peak_bytes_per_s as f64;
    let most = capture.counters.iter().flat_map(|series| series.values.iter().copied()).fold(peak, f64::max).max(1.0);
    let y = |value: f64| strip.bottom() - (value / most) as f32 * (strip.height() - 4.0);
    for (index, series) in capture.counters.iter().enumerate() {
        let colour = frame.tokens.entity([4, 5, 2, 7][index % 4]);
        painter.add(egui::Shape::line(steps(series, layout, strip, y), Stroke::new(1.5, colour)));
        let place = strip.left_top() + vec2(-6.0, 4.0 + 15.0 * index as f32);
        painter.text(place, Align2::RIGHT_TOP, series.name.replace('_', " "), FontId::proportional(10.5), colour);
    }
    let line = y(peak);
    painter.extend(egui::Shape::dashed_line(
        &[pos2(strip.left(), line), pos2(strip.right(), line)],
        Stroke::new(1.0, frame.tokens.faint),
        5.0,
        4.0,
    ));
    let text = format!("HBM peak {:.2} TB/s · {}", peak / 1e12, capture.provenance.source.name());
    painter.text(
        pos2(strip.right() - 6.0, line + 3.0),
        Align2::RIGHT_TOP,
        text,
        FontId::proportional(11.0),
        frame.tokens.faint,
    );
}

fn steps(series: &CounterSeries, layout: &Layout, strip: Rect, y: impl Fn(f64) -> f32) -> Vec<egui::Pos2> {
    let step = series.step.as_f64().max(1.0);
    let first = ((layout.view.begin - series.start.as_f64()) / step).floor().max(0.0) as usize;
    let last = (((layout.view.end - series.start.as_f64()) / step).ceil().max(0.0) as usize).min(series.values.len());
    if first >= last {
        return Vec::new();
    }
    // No more points than two a pixel: a stride keeps the largest of what it passes.
    let stride = ((last - first) / (strip.width() as usize * 2).max(1)).max(1);
    let mut points = Vec::new();
    for at in (first..last).step_by(stride) {
        let value = series.values[at..(at + stride).min(last)].iter().copied().fold(0.0, f64::max);
        let begin = layout.x(series.start.as_f64() + at as f64 * step);
        let end = layout.x(series.start.as_f64() + (at + stride).min(last) as f64 * step);
        points.extend([pos2(begin, y(value)), pos2(end, y(value))]);
    }
    points
}
