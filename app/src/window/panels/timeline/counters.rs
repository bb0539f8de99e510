//! Counter rows under the lanes, on the same time axis and under the same cursor: throughputs beside what the
//! memory can do, and shares of the time. Where a run has counted none, its model's throughputs stand there.

use egui::{Align2, FontId, Painter, Rect, Shape, Stroke, pos2, vec2};
use engine::capture::{Capture, CounterSeries};

use crate::runs::run::Run;
use crate::runs::shown::Shown;
use crate::timeline::counters::{self, caption, is_share, rate};
use crate::timeline::layout::Layout;
use crate::timeline::samples::Samples;
use crate::window::frame::Frame;

/// Heights of the rows where there is room, and how low they may be.
const THROUGHPUTS: f32 = 62.0;
const SHARES: f32 = 40.0;
const LOWEST: f32 = 0.66;
const BETWEEN: f32 = 4.0;
/// Room for the sentence under the rows.
const CAPTION: f32 = 15.0;
const SMALL: f32 = 10.5;

/// A row with its sums.
type Row<'a> = (&'a CounterSeries, &'a Samples);

/// Least and most height of the rows of a run that has some.
pub(super) fn heights(capture: &Capture) -> (f32, f32) {
    let (rows, between) = rows(capture.counters.iter().any(is_share));
    (rows * LOWEST + between, rows + between)
}

/// Height of the rows where there is room, and of what is between and under them.
fn rows(has_shares: bool) -> (f32, f32) {
    if has_shares { (THROUGHPUTS + SHARES, BETWEEN + CAPTION) } else { (THROUGHPUTS, CAPTION) }
}

/// Draws the rows of a run into `area`; the cursor is at `pointer_at`.
pub(super) fn paint(
    painter: &Painter,
    frame: &Frame<'_>,
    (shown, run): (&Shown, &Run),
    layout: &Layout,
    area: Rect,
    pointer_at: Option<f32>,
) {
    let capture = &run.capture;
    let (shares, throughputs): (Vec<Row<'_>>, Vec<Row<'_>>) = run.counters().partition(|(series, _)| is_share(series));
    let (full, between) = rows(!shares.is_empty());
    let scale = (area.height() - between) / full;
    let top = Rect::from_min_size(area.min, vec2(area.width(), THROUGHPUTS * scale));
    let peak = capture.provenance.peak_bytes_per_s as f64;
    let most = throughputs.iter().map(|(_, samples)| samples.largest()).fold(peak, f64::max).max(1.0);
    row(painter, frame, &throughputs, layout, (top, most, 0), pointer_at);
    let reached = shown.planned.options.device.reachable_bytes_per_s();
    limits(painter, frame, [(peak, "data sheet"), (reached, "plain read")], (top, most));
    let mut bottom = top.bottom();
    if !shares.is_empty() {
        let place = Rect::from_min_size(pos2(area.left(), bottom + BETWEEN), vec2(area.width(), SHARES * scale));
        row(painter, frame, &shares, layout, (place, 1.0, 2), pointer_at);
        full_scale(painter, frame, place);
        bottom = place.bottom();
    }
    let font = FontId::proportional(SMALL);
    painter.text(pos2(area.left(), bottom + 2.0), Align2::LEFT_TOP, caption(capture), font, frame.tokens.faint);
    if let Some(x) = pointer_at {
        painter.vline(x, area.top()..=bottom, Stroke::new(1.0, frame.tokens.faint.gamma_multiply(0.6)));
    }
}

/// The lines of one row with their names, and their values at the cursor.
fn row(
    painter: &Painter,
    frame: &Frame<'_>,
    all: &[Row<'_>],
    layout: &Layout,
    (place, most, first_colour): (Rect, f64, usize),
    pointer_at: Option<f32>,
) {
    painter.rect_filled(place, 0.0, frame.tokens.canvas);
    let y = |value: f64| place.bottom() - (value / most) as f32 * (place.height() - 4.0);
    let clipped = painter.with_clip_rect(place);
    let mut at_cursor = Vec::new();
    for (index, (series, samples)) in all.iter().enumerate() {
        let colour = frame.tokens.entity([4, 5, 2, 7][(first_colour + index) % 4]);
        clipped.add(Shape::line(steps((series, samples), layout, place, y), Stroke::new(1.5, colour)));
        let name = place.left_top() + vec2(-6.0, 2.0 + 14.0 * index as f32);
        let text = counters::name(series);
        painter.text(name, Align2::RIGHT_TOP, text, FontId::proportional(SMALL), colour);
        let value = pointer_at.and_then(|x| value_at(series, layout.time(x)));
        at_cursor.extend(value.map(|value| (if is_share(series) { share(value) } else { rate(value) }, colour)));
    }
    let Some(x) = pointer_at else { return };
    let right = x + 90.0 < place.right();
    let (anchor, by) = if right { (Align2::LEFT_TOP, 5.0) } else { (Align2::RIGHT_TOP, -5.0) };
    for (index, (text, colour)) in at_cursor.into_iter().enumerate() {
        let from = pos2(x + by, place.top() + 2.0 + 13.0 * index as f32);
        let back = anchor.anchor_size(from, vec2(62.0, 13.0));
        clipped.rect_filled(back, 2.0, frame.tokens.canvas.gamma_multiply(0.85));
        clipped.text(from, anchor, text, FontId::proportional(11.0), colour);
    }
}

/// What the top of a row of shares is.
fn full_scale(painter: &Painter, frame: &Frame<'_>, place: Rect) {
    let galley = painter.layout_no_wrap(share(1.0), FontId::proportional(SMALL), frame.tokens.faint);
    let back = Align2::RIGHT_TOP.anchor_size(place.right_top() + vec2(-6.0, 0.0), galley.size());
    painter.rect_filled(back.expand2(vec2(3.0, 0.0)), 2.0, frame.tokens.canvas.gamma_multiply(0.85));
    painter.galley(back.min, galley, frame.tokens.faint);
}

fn share(value: f64) -> String {
    format!("{:.0} %", value * 100.0)
}

/// What the memory can do, dashed.
fn limits(painter: &Painter, frame: &Frame<'_>, lines: [(f64, &str); 2], (place, most): (Rect, f64)) {
    let mut right = place.right() - 6.0;
    for (value, name) in lines {
        let y = place.bottom() - (value / most) as f32 * (place.height() - 4.0);
        let ends = [pos2(place.left(), y), pos2(place.right(), y)];
        painter.extend(Shape::dashed_line(&ends, Stroke::new(1.0, frame.tokens.faint), 5.0, 4.0));
        let text = format!("{name} {}", rate(value));
        let galley = painter.layout_no_wrap(text, FontId::proportional(SMALL), frame.tokens.faint);
        let back = Align2::RIGHT_CENTER.anchor_size(pos2(right, place.center().y), galley.size());
        painter.rect_filled(back.expand2(vec2(3.0, 0.0)), 2.0, frame.tokens.canvas.gamma_multiply(0.85));
        painter.galley(back.min, galley, frame.tokens.faint);
        right = back.left() - 12.0;
    }
}

/// The value of a series at a time.
fn value_at(series: &CounterSeries, time: f64) -> Option<f64> {
    let step = (time - series.start.as_f64()) / series.step.as_f64().max(1.0);
    (step >= 0.0).then(|| series.values.get(step as usize).copied()).flatten()
}

fn steps((series, samples): Row<'_>, layout: &Layout, place: Rect, y: impl Fn(f64) -> f32) -> Vec<egui::Pos2> {
    let step = series.step.as_f64().max(1.0);
    let first = ((layout.view.begin - series.start.as_f64()) / step).floor().max(0.0) as usize;
    let last = (((layout.view.end - series.start.as_f64()) / step).ceil().max(0.0) as usize).min(series.values.len());
    if first >= last {
        return Vec::new();
    }
    // No more points than two a pixel: a stride keeps the largest of what it passes.
    let stride = ((last - first) / (place.width() as usize * 2).max(1)).max(1);
    let mut points = Vec::new();
    for at in (first..last).step_by(stride) {
        let value = samples.largest_of(series, at..(at + stride).min(last));
        let begin = layout.x(series.start.as_f64() + at as f64 * step);
        let end = layout.x(series.start.as_f64() + (at + stride).min(last) as f64 * step);
        points.extend([pos2(begin, y(value)), pos2(end, y(value))]);
    }
    points
}

#[cfg(test)]
mod tests {
    use engine::units::Nanos;

    use super::*;

    #[test]
    fn the_value_under_the_cursor_is_that_of_its_step() {
        let series = CounterSeries {
            name: "dram_read".to_owned(),
            unit: "B/s".to_owned(),
            start: Nanos(100),
            step: Nanos(50),
            values: vec![1.0, 2.0],
        };
        assert_eq!(
            [99.0, 100.0, 149.9, 150.0, 200.0].map(|at| value_at(&series, at)),
            [None, Some(1.0), Some(1.0), Some(2.0), None]
        );
    }
}
