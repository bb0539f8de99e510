//! The roofline: FLOP a byte against FLOP per second, under the roofs of a plain read and of the tensor cores.
//! A point is the whole plan, a kernel, or a tile class.

use std::sync::Arc;

use egui::{Align2, FontId, Painter, Pos2, Rect, RichText, Sense, Shape, Stroke, Ui, pos2, vec2};
use engine::metrics::{BytesFrom, RooflinePoint, Subject, roofline, roofs};
use engine::plan::LaunchPlan;

use crate::runs::headline;
use crate::runs::run::Run;
use crate::timeline::colour::tile_colour;
use crate::timeline::counters::rate;
use crate::window::chip;
use crate::window::frame::Frame;
use crate::window::panels::parts::{empty, no_run};

const LEFT: f32 = 74.0;
const BOTTOM: f32 = 30.0;
/// Height of a label.
const LETTERS: f32 = 15.0;
/// Most points of which each kernel has its name beside it; of more they would cover one another.
const NAMED: usize = 64;
/// Pixels from a point within which the pointer is on it.
const NEAR: f32 = 9.0;

/// Two logarithmic axes.
#[derive(Clone, Copy, Debug)]
struct Axes {
    place: Rect,
    /// FLOP a byte, powers of ten.
    x: (f64, f64),
    /// FLOP per second, powers of ten.
    y: (f64, f64),
}

impl Axes {
    /// Whole powers of ten around all points and the corner of the roofs.
    fn around(points: &[RooflinePoint], corner: (f64, f64), place: Rect) -> Self {
        let range = |get: fn(&RooflinePoint) -> f64, corner: f64| {
            let logs = points.iter().map(|point| get(point).log10()).chain([corner.log10()]);
            let (least, most) = logs.fold((f64::MAX, f64::MIN), |(a, b), log| (a.min(log), b.max(log)));
            (least.floor(), (most + 0.2).ceil())
        };
        Self { place, x: range(RooflinePoint::intensity, corner.0), y: range(RooflinePoint::rate, corner.1) }
    }

    fn at(&self, intensity: f64, rate: f64) -> Pos2 {
        let share = |value: f64, (from, to): (f64, f64)| ((value.log10() - from) / (to - from).max(1e-9)) as f32;
        let x = self.place.left() + share(intensity, self.x) * self.place.width();
        pos2(x, self.place.bottom() - share(rate, self.y) * self.place.height())
    }
}

/// The points of the run that is shown, found once for it: they are sums over all CTAs.
#[derive(Clone, Debug, Default)]
pub struct State {
    of: Option<(Arc<Run>, Vec<RooflinePoint>)>,
}

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame<'_>, state: &mut State) {
    let found = frame.shown.and_then(|shown| Some((shown, shown.front()?)));
    let Some((shown, run)) = found else {
        empty(ui, frame.tokens, no_run(frame));
        return;
    };
    if let Some(reason) = run.damage.of_spans() {
        let text = format!("How fast the plan computed is not known: {reason}.");
        empty(ui, frame.tokens, &text);
        return;
    }
    let own = state.of.take().filter(|(of, _)| Arc::ptr_eq(of, run));
    let found = own.unwrap_or_else(|| (Arc::clone(run), roofline(&shown.traffic, &run.capture)));
    let points = &state.of.insert(found).1;
    if points.is_empty() {
        empty(ui, frame.tokens, "Nothing was computed.");
        return;
    }
    let (bandwidth, flops) = roofs(&shown.planned.options.device, &run.capture.plan);
    header(ui, frame, run, &points[0], (bandwidth * points[0].intensity()).min(flops));
    let (area, response) = ui.allocate_exact_size(ui.available_size().max(vec2(220.0, 160.0)), Sense::hover());
    let place = Rect::from_min_max(area.min + vec2(LEFT, 6.0), area.max - vec2(18.0, BOTTOM));
    let axes = Axes::around(points, (flops / bandwidth, flops), place);
    let painter = ui.painter_at(area);
    painter.rect_filled(place, 0.0, frame.tokens.canvas);
    grid(&painter, frame, &axes);
    roof(&painter, frame, &axes, (bandwidth, flops));
    // Small ones last, so that the plan does not hide them.
    let named = points.len() <= NAMED;
    for point in points {
        let is_named = named || !matches!(point.subject, Subject::Kernel(_));
        mark(&painter, frame, &axes, &run.capture.plan, (point, is_named));
    }
    let pointed = response.hover_pos().and_then(|pos| {
        let distance = |point: &RooflinePoint| axes.at(point.intensity(), point.rate()).distance(pos);
        points.iter().rev().filter(|point| distance(point) < NEAR).min_by(|a, b| distance(a).total_cmp(&distance(b)))
    });
    if let Some(point) = pointed {
        response.on_hover_text_at_pointer(about(&run.capture.plan, run.words(), point));
    }
}

fn header(ui: &mut Ui, frame: &Frame<'_>, run: &Run, plan: &RooflinePoint, reachable: f64) {
    ui.horizontal_wrapped(|ui| {
        let share = plan.rate() / reachable.max(1.0) * 100.0;
        let text = format!("the plan reaches {:.1} TFLOP/s, {share:.0} % of its roof", plan.rate() / 1e12);
        ui.label(RichText::new(text).strong());
        chip::show(ui, frame.tokens, run);
        let bytes = match plan.from {
            BytesFrom::Counted => "bytes of plan and kernels: DRAM, measured; of tiles: issued, derived",
            BytesFrom::Simulated => "bytes of the plan: DRAM, simulated; of kernels and tiles: issued, derived",
            BytesFrom::Issued => "bytes: issued, derived",
        };
        ui.label(RichText::new(bytes).color(frame.tokens.faint));
        if let Some(traced) = &run.told.traced {
            ui.label(RichText::new(format!("times are those of {traced}")).color(frame.tokens.faint))
                .on_hover_text(headline::TRACED);
        }
    });
}

fn grid(painter: &Painter, frame: &Frame<'_>, axes: &Axes) {
    let (line, font) = (Stroke::new(0.5, frame.tokens.line), FontId::proportional(10.5));
    for power in axes.x.0 as i32..=axes.x.1 as i32 {
        let x = axes.at(10f64.powi(power), 1.0).x;
        painter.vline(x, axes.place.y_range(), line);
        let at = pos2(x, axes.place.bottom() + 2.0);
        painter.text(at, Align2::CENTER_TOP, number(10f64.powi(power)), font.clone(), frame.tokens.faint);
    }
    for power in axes.y.0 as i32..=axes.y.1 as i32 {
        let y = axes.at(1.0, 10f64.powi(power)).y;
        painter.hline(axes.place.x_range(), y, line);
        let text = format!("{} TFLOP/s", number(10f64.powi(power - 12)));
        let at = pos2(axes.place.left() - 4.0, y);
        painter.text(at, Align2::RIGHT_CENTER, text, FontId::proportional(9.5), frame.tokens.faint);
    }
    let at = pos2(axes.place.center().x, axes.place.bottom() + BOTTOM - 2.0);
    painter.text(at, Align2::CENTER_BOTTOM, "FLOP a byte", font, frame.tokens.faint);
}

fn roof(painter: &Painter, frame: &Frame<'_>, axes: &Axes, (bandwidth, flops): (f64, f64)) {
    let corner = flops / bandwidth;
    let from = 10f64.powf(axes.x.0);
    let line = vec![axes.at(from, from * bandwidth), axes.at(corner, flops), axes.at(10f64.powf(axes.x.1), flops)];
    let clipped = painter.with_clip_rect(axes.place);
    clipped.add(Shape::line(line, Stroke::new(1.5, frame.tokens.text)));
    let font = FontId::proportional(11.0);
    let text = format!("tensor cores {:.0} TFLOP/s", flops / 1e12);
    let line = pos2(axes.place.right() - 4.0, axes.at(corner, flops).y);
    let (by, align) =
        if line.y - axes.place.top() < LETTERS { (2.0, Align2::RIGHT_TOP) } else { (-2.0, Align2::RIGHT_BOTTOM) };
    label(&clipped, (axes.place, line + vec2(0.0, by), align), (text, &font), frame.tokens.text);
    let text = format!("plain read {}", rate(bandwidth));
    let middle = 10f64.powf(f64::midpoint(axes.x.0, corner.log10()));
    let at = axes.at(middle, middle * bandwidth) + vec2(-6.0, -4.0);
    label(&clipped, (axes.place, at, Align2::RIGHT_BOTTOM), (text, &font), frame.tokens.text);
}

/// A text beside a point, moved as far as it takes to lie in the plot.
fn label(
    painter: &Painter,
    (place, at, align): (Rect, Pos2, Align2),
    (text, font): (String, &FontId),
    colour: egui::Color32,
) {
    let galley = painter.layout_no_wrap(text, font.clone(), colour);
    let wanted = align.anchor_size(at, galley.size());
    let free = (place.size() - galley.size()).max(vec2(0.0, 0.0));
    let corner = wanted.min.clamp(place.min, place.min + free);
    painter.galley(corner, galley, colour);
}

/// A disc for the plan, a square for a kernel, a diamond for a tile class; each with its name.
fn mark(painter: &Painter, frame: &Frame<'_>, axes: &Axes, plan: &LaunchPlan, (point, named): (&RooflinePoint, bool)) {
    let at = axes.at(point.intensity(), point.rate());
    let edge = Stroke::new(1.0, frame.tokens.text);
    let (shape, size) = match point.subject {
        Subject::Plan => (Shape::circle_filled(at, 6.5, frame.tokens.accent), 8.0),
        Subject::Kernel(launch) => {
            let place = Rect::from_center_size(at, vec2(9.0, 9.0));
            (Shape::rect_filled(place, 0.0, frame.tokens.entity(launch)), 7.0)
        }
        Subject::Tiles(tile) => {
            let colour = tile_colour(frame.tokens, tile);
            let corners = [vec2(0.0, -5.5), vec2(5.5, 0.0), vec2(0.0, 5.5), vec2(-5.5, 0.0)].map(|by| at + by);
            (Shape::convex_polygon(corners.to_vec(), colour, edge), 7.0)
        }
    };
    painter.add(shape);
    if !named {
        return;
    }
    let below = matches!(point.subject, Subject::Kernel(_));
    let (by, align) = if below { (vec2(size, 3.0), Align2::LEFT_TOP) } else { (vec2(size, -2.0), Align2::LEFT_BOTTOM) };
    painter.text(at + by, align, name(plan, point.subject), FontId::proportional(10.5), frame.tokens.text);
}

fn name(plan: &LaunchPlan, subject: Subject) -> String {
    match subject {
        Subject::Plan => "plan".to_owned(),
        Subject::Kernel(launch) if plan.launches.len() > 1 => format!("launch {launch}"),
        Subject::Kernel(_) => "kernel".to_owned(),
        Subject::Tiles(tile) => format!("tile {tile}"),
    }
}

fn about(plan: &LaunchPlan, words: &str, point: &RooflinePoint) -> String {
    let from = match point.from {
        BytesFrom::Counted => "DRAM, measured",
        BytesFrom::Simulated => "DRAM, simulated",
        BytesFrom::Issued => "issued, derived",
    };
    let time = match point.subject {
        Subject::Tiles(_) => "its CTAs' time over all slots",
        Subject::Plan | Subject::Kernel(_) => "from first to last CTA",
    };
    format!(
        "{}: {:.2} GFLOP on {} ({from})\n{:.1} FLOP a byte, {:.2} TFLOP/s\n{} {time} ({})",
        name(plan, point.subject),
        point.flop / 1e9,
        point.bytes,
        point.intensity(),
        point.rate() / 1e12,
        point.time,
        words,
    )
}

/// A power of ten without noise: `0.01`, `1`, `1000`.
fn number(value: f64) -> String {
    if value >= 1.0 { format!("{value:.0}") } else { format!("{value}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_every_point_and_grow_to_the_right_and_up() {
        let point = |flop, bytes, time| RooflinePoint {
            subject: Subject::Plan,
            flop,
            bytes: engine::units::Bytes(bytes),
            from: BytesFrom::Issued,
            time: engine::units::Nanos(time),
        };
        let points = [point(1e9, 1 << 30, 1_000_000), point(4e12, 1 << 30, 10_000)];
        let place = Rect::from_min_size(pos2(10.0, 20.0), vec2(300.0, 200.0));
        let axes = Axes::around(&points, (140.0, 6e14), place);
        let at = points.map(|point| axes.at(point.intensity(), point.rate()));
        assert!(at.iter().all(|at| place.contains(*at)), "{at:?}");
        assert!(at[1].x > at[0].x && at[1].y < at[0].y);
        assert!(place.contains(axes.at(140.0, 6e14)));
    }
}
