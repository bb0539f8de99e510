//! Ways of running the batch side by side, each number with its difference to the baseline.

use std::sync::Arc;

use egui::{RichText, ScrollArea, Sense, Ui, vec2};
use engine::units::{Nanos, counted};

use crate::runs::compared::{Compared, Way};
use crate::runs::headline;
use crate::runs::run::Run;
use crate::timeline::colour::entity_colour;
use crate::timeline::layout::{Layout, View};
use crate::window::command::Command;
use crate::window::frame::Frame;
use crate::window::panels::parts::empty;

/// The baseline.
#[derive(Clone, Debug, Default)]
pub struct State {
    baseline: usize,
}

/// A row with what is said about it.
struct Row {
    way: Compared,
    about: Option<&'static str>,
}

/// Measured runs of the shown plan, those of earlier plans, then the simulated ways.
fn rows(frame: &Frame<'_>) -> Vec<Row> {
    let now = frame.shown.and_then(|shown| shown.measured.as_ref());
    let is_shown = |run: &Arc<Run>| now.is_some_and(|now| Arc::ptr_eq(now, run));
    let plan = frame.shown.map(|shown| shown.plan_digest);
    let measured = frame.kept.iter().rev().map(|kept| {
        let run = &kept.way.run;
        let about = if is_shown(run) {
            "the plan shown"
        } else if Some(run.plan_digest) == plan {
            "the plan shown, an earlier run"
        } else {
            "another plan"
        };
        Row { way: kept.row(), about: Some(about) }
    });
    measured.chain(frame.compared.iter().map(|way| Row { way: way.clone(), about: None })).collect()
}

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame<'_>, state: &mut State) {
    ui.horizontal_wrapped(|ui| {
        if ui.button("Compare all ways").on_hover_text("every strategy, then every other scheduler").clicked() {
            frame.send(Command::Compare);
        }
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
    let longest = rows.iter().filter_map(|row| extent(&row.way)).max().unwrap_or(Nanos(1));
    state.baseline = state.baseline.min(rows.len() - 1);
    let baseline = makespan(&rows[state.baseline].way);
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        for (at, one) in rows.iter().enumerate() {
            row(ui, frame, state, at, one, (longest, baseline));
        }
    });
}

fn makespan(way: &Compared) -> Option<Nanos> {
    way.outcome.as_ref().ok().map(|way| way.run.times().median)
}

/// How far a row reaches: its makespan, or the end of its last CTA where tracing made that later.
fn extent(way: &Compared) -> Option<Nanos> {
    way.outcome.as_ref().ok().map(|way| way.run.times().median.max(Nanos(way.run.lanes.end)))
}

fn row(ui: &mut Ui, frame: &Frame<'_>, state: &mut State, at: usize, one: &Row, scale: (Nanos, Option<Nanos>)) {
    let Row { way, about } = one;
    ui.push_id(at, |ui| {
        ui.horizontal(|ui| {
            let height = if about.is_some() { 86.0 } else { 52.0 };
            ui.allocate_ui(vec2(230.0, height), |ui| {
                ui.vertical(|ui| {
                    ui.set_width(230.0);
                    let name = RichText::new(&way.name).strong();
                    if ui.add(egui::Button::selectable(state.baseline == at, name).truncate()).clicked() {
                        state.baseline = at;
                    }
                    match &way.outcome {
                        Ok(way) => figures(ui, frame, way, *about, state.baseline == at, scale.1),
                        Err(problem) => {
                            _ = ui.add(egui::Label::new(RichText::new(problem).color(frame.tokens.warn)).wrap());
                        }
                    }
                });
            });
            if let Ok(way) = &way.outcome {
                mini(ui, frame, &way.run, scale.0, height);
            }
        });
    });
    ui.add_space(3.0);
}

fn figures(ui: &mut Ui, frame: &Frame<'_>, way: &Way, about: Option<&str>, is_baseline: bool, baseline: Option<Nanos>) {
    let (run, times) = (&way.run, way.run.times());
    ui.horizontal(|ui| {
        ui.label(headline::makespan(&run.capture));
        ui.label(RichText::new(run.words()).color(frame.tokens.warn));
        match baseline {
            Some(base) if !is_baseline && base.0 > 0 => {
                let change = (times.median.as_f64() / base.as_f64() - 1.0) * 100.0;
                let (word, colour) =
                    if change <= 0.0 { ("faster", frame.tokens.better) } else { ("slower", frame.tokens.worse) };
                ui.label(RichText::new(format!("{change:+.1} % {word}")).color(colour));
            }
            _ => _ = ui.label(RichText::new("baseline").color(frame.tokens.faint)),
        }
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
    let text = format!("busy {} · {} issued · {ctas}", run.busy(0), way.issued);
    ui.label(small(text)).on_hover_text(run.damage.of_spans().unwrap_or_default());
}

fn mini(ui: &mut Ui, frame: &Frame<'_>, run: &Run, longest: Nanos, height: f32) {
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width().max(60.0), height), Sense::hover());
    let painter = ui.painter_at(rect);
    painter.rect_filled(rect, 2.0, frame.tokens.canvas);
    let view = View { begin: 0.0, end: longest.as_f64() * 1.01, scroll: 0.0, lane_height: None };
    let layout = Layout::new(&run.lanes, view, rect);
    let (mesh, _) = layout.mesh(&run.lanes, &run.capture.spans, |piece| {
        entity_colour(frame.tokens, &run.capture.plan, piece.entity, frame.by_tile)
    });
    painter.add(mesh);
    let end = layout.x(run.lanes.end as f64);
    painter.add(egui::Shape::vline(end, rect.y_range(), egui::Stroke::new(1.0, frame.tokens.text)));
}
