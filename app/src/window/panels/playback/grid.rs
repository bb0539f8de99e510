//! All SMs at the moment: a cell each, a bar for each slot, as full as its CTA is done.

use egui::{Align2, FontId, Rect, Sense, Stroke, StrokeKind, Ui, pos2, vec2};

use crate::runs::now::Now;
use crate::runs::run::Run;
use crate::runs::shown::Shown;
use crate::theme::mix;
use crate::timeline::bubbles;
use crate::timeline::playback::Doing;
use crate::window::frame::Frame;
use crate::window::selection::Selection;

/// Least size of a cell and the free space between two.
const LEAST: f32 = 12.0;
const BETWEEN: f32 = 3.0;
/// Height of a cell from which it carries its number.
const NAMED: f32 = 26.0;

/// Cells of a rectangle: how many beside each other, and their size.
fn columns(count: usize, size: egui::Vec2) -> (usize, egui::Vec2) {
    let count = count.max(1);
    let ratio = (size.x / size.y.max(1.0)).max(0.1);
    let columns = ((count as f32 * ratio * 0.6).sqrt().ceil() as usize).clamp(1, count);
    let rows = count.div_ceil(columns);
    (columns, vec2((size.x / columns as f32).max(LEAST), (size.y / rows as f32).max(LEAST)))
}

pub(super) fn show(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, run: &Run, now: &Now) {
    let t = frame.tokens;
    let per_sm = run.lanes.lanes.iter().take_while(|lane| lane.sm == 0).count().max(1);
    let sms = run.lanes.lanes.len() / per_sm;
    let (outer, response) = ui.allocate_exact_size(ui.available_size().max(vec2(80.0, 60.0)), Sense::click());
    let painter = ui.painter_at(outer);
    painter.rect_filled(outer, 0.0, t.canvas);
    let (columns, size) = columns(sms, outer.size());
    let time = now.time().unwrap_or(0.0);
    let hover = response.hover_pos();
    for sm in 0..sms {
        let corner = outer.min + vec2((sm % columns) as f32 * size.x, (sm / columns) as f32 * size.y);
        let cell = Rect::from_min_size(corner, size - vec2(BETWEEN, BETWEEN));
        let head = if cell.height() >= NAMED { 10.0 } else { 0.0 };
        if head > 0.0 {
            painter.text(cell.left_top(), Align2::LEFT_TOP, sm.to_string(), FontId::proportional(9.0), t.faint);
        }
        let height = (cell.height() - head) / per_sm as f32;
        for slot in 0..per_sm {
            let lane = sm * per_sm + slot;
            let top = cell.top() + head + height * slot as f32;
            let bar = Rect::from_min_max(pos2(cell.left(), top), pos2(cell.right(), top + (height - 1.0).max(1.0)));
            let doing = now.slots.get(lane).copied().unwrap_or(Doing::Idle);
            self::slot(&painter, frame, shown, run, (doing, bar, lane), time);
            if hover.is_some_and(|hover| bar.contains(hover)) {
                pointed(frame, &response, run, (doing, lane), time);
                painter.rect_stroke(bar, 0.0, Stroke::new(1.0, t.accent), StrokeKind::Outside);
            }
        }
        name(ui, run, now, (sm, per_sm, cell));
    }
}

/// A slot: faint for all of its CTA, strong for what is done of it.
fn slot(
    painter: &egui::Painter,
    frame: &Frame<'_>,
    shown: &Shown,
    run: &Run,
    (doing, bar, lane): (Doing, Rect, usize),
    time: f64,
) {
    let t = frame.tokens;
    let Some((entity, span)) = doing.span() else {
        let found = &run.lanes.lanes[lane];
        let gap = run.gaps.at(found.sm, found.slot, time as u64).and_then(|at| run.gaps.get(at));
        let colour = gap.map_or(t.line, |gap| bubbles::colour(t, gap.cause));
        painter.rect_filled(bar, 0.0, mix(t.canvas, colour, 0.18));
        return;
    };
    let colour = frame.entity_colour(shown, entity);
    let (begin, end) = (run.capture.spans.begin[span] as f64, run.capture.spans.end[span] as f64);
    let done = ((time - begin) / (end - begin).max(1.0)).clamp(0.0, 1.0) as f32;
    painter.rect_filled(bar, 0.0, mix(t.canvas, colour, 0.4));
    painter.rect_filled(bar.with_max_x(bar.left() + bar.width() * done), 0.0, colour);
    if matches!(doing, Doing::Loads(..)) {
        painter.rect_stroke(bar, 0.0, Stroke::new(1.0, t.text), StrokeKind::Inside);
    }
    if frame.lights(shown, entity) || frame.selected.span_in(run.source()) == Some(span) {
        painter.rect_stroke(bar, 0.0, Stroke::new(1.5, t.accent), StrokeKind::Inside);
    }
}

fn pointed(frame: &Frame<'_>, response: &egui::Response, run: &Run, (doing, lane): (Doing, usize), time: f64) {
    let found = &run.lanes.lanes[lane];
    let place = format!("SM {} slot {}", found.sm, found.slot);
    let text = match doing.span() {
        Some((_, span)) => {
            frame.link(response, Selection::Cta(run.source(), span));
            let cta = run.capture.spans.get(span);
            format!(
                "{place}: CTA {} of launch {}\n{}\n{} to {} ({})",
                cta.cta,
                cta.launch,
                doing.name(),
                cta.begin,
                cta.end,
                run.words()
            )
        }
        None => match run.gaps.at(found.sm, found.slot, time as u64).and_then(|at| Some((at, run.gaps.get(at)?))) {
            Some((at, gap)) => {
                frame.link(response, Selection::Gap(run.source(), at));
                format!("{place}: free, {}\nfor {} ({})", gap.cause.about(), gap.length(), run.words())
            }
            None => format!("{place}: free"),
        },
    };
    response.clone().on_hover_text_at_pointer(text);
}

/// An accessibility node for an SM.
fn name(ui: &Ui, run: &Run, now: &Now, (sm, per_sm, cell): (usize, usize, Rect)) {
    let first = sm * per_sm;
    let busy = now.slots.iter().skip(first).take(per_sm).filter(|doing| doing.span().is_some()).count();
    let number = run.lanes.lanes.get(first).map_or(0, |lane| lane.sm);
    let response = ui.interact(cell, ui.scope_id().with(("cell", sm)), Sense::hover());
    let text = format!("SM {number} now: {busy} of {per_sm} slots busy");
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Group, true, text.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cells_lie_in_the_grid() {
        for count in [1, 8, 108, 132, 160] {
            for size in [vec2(900.0, 300.0), vec2(200.0, 800.0), vec2(400.0, 400.0)] {
                let (columns, cell) = columns(count, size);
                let rows = count.div_ceil(columns);
                assert!(columns * rows >= count && cell.x * columns as f32 <= size.x + 1.0, "{count} {size:?}");
                assert!(cell.y * rows as f32 <= size.y + 1.0, "{count} {size:?}");
            }
        }
    }
}
