//! What is under the pointer: selected by a click, gone to by two, told at the pointer.

use std::fmt::Write as _;

use egui::Response;
use engine::plan::CtaRole;
use engine::units::{PackIdx, counted};

use super::blocks::{self, Block};
use super::state::State;
use crate::runs::shown::Shown;
use crate::timeline::lanes::Entity;
use crate::window::command::Command;
use crate::window::commands::table::Action;
use crate::window::frame::Frame;
use crate::window::panels::parts::signed;
use crate::window::selection::Selection;

/// Links what is under the pointer.
pub(super) fn pointer(frame: &Frame<'_>, response: &Response, blocks: &[Block<'_>], shown: &Shown, state: &mut State) {
    let Some(pos) = response.hover_pos() else { return };
    let Some(block @ Block { run, layout, .. }) = blocks::at(blocks, pos.y) else { return };
    if !layout.rect.contains(pos) {
        return;
    }
    let time = layout.time(pos.x).max(0.0) as u64;
    let mut lanes = layout.lanes_at(pos.y).into_iter().filter_map(|lane| run.lanes.lanes.get(lane));
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
    let mut lanes = layout.lanes_at(pos.y).into_iter().filter_map(|lane| run.lanes.lanes.get(lane));
    let gap = lanes.find_map(|lane| run.gaps.at(lane.sm, lane.slot, time));
    if response.double_clicked() {
        frame.send(Command::Act(Action::Fit));
    } else if response.clicked() && gap.is_none() {
        frame.send(Command::Select(Selection::None));
        state.axis.range = None;
    }
    let Some((at, gap)) = gap.and_then(|at| Some((at, run.gaps.get(at)?))) else { return };
    frame.link(response, Selection::Gap(run.source(), at));
    let text = format!(
        "SM {} slot {}: {} bubble of {}\n{} to {} ({})\n{}\n{}",
        gap.sm,
        gap.slot,
        gap.cause.words(),
        gap.length(),
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
    let all = shown.planned.plan.shape.block_size;
    let below = if found.is_subtree(all) { ", with all below its node" } else { "" };
    Some(format!("pack {} · tile {} · {queries} · {} KV tokens{below}", pack.0, found.tile, found.tokens))
}

/// What the prefill CTA of a span computes.
fn prefill_text(shown: &Shown, span: &engine::capture::Span) -> Option<String> {
    let plan = &shown.planned.plan;
    let work = plan.work_of(plan.launches.get(span.launch as usize)?, span.cta)?;
    let (of, task) = (work.prefill?, work.prefill_task()?);
    let heads = if of.query_heads > 1 {
        format!("query heads {} to {}", of.query_head, of.query_head + of.query_heads - 1)
    } else {
        format!("query head {}", of.query_head)
    };
    let beside = if work.role() == CtaRole::Both { " · with decode warps beside it" } else { "" };
    Some(format!(
        "prefill of request {} · {heads} · rows {} to {} · KV {} to {} · tile {}{beside}",
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
        span.length(),
        run.words()
    );
    for (begin, end) in run.pauses().filter(|(begin, end)| *begin < span.end && *end > span.begin) {
        let _ = write!(text, "\nthe HBM pauses meanwhile, from {begin} to {end}");
    }
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
