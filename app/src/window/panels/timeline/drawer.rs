//! The drawer under the lanes: figures of the range, or of what is in sight where there is none. Its line is always
//! there, so that nothing jumps when a range is drawn; a click opens the rest.

use std::fmt::Write as _;
use std::sync::Arc;

use egui::{Grid, Rect, RichText, ScrollArea, Ui, UiBuilder, vec2};
use engine::capture::CounterSeries;
use engine::metrics::BubbleCause;
use engine::units::{Bytes, Nanos, grouped};

use super::state::State;
use crate::runs::damage;
use crate::runs::run::Run;
use crate::runs::shown::Shown;
use crate::timeline::counters::{is_share, name, rate};
use crate::timeline::samples::Samples;
use crate::window::chip;
use crate::window::frame::Frame;

/// Height of the line, and of the drawer when it is open.
const LINE: f32 = 24.0;
const OPEN: f32 = 168.0;
/// Least height of what is over it.
const OVER: f32 = 150.0;

/// Why the two kinds of bytes of a range are no parts of each other.
const TWO_KINDS: &str = "What CTAs ask for is derived from the plan: the KV of each CTA, spread evenly from its begin to \
                         its end, without queries and partial results. What is read from DRAM comes from the counter row. \
                         In a part of a run either can be the more: a CTA reads faster where few others do, and loads \
                         tiles ahead of their use. Over the whole run DRAM has the less, since L2 serves what was read \
                         before. A measured row is a mean of other runs, placed on this axis to within the error under it.";

/// Height that the drawer takes of so much.
pub(super) fn height(state: &State, available: f32) -> f32 {
    if state.drawer { OPEN.min((available - OVER).max(LINE)) } else { LINE }
}

/// A figure with what it is.
struct Figure {
    name: String,
    value: String,
    about: &'static str,
}

/// What the figures are of: a range of whole nanoseconds, and what it is called.
#[derive(Clone, Copy)]
struct Stretch {
    from: u64,
    to: u64,
    is_range: bool,
}

impl Stretch {
    fn of(state: &State, end: u64) -> Self {
        let view = state.axis.view(end);
        let is_range = state.axis.range.is_some();
        let (from, to) = state.axis.range.unwrap_or((view.begin, view.end));
        let inside = |time: f64| if is_range { time.max(0.0) } else { time.clamp(0.0, end as f64) } as u64;
        Self { from: inside(from), to: inside(to), is_range }
    }

    fn length(self) -> Nanos {
        Nanos(self.to.saturating_sub(self.from))
    }

    fn name(self) -> &'static str {
        if self.is_range { "range" } else { "in sight" }
    }
}

/// Draws the drawer into `place`.
pub(super) fn show(
    ui: &mut Ui,
    frame: &Frame<'_>,
    (shown, runs): (&Shown, &[&Arc<Run>]),
    place: Rect,
    state: &mut State,
) {
    let stretch = Stretch::of(state, shown.end(state.sources));
    ui.painter().rect_filled(place, 0.0, frame.tokens.panel);
    let mut ui = ui.new_child(UiBuilder::new().max_rect(place).id_salt("drawer"));
    ui.set_clip_rect(place.intersect(ui.clip_rect()));
    ui.horizontal(|ui| {
        let arrow = if state.drawer { "v" } else { ">" };
        // As wide with either arrow, so that what stands beside it stays where it is.
        let button = egui::Button::new(format!("{arrow} figures")).small().min_size(vec2(76.0, 0.0));
        if ui.add(button).on_hover_text("all figures of the range, or of what is in sight").clicked() {
            state.drawer = !state.drawer;
        }
        let dropped = egui::Button::new("×").small();
        if ui.add_enabled(stretch.is_range, dropped).on_hover_text("drop the range").clicked() {
            state.axis.range = None;
        }
        let text = runs.first().map_or_else(String::new, |run| headline(shown, run, stretch));
        let colour = if stretch.is_range { frame.tokens.accent } else { frame.tokens.faint };
        ui.add(egui::Label::new(RichText::new(text).color(colour)).truncate()).on_hover_text(TWO_KINDS);
    });
    if state.drawer && place.height() > LINE + 20.0 {
        ScrollArea::both().id_salt("figures").auto_shrink(false).show(&mut ui, |ui| table(ui, frame, runs, stretch));
    }
}

/// The figures that matter most, in one line.
fn headline(shown: &Shown, run: &Run, stretch: Stretch) -> String {
    let (busy, ctas, _) = run.lanes.within(&run.capture.spans, stretch.from..stretch.to);
    let mut text = format!(
        "{} {} · {} · busy {} · {}",
        stretch.name(),
        stretch.length(),
        run.words(),
        damage::busy(busy as f64 / slot_time(run, stretch), 1, &run.damage),
        engine::units::counted(ctas, "CTA")
    );
    let read = run.counters().find(|(series, _)| series.name == "dram_read");
    if let Some(mean) = read.and_then(|row| mean(row, stretch)) {
        let plain = shown.planned.options.device.reachable_bytes_per_s().max(1.0);
        let _ = write!(text, " · DRAM reads {}, {:.0} % of a plain read", rate(mean), mean / plain * 100.0);
    }
    text
}

fn slot_time(run: &Run, stretch: Stretch) -> f64 {
    stretch.length().0.saturating_mul(run.lanes.lanes.len() as u64).max(1) as f64
}

fn mean((series, samples): (&CounterSeries, &Samples), stretch: Stretch) -> Option<f64> {
    samples.mean(series, Nanos(stretch.from), Nanos(stretch.to))
}

/// Every figure of each run, one run a column.
fn table(ui: &mut Ui, frame: &Frame<'_>, runs: &[&Arc<Run>], stretch: Stretch) {
    let columns: Vec<Vec<Figure>> = runs.iter().map(|run| figures(run, stretch)).collect();
    let mut names: Vec<(&str, &str)> = Vec::new();
    for figure in columns.iter().flatten() {
        if !names.iter().any(|(name, _)| *name == figure.name) {
            names.push((&figure.name, figure.about));
        }
    }
    Grid::new("figures of a range").num_columns(1 + runs.len()).striped(true).spacing([24.0, 2.0]).show(ui, |ui| {
        ui.label(RichText::new(format!("{} of {}", stretch.name(), stretch.length())).strong());
        for run in runs {
            chip::show(ui, frame.tokens, run);
        }
        ui.end_row();
        for (name, about) in names {
            ui.label(RichText::new(name).color(frame.tokens.faint)).on_hover_text(about);
            for figures in &columns {
                let value = figures.iter().find(|figure| figure.name == name).map_or("–", |figure| &figure.value);
                ui.label(value);
            }
            ui.end_row();
        }
    });
}

fn figures(run: &Run, stretch: Stretch) -> Vec<Figure> {
    let figure = |name: &str, value, about| Figure { name: name.to_owned(), value, about };
    let (busy, ctas, bytes) = run.lanes.within(&run.capture.spans, stretch.from..stretch.to);
    let all = slot_time(run, stretch);
    let mut figures = vec![
        figure("from · to", format!("{} · {}", Nanos(stretch.from), Nanos(stretch.to)), "on the axis of the lanes"),
        figure(
            "busy",
            damage::busy(busy as f64 / all, 2, &run.damage),
            "slot time in which a CTA was on its lane, of slots × length",
        ),
    ];
    if run.damage.of_causes().is_none() {
        let idle = run.gaps.within(stretch.from..stretch.to);
        let some = BubbleCause::ALL.into_iter().zip(idle).filter(|(_, time)| *time > 0);
        figures.extend(some.map(|(cause, time)| {
            let value = format!("{:.2} % · {} of slot time", time as f64 / all * 100.0, Nanos(time));
            figure(cause.words(), value, cause.about())
        }));
    }
    figures.push(figure("CTAs", grouped(ctas), "those that ran in it, in whole or in part"));
    let asked = format!("≈ {}", Bytes(bytes as u64));
    figures.push(figure("KV asked for by CTAs", asked, "derived from the plan, spread evenly over each CTA"));
    for row in run.counters() {
        figures.extend(mean(row, stretch).map(|mean| counted(row, mean, stretch)));
    }
    figures
}

/// Mean and integral of a counter row.
fn counted((series, samples): (&CounterSeries, &Samples), mean: f64, stretch: Stretch) -> Figure {
    let value = if is_share(series) {
        let full = Nanos((mean * stretch.length().as_f64()).max(0.0) as u64);
        format!("mean {:.1} % · as long as {full} at 100 %", mean * 100.0)
    } else {
        let bytes = samples.bytes(series, Nanos(stretch.from), Nanos(stretch.to));
        format!("mean {} · {bytes}", rate(mean))
    };
    Figure { name: name(series), value, about: "from the counter row: its mean, and its integral over the stretch" }
}
