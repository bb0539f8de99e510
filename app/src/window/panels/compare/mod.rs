//! Ways of running the batch side by side, aligned at their start on the time axis of the timeline, each figure with its
//! difference to the baseline.

mod add;
mod model;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use egui::{Rect, RichText, ScrollArea, Sense, Ui, UiBuilder, vec2};
use engine::units::counted;

use self::model::{Column, Row, against, change, end, makespan, order, rows};
use crate::runs::compared::{Compared, Kind, Way};
use crate::runs::headline;
use crate::runs::run::Run;
use crate::timeline::axis::Axis;
use crate::timeline::colour::entity_colour;
use crate::timeline::layout::{Layout, View};
use crate::window::chip;
use crate::window::command::Command;
use crate::window::frame::Frame;
use crate::window::hatch;
use crate::window::panels::lanes::Painted;
use crate::window::panels::parts::{empty, no_run};

/// Width of the figures beside the lanes.
const FIGURES: f32 = 330.0;
/// Height of a row, and of one that says more about its run.
const LOW: f32 = 88.0;
const TALL: f32 = 142.0;

/// Baseline, sorting, and the row that is taken apart.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Name of the baseline: rows come and go around it. The first row where there is none.
    baseline: String,
    by: Column,
    descending: bool,
    open: Option<String>,
    /// Path of the capture that is to be a row.
    path: String,
    /// The lanes of each row as they were painted last.
    drawn: BTreeMap<String, Drawn>,
}

/// The lanes of a row, and all that they were made from.
#[derive(Clone, Debug)]
struct Drawn {
    run: Weak<Run>,
    layout: Layout,
    /// Dark or light, and whether colours mean tiles.
    colours: (bool, bool),
    lanes: Painted,
}

/// Draws the panel, on the axis of the timeline.
pub fn show(ui: &mut Ui, frame: &Frame<'_>, state: &mut State, axis: &mut Axis) {
    ui.horizontal_wrapped(|ui| {
        if ui.button("Compare all ways").on_hover_text("every strategy, then every other scheduler").clicked() {
            frame.send(Command::Compare);
        }
        add::menu(ui, frame, &mut state.path);
        sorting(ui, state);
        let simulated = frame.kept.is_empty() && frame.rows.captures.is_empty();
        let sources = if simulated { "All times simulated." } else { "Each time says its source." };
        let text = format!("Aligned at their start, one time scale. Click a name to make it the baseline. {sources}");
        ui.label(RichText::new(text).color(frame.tokens.faint));
    });
    let is_empty = frame.shown.is_some_and(|shown| shown.planned.batch.requests().is_empty());
    if is_empty && frame.kept.is_empty() && frame.rows.captures.is_empty() {
        return empty(ui, frame.tokens, no_run(frame));
    }
    if frame.compared.is_empty() {
        frame.send(Command::CompareOnce);
    }
    let rows = rows(frame);
    state.drawn.retain(|name, _| rows.iter().any(|row| row.way.name == *name));
    if rows.is_empty() {
        empty(ui, frame.tokens, "Serial, streams and fused, and all schedulers, side by side on this batch.");
        return;
    }
    let baseline = rows.iter().position(|row| row.way.name == state.baseline).unwrap_or(0);
    let view = axis.view(end(&rows));
    let view = View { scroll: 0.0, lane_height: None, ..view };
    let order = order(&rows, state.by, state.descending);
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        for at in order {
            row(ui, frame, state, (at, baseline, &rows), (view, &mut *axis));
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
    (at, baseline, rows): (usize, usize, &[Row]),
    (view, axis): (View, &mut Axis),
) {
    let Row { way, about } = &rows[at];
    let base = rows[baseline].way.outcome.as_ref().ok();
    let is_baseline = baseline == at;
    ui.push_id(at, |ui| {
        let height = if about.is_some() { TALL } else { LOW };
        let (place, _) = ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::hover());
        // A place of their own for figures, so that all lanes begin at the same pixel, whatever is said beside them.
        let beside = place.with_max_x(place.left() + FIGURES);
        let mut left = ui.new_child(UiBuilder::new().max_rect(beside).layout(egui::Layout::top_down(egui::Align::Min)));
        left.shrink_clip_rect(beside);
        said(&mut left, frame, state, &rows[at], (base, is_baseline));
        if let Ok(way) = &way.outcome {
            let place = place.with_min_x(beside.right() + 6.0);
            let name = rows[at].way.name.as_str();
            lanes(
                ui,
                frame,
                &mut state.drawn,
                (name, &way.run),
                (view, axis, makespan(&rows[at].way).map_or(0, |time| time.0)),
                place,
            );
        }
        if let (Some(base), Ok(way), true) = (base, &way.outcome, state.open.as_ref() == Some(&rows[at].way.name)) {
            apart(ui, frame, way, base);
        }
    });
    ui.add_space(3.0);
}

/// Name, figures and buttons of a row, or why there is no run.
fn said(ui: &mut Ui, frame: &Frame<'_>, state: &mut State, row: &Row, base: (Option<&Way>, bool)) {
    let Row { way, about } = row;
    let name = RichText::new(&way.name).strong();
    if ui.add(egui::Button::selectable(base.1, name).truncate()).clicked() {
        state.baseline.clone_from(&way.name);
    }
    match &way.outcome {
        Ok(run) => {
            figures(ui, frame, run, *about, base);
            buttons(ui, frame, state, way, run);
        }
        Err(problem) => {
            let text = RichText::new(problem).color(frame.tokens.warn);
            ui.add(egui::Label::new(text).wrap()).on_hover_text(problem);
            gone(ui, frame, &way.kind);
        }
    }
}

fn figures(ui: &mut Ui, frame: &Frame<'_>, way: &Way, about: Option<&str>, (base, is_baseline): (Option<&Way>, bool)) {
    let run = &way.run;
    ui.horizontal(|ui| {
        ui.label(headline::makespan(&run.capture));
        chip::show(ui, frame.tokens, run);
        if is_baseline {
            ui.label(RichText::new("baseline").color(frame.tokens.faint));
        }
        let Some(base) = base.filter(|_| !is_baseline) else { return };
        let (change, across) = change(way, base);
        let (word, colour) =
            if change <= 0.0 { ("faster", frame.tokens.better) } else { ("slower", frame.tokens.worse) };
        let text = RichText::new(format!("{change:+.1} % {}", across.unwrap_or(word))).color(colour);
        ui.add(egui::Label::new(text).truncate());
    });
    let small = |text: String| RichText::new(text).small().color(frame.tokens.faint);
    if let Some(about) = about {
        let l2 = run.capture.times.l2.name();
        let traced = headline::lanes(&run.capture, &run.damage).map_or(String::new(), |traced| format!(" · {traced}"));
        let text = format!("{}, {l2} L2{traced}", headline::spread(&run.capture));
        ui.label(small(text)).on_hover_text(headline::TRACED);
        ui.label(small(format!("of {about}")));
    }
    let ctas = counted(run.told.attention_ctas, "attention CTA");
    let text = format!("busy {} · {} issued · {ctas}", run.busy(0), way.traffic.issued());
    ui.label(small(text)).on_hover_text(run.damage.of_spans().unwrap_or_default());
}

fn buttons(ui: &mut Ui, frame: &Frame<'_>, state: &mut State, row: &Compared, way: &Way) {
    let plan = &way.run.capture.plan;
    ui.horizontal(|ui| {
        let own = &frame.options.device.key;
        let device = Some(&way.run.capture.provenance.device).filter(|key| *key != own);
        let device = device.filter(|key| engine::hw::find(key).is_ok()).cloned();
        let same = plan.scheduler == frame.options.scheduler && plan.strategy == frame.options.strategy;
        let adopt = egui::Button::new(RichText::new("adopt").small());
        let adopt = ui
            .add_enabled(!same || device.is_some(), adopt)
            .on_hover_text("make scheduler, strategy and device of this row the choice; Undo takes it back");
        if adopt.clicked() {
            frame.send(Command::Adopt { scheduler: plan.scheduler.clone(), strategy: plan.strategy, device });
        }
        let mut open = state.open.as_ref() == Some(&row.name);
        let what = "bubbles and bytes against the baseline";
        if ui.toggle_value(&mut open, RichText::new("differences").small()).on_hover_text(what).changed() {
            state.open = open.then(|| row.name.clone());
        }
        gone(ui, frame, &row.kind);
    });
}

/// A row that a person added can be taken away.
fn gone(ui: &mut Ui, frame: &Frame<'_>, kind: &Kind) {
    let command = match kind {
        Kind::Way | Kind::Measured => return,
        Kind::Device(key) => Command::RowOfDevice(key.clone()),
        Kind::File(path) => Command::DropRow(path.clone()),
    };
    if ui.small_button("×").on_hover_text("take this row away").clicked() {
        frame.send(command);
    }
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
                    let (swatch, _) = ui.allocate_exact_size(vec2(12.0, 11.0), Sense::hover());
                    hatch::fill(ui, t, swatch, cause);
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

fn lanes(
    ui: &mut Ui,
    frame: &Frame<'_>,
    drawn: &mut BTreeMap<String, Drawn>,
    (name, run): (&str, &Arc<Run>),
    (view, axis, makespan): (View, &mut Axis, u64),
    rect: Rect,
) {
    let response = ui.interact(rect, ui.scope_id().with("lanes"), Sense::hover());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Group, true, format!("lanes of {name}")));
    // Of many rows only those in sight cost anything.
    if !ui.is_rect_visible(rect) {
        return;
    }
    let painter = ui.painter_at(rect);
    painter.rect_filled(rect, 2.0, frame.tokens.canvas);
    let layout = Layout::new(&run.lanes, view, rect);
    let colours = (frame.tokens.dark, frame.by_tile);
    let is_same =
        |drawn: &Drawn| drawn.run.as_ptr() == Arc::as_ptr(run) && drawn.layout == layout && drawn.colours == colours;
    if !drawn.get(name).is_some_and(is_same) {
        let lanes = Painted::new(ui.ctx(), frame.is_picture, (run, &layout), |piece| {
            entity_colour(frame.tokens, (&run.capture.plan, run.levels()), piece.entity, frame.by_tile)
        });
        let made = Drawn { run: Arc::downgrade(run), layout: layout.clone(), colours, lanes };
        drawn.insert(name.to_owned(), made);
    }
    if let Some(drawn) = drawn.get(name) {
        drawn.lanes.paint(&painter);
    }
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
