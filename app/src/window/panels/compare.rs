//! Ways of running the batch side by side, each number with its difference to the baseline.

use egui::{RichText, ScrollArea, Sense, Ui, vec2};
use engine::units::Nanos;

use super::timeline::layout::{Layout, View};
use super::{Frame, empty, entity_colour};
use crate::window::command::Command;
use crate::window::worker::{Compared, Shown};

/// The baseline.
#[derive(Clone, Debug, Default)]
pub struct State {
    baseline: usize,
}

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame<'_>, state: &mut State) {
    ui.horizontal_wrapped(|ui| {
        if ui.button("Compare all ways").on_hover_text("every strategy, then every other scheduler").clicked() {
            frame.send(Command::Compare);
        }
        ui.label(
            RichText::new(
                "Aligned at their start, one time scale. Click a name to make it the baseline. All times simulated.",
            )
            .color(frame.tokens.faint),
        );
    });
    if frame.compared.is_empty() {
        frame.send(Command::CompareOnce);
        empty(ui, frame.tokens, "Serial, streams and fused, and all schedulers, side by side on this batch.");
        return;
    }
    let longest = frame.compared.iter().filter_map(makespan).max().unwrap_or(Nanos(1));
    state.baseline = state.baseline.min(frame.compared.len() - 1);
    let baseline = makespan(&frame.compared[state.baseline]);
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        for (at, way) in frame.compared.iter().enumerate() {
            row(ui, frame, state, at, way, (longest, baseline));
        }
    });
}

fn makespan(way: &Compared) -> Option<Nanos> {
    way.outcome.as_ref().ok().and_then(|shown| shown.capture.as_ref()).map(|capture| capture.makespan())
}

fn row(ui: &mut Ui, frame: &Frame<'_>, state: &mut State, at: usize, way: &Compared, scale: (Nanos, Option<Nanos>)) {
    ui.horizontal(|ui| {
        ui.allocate_ui(vec2(190.0, 52.0), |ui| {
            ui.vertical(|ui| {
                ui.set_width(190.0);
                if ui.selectable_label(state.baseline == at, RichText::new(&way.name).strong()).clicked() {
                    state.baseline = at;
                }
                match (&way.outcome, makespan(way)) {
                    (Ok(shown), Some(time)) => figures(ui, frame, shown, time, state.baseline == at, scale.1),
                    (Err(problem), _) => {
                        _ = ui.add(egui::Label::new(RichText::new(problem).color(frame.tokens.warn)).wrap());
                    }
                    _ => {}
                }
            });
        });
        if let Ok(shown) = &way.outcome {
            mini(ui, frame, shown, scale.0);
        }
    });
    ui.add_space(3.0);
}

fn figures(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, time: Nanos, is_baseline: bool, baseline: Option<Nanos>) {
    ui.horizontal(|ui| {
        ui.label(time.to_string());
        match baseline {
            Some(base) if !is_baseline && base.0 > 0 => {
                let change = (time.as_f64() / base.as_f64() - 1.0) * 100.0;
                let (word, colour) =
                    if change <= 0.0 { ("faster", frame.tokens.better) } else { ("slower", frame.tokens.worse) };
                ui.label(RichText::new(format!("{change:+.1} % {word}")).color(colour));
            }
            _ => _ = ui.label(RichText::new("baseline").color(frame.tokens.faint)),
        }
    });
    let busy: u64 = shown.lanes.lanes.iter().map(|lane| lane.busy).sum();
    let share = busy as f64 / ((shown.lanes.lanes.len() as u64 * shown.lanes.end).max(1)) as f64;
    let text = format!(
        "busy {:.0} % · {} · {} CTAs",
        share * 100.0,
        shown.traffic.issued(),
        shown.planned.plan.attention_ctas()
    );
    ui.label(RichText::new(text).small().color(frame.tokens.faint));
}

fn mini(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, longest: Nanos) {
    let Some(capture) = &shown.capture else { return };
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width().max(60.0), 52.0), Sense::hover());
    let painter = ui.painter_at(rect);
    painter.rect_filled(rect, 2.0, frame.tokens.canvas);
    let height = rect.height() / shown.lanes.lanes.len().max(1) as f32;
    let view = View { begin: 0.0, end: longest.as_f64() * 1.01, scroll: 0.0, lane_height: Some(height) };
    let layout = Layout::new(&shown.lanes, view, rect);
    let (mesh, _) = layout
        .mesh(&shown.lanes, &capture.spans, |piece| entity_colour(frame.tokens, shown, piece.entity, frame.by_tile));
    painter.add(mesh);
    let end = layout.x(capture.makespan().as_f64());
    painter.add(egui::Shape::vline(end, rect.y_range(), egui::Stroke::new(1.0, frame.tokens.text)));
}
