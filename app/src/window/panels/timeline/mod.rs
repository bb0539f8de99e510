//! CTAs over time: one group per SM, one lane per residency slot, bandwidth under the same axis; the
//! measured run over the simulated one where both are there.

mod blocks;
mod counters;
mod legend;
mod paint;
mod place;
mod scrollbar;

use std::fmt::Write as _;
use std::sync::Arc;

use egui::{PointerButton, Rect, Response, RichText, Sense, Ui};
use engine::capture::Source;
use engine::metrics;
use engine::plan::CtaRole;
use engine::units::{Bytes, Nanos, PackIdx, counted};

use self::blocks::Block;
use self::place::place_of;
use crate::runs::run::Run;
use crate::runs::shown::{Shown, Sources};
use crate::runs::{damage, headline};
use crate::timeline::axis::Axis;
use crate::timeline::counters::rate;
use crate::timeline::lanes::Entity;
use crate::timeline::layout::Layout;
use crate::timeline::marks::Marks;
use crate::window::command::Command;
use crate::window::commands::table::Action;
use crate::window::frame::Frame;
use crate::window::panels::figures;
use crate::window::panels::parts::{empty, no_run, percent_of, signed};
use crate::window::selection::Selection;

/// What is looked at.
#[derive(Clone, Default)]
pub struct State {
    /// What of time and SMs.
    pub axis: Axis,
    /// Which runs are shown.
    pub sources: Sources,
    /// Times that were marked.
    pub marks: Marks,
    /// The time under the pointer in the frame before.
    pointer: Option<f64>,
    /// The lanes of the frame before, one for each run.
    layouts: Vec<(Source, Layout)>,
    drag_from: Option<f64>,
    hatch: Option<egui::TextureHandle>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("axis", &self.axis).finish_non_exhaustive()
    }
}

impl State {
    /// Handles an action of the table; false if it is none of the timeline's.
    pub fn act(&mut self, action: Action, shown: &Shown, selected: Selection) -> bool {
        let end = shown.end(self.sources);
        let axis = &mut self.axis;
        match action {
            Action::ZoomIn => axis.zoom(end, 1.3, None),
            Action::ZoomOut => axis.zoom(end, 1.0 / 1.3, None),
            Action::PanLeft => axis.pan(end, -0.12),
            Action::PanRight => axis.pan(end, 0.12),
            Action::Taller => self.stretch(1.3),
            Action::Lower => self.stretch(1.0 / 1.3),
            Action::Fit => axis.fit(),
            Action::Focus => {
                let before = *axis;
                self.reveal(shown, selected);
                if self.axis == before {
                    self.axis.fit();
                }
            }
            Action::Mark => self.mark(shown, selected),
            _ => return false,
        }
        true
    }

    /// Marks where the selection begins, else the range, else the time under the pointer.
    fn mark(&mut self, shown: &Shown, selected: Selection) {
        let selection = place_of(shown, selected).map(|(_, place)| (place.begin, place.name));
        let range = self.axis.range.map(|(from, _)| (from, "range".to_owned()));
        let pointer = self.pointer.map(|at| (at, Nanos(at as u64).to_string()));
        if let Some((at, name)) = selection.or(range).or(pointer) {
            self.marks.toggle(at, &name);
        }
    }

    /// Makes all lanes taller around the middle.
    fn stretch(&mut self, factor: f32) {
        if let Some((_, layout)) = self.layouts.first() {
            self.axis.stretch(layout, factor, layout.rect.center().y);
        }
    }

    /// Shows a CTA or a bubble in both directions: its time with a margin, and its lane in the middle.
    pub fn reveal(&mut self, shown: &Shown, what: Selection) {
        let end = shown.end(self.sources);
        let Some((source, place)) = place_of(shown, what) else { return };
        let margin = (place.end - place.begin).max(1.0) * 0.3;
        self.axis.place(end, place.begin - margin, place.end + margin);
        if let Some((_, layout)) = self.layouts.iter().find(|(of, _)| *of == source) {
            self.axis.bring(layout, place.sm * layout.slots + place.slot);
        }
    }
}

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame<'_>, state: &mut State) {
    let sources = state.sources;
    let Some((shown, runs)) =
        frame.shown.map(|shown| (shown, shown.runs(sources).collect::<Vec<_>>())).filter(|(_, runs)| !runs.is_empty())
    else {
        empty(ui, frame.tokens, no_run(frame));
        return;
    };
    header(ui, frame, shown, &runs, state);
    if let Some(run) = runs.first().filter(|_| !shown.planned.plan.prefill.is_empty() && !frame.by_tile) {
        phases(ui, frame, run);
    }
    let mut cause = None;
    for run in &runs {
        cause = legend::legend(ui, frame, run, runs.len() > 1).or(cause);
    }
    let hatch = state.hatch.get_or_insert_with(|| legend::hatch(ui)).clone();
    let (outer, response) =
        ui.allocate_exact_size(ui.available_size().max(egui::vec2(80.0, 60.0)), Sense::click_and_drag());
    let counters = runs.iter().copied().find(|run| !run.capture.counters.is_empty());
    let regions = paint::regions(outer, counters.and_then(|run| counters::height(&run.capture)));
    let end = shown.end(sources);
    input(ui, &response, &blocks::part(&runs, state.axis.view(end), regions.lanes), end, state);
    let blocks = blocks::part(&runs, state.axis.view(end), regions.lanes);
    state.layouts = blocks.iter().map(|block| (block.source(), block.layout)).collect();
    let over =
        |pos: &egui::Pos2| regions.lanes.contains(*pos) || regions.strip.is_some_and(|strip| strip.contains(*pos));
    let pointer_at = response.hover_pos().filter(over).map(|pos| pos.x);
    state.pointer = pointer_at.and_then(|x| blocks.first().map(|block| block.layout.time(x)));
    let marks = paint::Marks { range: state.axis.range, named: state.marks.clone(), cause, hatch, pointer_at };
    paint::all(ui, frame, (shown, counters), &blocks, &regions, &marks);
    pointer(frame, &response, &blocks, shown, state);
    for block in &blocks {
        scrollbar::of_lanes(ui, frame, &block.layout, (block.source().name(), &mut state.axis));
    }
    if let Some(last) = blocks.last() {
        scrollbar::of_time(ui, frame, &last.layout, (end, &mut state.axis));
    }
    for block in &blocks {
        nodes(ui, block);
        if let Some(reason) = block.run.damage.of_spans() {
            lost(ui, frame, block, &reason);
        }
    }
}

/// Over lanes that are not whole: how much of them is gone.
fn lost(ui: &Ui, frame: &Frame<'_>, block: &Block<'_>, reason: &str) {
    let text = format!("{reason}: what is empty here is not idle");
    let place = block.layout.rect.center_bottom() - egui::vec2(0.0, 6.0);
    let galley = ui.painter().layout_no_wrap(text.clone(), egui::FontId::proportional(13.0), frame.tokens.warn);
    let back = egui::Align2::CENTER_BOTTOM.anchor_size(place, galley.size());
    ui.painter().rect_filled(back.expand(4.0), 3.0, frame.tokens.panel);
    ui.painter().galley(back.min, galley, frame.tokens.warn);
    let response = ui.interact(back, ui.scope_id().with(("lost", block.run.source().name())), Sense::hover());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Label, true, text.clone()));
}

fn header(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, runs: &[&Arc<Run>], state: &mut State) {
    ui.horizontal_wrapped(|ui| {
        for run in runs {
            makespan(ui, frame, run);
        }
        if let [measured, simulated] = runs {
            let off = percent_of(simulated.times().median, measured.times().median);
            let text = RichText::new(format!("the simulator is {off} off")).color(frame.tokens.accent);
            ui.label(text).on_hover_text("simulated makespan over the median of the measured ones (derived)");
        }
        if let [run] = runs {
            let text = RichText::new(blocks::content(run)).color(frame.tokens.faint);
            ui.label(text).on_hover_text(run.damage.of_spans().unwrap_or_default());
        }
        if shown.measured.is_some() && shown.simulated.is_some() {
            ui.label("show");
            for (sources, name) in [
                (Sources::Both, "both"),
                (Sources::Only(Source::Measured), "measured only"),
                (Sources::Only(Source::Simulated), "simulated only"),
            ] {
                ui.selectable_value(&mut state.sources, sources, name);
            }
        }
        let mut by_tile = frame.by_tile;
        ui.label("colour");
        ui.selectable_value(&mut by_tile, false, "pack");
        ui.selectable_value(&mut by_tile, true, "tile");
        if by_tile != frame.by_tile {
            frame.send(Command::Act(Action::Colour));
        }
        if ui.button("Fit").clicked() {
            frame.send(Command::Act(Action::Fit));
        }
        if let Some((from, to)) = state.axis.range {
            for run in runs {
                let text = RichText::new(statistics(shown, run, from, to)).color(frame.tokens.accent);
                ui.label(text).on_hover_text(TWO_KINDS);
            }
            if ui.small_button("×").on_hover_text("drop the range").clicked() {
                state.axis.range = None;
            }
        }
    });
}

/// The makespan of a run with its source; where measured, with count and spread, and with the length of the traced
/// run that the lanes show.
fn makespan(ui: &mut Ui, frame: &Frame<'_>, run: &Run) {
    ui.label(RichText::new(format!("makespan {}", headline::makespan(&run.capture))).strong());
    ui.label(RichText::new(run.words()).color(frame.tokens.warn));
    if run.source() == Source::Measured {
        let hover = figures::of_measured(&run.capture)
            .into_iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect::<Vec<_>>()
            .join("\n");
        ui.label(RichText::new(headline::spread(&run.capture)).color(frame.tokens.faint)).on_hover_text(hover);
    }
    if let Some(traced) = headline::lanes(&run.capture, &run.damage) {
        ui.label(RichText::new(traced).color(frame.tokens.faint)).on_hover_text(headline::TRACED);
    }
}

/// What the colours of CTAs mean in a batch with prefill, with how many there are of each.
fn phases(ui: &mut Ui, frame: &Frame<'_>, run: &Run) {
    let mut counts = [0_u64; 4];
    for entity in &run.lanes.entities {
        let at = match entity {
            Entity::Prefill => 0,
            Entity::Pack(_) => 1,
            Entity::Both => 2,
            Entity::Merge => 3,
            Entity::Unknown => continue,
        };
        counts[at] += 1;
    }
    let t = frame.tokens;
    let names = [("prefill", t.prefill), ("decode", t.decode), ("prefill and decode", t.both), ("merge", t.merge)];
    ui.horizontal_wrapped(|ui| {
        for ((name, colour), count) in names.into_iter().zip(counts).filter(|(_, count)| *count > 0) {
            let (swatch, _) = ui.allocate_exact_size(egui::vec2(10.0, 10.0), Sense::hover());
            ui.painter().rect_filled(swatch, 2.0, colour);
            ui.label(RichText::new(format!("{name} · {}", counted(count, "CTA"))).small());
        }
    });
}

/// Busy, idle, CTAs, bytes and bandwidth of a range.
fn statistics(shown: &Shown, run: &Run, from: f64, to: f64) -> String {
    let (from, to) = (from.max(0.0) as u64, to.max(0.0) as u64);
    let (busy, ctas, bytes) = run.lanes.within(&run.capture.spans, from..to);
    let slot_time = (to.saturating_sub(from)).saturating_mul(run.lanes.lanes.len() as u64).max(1);
    let share = busy as f64 / slot_time as f64;
    let (busy, idle) = (damage::busy(share, 1, &run.damage), damage::busy(1.0 - share, 1, &run.damage));
    format!(
        "range {} {} · busy {busy} · bubbles {idle} · {} · ≈ {} of KV asked for by CTAs, spread evenly over each (derived)",
        Nanos(to.saturating_sub(from)),
        run.words(),
        counted(ctas, "CTA"),
        Bytes(bytes as u64)
    ) + &dram_of(shown, run, (from, to))
}

/// Why the two kinds of bytes of a range are no parts of each other.
const TWO_KINDS: &str = "What CTAs ask for is derived from the plan: the KV of each CTA, spread evenly from its begin to \
                         its end, without queries and partial results. What is read from DRAM comes from the counter row. \
                         In a part of a run either can be the more: a CTA reads faster where few others do, and loads \
                         tiles ahead of their use. Over the whole run DRAM has the less, since L2 serves what was read \
                         before. A measured row is a mean of other runs, placed on this axis to within the error under it.";

/// What came from DRAM in a range and how fast, where the run has a series of it.
fn dram_of(shown: &Shown, run: &Run, (from, to): (u64, u64)) -> String {
    let Some(series) = run.capture.counters.iter().find(|series| series.name == "dram_read").filter(|_| to > from)
    else {
        return String::new();
    };
    let bytes = metrics::bytes_within(series, Nanos(from), Nanos(to));
    let reached = bytes.as_f64() / ((to - from) as f64 * 1e-9);
    let plain = shown.planned.options.device.reachable_bytes_per_s().max(1.0);
    let (rate, share, source) = (rate(reached), reached / plain * 100.0, run.words());
    format!(" · {bytes} read from DRAM at {rate}, {share:.0} % of a plain read (counter row, {source})")
}

fn input(ui: &Ui, response: &Response, blocks: &[Block<'_>], end: u64, state: &mut State) {
    let Some(axis) = blocks.first().map(|block| block.layout) else { return };
    if let Some(pos) = response.hover_pos() {
        let (zoom, scroll) = ui.input(|input| (input.zoom_delta(), input.smooth_scroll_delta()));
        let shift = ui.input(|input| input.modifiers.shift);
        let block = blocks::at(blocks, pos.y).map_or(axis, |block| block.layout);
        if (zoom - 1.0).abs() > 1e-4 && shift {
            state.axis.stretch(&block, zoom, pos.y);
        } else if (zoom - 1.0).abs() > 1e-4 {
            state.axis.zoom(end, f64::from(zoom), Some(axis.time(pos.x)));
        } else {
            if scroll.x.abs() > 0.0 {
                state.axis.pan(end, f64::from(-scroll.x / axis.rect.width().max(1.0)));
            }
            let most = blocks.iter().map(|block| block.layout.height() - block.layout.rect.height());
            state.axis.scroll = (state.axis.scroll - scroll.y).clamp(0.0, most.fold(0.0, f32::max));
        }
    }
    let at = |pos: egui::Pos2| snapped(blocks, &axis, end, pos);
    for button in [PointerButton::Primary, PointerButton::Middle] {
        if response.drag_started_by(button) {
            state.drag_from = response.interact_pointer_pos().map(at);
        }
        if response.dragged_by(button)
            && let (Some(from), Some(pos)) = (state.drag_from, response.interact_pointer_pos())
        {
            let to = at(pos);
            state.axis.range = Some((from.min(to), from.max(to)));
        }
    }
    if response.drag_stopped_by(PointerButton::Middle)
        && let Some((from, to)) = state.axis.range.take()
    {
        state.axis.place(end, from, to);
    }
}

/// Time under the pointer, at the edge of a slice where one is within 6 pixels.
fn snapped(blocks: &[Block<'_>], axis: &Layout, end: u64, pos: egui::Pos2) -> f64 {
    let time = axis.time(pos.x).clamp(0.0, end as f64);
    let near = axis.ns_per_px() * 6.0;
    let Some(Block { run, layout, .. }) = blocks::at(blocks, pos.y) else { return time };
    let lane = layout.lane_at(pos.y).and_then(|lane| run.lanes.lanes.get(lane));
    let Some(lane) = lane else { return time };
    let spans = &run.capture.spans;
    let probes = [time, time - near, time + near];
    let edges = probes.into_iter().filter_map(|probe| run.lanes.hit(spans, lane, probe.max(0.0) as u64));
    edges
        .flat_map(|at| [spans.begin[at] as f64, spans.end[at] as f64])
        .filter(|edge| (edge - time).abs() <= near)
        .min_by(|a, b| (a - time).abs().total_cmp(&(b - time).abs()))
        .unwrap_or(time)
}

fn pointer(frame: &Frame<'_>, response: &Response, blocks: &[Block<'_>], shown: &Shown, state: &mut State) {
    let Some(pos) = response.hover_pos() else { return };
    let Some(block @ Block { run, layout, .. }) = blocks::at(blocks, pos.y) else { return };
    if !layout.rect.contains(pos) {
        return;
    }
    let time = layout.time(pos.x).max(0.0) as u64;
    let mut lanes = layout.lanes_at(pos.y).filter_map(|lane| run.lanes.lanes.get(lane));
    let hit = lanes.find_map(|lane| run.lanes.hit(&run.capture.spans, lane, time));
    if let Some(at) = hit {
        frame.link(response, Selection::Cta(run.source(), at));
        if response.double_clicked() {
            state.reveal(shown, Selection::Cta(run.source(), at));
        }
        let text = tooltip(block, shown, at);
        response.clone().on_hover_text_at_pointer(text);
        return;
    }
    let mut lanes = layout.lanes_at(pos.y).filter_map(|lane| run.lanes.lanes.get(lane));
    let gap = lanes.find_map(|lane| run.gaps.at(lane.sm, lane.slot, time));
    if response.double_clicked() {
        frame.send(Command::Act(Action::Fit));
    } else if response.clicked() && gap.is_none() {
        frame.send(Command::Select(Selection::None));
        state.axis.range = None;
    }
    let Some((at, gap)) = gap.and_then(|at| Some((at, run.gaps.all().get(at)?))) else { return };
    frame.link(response, Selection::Gap(run.source(), at));
    let text = format!(
        "SM {} slot {}: {} bubble of {}\n{} to {} ({})\n{}\n{}",
        gap.sm,
        gap.slot,
        gap.cause.name().replace('-', " "),
        gap.end.saturating_sub(gap.begin),
        gap.begin,
        gap.end,
        run.words(),
        gap.cause.about(),
        gap.cause.remedy()
    );
    response.clone().on_hover_text_at_pointer(text);
}

/// What the CTAs of a pack compute.
fn pack_text(shown: &Shown, pack: PackIdx) -> Option<String> {
    let found = shown.planned.plan.packs.get(pack.at())?;
    let queries = counted(u64::from(found.queries_len), "query");
    Some(format!("pack {} · tile {} · {queries} · {} KV tokens", pack.0, found.tile, found.tokens))
}

/// What the prefill CTA of a span computes.
fn prefill_text(shown: &Shown, span: &engine::capture::Span) -> Option<String> {
    let plan = &shown.planned.plan;
    let work = plan.work_of(plan.launches.get(span.launch as usize)?, span.cta)?;
    let (head, task) = (work.prefill?.query_head, work.prefill_task()?);
    let beside = if work.role() == CtaRole::Both { " · with decode warps beside it" } else { "" };
    Some(format!(
        "prefill of request {} · query head {head} · rows {} to {} · KV {} to {} · tile {}{beside}",
        task.query.0, task.rows_begin, task.rows_end, task.kv_begin, task.kv_end, task.tile
    ))
}

fn tooltip(block: &Block<'_>, shown: &Shown, at: usize) -> String {
    let Block { run, layout, .. } = block;
    let span = run.capture.spans.get(at);
    let mut folded = 0;
    let lane = run.lanes.lanes.iter().find(|lane| lane.spans.contains(&at));
    if let Some(lane) = lane {
        let fold = (layout.ns_per_px() * crate::timeline::lanes::FOLD_PX).ceil() as u64;
        let view = layout.view.begin.max(0.0) as u64..layout.view.end.max(0.0) as u64;
        run.lanes.pieces(&run.capture.spans, lane, view, fold, |piece| {
            if (piece.first..piece.first + piece.count as usize).contains(&at) {
                folded = piece.count;
            }
        });
    }
    let what = match run.lanes.entities[at] {
        Entity::Pack(pack) => pack_text(shown, pack),
        Entity::Prefill | Entity::Both => prefill_text(shown, &span),
        Entity::Merge => Some("merge of partial results".to_owned()),
        Entity::Unknown => None,
    };
    let what = what.unwrap_or_else(|| "a CTA that the plan has not".to_owned());
    let mut text = format!(
        "CTA {} of launch {} · SM {} slot {}\n{what}\n{} to {}, takes {} ({})",
        span.cta,
        span.launch,
        span.sm,
        span.slot,
        span.begin,
        span.end,
        span.end.saturating_sub(span.begin),
        run.words()
    );
    if let Some(twin) = shown.twin(run.source(), at) {
        text.push('\n');
        let (begin, takes) = (signed(twin.begin), signed(twin.duration));
        let _ = write!(text, "simulated − measured: begins {begin}, takes {takes}");
    }
    if folded > 1 {
        text.push('\n');
        text.push_str(&folded.to_string());
        text.push_str(" CTAs are folded into this block; zoom in to part them");
    }
    text
}

/// An accessibility node for each SM on the screen.
fn nodes(ui: &Ui, block: &Block<'_>) {
    let Block { run, layout, .. } = block;
    for first in layout.visible().step_by(layout.slots) {
        let lanes = &run.lanes.lanes[first..(first + layout.slots).min(run.lanes.lanes.len())];
        let Some(lane) = lanes.first() else { break };
        let ctas: usize = lanes.iter().map(|lane| lane.spans.len()).sum();
        let busy: u64 = lanes.iter().map(|lane| lane.busy).sum();
        let share = busy as f64 / (run.lanes.end.max(1) * lanes.len() as u64) as f64;
        let (busy, ctas) = (damage::busy(share, 0, &run.damage), counted(ctas as u64, "CTA"));
        let top = layout.top(first);
        let rect = Rect::from_x_y_ranges(layout.rect.x_range(), top..=top + layout.group()).intersect(layout.rect);
        if rect.height() <= 0.0 {
            continue;
        }
        let response = ui.interact(rect, ui.scope_id().with(("sm", run.source().name(), lane.sm)), Sense::hover());
        let (sm, source) = (lane.sm, run.words());
        response.widget_info(|| {
            egui::WidgetInfo::labeled(egui::Role::Group, true, format!("SM {sm}: {ctas}, busy {busy} ({source})"))
        });
    }
}
