//! The launches of the plan: streams, waits, the order of their CTAs, and the merge; one step at a time.

use egui::{Align2, FontId, Pos2, Rect, RichText, ScrollArea, Sense, Shape, Stroke, StrokeKind, Ui, pos2, vec2};
use engine::pack::CtaOrder;
use engine::plan::{Launch, LaunchKind, LaunchPlan};
use engine::units::{Nanos, counted, grouped};

use crate::runs::shown::Shown;
use crate::theme::mix;
use crate::timeline::lanes::Entity;
use crate::window::command::Command;
use crate::window::frame::Frame;
use crate::window::panels::parts::{empty, figure, no_run};
use crate::window::selection::Selection;

/// Height of a stream and width of a launch in the diagram.
const STREAM: f32 = 34.0;
const LAUNCH: f32 = 128.0;
/// CTAs of a launch that are listed, in their order.
const MOST: u32 = 40;

/// The launch that is looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    step: usize,
}

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame<'_>, state: &mut State) {
    let Some(shown) = frame.shown.filter(|shown| !shown.planned.plan.launches.is_empty()) else {
        return empty(ui, frame.tokens, no_run(frame));
    };
    let plan = &shown.planned.plan;
    state.step = state.step.min(plan.launches.len() - 1);
    ui.horizontal_wrapped(|ui| {
        if !frame.is_picture {
            steps(ui, state, plan.launches.len());
        }
        let text = format!(
            "{} under {}: {} on {}",
            plan.scheduler,
            plan.strategy.name(),
            counted(plan.launches.len() as u64, "launch"),
            counted(streams(plan) as u64, "stream")
        );
        ui.label(RichText::new(text).color(frame.tokens.faint)).on_hover_text(plan.strategy.about());
    });
    ScrollArea::both().auto_shrink(false).show(ui, |ui| {
        diagram(ui, frame, shown, state);
        launch(ui, frame, shown, state.step);
        merge(ui, frame, plan);
    });
}

/// Buttons from launch to launch.
fn steps(ui: &mut Ui, state: &mut State, launches: usize) {
    if ui.add_enabled(state.step > 0, egui::Button::new("Previous launch")).clicked() {
        state.step -= 1;
    }
    if ui.add_enabled(state.step + 1 < launches, egui::Button::new("Next launch")).clicked() {
        state.step += 1;
    }
}

fn streams(plan: &LaunchPlan) -> usize {
    plan.launches.iter().map(|launch| launch.stream as usize + 1).max().unwrap_or(0)
}

/// What a launch does, in a few words.
fn name(launch: &Launch) -> String {
    match launch.kind {
        LaunchKind::Attention(tile) => format!("attention {tile}"),
        LaunchKind::Merge => "merge".to_owned(),
        LaunchKind::Persistent(tile) => format!("persistent {tile}"),
        LaunchKind::MergeRound(round) => format!("merge round {}", round + 1),
        LaunchKind::Prefill(_) => "prefill".to_owned(),
        LaunchKind::MergePrefill => "merge of prefill".to_owned(),
        LaunchKind::Hybrid(_) => "prefill and decode".to_owned(),
        LaunchKind::PrefillQueue(_) => "persistent prefill".to_owned(),
        LaunchKind::FoldedPrefill(_) => "prefill by KV heads".to_owned(),
    }
}

/// The columns of launches: one after all that it waits for.
fn columns(plan: &LaunchPlan) -> Vec<usize> {
    let mut columns: Vec<usize> = Vec::with_capacity(plan.launches.len());
    // Of the launches of a stream the last stands farthest to the right.
    let mut free = vec![0; streams(plan)];
    for launch in &plan.launches {
        let after = launch.after.iter().filter_map(|other| columns.get(*other as usize)).map(|column| column + 1);
        let column = after.fold(free[launch.stream as usize], usize::max);
        free[launch.stream as usize] = column + 1;
        columns.push(column);
    }
    columns
}

fn diagram(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, state: &mut State) {
    let (plan, t) = (&shown.planned.plan, frame.tokens);
    let columns = columns(plan);
    let width = (columns.iter().max().copied().unwrap_or(0) + 1) as f32 * LAUNCH + 70.0;
    let size = vec2(width.max(ui.available_width()), streams(plan) as f32 * STREAM + 6.0);
    let (rect, _) = ui.allocate_exact_size(size, Sense::hover());
    let painter = ui.painter_at(rect);
    painter.rect_filled(rect, 2.0, t.canvas);
    let places: Vec<Rect> = plan
        .launches
        .iter()
        .zip(&columns)
        .map(|(launch, column)| {
            let corner =
                pos2(rect.left() + 64.0 + *column as f32 * LAUNCH, rect.top() + 3.0 + launch.stream as f32 * STREAM);
            Rect::from_min_size(corner, vec2(LAUNCH - 24.0, STREAM - 6.0))
        })
        .collect();
    for stream in 0..streams(plan) {
        let at = pos2(rect.left() + 6.0, rect.top() + (stream as f32 + 0.5) * STREAM + 2.0);
        painter.text(at, Align2::LEFT_CENTER, format!("stream {stream}"), FontId::proportional(11.0), t.faint);
    }
    // A trace of many layers has thousands of launches, of which few are in sight.
    let seen = painter.clip_rect();
    for (at, (launch, place)) in plan.launches.iter().zip(&places).enumerate() {
        let arrows = launch.after.iter().filter_map(|before| places.get(*before as usize));
        let reach = arrows.fold(*place, |reach, before| reach.union(*before));
        if !reach.expand(LAUNCH).intersects(seen) {
            continue;
        }
        for before in launch.after.iter().filter_map(|before| places.get(*before as usize)) {
            arrow(&painter, before.right_center(), place.left_center(), t.faint);
        }
        let lit = state.step == at;
        let fill = if launch.kind.is_merge() { mix(t.canvas, t.merge, 0.35) } else { mix(t.canvas, t.accent, 0.3) };
        painter.rect_filled(*place, 3.0, fill);
        if lit {
            painter.rect_stroke(*place, 3.0, Stroke::new(2.0, t.accent), StrokeKind::Outside);
        }
        painter.text(place.center(), Align2::CENTER_CENTER, name(launch), FontId::proportional(11.0), t.text);
        let response = ui.interact(*place, ui.scope_id().with(("launch", at)), Sense::click());
        let label = format!("launch {at}: {}, stream {}", name(launch), launch.stream);
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, label.clone()));
        if response.clicked() {
            state.step = at;
        }
    }
}

fn arrow(painter: &egui::Painter, from: Pos2, to: Pos2, colour: egui::Color32) {
    painter.add(Shape::line_segment([from, to], Stroke::new(1.0, colour)));
    let back = (from - to).normalized() * 6.0;
    for side in [back.rot90(), -back.rot90()] {
        painter.add(Shape::line_segment([to, to + back + side * 0.5], Stroke::new(1.0, colour)));
    }
}

fn launch(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, at: usize) {
    let (plan, t) = (&shown.planned.plan, frame.tokens);
    let launch = &plan.launches[at];
    ui.set_max_width(460.0);
    ui.label(RichText::new(format!("Launch {at}: {}", name(launch))).strong());
    let derived = |ui: &mut Ui, name: &str, value: String| figure(ui, t, name, &value, "derived");
    derived(ui, "CTAs", grouped(u64::from(plan.cta_count(launch))));
    if !launch.kind.is_merge() {
        derived(
            ui,
            "packs · prefill tasks",
            format!("{} · {}", plan.packs_of(launch).len(), plan.tasks_of(launch).len()),
        );
        derived(ui, "order of CTAs", order(launch).to_owned());
    }
    let waits = match launch.after.as_slice() {
        [] if plan.launches[..at].iter().any(|before| before.stream == launch.stream) => {
            "for what is before it on its stream".to_owned()
        }
        [] => "for nothing".to_owned(),
        after => format!("for launch {}", after.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    };
    derived(ui, "waits", waits);
    if let Some(sms) = launch.sms {
        derived(ui, "SMs of its grid", sms.to_string());
    }
    for run in shown.runs(crate::runs::shown::Sources::Both) {
        if let Some(window) = run.capture.kernels.iter().find(|window| window.launch as usize == at) {
            let text = format!("{} · {} · {}", window.ready, window.begin, window.end);
            figure(ui, t, "could start · began · ended", &text, run.words());
            let waited = window.begin.saturating_sub(window.ready);
            if waited > Nanos::ZERO {
                figure(ui, t, "waited for a first CTA", &waited.to_string(), run.words());
            }
        }
    }
    ctas(ui, frame, shown, launch);
}

fn order(launch: &Launch) -> &'static str {
    if launch.kind.takes_from_queue() {
        return "from a queue, as workers get free";
    }
    match launch.order {
        CtaOrder::PackFastest => "all packs of a KV head, then the next head",
        CtaOrder::HeadFastest => "all KV heads of a pack, then the next pack",
        CtaOrder::QueryHeads => "all packs of a query head, then the next head",
    }
}

/// The first CTAs in the order in which they are numbered.
fn ctas(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, launch: &Launch) {
    let plan = &shown.planned.plan;
    let numbers = plan.numbers(launch);
    let count = plan.cta_count(launch);
    ui.horizontal_wrapped(|ui| {
        ui.label(RichText::new("in order").color(frame.tokens.faint));
        for cta in 0..count.min(MOST) {
            let pack = numbers.work(cta).and_then(|work| work.first_decode()).map(|decode| decode.pack);
            let (swatch, response) = ui.allocate_exact_size(vec2(12.0, 12.0), Sense::click());
            let entity =
                pack.map_or(if launch.kind.is_merge() { Entity::Merge } else { Entity::Prefill }, Entity::Pack);
            ui.painter().rect_filled(swatch, 2.0, frame.entity_colour(shown, entity));
            let told = pack.map_or_else(|| format!("CTA {cta}"), |pack| format!("CTA {cta}: pack {}", pack.0));
            response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, told.clone()));
            match pack {
                Some(pack) => frame.link(&response, Selection::Pack(pack)),
                None if response.clicked() => frame.send(Command::Select(Selection::None)),
                None => {}
            }
            response.on_hover_text(told);
        }
        if count > MOST {
            ui.label(RichText::new(format!("and {} more", grouped(u64::from(count - MOST)))).color(frame.tokens.faint));
        }
    });
}

fn merge(ui: &mut Ui, frame: &Frame<'_>, plan: &LaunchPlan) {
    ui.add_space(6.0);
    ui.label(RichText::new("Merge").strong());
    let merged = plan.merge.merged_queries().count() as u64;
    let text = match (merged, plan.merge.rounds.len()) {
        (0, _) => "No query has more than one partial result: there is nothing to merge.".to_owned(),
        (queries, 0) => format!(
            "{} with up to {} each, all of a query at once.",
            counted(queries, "query"),
            counted(u64::from(plan.merge.max_partials()), "partial")
        ),
        (queries, rounds) => format!(
            "{} with up to {} each, in {} that the system prescribes.",
            counted(queries, "query"),
            counted(u64::from(plan.merge.max_partials()), "partial"),
            counted(rounds as u64, "round")
        ),
    };
    ui.add(egui::Label::new(RichText::new(text).color(frame.tokens.faint)).wrap());
}
