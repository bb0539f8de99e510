//! Every choice of the plan as a table: what was considered, predicted, chosen and obtained, and what it cost by the
//! model not to take the cheapest. Any other way that a hand can take is one click, and one entry of the history.

mod model;

use std::sync::Arc;

use egui::{RichText, ScrollArea, Sense, Ui};
use egui_extras::{Column as Width, TableBuilder, TableRow};
use engine::decision::Decision;
use engine::plan::LaunchPlan;
use engine::units::counted;

use self::model::Column;
use self::model::{Flip, Row, amount, attempt, flip, flipped, order, rows};
use crate::runs::run::Run;
use crate::runs::shown::Shown;
use crate::timeline::playback::Moment;
use crate::window::command::Command;
use crate::window::commands::table::Action;
use crate::window::frame::Frame;
use crate::window::panels::parts::{empty, makespans, no_run};

/// Most flipped choices that are named.
const MOST: usize = 12;

/// Sorting, the rows of the plan that is shown, and what was tried last.
#[derive(Debug, Default)]
pub struct State {
    by: Column,
    descending: bool,
    picked: Option<usize>,
    of: Option<(Arc<LaunchPlan>, Option<Arc<Run>>)>,
    rows: Vec<Row>,
    order: Vec<usize>,
    tried: Option<Tried>,
}

/// What was there before a way was tried.
#[derive(Debug)]
struct Tried {
    what: String,
    plan: Arc<LaunchPlan>,
    run: Option<Arc<Run>>,
    /// The choices that the plan after it has otherwise; found once for that.
    flips: Option<(Arc<LaunchPlan>, Vec<Flip>)>,
}

impl Tried {
    fn flips(&mut self, now: &Arc<LaunchPlan>) -> &[Flip] {
        let own = self.flips.take().filter(|(of, _)| Arc::ptr_eq(of, now));
        let found = own.unwrap_or_else(|| (Arc::clone(now), flipped(&self.plan.decisions, &now.decisions)));
        &self.flips.insert(found).1
    }
}

impl State {
    fn refresh(&mut self, shown: &Shown) {
        let run = shown.front();
        let is_own = |(plan, own): &(Arc<LaunchPlan>, Option<Arc<Run>>)| {
            let same_run = match (own, run) {
                (Some(own), Some(run)) => Arc::ptr_eq(own, run),
                (None, None) => true,
                _ => false,
            };
            Arc::ptr_eq(plan, &shown.planned.plan) && same_run
        };
        if !self.of.as_ref().is_some_and(is_own) {
            self.rows = rows(shown, run);
            self.of = Some((Arc::clone(&shown.planned.plan), run.cloned()));
            self.sort();
        }
    }

    fn sort(&mut self) {
        self.order = order(&self.rows, self.by, self.descending);
    }

    fn attempt(&mut self, frame: &Frame<'_>, shown: &Shown, (what, command): (String, Command)) {
        let plan = Arc::clone(&shown.planned.plan);
        self.tried = Some(Tried { what, plan, run: shown.front().cloned(), flips: None });
        frame.send(command);
    }
}

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame<'_>, state: &mut State) {
    let Some(shown) = frame.shown.filter(|shown| !shown.planned.plan.decisions.is_empty()) else {
        let damage = frame.shown.and_then(|shown| shown.front()).and_then(|run| run.damage.of_decisions());
        let none = "No decisions are recorded here. Plan the batch again (Run) to have them.";
        let text = match frame.shown {
            Some(shown) if !shown.planned.batch.requests().is_empty() => damage.unwrap_or_else(|| none.to_owned()),
            _ => no_run(frame).to_owned(),
        };
        return empty(ui, frame.tokens, &text);
    };
    state.refresh(shown);
    header(ui, frame, shown, state);
    let plan = Arc::clone(&shown.planned.plan);
    let picked = state.picked.filter(|_| !frame.is_picture).and_then(|at| plan.decisions.get(at));
    let below = if picked.is_some() { (ui.available_height() * 0.42).min(210.0) } else { 0.0 };
    let table = ui.available_height() - below;
    ui.push_id("table", |ui| {
        ui.set_max_height(table);
        self::table(ui, frame, &plan, state, table - 26.0);
    });
    if let Some(decision) = picked {
        ui.separator();
        ScrollArea::vertical().id_salt("detail").auto_shrink(false).show(ui, |ui| {
            detail(ui, frame, shown, decision, state);
        });
    }
}

/// What was tried and what it changed, and the choices that a person took.
fn header(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, state: &mut State) {
    let t = frame.tokens;
    ui.horizontal_wrapped(|ui| {
        let rows = counted(state.rows.len() as u64, "choice");
        let regretted = state.rows.iter().filter(|row| row.regret > 0.0).count();
        ui.label(RichText::new(format!("{rows}, {regretted} with regret by the model")).color(t.faint));
        let forced = frame.options.pack.forced.len();
        if forced > 0 {
            let met = shown.planned.plan.decisions.iter().filter(|decision| decision.is_forced()).count();
            let text = format!("{} by hand, {met} met by this plan", counted(forced as u64, "choice"));
            ui.label(RichText::new(text).color(t.warn));
            if !frame.is_picture && ui.small_button("leave all to the rules").clicked() {
                frame.send(Command::Unforce);
            }
        }
    });
    let Some(tried) =
        state.tried.as_mut().filter(|tried| !frame.is_picture && !Arc::ptr_eq(&tried.plan, &shown.planned.plan))
    else {
        return;
    };
    let beside =
        tried.run.as_ref().zip(shown.front()).map(|(before, after)| format!(" · {}", makespans(before, after)));
    let tried_what = tried.what.clone();
    let flips = tried.flips(&shown.planned.plan);
    ui.horizontal_wrapped(|ui| {
        let count = counted(flips.len() as u64, "flipped choice");
        let text = format!("tried {tried_what}: {count}{}", beside.unwrap_or_default());
        ui.label(RichText::new(text).strong());
        if ui.small_button("Take it back").clicked() {
            frame.send(Command::Act(Action::Undo));
        }
        for Flip { what, old, new } in flips.iter().take(MOST) {
            ui.label(RichText::new(format!("{what}: {new}, before {old}")).color(t.faint).small());
        }
        if flips.len() > MOST {
            ui.label(RichText::new(format!("and {} more", flips.len() - MOST)).color(t.faint).small());
        }
    });
}

fn table(ui: &mut Ui, frame: &Frame<'_>, plan: &LaunchPlan, state: &mut State, height: f32) {
    // A click on a text is one on its row.
    ui.style_mut().interaction.selectable_labels = false;
    let mut table = TableBuilder::new(ui)
        .id_salt("decisions")
        .striped(true)
        .sense(Sense::click())
        .max_scroll_height(height.max(40.0))
        .min_scrolled_height(30.0)
        .cell_layout(egui::Layout::left_to_right(egui::Align::Center));
    for column in Column::ALL {
        table = table.column(Width::initial(column.about().1).at_least(36.0).clip(true).resizable(!frame.is_picture));
    }
    let mut sorted = None;
    let table = table.column(Width::remainder().clip(true)).auto_shrink(false).header(20.0, |mut header| {
        for column in Column::ALL {
            header.col(|ui| {
                let (title, _, about) = column.about();
                let arrow = match (state.by == column, state.descending) {
                    (true, true) => " v",
                    (true, false) => " ^",
                    _ => "",
                };
                let text = RichText::new(format!("{title}{arrow}")).color(frame.tokens.faint);
                if ui.add(egui::Button::new(text).frame(false)).on_hover_text(about).clicked() {
                    sorted = Some(column);
                }
            });
        }
        header.col(|ui| _ = ui.label(RichText::new("because").color(frame.tokens.faint)));
    });
    let (rows, places) = (&state.rows, &state.order);
    let mut clicked = None;
    table.body(|body| {
        body.rows(19.0, places.len(), |mut row| {
            let found = &rows[places[row.index()]];
            row.set_selected(state.picked == Some(found.at));
            cells(&mut row, frame, found, &plan.decisions[found.at]);
            if row.response().clicked() {
                clicked = Some(found.at);
                frame.send(Command::Select(found.selection));
            }
        });
    });
    // While playback makes choices, the last one is looked at.
    let made = frame.now.as_ref().and_then(|now| match now.at {
        Moment::Choices(made) => (made as usize).checked_sub(1),
        Moment::Time(_) => None,
    });
    state.picked = clicked.or(made).or(state.picked);
    if let Some(column) = sorted {
        // Most first: that is what one looks for in figures.
        let figures = matches!(column, Column::Predicted | Column::Other | Column::Regret | Column::Obtained);
        state.descending = if state.by == column { !state.descending } else { figures };
        state.by = column;
        state.sort();
    }
}

fn cells(row: &mut TableRow<'_, '_>, frame: &Frame<'_>, found: &Row, decision: &Decision) {
    let told = |way: &Option<engine::decision::Considered>| {
        way.as_ref().map_or_else(|| "—".to_owned(), |way| format!("{}: {}", way.what, amount(way.price)))
    };
    row.col(|ui| _ = ui.label((found.at + 1).to_string()));
    row.col(|ui| _ = ui.label(&found.what));
    row.col(|ui| {
        let way = found.taken.as_ref().map_or("—", |way| way.what.as_ref());
        let text = if decision.is_forced() { format!("{way}, by hand") } else { way.to_owned() };
        ui.label(RichText::new(text).strong());
    });
    row.col(|ui| _ = ui.label(found.taken.as_ref().map_or_else(|| "—".to_owned(), |way| way.price.to_string())));
    row.col(|ui| _ = ui.label(told(&found.other)));
    row.col(|ui| {
        let colour = if found.regret > 0.0 { frame.tokens.worse } else { frame.tokens.faint };
        ui.label(RichText::new(found.regret_text()).color(colour));
    });
    row.col(|ui| {
        let source = frame.shown.and_then(|shown| shown.front()).map_or("", |run| run.words());
        let text = found.obtained.map_or_else(|| "—".to_owned(), |time| time.to_string());
        ui.label(text).on_hover_text(source);
    });
    row.col(|ui| _ = ui.label(RichText::new(decision.rule.as_ref()).color(frame.tokens.faint)));
}

/// All ways of one choice, each with a button that takes it.
fn detail(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, decision: &Decision, state: &mut State) {
    let t = frame.tokens;
    let plan = &shown.planned.plan;
    ui.label(RichText::new(format!("{} · {}", decision.choice.name(), decision.title())).strong());
    for (at, way) in decision.considered.iter().enumerate() {
        ui.horizontal_wrapped(|ui| {
            if at == decision.chosen {
                ui.label(RichText::new("chosen").color(t.better));
            } else if let Some(command) = attempt(plan, decision, way) {
                if ui.small_button("try").on_hover_text("replan with this way; Undo takes it back").clicked() {
                    let what = format!("{} for {}", way.what, decision.title());
                    state.attempt(frame, shown, (what, command));
                }
            } else {
                ui.label(RichText::new("not by hand").color(t.faint))
                    .on_hover_text("the rule leaves no way to ask for it");
            }
            ui.label(RichText::new(way.what.as_ref()).strong());
            ui.label(way.price.to_string());
            ui.label(RichText::new(decision.rule_cost(way)).color(t.faint).small());
        });
    }
    ui.add(egui::Label::new(format!("because {}", decision.rule)).wrap());
    if let Some(constant) = &decision.constant {
        ui.horizontal_wrapped(|ui| {
            ui.label(constant.to_string());
            if let Some((value, command)) = flip(decision)
                && ui
                    .small_button(format!("try {value:.2}"))
                    .on_hover_text("replan just past where this choice flips")
                    .clicked()
            {
                state.attempt(frame, shown, (format!("split constant {value:.2}"), command));
            }
        });
    }
    for run in shown.runs(crate::runs::shown::Sources::Both) {
        if let Some(beside) = decision.beside(run.words(), run.times().median) {
            ui.add(egui::Label::new(beside).wrap());
        }
    }
}
