//! Measured and simulated run of one plan, CTA by CTA, as a virtual table: where the simulator is off.

use std::sync::Arc;

use egui::{RichText, Sense, Ui, vec2};
use egui_extras::{Column, TableBuilder};
use engine::capture::Spans;
use engine::metrics::{Differences, Twin};
use engine::units::{Nanos, PackIdx, grouped};

use crate::runs::headline;
use crate::runs::run::Run;
use crate::runs::shown::Shown;
use crate::timeline::colour::entity_colour;
use crate::window::command::Command;
use crate::window::commands::table::{Action, RUN_GPU};
use crate::window::frame::Frame;
use crate::window::panels::parts::{empty, percent_of, signed};
use crate::window::selection::Selection;

/// Titles with what they mean.
const COLUMNS: [(&str, f32, &str); 8] = [
    ("CTA", 84.0, "launch · CTA of the plan"),
    ("pack", 52.0, "the pack that it computes"),
    ("SM", 76.0, "where it ran: measured · simulated"),
    ("begins", 150.0, "measured · simulated, from the start of each run"),
    ("begin Δ", 78.0, "simulated − measured (derived)"),
    ("takes", 150.0, "measured · simulated"),
    ("takes Δ", 78.0, "simulated − measured (derived)"),
    ("takes Δ %", 70.0, "of the measured time (derived)"),
];

/// Sorting, and the order that it gave.
#[derive(Clone, Debug)]
pub struct State {
    column: usize,
    descending: bool,
    /// Largest differences first, whatever their sign, where the column is one.
    order: Vec<u32>,
    of: Option<(Arc<Differences>, usize, bool)>,
}

impl Default for State {
    fn default() -> Self {
        Self { column: 6, descending: true, order: Vec::new(), of: None }
    }
}

struct Pair<'a> {
    measured: &'a Run,
    simulated: &'a Run,
}

impl Pair<'_> {
    fn spans(&self) -> (&Spans, &Spans) {
        (&self.measured.capture.spans, &self.simulated.capture.spans)
    }

    fn takes(&self, twin: &Twin) -> (Nanos, Nanos) {
        let (ours, theirs) = (self.spans().0.get(twin.measured), self.spans().1.get(twin.simulated));
        (ours.end.saturating_sub(ours.begin), theirs.end.saturating_sub(theirs.begin))
    }

    fn key(&self, twin: &Twin, column: usize) -> u64 {
        let spans = &self.measured.capture.spans;
        match column {
            1 => pack_of(self.measured, twin).map_or(u64::MAX, |pack| u64::from(pack.0)),
            2 => u64::from(spans.sm[twin.measured]),
            3 => spans.begin[twin.measured],
            4 => twin.begin.unsigned_abs(),
            5 => self.takes(twin).0.0,
            6 => twin.duration.unsigned_abs(),
            7 => twin.duration.unsigned_abs() * 1_000_000 / self.takes(twin).0.0.max(1),
            _ => u64::from(spans.launch[twin.measured]) << 32 | u64::from(spans.cta[twin.measured]),
        }
    }
}

impl State {
    fn sort(&mut self, differences: &Arc<Differences>, pair: &Pair<'_>) {
        let fresh = self.of.as_ref().is_some_and(|(of, column, descending)| {
            Arc::ptr_eq(of, differences) && (*column, *descending) == (self.column, self.descending)
        });
        if fresh {
            return;
        }
        self.order = (0..differences.twins.len() as u32).collect();
        let column = self.column;
        self.order.sort_by_cached_key(|at| (pair.key(&differences.twins[*at as usize], column), *at));
        if self.descending {
            self.order.reverse();
        }
        self.of = Some((Arc::clone(differences), self.column, self.descending));
    }
}

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame<'_>, state: &mut State) {
    let both = frame.shown.and_then(|shown| {
        Some((shown, shown.measured.as_ref()?, shown.simulated.as_ref()?, shown.differences.as_ref()?))
    });
    let Some((shown, measured, simulated, differences)) = both else {
        nothing(ui, frame);
        return;
    };
    let pair = Pair { measured, simulated };
    summary(ui, frame, &pair, differences);
    state.sort(differences, &pair);
    table(ui, frame, state, (shown, &pair, differences));
}

fn nothing(ui: &mut Ui, frame: &Frame<'_>) {
    let measured = frame.shown.is_some_and(|shown| shown.measured.is_some());
    let text = if measured {
        "There is no simulated run of this plan beside its measured one; the log says why."
    } else {
        "Here stand the CTAs of a measured run beside those of the simulated one. Run the plan on a GPU, or open a \
         capture that was measured."
    };
    empty(ui, frame.tokens, text);
    if !measured {
        ui.vertical_centered(|ui| {
            if ui.button(format!("{RUN_GPU} now")).clicked() {
                frame.send(Command::Act(Action::RunGpu));
            }
        });
    }
}

/// Makespans, medians, and what has no partner.
fn summary(ui: &mut Ui, frame: &Frame<'_>, pair: &Pair<'_>, differences: &Differences) {
    let (ours, theirs) = (pair.measured.times(), pair.simulated.times());
    ui.horizontal_wrapped(|ui| {
        let faint = |text: String| RichText::new(text).color(frame.tokens.faint);
        ui.label(RichText::new(format!("makespan {} measured", ours.median)).strong());
        ui.label(faint(format!("median of {}, {} to {}", ours.count, ours.least, ours.most)));
        ui.label(RichText::new(format!("{} {}", theirs.median, pair.simulated.words())).strong());
        let off = percent_of(theirs.median, ours.median);
        ui.label(RichText::new(format!("{off} (derived)")).color(frame.tokens.accent));
        if let Some((begin, takes)) = differences.medians() {
            let count = grouped(differences.twins.len() as u64);
            let text = format!("median CTA of {count}: begins {}, takes {}", signed(begin), signed(takes));
            ui.label(faint(text)).on_hover_text("simulated − measured (derived)");
        }
        if let Some(traced) = pair.measured.lanes_are_of() {
            ui.label(faint(traced)).on_hover_text(headline::TRACED);
        }
        let (only, other) = (differences.only_measured, differences.only_simulated);
        if only + other > 0 {
            let why = "merges that a persistent worker does on the side, by another worker in each run";
            let why = pair.measured.damage.of_spans().unwrap_or_else(|| why.to_owned());
            let text = format!("without a partner: {only} measured, {other} simulated");
            ui.label(RichText::new(text).color(frame.tokens.warn)).on_hover_text(why);
        }
    });
}

fn table(ui: &mut Ui, frame: &Frame<'_>, state: &mut State, of: (&Shown, &Pair<'_>, &Differences)) {
    let (_, pair, differences) = of;
    let mut table = TableBuilder::new(ui)
        .id_salt("differences")
        .striped(true)
        .sense(Sense::click())
        .cell_layout(egui::Layout::left_to_right(egui::Align::Center));
    for (_, width, _) in COLUMNS {
        table = table.column(Column::initial(width).at_least(40.0).clip(true));
    }
    let table = table.column(Column::remainder()).auto_shrink(false);
    let order = std::mem::take(&mut state.order);
    table
        .header(20.0, |mut header| {
            for (column, (name, _, about)) in COLUMNS.into_iter().enumerate() {
                header.col(|ui| {
                    let arrow = match (state.column == column, state.descending) {
                        (true, true) => " v",
                        (true, false) => " ^",
                        _ => "",
                    };
                    let text = RichText::new(format!("{name}{arrow}")).color(frame.tokens.faint);
                    if ui.add(egui::Button::new(text).frame(false)).on_hover_text(about).clicked() {
                        state.descending = state.column != column || !state.descending;
                        state.column = column;
                    }
                });
            }
            header.col(|_| {});
        })
        .body(|body| {
            body.rows(19.0, order.len(), |row| {
                let twin = &differences.twins[order[row.index()] as usize];
                twin_row(row, frame, pair, twin);
            });
        });
    state.order = order;
}

/// The pack of a CTA; none where it merges or computes prefill.
fn pack_of(run: &Run, twin: &Twin) -> Option<PackIdx> {
    run.lanes.entities[twin.measured].pack()
}

fn twin_row(mut row: egui_extras::TableRow<'_, '_>, frame: &Frame<'_>, pair: &Pair<'_>, twin: &Twin) {
    let source = pair.measured.source();
    row.set_selected(frame.selected.span_in(source) == Some(twin.measured));
    row.set_hovered(frame.hovered.span_in(source) == Some(twin.measured));
    let (ours, theirs) = (pair.spans().0.get(twin.measured), pair.spans().1.get(twin.simulated));
    let takes = pair.takes(twin);
    let of = (&pair.measured.capture.plan, pair.measured.levels());
    let entity = pair.measured.lanes.entities[twin.measured];
    row.col(|ui| {
        let (rect, _) = ui.allocate_exact_size(vec2(9.0, 9.0), Sense::hover());
        ui.painter().rect_filled(rect, 2.0, entity_colour(frame.tokens, of, entity, frame.by_tile));
        ui.label(format!("{} · {}", ours.launch, ours.cta));
    });
    let pack = entity.pack().map_or_else(|| ours.role.name().to_owned(), |pack| pack.0.to_string());
    row.col(|ui| _ = ui.label(pack));
    row.col(|ui| _ = ui.label(format!("{} · {}", ours.sm, theirs.sm)));
    row.col(|ui| _ = ui.label(format!("{} · {}", ours.begin, theirs.begin)));
    row.col(|ui| _ = ui.label(RichText::new(signed(twin.begin)).color(frame.tokens.accent)));
    row.col(|ui| _ = ui.label(format!("{} · {}", takes.0, takes.1)));
    row.col(|ui| _ = ui.label(RichText::new(signed(twin.duration)).color(frame.tokens.accent)));
    row.col(|ui| _ = ui.label(RichText::new(percent_of(takes.1, takes.0)).color(frame.tokens.accent)));
    row.col(|_| {});
    frame.link(&row.response(), Selection::Cta(source, twin.measured));
}
