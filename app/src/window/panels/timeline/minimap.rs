//! The minimap: the whole run over the lanes, in a few rows, with a frame around what is in sight.

use std::sync::Arc;

use egui::{Color32, ColorImage, Rect, Sense, Stroke, StrokeKind, TextureHandle, TextureOptions, Ui, pos2, vec2};

use crate::runs::run::Run;
use crate::runs::shown::Shown;
use crate::timeline::axis::Axis;
use crate::timeline::lanes::FOLD_PX;
use crate::timeline::layout::{Layout, View};
use crate::window::frame::Frame;

/// Height of the map.
pub(super) const HEIGHT: f32 = 26.0;
/// Cells of the picture.
const ACROSS: usize = 512;
const DOWN: usize = HEIGHT as usize;

/// The picture of a run, made once for it and for the colours that it has.
#[derive(Clone, Default)]
pub(super) struct Map {
    of: Option<(Arc<Run>, (bool, bool), TextureHandle)>,
}

impl Map {
    fn picture(&mut self, ui: &Ui, frame: &Frame<'_>, shown: &Shown, run: &Arc<Run>) -> TextureHandle {
        let colours = (frame.tokens.dark, frame.by_tile);
        if let Some((of, own, picture)) = &self.of
            && Arc::ptr_eq(of, run)
            && *own == colours
        {
            return picture.clone();
        }
        let image = image(run, frame.tokens.canvas, |entity| frame.entity_colour(shown, entity));
        let picture = ui.ctx().load_texture("minimap", image, TextureOptions::LINEAR);
        self.of = Some((Arc::clone(run), colours, picture.clone()));
        picture
    }
}

/// Each SM with what occupies it, several to a row.
fn image(run: &Run, canvas: Color32, colour: impl Fn(crate::timeline::lanes::Entity) -> Color32) -> ColorImage {
    let sms = run.lanes.lanes.iter().filter(|lane| lane.slot == 0).count().max(1);
    let end = Axis::default().view(run.lanes.end).end;
    let place = Rect::from_min_size(pos2(0.0, 0.0), vec2((ACROSS as f64 * FOLD_PX) as f32, sms as f32));
    let layout = Layout::new(&run.lanes, View { begin: 0.0, end, scroll: 0.0, lane_height: None }, place);
    let row = |sm: usize| (sm * DOWN / sms).min(DOWN - 1);
    let in_row = (0..DOWN).map(|at| (0..sms).filter(|sm| row(*sm) == at).count().max(1) as f32).collect::<Vec<_>>();
    let ground = [canvas.r(), canvas.g(), canvas.b()].map(f32::from);
    let mut cells = vec![ground; ACROSS * DOWN];
    layout.strips(&run.lanes, &run.capture.spans, |piece, share, rect| {
        let row = row(rect.top().max(0.0) as usize);
        let column = |x: f32| (f64::from(x) / FOLD_PX).round() as usize;
        let fill = colour(piece.entity);
        for cell in &mut cells[row * ACROSS..][column(rect.left()).min(ACROSS)..column(rect.right()).min(ACROSS)] {
            for (cell, (ground, fill)) in cell.iter_mut().zip(ground.into_iter().zip([fill.r(), fill.g(), fill.b()])) {
                *cell += (f32::from(fill) - ground) * share / in_row[row];
            }
        }
    });
    let pixels = cells.into_iter().map(|[r, g, b]| Color32::from_rgb(r as u8, g as u8, b as u8)).collect();
    // Fewer SMs than rows leave rows empty: each then has the one above it.
    let mut image = ColorImage::new([ACROSS, DOWN], pixels);
    for at in 1..DOWN {
        if !(0..sms).any(|sm| row(sm) == at) {
            image.pixels.copy_within((at - 1) * ACROSS..at * ACROSS, at * ACROSS);
        }
    }
    image
}

/// Draws the map of the run of `layout`; a click or a drag goes there, in time and over the SMs.
pub(super) fn show(
    ui: &Ui,
    frame: &Frame<'_>,
    (shown, run): (&Shown, &Arc<Run>),
    (place, layout): (Rect, &Layout),
    (map, axis, end): (&mut Map, &mut Axis, u64),
) {
    let response = ui.interact(place, ui.scope_id().with("minimap"), Sense::click_and_drag());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::ScrollBar, true, "minimap"));
    let picture = map.picture(ui, frame, shown, run);
    let painter = ui.painter_at(place.expand(1.0));
    let uv = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
    // The picture ends with its own run, the map with the longest that is shown.
    let whole = Axis::default().view(end).end;
    let own = Axis::default().view(run.lanes.end).end / whole;
    painter.rect_filled(place, 0.0, frame.tokens.canvas);
    painter.image(picture.id(), place.with_max_x(place.left() + place.width() * own as f32), uv, Color32::WHITE);
    let x = |time: f64| place.left() + (time / whole).clamp(0.0, 1.0) as f32 * place.width();
    let y = |pixel: f32| place.top() + (pixel / layout.height().max(1.0)).clamp(0.0, 1.0) * place.height();
    let seen = Rect::from_min_max(
        pos2(x(layout.view.begin), y(layout.view.scroll)),
        pos2(x(layout.view.end), y(layout.view.scroll + layout.rect.height())),
    );
    let veil = frame.tokens.panel.gamma_multiply(0.6);
    for dim in [
        place.with_max_x(seen.left()),
        place.with_min_x(seen.right()),
        Rect::from_x_y_ranges(seen.x_range(), place.top()..=seen.top()),
        Rect::from_x_y_ranges(seen.x_range(), seen.bottom()..=place.bottom()),
    ] {
        painter.rect_filled(dim, 0.0, veil);
    }
    let least = seen.expand2(vec2((3.0 - seen.width()).max(0.0), (3.0 - seen.height()).max(0.0)) / 2.0);
    painter.rect_stroke(least, 1.0, Stroke::new(1.0, frame.tokens.accent), StrokeKind::Inside);
    if let Some(pos) = response.interact_pointer_pos().filter(|_| response.clicked() || response.dragged()) {
        let at = f64::from((pos.x - place.left()) / place.width().max(1.0)) * whole;
        if let Some((begin, until)) = axis.window {
            let half = (until - begin) / 2.0;
            axis.place(end, at - half, at + half);
        }
        axis.scroll = (pos.y - place.top()) / place.height() * layout.height() - layout.rect.height() / 2.0;
        axis.hold(layout);
    }
    response.on_hover_text("the whole run; a click or a drag goes there");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use engine::cancel::Cancel;
    use engine::session::{self, PlanOptions, RunOptions};
    use engine::workload::BatchSpec;

    use super::*;

    #[test]
    fn the_map_is_as_bright_as_the_run_is_busy() {
        let spec = BatchSpec::from_ron(crate::samples::find("pat-05").unwrap().text).unwrap();
        let planned = session::plan_spec(&spec, &PlanOptions::new(&engine::hw::builtin()[0])).unwrap();
        let capture = session::simulate(&planned, &RunOptions::default(), &Cancel::default()).unwrap();
        let run = Run::of(capture, Duration::ZERO);
        let image = image(&run, Color32::BLACK, |_| Color32::from_gray(200));
        let bright: f64 = image.pixels.iter().map(|pixel| f64::from(pixel.r()) / 200.0).sum();
        let all = (ACROSS * DOWN) as f64 * run.lanes.end as f64 / Axis::default().view(run.lanes.end).end;
        let ratio = bright / all / run.bubbles.busy_share();
        assert!((0.95..1.15).contains(&ratio), "{ratio}");
    }
}
