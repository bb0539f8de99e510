//! The selection in full: the chain node → pack → CTA → SM slice → bytes, and why.

use egui::{RichText, ScrollArea, Ui};
use engine::capture::{Source, Span};
use engine::decision::{Decision, Subject};
use engine::units::{NodeIdx, PackIdx, counted, grouped};

use crate::runs::headline;
use crate::runs::run::Run;
use crate::runs::shown::{Shown, Sources};
use crate::timeline::lanes::Entity;
use crate::window::chip;
use crate::window::command::Command;
use crate::window::frame::Frame;
use crate::window::panels::figures;
use crate::window::panels::parts::{empty, figure, no_run, percent_of, signed};
use crate::window::selection::Selection;

/// Most lines of a list; the rest is counted.
const MOST: usize = 60;

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame<'_>) {
    let Some(shown) = frame.shown else {
        empty(ui, frame.tokens, no_run(frame));
        return;
    };
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        if !frame.selected.is_some() {
            overview(ui, frame, shown);
            decisions(ui, frame, shown);
            return;
        }
        if let Some(node) = frame.selected.node {
            node_part(ui, frame, shown, node);
        }
        if let Some(pack) = frame.selected.pack {
            pack_part(ui, frame, shown, pack);
        }
        if let Selection::Cta(source, span) = frame.selected.what {
            cta_part(ui, frame, shown, source, span);
        }
        if let Selection::Gap(source, gap) = frame.selected.what {
            gap_part(ui, frame, shown, (source, gap));
            return;
        }
        decisions(ui, frame, shown);
    });
}

/// A bubble: where, how long, why, and the CTAs that bound it.
fn gap_part(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, (source, at): (Source, usize)) {
    let Some(run) = shown.run(source) else { return };
    let Some(gap) = run.gaps.get(at) else { return };
    let name = gap.cause.words();
    heading(ui, frame, &format!("Bubble: {name}"), Selection::Gap(source, at));
    let told = |ui: &mut Ui, name: &str, value: String| figure(ui, frame.tokens, name, &value, source.name());
    told(ui, "SM · slot", format!("{} · {}", gap.sm, gap.slot));
    told(ui, "begins", gap.begin.to_string());
    told(ui, "ends", gap.end.to_string());
    told(ui, "takes", gap.length().to_string());
    let all = run.bubbles.of(gap.cause);
    told(ui, &format!("{name}, all slots"), format!("{all} · {:.1} %", run.bubbles.share(all) * 100.0));
    ui.add(egui::Label::new(gap.cause.about()).wrap());
    ui.add(egui::Label::new(RichText::new(gap.cause.remedy()).color(frame.tokens.faint)).wrap());
    ui.horizontal_wrapped(|ui| {
        if ui.button("Show me").clicked() {
            frame.send(Command::Reveal(Selection::Gap(source, at)));
        }
        ui.label(RichText::new(if frame.ctas.is_empty() { "no CTA bounds it" } else { "bounded by" }));
        for span in frame.ctas.iter().filter(|span| **span < run.capture.spans.len()) {
            let bound = run.capture.spans.get(*span);
            // A button keeps its words on one line.
            let name = RichText::new(format!("CTA {} of launch {}", bound.cta, bound.launch));
            if ui.add(egui::Button::new(name.color(frame.tokens.accent)).small()).clicked() {
                frame.send(Command::Reveal(Selection::Cta(source, *span)));
            }
        }
    });
}

fn heading(ui: &mut Ui, frame: &Frame<'_>, text: &str, what: Selection) {
    ui.add_space(4.0);
    let selected = frame.selected.what == what;
    let response = ui.selectable_label(selected, RichText::new(text).strong());
    frame.link(&response, what);
}

fn overview(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown) {
    let plan = &shown.planned.plan;
    ui.label(RichText::new("The plan").strong());
    let derived = |ui: &mut Ui, name: &str, value: String| figure(ui, frame.tokens, name, &value, "derived");
    derived(ui, "requests", grouped(shown.planned.batch.requests().len() as u64));
    derived(ui, "tree nodes", grouped(shown.planned.tree.nodes.len() as u64));
    derived(ui, "packs", grouped(plan.packs.len() as u64));
    derived(ui, "attention CTAs", grouped(shown.told.attention_ctas));
    derived(ui, "launches", plan.launches.len().to_string());
    hybrid(ui, frame, shown);
    derived(ui, "KV tokens read", shown.told.kv_tokens_read.to_string());
    derived(ui, "unique KV tokens", shown.told.unique_tokens.to_string());
    for run in shown.runs(Sources::Both) {
        run_part(ui, frame, run);
    }
    if let (Some(measured), Some(simulated)) = (&shown.measured, &shown.simulated) {
        let off = percent_of(simulated.times().median, measured.times().median);
        derived(ui, "simulated over measured", off);
    }
    ui.add_space(6.0);
    for (tile, packs) in &shown.told.tiles {
        derived(ui, &format!("tile {tile}"), counted(u64::from(*packs), "pack"));
    }
    ui.add_space(8.0);
    let hint = "Select a node, a pack or a CTA in any view: the chain from prefix to bytes shows here, with the decisions behind it.";
    ui.label(RichText::new(hint).color(frame.tokens.faint));
}

/// The figures of a run; a measured one with all that says how far they can be trusted.
fn run_part(ui: &mut Ui, frame: &Frame<'_>, run: &Run) {
    let source = run.words();
    figure(ui, frame.tokens, "makespan", &headline::makespan(&run.capture), source);
    if let Some(traced) = run.lanes_are_of() {
        ui.label(RichText::new(traced).color(frame.tokens.faint)).on_hover_text(headline::TRACED);
    }
    chip::expected(ui, frame.tokens, run);
    figure(ui, frame.tokens, "slots busy", &run.busy(1), source);
    if let Some(reason) = run.damage.of_spans() {
        ui.label(RichText::new(reason).small().color(frame.tokens.warn));
    }
    if run.source() == Source::Measured {
        for (name, value) in figures::of_measured(run) {
            figure(ui, frame.tokens, &name, &value, source);
        }
    }
}

/// Prefill and how it comes together with decode, where the batch has it.
fn hybrid(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown) {
    let plan = &shown.planned.plan;
    let Some(task) = plan.prefill.tasks.first() else { return };
    let derived = |ui: &mut Ui, name: &str, value: String| figure(ui, frame.tokens, name, &value, "derived");
    derived(ui, "prefill query tokens", grouped(plan.prefill.rows()));
    derived(ui, "prefill tile", task.tile.to_string());
    let splits = plan.prefill.chunks.iter().map(|chunk| chunk.splits).max().unwrap_or(1);
    derived(ui, "prefill KV splits", splits.to_string());
    if let Some(figures) = plan.hybrid_figures() {
        derived(ui, "prefill · decode CTAs", format!("{} · {}", figures.prefill_ctas, figures.decode_ctas));
        derived(ui, "CTAs that host prefill · decode", format!("{} · {}", figures.prefill_slots, figures.decode_slots));
        derived(ui, "grid", grouped(u64::from(figures.grid)));
        if let Some(tickets) = figures.tickets {
            let text = format!("{} : {}", tickets.prefill, tickets.period - tickets.prefill);
            derived(ui, "tickets, prefill : decode", text);
        }
    }
}

fn node_part(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, node: NodeIdx) {
    let Some(found) = shown.planned.tree.nodes.get(node.at()) else { return };
    heading(ui, frame, &format!("Node {}", node.0), Selection::Node(node));
    figure(ui, frame.tokens, "tokens", &found.tokens.to_string(), "batch");
    figure(ui, frame.tokens, "requests", &found.query_count().to_string(), "batch");
    figure(ui, frame.tokens, "depth", &found.depth.to_string(), "batch");
    if let Some(traffic) = shown.nodes.get(node.at()) {
        figure(ui, frame.tokens, "read", &format!("{:.2}×", traffic.redundancy()), "derived");
        let bytes = shown.planned.batch.shape.kv_bytes_per_token() * traffic.tokens_read.0;
        figure(ui, frame.tokens, "KV bytes issued", &bytes.to_string(), "derived");
    }
    if frame.selected.pack.is_none() {
        let reads = shown.nodes_of_packs.iter().zip(&shown.below_packs).enumerate();
        let of_node = reads.filter(|(_, (of, below))| **of == node || below.binary_search(&node).is_ok());
        let packs: Vec<usize> = of_node.map(|(at, _)| at).collect();
        ui.horizontal_wrapped(|ui| {
            ui.label(RichText::new("packs").color(frame.tokens.faint));
            for at in packs.iter().take(MOST) {
                let response = ui.link(at.to_string());
                frame.link(&response, Selection::Pack(PackIdx::from(*at)));
            }
            if packs.len() > MOST {
                ui.label(format!("and {} more", packs.len() - MOST));
            }
        });
    }
}

fn pack_part(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, pack: PackIdx) {
    let plan = &shown.planned.plan;
    let Some(found) = plan.packs.get(pack.at()) else { return };
    heading(ui, frame, &format!("Pack {}", pack.0), Selection::Pack(pack));
    let rows = found.queries_len * plan.shape.group();
    figure(ui, frame.tokens, "queries", &found.queries_len.to_string(), "derived");
    figure(ui, frame.tokens, "query rows", &format!("{rows} of {}", found.tile.m), "derived");
    figure(ui, frame.tokens, "tile", &found.tile.to_string(), "derived");
    figure(ui, frame.tokens, "KV tokens", &found.tokens.to_string(), "derived");
    if found.is_subtree(plan.shape.block_size) {
        let shared = u64::from(found.blocks_end - found.blocks_begin) * u64::from(plan.shape.block_size);
        figure(ui, frame.tokens, "of these under a mask", &(found.tokens.0 - shared).to_string(), "derived");
    }
    figure(
        ui,
        frame.tokens,
        "steps of the main loop",
        &found.tokens.0.div_ceil(u64::from(found.tile.n.max(1))).to_string(),
        "derived",
    );
    let bytes = plan.shape.kv_bytes_per_token_head() * (found.tokens.0 * u64::from(found.heads));
    let heads = counted(u64::from(found.heads), "KV head");
    figure(ui, frame.tokens, &format!("KV bytes per CTA, of {heads}"), &bytes.to_string(), "derived");
    if matches!(frame.selected.what, Selection::Cta(..)) {
        return;
    }
    let Some(run) = shown.front() else { return };
    ui.horizontal_wrapped(|ui| {
        ui.label(RichText::new("CTAs").color(frame.tokens.faint));
        for span in frame.ctas.iter().filter(|span| **span < run.capture.spans.len()) {
            let response = ui.link(format!("SM {}", run.capture.spans.sm[*span]));
            frame.link(&response, Selection::Cta(run.source(), *span));
        }
    });
}

fn cta_part(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, of: Source, at: usize) {
    let Some(run) = shown.run(of).filter(|run| at < run.capture.spans.len()) else { return };
    let span = run.capture.spans.get(at);
    let title = match run.lanes.entities.get(at) {
        Some(Entity::Merge) => "Merge CTA",
        Some(Entity::Prefill) => "Prefill CTA",
        Some(Entity::Both) => "Prefill and decode CTA",
        Some(Entity::Pack(_) | Entity::Unknown) | None => "CTA",
    };
    heading(ui, frame, &format!("{title} {} of launch {}", span.cta, span.launch), Selection::Cta(of, at));
    span_part(ui, frame, run.words(), &span);
    let Some(twin) = shown.twin(of, at) else { return };
    let other = if of == Source::Measured { Source::Simulated } else { Source::Measured };
    if let (Some(run), Some(at)) = (shown.run(other), frame.selected.span_in(other)) {
        ui.add_space(4.0);
        span_part(ui, frame, run.words(), &run.capture.spans.get(at));
    }
    ui.add_space(4.0);
    ui.label(RichText::new("simulated − measured").color(frame.tokens.faint));
    figure(ui, frame.tokens, "begins", &signed(twin.begin), "derived");
    figure(ui, frame.tokens, "takes", &signed(twin.duration), "derived");
}

fn span_part(ui: &mut Ui, frame: &Frame<'_>, source: &str, span: &Span) {
    figure(ui, frame.tokens, "SM · slot", &format!("{} · {}", span.sm, span.slot), source);
    figure(ui, frame.tokens, "begins", &span.begin.to_string(), source);
    figure(ui, frame.tokens, "ends", &span.end.to_string(), source);
    figure(ui, frame.tokens, "takes", &span.length().to_string(), source);
    figure(
        ui,
        frame.tokens,
        "first tile landed after",
        &span.first_tile.saturating_sub(span.begin).to_string(),
        source,
    );
    figure(ui, frame.tokens, "after the main loop", &span.end.saturating_sub(span.loop_end).to_string(), source);
}

fn decisions(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown) {
    let lit = frame.selected;
    let of = shown.planned.plan.decisions.iter().filter(|decision| match decision.subject {
        // A child that was merged or split off is one party of its parent's choice.
        Subject::Node(node) => lit.node == Some(node) || (lit.node.is_some() && lit.node == decision.other),
        Subject::Pack(pack) => lit.pack == Some(pack),
        // Choices about the whole plan stand where nothing of it is selected.
        Subject::Launch(_) | Subject::Plan => !lit.is_some(),
    });
    ui.add_space(6.0);
    ui.label(RichText::new("Why").strong());
    let mut any = false;
    for decision in of.take(MOST) {
        any = true;
        record(ui, frame, shown, decision);
        if let Some(constant) = decision.constant.as_ref().filter(|constant| constant.name == "split_constant")
            && let Some(flip) = constant.flips_at
            && ui
                .small_button(format!("try {flip:.2}"))
                .on_hover_text("replan with the constant just past where this choice flips")
                .clicked()
        {
            frame.send(Command::SplitConstant(flip * if flip > constant.value { 1.01 } else { 0.99 }));
        }
    }
    if !any {
        let text = no_decision(shown);
        ui.add(egui::Label::new(RichText::new(text).color(frame.tokens.faint)).wrap());
    }
}

/// Why there is no decision to show.
fn no_decision(shown: &Shown) -> String {
    if let Some(reason) = shown.front().and_then(|run| run.damage.of_decisions()) {
        return format!("Not known: {reason}.");
    }
    let none = shown.planned.plan.decisions.is_empty() && !shown.planned.batch.requests().is_empty();
    let text = if none {
        "The capture holds no decisions; it is of a version that did not keep them. Plan the batch again (Run) to have \
         them."
    } else {
        "No decision was recorded for this; its parent or its packs have them."
    };
    text.to_owned()
}

/// One choice: every way with its costs, the one that was taken in front, then rule and constant; an estimate of the
/// run beside what the runs took.
fn record(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, decision: &Decision) {
    ui.add_space(4.0);
    let title = format!("{} · {}", decision.choice.name(), decision.title());
    ui.label(RichText::new(title).color(frame.tokens.faint).small());
    let taken = decision.taken().map(|way| (way, true));
    for (way, taken) in taken.into_iter().chain(decision.left().map(|way| (way, false))) {
        ui.horizontal_wrapped(|ui| {
            let name = RichText::new(way.what.as_ref());
            ui.label(if taken { name.strong() } else { name.color(frame.tokens.faint) });
            ui.label(way.price.to_string());
            ui.label(RichText::new(decision.rule_cost(way)).color(frame.tokens.faint).small());
        });
    }
    for run in shown.runs(Sources::Both) {
        if let Some(beside) = decision.beside(run.words(), run.times().median) {
            ui.add(egui::Label::new(beside).wrap());
        }
    }
    ui.add(egui::Label::new(format!("because {}", decision.rule)).wrap());
    if let Some(constant) = &decision.constant {
        ui.label(constant.to_string());
    }
}
