//! Ways of running the batch side by side, aligned at their start on the time axis of the timeline, each figure with its
//! difference to the baseline.

mod model;

use egui::{RichText, ScrollArea, Sense, Ui, vec2};
use engine::units::counted;

use self::model::{Column, Row, against, change, end, makespan, order, rows};
use crate::runs::compared::Way;
use crate::runs::headline;
use crate::runs::run::Run;
use crate::timeline::axis::Axis;
use crate::timeline::bubbles;
use crate::timeline::colour::entity_colour;
use crate::timeline::layout::{Layout, View};
use crate::window::command::Command;
use crate::window::frame::Frame;
use crate::window::panels::parts::empty;

/// Width of the figures beside the lanes.
const FIGURES: f32 = 250.0;

/// Baseline, sorting, and the row that is taken apart.
#[derive(Clone, Debug, Default)]
pub struct State {
    baseline: usize,
    by: Column,
    descending: bool,
    open: Option<usize>,
}

/// Draws the panel, on the axis of the timeline.
pub fn show(ui: &mut Ui, frame: &Frame<'_>, state: &mut State, axis: &mut Axis) {
    ui.horizontal_wrapped(|ui| {
        if ui.button("Compare all ways").on_hover_text("every strategy, then every other scheduler").clicked() {
            frame.send(Command::Compare);
        }
        sorting(ui, state);
        let sources = if frame.kept.is_empty() { "All times simulated." } else { "Each time says its source." };
        let text = format!("Aligned at their start, one time scale. Click a name to make it the baseline. {sources}");
        ui.label(RichText::new(text).color(frame.tokens.faint));
    });
    if frame.compared.is_empty() {
        frame.send(Command::CompareOnce);
    }
    let rows = rows(frame);
    if rows.is_empty() {
        empty(ui, frame.tokens, "Serial, streams and fused, and all schedulers, side by side on this batch.");
        return;
    }
    state.baseline = state.baseline.min(rows.len() - 1);
    let view = axis.view(end(&rows));
    let view = View { scroll: 0.0, lane_height: None, ..view };
    let order = order(&rows, state.by, state.descending);
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        for at in order {
            row(ui, frame, state, (at, &rows), (view, &mut *axis));
        }
    });
}

fn sorting(ui: &mut Ui, state: &mut State) {
    let label = ui.label("sort").id;
    let combo = egui::ComboBox::from_id_salt("sort").width(96.0).selected_text(state.by.name()).show_ui(ui, |ui| {
        for column in Column::ALL {
            ui.selectable_value(&mut state.by, column, column.name());
        }
    });
    combo.response.labelled_by(label);
    ui.checkbox(&mut state.descending, "most first");
}

fn row(
    ui: &mut Ui,
    frame: &Frame<'_>,
    state: &mut State,
    (at, rows): (usize, &[Row]),
    (view, axis): (View, &mut Axis),
) {
    let Row { way, about } = &rows[at];
    let base = rows[state.baseline].way.outcome.as_ref().ok();
    let is_baseline = state.baseline == at;
    ui.push_id(at, |ui| {
        ui.horizontal(|ui| {
            let height = if about.is_some() { 104.0 } else { 70.0 };
            ui.allocate_ui(vec2(FIGURES, height), |ui| {
                ui.vertical(|ui| {
                    ui.set_width(FIGURES);
                    let name = RichText::new(&way.name).strong();
                    if ui.add(egui::Button::selectable(is_baseline, name).truncate()).clicked() {
                        state.baseline = at;
                    }
                    match &way.outcome {
                        Ok(way) => {
                            figures(ui, frame, way, *about, base.filter(|_| !is_baseline));
                            buttons(ui, frame, state, at, way);
                        }
                        Err(problem) => {
                            _ = ui.add(egui::Label::new(RichText::new(problem).color(frame.tokens.warn)).wrap());
                        }
                    }
                });
            });
            if let Ok(way) = &way.outcome {
                lanes(ui, frame, &way.run, (view, axis, makespan(&rows[at].way).map_or(0, |time| time.0)), height);
            }
        });
        if let (Some(base), Ok(way), true) = (base, &way.outcome, state.open == Some(at)) {
            apart(ui, frame, way, base);
        }
    });
    ui.add_space(3.0);
}

fn figures(ui: &mut Ui, frame: &Frame<'_>, way: &Way, about: Option<&str>, base: Option<&Way>) {
    let run = &way.run;
    ui.horizontal(|ui| {
        ui.label(headline::makespan(&run.capture));
        ui.label(RichText::new(run.words()).color(frame.tokens.warn));
        let Some(base) = base else {
            _ = ui.label(RichText::new("baseline").color(frame.tokens.faint));
            return;
        };
        let (change, sources) = change(way, base);
        let (word, colour) =
            if change <= 0.0 { ("faster", frame.tokens.better) } else { ("slower", frame.tokens.worse) };
        ui.label(RichText::new(format!("{change:+.1} % {word}{sources}")).color(colour));
    });
    let small = |text: String| RichText::new(text).small().color(frame.tokens.faint);
    if let Some(about) = about {
        let l2 = run.capture.times.l2.name();
        let traced = headline::lanes(&run.capture, &run.damage).map_or(String::new(), |traced| format!(" · {traced}"));
        let text = format!("{}, {l2} L2{traced}", headline::spread(&run.capture));
        ui.label(small(text)).on_hover_text(headline::TRACED);
        ui.label(small(format!("of {about}")));
    }
    let ctas = counted(run.capture.plan.attention_ctas(), "attention CTA");
    let text = format!("busy {} · {} issued · {ctas}", run.busy(0), way.traffic.issued());
    ui.label(small(text)).on_hover_text(run.damage.of_spans().unwrap_or_default());
}

fn buttons(ui: &mut Ui, frame: &Frame<'_>, state: &mut State, at: usize, way: &Way) {
    let plan = &way.run.capture.plan;
    ui.horizontal(|ui| {
        let is_chosen = plan.scheduler == frame.options.scheduler && plan.strategy == frame.options.strategy;
        let adopt = egui::Button::new(RichText::new("adopt").small());
        let adopt = ui
            .add_enabled(!is_chosen, adopt)
            .on_hover_text("make this scheduler and strategy the choice; Undo takes it back");
        if adopt.clicked() {
            frame.send(Command::Adopt { scheduler: plan.scheduler.clone(), strategy: plan.strategy });
        }
        let mut open = state.open == Some(at);
        let what = "bubbles and bytes against the baseline";
        if ui.toggle_value(&mut open, RichText::new("differences").small()).on_hover_text(what).changed() {
            state.open = open.then_some(at);
        }
    });
}

/// What of a run is another than in the baseline.
fn apart(ui: &mut Ui, frame: &Frame<'_>, way: &Way, base: &Way) {
    let found = against(way, base);
    let t = frame.tokens;
    ui.horizontal_top(|ui| {
        ui.add_space(12.0);
        egui::Grid::new("bubbles").spacing(vec2(12.0, 2.0)).show(ui, |ui| match found.bubbles {
            Ok(rows) => {
                for (cause, own, difference) in rows {
                    let (swatch, _) = ui.allocate_exact_size(vec2(9.0, 9.0), Sense::hover());
                    ui.painter().rect_filled(swatch, 2.0, bubbles::colour(t, cause));
                    ui.label(cause.name().replace('-', " "));
                    ui.label(own.to_string());
                    ui.label(RichText::new(difference).strong());
                    ui.end_row();
                }
            }
            Err(reason) => _ = ui.label(RichText::new(reason).color(t.warn)),
        });
        ui.add_space(24.0);
        egui::Grid::new("bytes").spacing(vec2(12.0, 2.0)).show(ui, |ui| {
            for (name, own, difference) in found.bytes {
                ui.label(name);
                ui.label(own.to_string());
                ui.label(RichText::new(difference).strong());
                ui.label(RichText::new("derived").small().color(t.faint));
                ui.end_row();
            }
        });
    });
}

fn lanes(ui: &mut Ui, frame: &Frame<'_>, run: &Run, (view, axis, makespan): (View, &mut Axis, u64), height: f32) {
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width().max(60.0), height), Sense::hover());
    let painter = ui.painter_at(rect);
    painter.rect_filled(rect, 2.0, frame.tokens.canvas);
    let layout = Layout::new(&run.lanes, view, rect);
    let (mesh, _) = layout.mesh(&run.lanes, &run.capture.spans, |piece| {
        entity_colour(frame.tokens, &run.capture.plan, piece.entity, frame.by_tile)
    });
    painter.add(mesh);
    if (run.lanes.end as f64) <= view.end {
        let end = layout.x(run.lanes.end as f64);
        painter.add(egui::Shape::vline(end, rect.y_range(), egui::Stroke::new(1.0, frame.tokens.text)));
    } else {
        let text = format!("goes on to {}", engine::units::Nanos(run.lanes.end.max(makespan)));
        let place = rect.right_bottom() - vec2(6.0, 4.0);
        let galley = painter.layout_no_wrap(text, egui::FontId::proportional(11.0), frame.tokens.text);
        let back = egui::Align2::RIGHT_BOTTOM.anchor_size(place, galley.size());
        painter.rect_filled(back.expand(2.0), 2.0, frame.tokens.panel);
        painter.galley(back.min, galley, frame.tokens.text);
    }
    if let Some(time) = frame.now.as_ref().and_then(crate::runs::now::Now::time) {
        let x = layout.x(time);
        painter.vline(x, rect.y_range(), egui::Stroke::new(1.5, frame.tokens.accent));
    }
    if let Some(pos) = response.hover_pos() {
        let zoom = ui.input(egui::InputState::zoom_delta);
        if (zoom - 1.0).abs() > 1e-4 {
            axis.zoom((view.end.max(1.0) as u64).max(run.lanes.end), f64::from(zoom), Some(layout.time(pos.x)));
        }
    }
}
