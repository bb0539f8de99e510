//! Where one is: a bar beside the lanes and one under them, each there when not all is in sight.

use egui::{Rect, Sense, Ui, pos2};

use crate::timeline::axis::Axis;
use crate::timeline::layout::Layout;
use crate::window::frame::Frame;

/// Width of a bar.
const WIDE: f32 = 9.0;
/// Shortest handle.
const SHORTEST: f32 = 18.0;

/// A stretch of a whole, both as shares.
#[derive(Clone, Copy)]
struct Part {
    from: f32,
    to: f32,
}

/// The bar of SMs beside the lanes of a run.
pub(super) fn of_lanes(ui: &Ui, frame: &Frame<'_>, layout: &Layout, (name, axis): (&str, &mut Axis)) {
    let (whole, seen) = (layout.height(), layout.rect.height());
    if whole <= seen + 1.0 {
        return;
    }
    let place = layout.rect.with_min_x(layout.rect.right() - WIDE);
    let part = Part { from: layout.view.scroll / whole, to: (layout.view.scroll + seen) / whole };
    if let Some(share) = bar(ui, frame, place, (&format!("SMs in sight ({name})"), part, true)) {
        axis.scroll = share * whole;
        axis.hold(layout);
    }
}

/// The bar of time under the lanes, for runs that end at `end`.
pub(super) fn of_time(ui: &Ui, frame: &Frame<'_>, layout: &Layout, (end, axis): (u64, &mut Axis)) {
    let Some((begin, until)) = axis.window else { return };
    let whole = Axis::default().view(end).end;
    let place = layout.rect.with_min_y(layout.rect.bottom() - WIDE).with_max_x(layout.rect.right() - WIDE);
    let part = Part { from: (begin / whole) as f32, to: (until / whole) as f32 };
    if let Some(share) = bar(ui, frame, place, ("time in sight", part, false)) {
        let from = f64::from(share) * whole;
        axis.place(end, from, from + (until - begin));
    }
}

/// Draws a bar; gives where the part begins after a drag or a click beside the handle.
fn bar(ui: &Ui, frame: &Frame<'_>, place: Rect, (name, part, upright): (&str, Part, bool)) -> Option<f32> {
    let response = ui.interact(place, ui.scope_id().with(name), Sense::click_and_drag());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::ScrollBar, true, name));
    let length = if upright { place.height() } else { place.width() };
    let wide = ((part.to - part.from) * length).clamp(SHORTEST.min(length), length);
    let from = (part.from * length).min(length - wide);
    let handle = if upright {
        Rect::from_min_size(pos2(place.left() + 1.0, place.top() + from), egui::vec2(WIDE - 2.0, wide))
    } else {
        Rect::from_min_size(pos2(place.left() + from, place.top() + 1.0), egui::vec2(wide, WIDE - 2.0))
    };
    let lit = response.hovered() || response.dragged();
    ui.painter().rect_filled(place, 0.0, frame.tokens.panel.gamma_multiply(0.7));
    ui.painter().rect_filled(handle, 3.0, if lit { frame.tokens.accent } else { frame.tokens.idle });
    let along = |delta: egui::Vec2| if upright { delta.y } else { delta.x };
    if response.dragged() {
        return Some(part.from + along(response.drag_delta()) / length.max(1.0));
    }
    let pos = response.interact_pointer_pos().filter(|pos| response.clicked() && !handle.contains(*pos))?;
    Some((along(pos - place.min) - wide / 2.0) / length.max(1.0))
}
