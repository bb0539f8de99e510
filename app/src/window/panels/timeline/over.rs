//! What lies over the lanes: marks, the range that is measured, ends of runs, the selected bubble, playback.

use egui::emath::Rot2;
use egui::{Align2, FontId, Painter, Pos2, Rect, Sense, Stroke, StrokeKind, Ui, pos2, vec2};
use engine::metrics::BubbleCause;
use engine::units::Nanos;

use super::blocks::Block;
use super::regions::{Marks, Regions};
use crate::runs::headline;
use crate::runs::now::Now;
use crate::timeline::layout::Layout;
use crate::timeline::marks;
use crate::window::frame::Frame;
use crate::window::selection::Selection;

/// Marked times with their names.
pub(super) fn named(painter: &Painter, frame: &Frame<'_>, axis: &Layout, (regions, all): (&Regions, &marks::Marks)) {
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

/// The range, with its length; while it is drawn, between two heads where the pointer measures.
pub(super) fn range(painter: &Painter, frame: &Frame<'_>, axis: &Layout, (regions, marks): (&Regions, &Marks<'_>)) {
    let Some((from, to)) = marks.range else { return };
    let t = frame.tokens;
    let area = Rect::from_x_y_ranges(axis.x(from)..=axis.x(to), regions.lanes.y_range());
    painter.rect(area, 0.0, t.accent.gamma_multiply(0.18), Stroke::new(1.0, t.accent), StrokeKind::Inside);
    let length = Nanos((to - from) as u64);
    let Some(y) = marks.measured_at.filter(|y| regions.lanes.y_range().contains(*y)) else {
        let place = area.center_top() + vec2(0.0, 4.0);
        painter.text(place, Align2::CENTER_TOP, length, FontId::proportional(12.0), t.text);
        return;
    };
    let (left, right) = (pos2(area.left(), y), pos2(area.right(), y));
    let stroke = Stroke::new(1.5, t.text);
    arrow(painter, left, right, stroke);
    arrow(painter, right, left, stroke);
    let galley = painter.layout_no_wrap(length.to_string(), FontId::proportional(13.0), t.text);
    let back = Align2::CENTER_BOTTOM.anchor_size(pos2(area.center().x, y - 5.0), galley.size());
    painter.rect_filled(back.expand(2.0), 2.0, t.panel);
    painter.galley(back.min, galley, t.text);
}

/// Where the run ends, and dashed where the other one does.
pub(super) fn ends(painter: &Painter, frame: &Frame<'_>, blocks: &[Block<'_>], block: &Block<'_>) {
    let rect = block.layout.rect;
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

/// The end of the run before the gesture that goes on, and the moment of playback: what is later is still to come.
pub(super) fn played(painter: &Painter, frame: &Frame<'_>, axis: &Layout, regions: &Regions) {
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

/// The selected bubble, with an arrow to each CTA that bounds it.
pub(super) fn bubble(painter: &Painter, frame: &Frame<'_>, block: &Block<'_>) {
    let Block { run, layout, .. } = block;
    let Selection::Gap(source, at) = frame.selected.what else { return };
    let Some(gap) = run.gaps.get(at).filter(|_| source == run.source()) else { return };
    let place = |sm: u32, slot: u32, begin: Nanos, end: Nanos| {
        let lane = sm as usize * layout.slots + slot as usize;
        let top = layout.top(lane);
        let bottom = top + layout.lane_height(lane);
        Rect::from_x_y_ranges(layout.x(begin.as_f64())..=layout.x(end.as_f64()), top..=bottom)
    };
    let own = place(gap.sm, gap.slot, gap.begin, gap.end);
    let stroke = Stroke::new(2.0, frame.tokens.accent);
    painter.rect_stroke(own.expand(1.0), 1.0, stroke, StrokeKind::Outside);
    for bound in frame.ctas.iter().filter(|bound| **bound < run.capture.spans.len()) {
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
    let first = frame.ctas.first().filter(|bound| **bound < run.capture.spans.len());
    if let Some(span) = first.map(|bound| run.capture.spans.get(*bound)) {
        let y = place(span.sm, span.slot, span.begin, span.end).center().y;
        if !layout.rect.y_range().contains(y) {
            far(painter, frame, layout.rect, (own, y), &format!("to CTA {} on SM {}", span.cta, span.sm));
        }
    }
}

/// Where an arrow leaves the lanes on its way to what is out of sight: what that is.
fn far(painter: &Painter, frame: &Frame<'_>, lanes: Rect, (own, y): (Rect, f32), text: &str) {
    let galley = painter.layout_no_wrap(text.to_owned(), FontId::proportional(11.0), frame.tokens.accent);
    let x = own.center().x.clamp(lanes.left(), lanes.right()) + 12.0;
    let (edge, anchor) = if y < lanes.top() {
        (lanes.top() + 2.0, Align2::LEFT_TOP)
    } else {
        (lanes.bottom() - 2.0, Align2::LEFT_BOTTOM)
    };
    let left = x.min(lanes.right() - galley.size().x - 4.0);
    let back = anchor.anchor_size(pos2(left, edge), galley.size());
    painter.rect_filled(back.expand(2.0), 2.0, frame.tokens.panel);
    painter.galley(back.min, galley, frame.tokens.accent);
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

/// Pauses of the memory: CTAs that are on the SMs meanwhile get nothing and wait.
pub(super) fn pauses(ui: &Ui, frame: &Frame<'_>, block: &Block<'_>) {
    let Block { run, layout, .. } = block;
    let (t, painter) = (frame.tokens, ui.painter_at(layout.rect));
    for (nth, (begin, end)) in run.pauses().enumerate() {
        let band = Rect::from_x_y_ranges(layout.x(begin.as_f64())..=layout.x(end.as_f64()), layout.rect.y_range());
        if !band.intersects(layout.rect) {
            continue;
        }
        painter.rect_filled(band, 0.0, t.warn.gamma_multiply(0.25));
        for x in [band.left(), band.right()] {
            painter.vline(x, band.y_range(), Stroke::new(1.0, t.warn));
        }
        let text = headline::pause(Nanos(end.0 - begin.0));
        let galley = painter.layout_no_wrap(text.clone(), FontId::proportional(11.0), t.warn);
        let fits = band.right() + 6.0 + galley.size().x < layout.rect.right();
        let (anchor, x) =
            if fits { (Align2::LEFT_TOP, band.right() + 5.0) } else { (Align2::RIGHT_TOP, band.left() - 5.0) };
        let back = anchor.anchor_size(pos2(x, layout.rect.top() + 3.0), galley.size());
        painter.rect_filled(back.expand(2.0), 2.0, t.panel);
        painter.galley(back.min, galley, t.warn);
        let response = ui.interact(back, ui.scope_id().with(("pause", run.source().name(), nth)), Sense::hover());
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Label, true, text.clone()));
        response
            .on_hover_text("Nothing comes from it to any SM, whatever runs: no tile and no queue order would help.");
    }
}

/// Over lanes that are not whole: how much of them is gone.
pub(super) fn lost(ui: &Ui, frame: &Frame<'_>, block: &Block<'_>, reason: &str) {
    let text = format!("{reason}: what is empty here is not idle");
    let place = block.layout.rect.center_bottom() - vec2(0.0, 6.0);
    let galley = ui.painter().layout_no_wrap(text.clone(), FontId::proportional(13.0), frame.tokens.warn);
    let back = Align2::CENTER_BOTTOM.anchor_size(place, galley.size());
    ui.painter().rect_filled(back.expand(4.0), 3.0, frame.tokens.panel);
    ui.painter().galley(back.min, galley, frame.tokens.warn);
    let response = ui.interact(back, ui.scope_id().with(("lost", block.run.source().name())), Sense::hover());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Label, true, text.clone()));
}
