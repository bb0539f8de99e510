//! The strips: four charts for each way, one column a step.

use egui::{Align2, FontId, Mesh, Painter, Pos2, Rect, Sense, Stroke, StrokeKind, Ui, pos2, vec2};
use engine::metrics::BubbleCause;
use engine::replay::{Replayed, Step};
use engine::units::{Bytes, Nanos};

use super::model::{self, Chart, Column, Scales, name, told};
use crate::runs::replay::{At, Replay};
use crate::theme::{Tokens, mix};
use crate::timeline::bubbles;
use crate::window::command::Command;
use crate::window::frame::Frame;
use crate::window::hatch;

/// Pixels left of the strips, for what a chart is and its scale.
const LEFT: f32 = 116.0;
/// Pixels of a way's name, and between charts and ways.
const NAME: f32 = 18.0;
const BETWEEN: f32 = 3.0;
const WAYS: f32 = 8.0;

/// Pixels that a strip is wide.
pub(super) fn width(ui: &Ui) -> f32 {
    (ui.available_width() - LEFT - 6.0).max(80.0)
}

/// Draws the strip of each way; whether one of them has the keyboard.
pub(super) fn strips(
    ui: &mut Ui,
    frame: &Frame<'_>,
    replay: &Replay,
    (columns, opened): (&[Vec<Column>], Option<At>),
) -> bool {
    let scales = Scales::of(replay);
    let mut focused = false;
    for (at, (way, columns)) in replay.ways.iter().zip(columns).enumerate() {
        focused |= strip(ui, frame, replay, (at, way, columns), (scales, opened));
    }
    focused
}

fn strip(
    ui: &mut Ui,
    frame: &Frame<'_>,
    replay: &Replay,
    (at, way, columns): (usize, &Replayed, &[Column]),
    (scales, opened): (Scales, Option<At>),
) -> bool {
    let t = frame.tokens;
    let height = NAME + Chart::ALL.iter().map(|chart| chart.height() + BETWEEN).sum::<f32>();
    let (outer, response) = ui.allocate_exact_size(vec2(ui.available_width().max(200.0), height), Sense::click());
    let label = format!("steps of {}: {}", name(way), way.steps.len());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Canvas, true, label.clone()));
    ui.add_space(WAYS);
    let focused = response.has_focus();
    if focused {
        let filter = egui::EventFilter { horizontal_arrows: true, vertical_arrows: true, ..Default::default() };
        ui.ctx().memory_mut(|memory| memory.set_focus_lock_filter(response.id, filter));
    }
    if !ui.is_rect_visible(outer) {
        return focused;
    }
    let painter = ui.painter_at(outer);
    let colour = if focused { t.accent } else { t.text };
    painter.text(outer.left_top(), Align2::LEFT_TOP, name(way), FontId::proportional(12.5), colour);
    caption(&painter, t, outer, columns, way);
    let mut top = outer.top() + NAME;
    for chart in Chart::ALL {
        let place =
            Rect::from_min_size(pos2(outer.left() + LEFT, top), vec2(outer.width() - LEFT - 6.0, chart.height()));
        painter.rect_filled(place, 0.0, t.canvas);
        gutter(&painter, t, chart, scales, Rect::from_min_max(pos2(outer.left(), top), place.left_bottom()));
        bars(&painter, t, chart, scales, place, columns, &way.steps);
        line(&painter, t, chart, scales, place, columns, &way.steps);
        top += chart.height() + BETWEEN;
    }
    let strip = Rect::from_min_max(pos2(outer.left() + LEFT, outer.top() + NAME), pos2(outer.right() - 6.0, top));
    mark(&painter, t, strip, columns, opened.filter(|opened| opened.way == at).map(|opened| opened.step));
    pointer(frame, &response, replay, (at, columns, strip), &painter);
    focused
}

/// How many steps a column stands for, where that is more than one.
fn caption(painter: &Painter, t: &Tokens, outer: Rect, columns: &[Column], way: &Replayed) {
    let most = columns.iter().map(|column| column.count).max().unwrap_or(1);
    if most > 1 {
        let text = format!("{} steps; of up to {most} in one column the longest is drawn", way.steps.len());
        painter.text(outer.right_top(), Align2::RIGHT_TOP, text, FontId::proportional(11.0), t.faint);
    }
}

/// Name and scale of a chart.
fn gutter(painter: &Painter, t: &Tokens, chart: Chart, scales: Scales, place: Rect) {
    let most = match chart {
        Chart::Attention => Nanos(scales.attention as u64).to_string(),
        Chart::Bubbles => "100 %".to_owned(),
        Chart::Requests => format!("{:.0}", scales.requests),
        Chart::Bytes => Bytes(scales.bytes as u64).to_string(),
    };
    painter.text(place.left_center(), Align2::LEFT_CENTER, chart.name(), FontId::proportional(11.5), t.text);
    let at = place.right_top() - vec2(4.0, 1.0);
    painter.text(at, Align2::RIGHT_TOP, most, FontId::proportional(9.5), t.faint);
}

/// What a part of a bar is filled with.
enum Fill {
    Plain(egui::Color32),
    Hatch(BubbleCause),
}

/// Parts of a step's bar from the bottom up, as shares of the height.
fn parts(t: &Tokens, chart: Chart, scales: Scales, step: &Step, part: &mut dyn FnMut(f64, Fill)) {
    let attention = &step.attention;
    let mut emit = |share, colour| part(share, Fill::Plain(colour));
    match chart {
        Chart::Attention => {
            let lost = attention.time > step.first_way().time;
            emit(attention.time.as_f64() / scales.attention.max(1.0), if lost { t.worse } else { t.decode });
        }
        Chart::Bubbles => {
            let idle: f64 = attention.bubbles.iter().map(|(_, time)| time.as_f64()).sum();
            let all = (attention.busy_slot.as_f64() + idle).max(1.0);
            emit(attention.busy_slot.as_f64() / all, mix(t.canvas, t.idle, 0.5));
            for (cause, time) in &attention.bubbles {
                part(time.as_f64() / all, Fill::Hatch(*cause));
            }
        }
        Chart::Requests => {
            let chunks = step.work.iter().filter(|work| work.chunk.is_some()).count();
            let most = scales.requests.max(1.0);
            emit((step.work.len() - chunks) as f64 / most, t.decode);
            emit(chunks as f64 / most, t.prefill);
        }
        Chart::Bytes => emit(attention.issued.as_f64() / scales.bytes.max(1.0), mix(t.canvas, t.decode, 0.7)),
    }
}

/// The bars, plain and hatched.
fn bars(painter: &Painter, t: &Tokens, chart: Chart, scales: Scales, place: Rect, columns: &[Column], steps: &[Step]) {
    let (mut mesh, mut hatched) = (Mesh::default(), Mesh::with_texture(hatch::of(painter.ctx()).id()));
    for column in columns {
        let Some(step) = steps.get(column.step) else { continue };
        let between = if column.right - column.left > 4.0 { 1.0 } else { 0.0 };
        let left = place.left() + column.left;
        let right = (place.left() + column.right - between).max(left + 0.8);
        let mut bottom = place.bottom();
        parts(t, chart, scales, step, &mut |share, fill| {
            let top = (bottom - share as f32 * place.height()).max(place.top());
            let part = Rect::from_min_max(pos2(left, top), pos2(right, bottom));
            match fill {
                Fill::Plain(colour) => mesh.add_colored_rect(part, colour),
                Fill::Hatch(cause) => bubbles::push(&mut hatched, part, cause, bubbles::colour(t, cause)),
            }
            bottom = top;
        });
    }
    painter.add(mesh);
    painter.add(hatched);
}

/// What a bar is compared with: the first way's attention, or the least bytes.
fn line(painter: &Painter, t: &Tokens, chart: Chart, scales: Scales, place: Rect, columns: &[Column], steps: &[Step]) {
    let share = |step: &Step| match chart {
        Chart::Attention => Some(step.first.as_ref()?.time.as_f64() / scales.attention.max(1.0)),
        Chart::Bytes => Some(step.attention.compulsory.as_f64() / scales.bytes.max(1.0)),
        Chart::Bubbles | Chart::Requests => None,
    };
    let mut points: Vec<Pos2> = Vec::new();
    for column in columns {
        let Some(share) = steps.get(column.step).and_then(share) else { return };
        let y = place.bottom() - share.min(1.0) as f32 * place.height();
        points.extend([pos2(place.left() + column.left, y), pos2(place.left() + column.right, y)]);
    }
    painter.line(points, Stroke::new(1.0, t.text));
}

/// The step that is open.
fn mark(painter: &Painter, t: &Tokens, strip: Rect, columns: &[Column], opened: Option<usize>) {
    // Where several steps stand in one column, the one before the next column's first.
    let found = opened.and_then(|step| {
        let mut first = 0;
        columns.iter().find(|column| {
            let own = first..first + column.count;
            first = own.end;
            own.contains(&step)
        })
    });
    if let Some(column) = found {
        painter.rect_stroke(at(strip, column), 0.0, Stroke::new(2.0, t.accent), StrokeKind::Outside);
    }
}

fn at(strip: Rect, column: &Column) -> Rect {
    let (left, right) = (strip.left() + column.left, strip.left() + column.right.max(column.left + 1.0));
    strip.with_min_x(left).with_max_x(right)
}

fn pointer(
    frame: &Frame<'_>,
    response: &egui::Response,
    replay: &Replay,
    (way, columns, strip): (usize, &[Column], Rect),
    painter: &Painter,
) {
    let place = response.hover_pos().or(response.interact_pointer_pos());
    let Some(place) = place else { return };
    if let Some(chart) = chart_at(strip, place).filter(|_| place.x < strip.left()) {
        response.clone().on_hover_text_at_pointer(chart.about());
        return;
    }
    let Some(column) = model::at(columns, place.x - strip.left()).filter(|_| strip.contains(place)) else { return };
    painter.rect_stroke(at(strip, column), 0.0, Stroke::new(1.0, frame.tokens.text), StrokeKind::Outside);
    let mut lines = told(replay, way, column.step);
    if column.count > 1 {
        lines.push(format!("the longest of {} in this column", column.count));
    }
    lines.push("click: open it as a batch; then arrow keys walk".to_owned());
    if response.clicked() {
        response.request_focus();
        frame.send(Command::OpenStep(At { way, step: column.step }));
    }
    response.clone().on_hover_text_at_pointer(lines.join("\n"));
}

fn chart_at(strip: Rect, place: Pos2) -> Option<Chart> {
    let mut top = strip.top();
    Chart::ALL.into_iter().find(|chart| {
        let own = top..top + chart.height();
        top += chart.height() + BETWEEN;
        own.contains(&place.y)
    })
}
