//! The packs as a virtual table: rows, tile, how full it is, and why.

use std::collections::BTreeSet;
use std::sync::Arc;

use egui::{RichText, ScrollArea, Sense, TextStyle, Ui, vec2};
use egui_extras::{Column, TableBuilder};
use engine::decision::{Choice, Subject};
use engine::plan::{LaunchPlan, PrefillChunk};
use engine::units::{Nanos, NodeIdx, PackIdx, counted, grouped};

use crate::runs::shown::Shown;
use crate::timeline::lanes::Entity;
use crate::window::frame::Frame;
use crate::window::panels::parts::{empty, no_run};
use crate::window::selection::Selection;

const TITLES: [&str; 8] = ["pack", "node", "queries", "rows", "tile", "rows used", "KV tokens", "why this tile"];

/// Widths of the columns before the last, in units; the least of that one with reasons, and with their letters.
const WIDTHS: [f32; 7] = [46.0, 36.0, 46.0, 34.0, 52.0, 84.0, 62.0];
const LEAST_WHY: f32 = 190.0;
const LETTER: f32 = 24.0;
/// Reasons that have letters.
const LETTERS: &str = "abcdef";
/// Least height of a row.
const ROW: f32 = 19.0;

/// How rows are sorted and filtered.
#[derive(Clone, Debug, Default, PartialEq)]
struct By {
    column: usize,
    descending: bool,
    filter: String,
}

/// Sorting and filter, and the rows of the plan that is shown.
#[derive(Clone, Debug, Default)]
pub struct State {
    by: By,
    /// Only packs of which a CTA runs then, in nanoseconds.
    pub range: Option<(f64, f64)>,
    /// The selection that was scrolled to.
    scrolled: Option<(Option<PackIdx>, Option<NodeIdx>)>,
    rows: Option<Rows>,
}

/// The rows of a plan in their order; made anew when the plan or the order is another.
#[derive(Clone, Debug)]
struct Rows {
    plan: Arc<LaunchPlan>,
    by: By,
    order: Vec<usize>,
    /// The decision about the tile of each pack, by its place.
    whys: Vec<Option<u32>>,
    /// The reasons, each once.
    reasons: Vec<String>,
}

/// How the reasons are shown: in the rows, which are as tall as the longest of them, or where there is no room for that
/// by letters that stand over the table.
#[derive(Clone, Copy, Debug)]
struct Shape {
    height: f32,
    by_letter: bool,
}

impl Rows {
    fn of(shown: &Shown, by: &By, range: Option<(f64, f64)>) -> Self {
        let plan = Arc::clone(&shown.planned.plan);
        let whys = whys(&plan);
        let rules = whys.iter().flatten().filter_map(|why| plan.decisions.get(*why as usize)).map(|why| &why.rule);
        let reasons: BTreeSet<&str> = rules.map(AsRef::as_ref).collect();
        let reasons = reasons.into_iter().map(ToOwned::to_owned).collect();
        Self { by: by.clone(), order: order(shown, by, range), whys, reasons, plan }
    }
}

fn key(shown: &Shown, pack: usize, column: usize) -> u64 {
    let found = &shown.planned.plan.packs[pack];
    let group = shown.planned.plan.shape.group();
    match column {
        1 => u64::from(found.node.0),
        2 | 3 => u64::from(found.queries_len),
        4 => u64::from(found.tile.m) << 32 | u64::from(found.tile.n),
        5 => u64::from(found.queries_len * group) * 1000 / u64::from(found.tile.m.max(1)),
        6 => found.tokens.0,
        _ => pack as u64,
    }
}

fn order(shown: &Shown, by: &By, range: Option<(f64, f64)>) -> Vec<usize> {
    let packs = &shown.planned.plan.packs;
    let wanted = by.filter.trim().replace('x', "×");
    let runs = range.map(|range| running(shown, range));
    let fits = |at: &usize| {
        let pack = &packs[*at];
        if runs.as_ref().is_some_and(|runs| !runs[*at]) {
            return false;
        }
        wanted.is_empty() || pack.tile.to_string().contains(&wanted) || format!("node {}", pack.node.0) == wanted
    };
    let mut order: Vec<usize> = (0..packs.len()).filter(fits).collect();
    order.sort_by_key(|at| (key(shown, *at, by.column), *at));
    if by.descending {
        order.reverse();
    }
    order
}

/// For each pack: whether a CTA of it runs in a stretch of time.
fn running(shown: &Shown, (from, to): (f64, f64)) -> Vec<bool> {
    let mut runs = vec![false; shown.planned.plan.packs.len()];
    let Some(run) = shown.front() else { return runs };
    let spans = &run.capture.spans;
    for (at, entity) in run.lanes.entities.iter().enumerate() {
        let seen = (spans.begin[at] as f64) < to && spans.end[at] as f64 > from;
        if let Some(own) = entity.pack().filter(|_| seen).and_then(|pack| runs.get_mut(pack.at())) {
            *own = true;
        }
    }
    runs
}

/// Draws the table.
pub fn show(ui: &mut Ui, frame: &Frame<'_>, state: &mut State) {
    let some = |shown: &&Shown| !shown.planned.plan.packs.is_empty() || !shown.planned.plan.prefill.is_empty();
    let Some(shown) = frame.shown.filter(some) else {
        empty(ui, frame.tokens, no_run(frame));
        return;
    };
    let plan = &shown.planned.plan;
    for chunk in &plan.prefill.chunks {
        prefill_chunk(ui, frame, plan, chunk);
    }
    // What runs in a range is of the run as well; pictures alone ask for it, once.
    let own = |rows: &Rows| Arc::ptr_eq(&rows.plan, plan) && rows.by == state.by && state.range.is_none();
    let rows = state.rows.take().filter(own).unwrap_or_else(|| Rows::of(shown, &state.by, state.range));
    ui.horizontal(|ui| {
        if !frame.is_picture {
            let filter = egui::TextEdit::singleline(&mut state.by.filter)
                .hint_text("tile 64×128 or node 3")
                .desired_width(140.0);
            ui.add(filter);
        }
        let ctas = shown.told.attention_ctas;
        let packs = counted(plan.packs.len() as u64, "pack");
        let mut text = format!("{} of {packs} · {}", grouped(rows.order.len() as u64), counted(ctas, "attention CTA"));
        if let Some((from, to)) = state.range {
            let (from, to) = (Nanos(from as u64), Nanos(to as u64));
            text = format!("{text} · those with a CTA that runs from {from} to {to}");
        }
        ui.label(RichText::new(text).color(frame.tokens.faint));
    });
    let others = WIDTHS.iter().map(|width| width + ui.spacing().item_spacing.x).sum::<f32>();
    let bar = ui.spacing().scroll.allocated_width() + ui.spacing().item_spacing.x;
    let room = ui.available_width() - others - bar;
    let by_letter = room < LEAST_WHY && rows.reasons.len() <= LETTERS.len();
    if by_letter {
        for (letter, reason) in LETTERS.chars().zip(&rows.reasons) {
            let text = RichText::new(format!("{letter}: {reason}")).small().color(frame.tokens.faint);
            ui.add(egui::Label::new(text).wrap());
        }
    }
    let why = room.max(if by_letter { LETTER } else { LEAST_WHY });
    let font = TextStyle::Small.resolve(ui.style());
    let height = |reason: &String| ui.painter().layout(reason.clone(), font.clone(), frame.tokens.faint, why).size().y;
    let tallest = rows.reasons.iter().filter(|_| !by_letter).map(height).fold(0.0, f32::max);
    // Where there is no room for all columns, the last of them are scrolled to.
    ScrollArea::horizontal().auto_shrink(false).show(ui, |ui| {
        ui.set_width(others + bar + why);
        table(ui, frame, shown, (state, &rows), Shape { height: ROW.max(tallest + 4.0), by_letter });
    });
    state.rows = Some(rows);
}

fn table(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, (state, rows): (&mut State, &Rows), shape: Shape) {
    let plan = &shown.planned.plan;
    // A click on a text is one on its row.
    ui.style_mut().interaction.selectable_labels = false;
    let mut table = TableBuilder::new(ui)
        .id_salt("packs")
        .striped(true)
        .sense(Sense::click())
        .cell_layout(egui::Layout::left_to_right(egui::Align::Center));
    let lit = (frame.selected.pack, frame.selected.node);
    if state.scrolled != Some(lit) {
        state.scrolled = Some(lit);
        let is_lit = |at: &usize| frame.selected.has_pack(PackIdx::from(*at), plan.packs[*at].node);
        if let Some(row) = rows.order.iter().position(is_lit) {
            table = table.scroll_to_row(row, Some(egui::Align::Center));
        }
    }
    for width in WIDTHS {
        table = table.column(Column::exact(width).clip(true));
    }
    let table = table.column(Column::remainder().at_least(LETTER).clip(true)).auto_shrink(false);
    table
        .header(20.0, |mut header| {
            for (column, title) in TITLES.into_iter().enumerate() {
                header.col(|ui| {
                    let arrow = match (state.by.column == column, state.by.descending) {
                        (true, true) => " v",
                        (true, false) => " ^",
                        _ => "",
                    };
                    let title = if shape.by_letter && column == TITLES.len() - 1 { "why" } else { title };
                    let text = RichText::new(format!("{title}{arrow}")).color(frame.tokens.faint);
                    if ui.add(egui::Button::new(text).frame(false)).clicked() {
                        state.by.descending = state.by.column == column && !state.by.descending;
                        state.by.column = column;
                    }
                });
            }
        })
        .body(|body| body.rows(shape.height, rows.order.len(), |row| pack_row(row, frame, shown, (rows, shape))));
}

/// The decision about the tile of each pack, by its place.
fn whys(plan: &LaunchPlan) -> Vec<Option<u32>> {
    let mut whys = vec![None; plan.packs.len()];
    for (at, decision) in plan.decisions.iter().enumerate() {
        if let (Choice::Tile, Subject::Pack(pack)) = (decision.choice, decision.subject)
            && let Some(own) = whys.get_mut(pack.at())
        {
            *own = Some(at as u32);
        }
    }
    whys
}

/// A prefill chunk in one line: it has no packs, but blocks of rows × ranges of KV.
fn prefill_chunk(ui: &mut Ui, frame: &Frame<'_>, plan: &LaunchPlan, chunk: &PrefillChunk) {
    let tasks = chunk.tasks_end - chunk.tasks_begin;
    let tile =
        plan.prefill.tasks.get(chunk.tasks_begin as usize).map_or_else(String::new, |task| task.tile.to_string());
    ui.horizontal(|ui| {
        let (rect, _) = ui.allocate_exact_size(vec2(9.0, 9.0), Sense::hover());
        ui.painter().rect_filled(rect, 2.0, frame.tokens.prefill);
        let text = format!(
            "prefill, request {}: {} query tokens ending at {} KV · tile {tile} · {} × KV · {tasks} tasks × {} {}",
            chunk.query.0,
            grouped(u64::from(chunk.rows)),
            grouped(u64::from(chunk.kv)),
            chunk.splits,
            plan.ctas_of_prefill(),
            if plan.folds_heads() { "KV heads" } else { "query heads" }
        );
        let about = "a task is a block of query rows over a range of the KV, up to its causal bound";
        ui.add(egui::Label::new(&text).truncate()).on_hover_text(format!("{text}\n{about}"));
    });
}

fn pack_row(mut row: egui_extras::TableRow<'_, '_>, frame: &Frame<'_>, shown: &Shown, (rows, shape): (&Rows, Shape)) {
    let at = rows.order[row.index()];
    let pack = &shown.planned.plan.packs[at];
    let used = pack.queries_len * shown.planned.plan.shape.group();
    row.set_selected(frame.selected.has_pack(PackIdx::from(at), pack.node));
    let runs = frame.now.as_ref().is_some_and(|now| now.has_pack(PackIdx::from(at)));
    row.set_hovered(runs || frame.hovered.has_pack(PackIdx::from(at), pack.node));
    row.col(|ui| {
        let (rect, _) = ui.allocate_exact_size(vec2(9.0, 9.0), Sense::hover());
        ui.painter().rect_filled(rect, 2.0, frame.entity_colour(shown, Entity::Pack(PackIdx::from(at))));
        ui.label(at.to_string());
    });
    row.col(|ui| {
        if shown.below_packs[at].is_empty() {
            ui.label(pack.node.0.to_string());
        } else {
            ui.label(format!("{} ↓", pack.node.0)).on_hover_text("and every node below it that its queries have");
        }
    });
    row.col(|ui| _ = ui.label(pack.queries_len.to_string()));
    row.col(|ui| _ = ui.label(used.to_string()));
    row.col(|ui| _ = ui.label(pack.tile.to_string()));
    row.col(|ui| {
        let share = used as f32 / pack.tile.m.max(1) as f32;
        let (rect, _) = ui.allocate_exact_size(vec2(30.0, 8.0), Sense::hover());
        ui.painter().rect_filled(rect, 2.0, frame.tokens.line);
        let filled = rect.with_max_x(rect.left() + rect.width() * share.min(1.0));
        ui.painter().rect_filled(filled, 2.0, frame.tokens.accent);
        ui.label(format!("{:.0} %", share * 100.0));
    });
    row.col(|ui| _ = ui.label(pack.tokens.to_string()));
    row.col(|ui| {
        let why = rows.whys[at].and_then(|why| shown.planned.plan.decisions.get(why as usize));
        let rule = why.map(|why| why.rule.as_ref());
        let letter = |rule: &str| rows.reasons.iter().position(|own| own == rule).and_then(|at| LETTERS.get(at..=at));
        let text = match rule {
            Some(rule) if shape.by_letter => letter(rule).unwrap_or(rule),
            Some(rule) => rule,
            None => "not recorded",
        };
        let label = ui.add(egui::Label::new(RichText::new(text).small().color(frame.tokens.faint)).wrap());
        if let Some(why) = why {
            label.on_hover_text(why.sentence());
        }
    });
    frame.link(&row.response(), Selection::Pack(PackIdx::from(at)));
}
