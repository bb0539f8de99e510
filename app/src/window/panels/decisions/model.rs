//! Decisions as rows: what was predicted, what the run gave, and what another choice would have cost by the model.

use std::sync::Arc;

use engine::decision::{Choice, Considered, Covers, Decision, Price, Subject};
use engine::pack::Forced;
use engine::plan::hybrid::PodChoice;
use engine::plan::{LaunchPlan, Strategy};
use engine::tile::Tile;
use engine::units::{Nanos, NodeIdx};

use crate::runs::run::Run;
use crate::runs::shown::Shown;
use crate::window::command::Command;
use crate::window::selection::Selection;

/// A column that can be sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Column {
    /// The order in which choices were made.
    #[default]
    Order,
    /// What kind of choice, and about what.
    What,
    /// What was taken.
    Taken,
    /// The price of what was taken.
    Predicted,
    /// The least price of what was left.
    Other,
    /// How much more was taken than the least.
    Regret,
    /// What the run gave.
    Obtained,
}

impl Column {
    /// All of them, in the order of the table.
    pub(super) const ALL: [Self; 7] =
        [Self::Order, Self::What, Self::Taken, Self::Predicted, Self::Other, Self::Regret, Self::Obtained];

    /// Title, width and what it means.
    pub(super) fn about(self) -> (&'static str, f32, &'static str) {
        match self {
            Self::Order => ("step", 40.0, "the order in which the choices were made"),
            Self::What => ("choice", 150.0, "what was decided, and about what"),
            Self::Taken => ("chosen", 96.0, "the way that was taken, by the rule or by hand against it"),
            Self::Predicted => ("predicted", 120.0, "its price by the model, with what of the run it covers"),
            Self::Other => ("best other", 150.0, "the cheapest way that was left, by the same model"),
            Self::Regret => (
                "regret",
                84.0,
                "how much more the chosen way is predicted to cost than the cheapest of all (derived); a rule that \
                 weighs something else may choose so and be right, since a price covers a part of the run",
            ),
            Self::Obtained => (
                "obtained",
                110.0,
                "what the run gave for the same thing, where a run can tell: the longest CTA of the pack or node, or \
                 the makespan",
            ),
        }
    }
}

/// A decision with what is derived from it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Its place among all.
    pub(super) at: usize,
    /// Kind and subject.
    pub(super) what: String,
    /// What is selected with it.
    pub(super) selection: Selection,
    /// The way that was taken.
    pub(super) taken: Option<Considered>,
    /// The cheapest of the others that cover the same.
    pub(super) other: Option<Considered>,
    /// More than the cheapest of all, in the unit of the price.
    pub(super) regret: f64,
    /// What the run gave.
    pub(super) obtained: Option<Nanos>,
    /// Nanoseconds of a unit of the price.
    scale: f64,
}

/// Rows of a plan beside a run.
pub(super) fn rows(shown: &Shown, run: Option<&Arc<Run>>) -> Vec<Row> {
    let plan = &shown.planned.plan;
    let longest = run.map(|run| longest_of_packs(plan, run)).unwrap_or_default();
    let per_byte = 1e9 / shown.planned.options.device.reachable_bytes_per_s().max(1.0);
    let row = |(at, decision): (usize, &Decision)| {
        let taken = decision.taken().cloned();
        let covers = taken.as_ref().map(|way| way.price.covers);
        let same = decision.left().filter(|way| Some(way.price.covers) == covers);
        let other = same.min_by(|a, b| a.price.amount.total_cmp(&b.price.amount)).cloned();
        let regret = match (&taken, &other) {
            (Some(taken), Some(other)) => (taken.price.amount - other.price.amount).max(0.0),
            _ => 0.0,
        };
        Row {
            at,
            what: format!("{} · {}", decision.choice.name(), decision.title()),
            selection: selection(decision),
            obtained: obtained(shown, run, &longest, decision),
            scale: if covers == Some(Covers::Traffic) { per_byte } else { 1.0 },
            taken,
            other,
            regret,
        }
    };
    plan.decisions.iter().enumerate().map(row).collect()
}

fn selection(decision: &Decision) -> Selection {
    match (decision.subject, decision.other) {
        (_, Some(node)) | (Subject::Node(node), None) => Selection::Node(node),
        (Subject::Pack(pack), None) => Selection::Pack(pack),
        (Subject::Launch(_) | Subject::Plan, None) => Selection::None,
    }
}

/// The longest CTA of each pack.
fn longest_of_packs(plan: &LaunchPlan, run: &Run) -> Vec<u64> {
    let mut longest = vec![0; plan.packs.len()];
    let spans = &run.capture.spans;
    for (at, entity) in run.lanes.entities.iter().enumerate() {
        if let Some(own) = entity.pack().and_then(|pack| longest.get_mut(pack.at())) {
            *own = (*own).max(spans.end[at].saturating_sub(spans.begin[at]));
        }
    }
    longest
}

fn obtained(shown: &Shown, run: Option<&Arc<Run>>, longest: &[u64], decision: &Decision) -> Option<Nanos> {
    let run = run?;
    let of_node = |node: NodeIdx| {
        let own = shown.nodes_of_packs.iter().zip(longest).filter(|(of, _)| **of == node);
        own.map(|(_, time)| *time).max()
    };
    match (decision.taken()?.price.covers, decision.subject) {
        (Covers::OneCta, Subject::Pack(pack)) => longest.get(pack.at()).copied().filter(|time| *time > 0).map(Nanos),
        (Covers::OneCta, Subject::Node(node)) => of_node(node).filter(|time| *time > 0).map(Nanos),
        (Covers::Run | Covers::LowerBound, _) => Some(run.times().median),
        _ => None,
    }
}

impl Row {
    fn price(way: Option<&Considered>) -> f64 {
        way.map_or(f64::NEG_INFINITY, |way| way.price.amount)
    }

    /// What stands in the regret column.
    pub(super) fn regret_text(&self) -> String {
        match &self.taken {
            Some(_) if self.other.is_none() => "—".to_owned(),
            Some(_) if self.regret <= 0.0 => "none".to_owned(),
            Some(way) => amount(Price { amount: self.regret, ..way.price }),
            None => "—".to_owned(),
        }
    }
}

/// A price without what it covers.
pub(super) fn amount(price: Price) -> String {
    price
        .bytes()
        .map(|bytes| bytes.to_string())
        .or_else(|| price.time().map(|time| time.to_string()))
        .unwrap_or_default()
}

/// Positions of the rows in order; regrets in bytes weigh what reading them takes at the reachable bandwidth.
pub(super) fn order(rows: &[Row], by: Column, descending: bool) -> Vec<usize> {
    let compare = |a: &Row, b: &Row| match by {
        Column::Order => a.at.cmp(&b.at),
        Column::What => a.what.cmp(&b.what),
        Column::Taken => a.taken.as_ref().map(|way| &way.what).cmp(&b.taken.as_ref().map(|way| &way.what)),
        Column::Predicted => {
            (Row::price(a.taken.as_ref()) * a.scale).total_cmp(&(Row::price(b.taken.as_ref()) * b.scale))
        }
        Column::Other => (Row::price(a.other.as_ref()) * a.scale).total_cmp(&(Row::price(b.other.as_ref()) * b.scale)),
        Column::Regret => (a.regret * a.scale).total_cmp(&(b.regret * b.scale)),
        Column::Obtained => a.obtained.cmp(&b.obtained),
    };
    let mut all: Vec<usize> = (0..rows.len()).collect();
    all.sort_by(|a, b| {
        let ordering = compare(&rows[*a], &rows[*b]);
        if descending { ordering.reverse() } else { ordering }
    });
    all
}

/// The edit that takes another way of a decision; none where the rule leaves no hand a way in.
pub(super) fn attempt(plan: &LaunchPlan, decision: &Decision, way: &Considered) -> Option<Command> {
    let what = way.what.as_ref();
    match (decision.choice, decision.subject) {
        // These decide child by child; the other systems' rules see whole levels or searches.
        (Choice::Sharing, _) if plan.scheduler.starts_with("pat") && ["split", "merge"].contains(&what) => {
            let child = decision.other?;
            Some(Command::Force(Forced::Sharing { child, split: what == "split" }))
        }
        (Choice::Tile, Subject::Pack(pack)) => {
            let tile = Tile::parse(what.strip_prefix("tile ")?)?;
            Some(Command::Force(Forced::Tile { pack, tile }))
        }
        (Choice::Launch | Choice::Fusion, _) => what
            .parse::<Strategy>()
            .map(Command::Strategy)
            .or_else(|_| what.parse::<PodChoice>().map(Command::Pod))
            .ok(),
        _ => None,
    }
}

/// The edit that turns the constant of a decision just past where it flips, with its value.
pub(super) fn flip(decision: &Decision) -> Option<(f64, Command)> {
    let constant = decision.constant.as_ref().filter(|constant| constant.name == "split_constant")?;
    let at = constant.flips_at?;
    let past = at * if at > constant.value { 1.01 } else { 0.99 };
    Some((past, Command::SplitConstant(past)))
}

/// A choice that has another way now than before.
#[derive(Clone, Debug)]
pub(super) struct Flip {
    pub(super) what: String,
    pub(super) old: String,
    pub(super) new: String,
}

/// Choices that have another way now than before.
pub(super) fn flipped(before: &[Decision], after: &[Decision]) -> Vec<Flip> {
    let key = |decision: &Decision| (decision.choice, decision.subject, decision.other);
    let way = |decision: &Decision| decision.taken().map_or_else(String::new, |way| way.what.to_string());
    let now: std::collections::BTreeMap<_, _> = after.iter().map(|decision| (key(decision), way(decision))).collect();
    let changed = before.iter().filter_map(|decision| {
        let (old, new) = (way(decision), now.get(&key(decision))?);
        let what = || format!("{} · {}", decision.choice.name(), decision.title());
        (old != *new).then(|| Flip { what: what(), old, new: new.clone() })
    });
    changed.collect()
}

#[cfg(test)]
mod tests {
    use engine::session::{PlanOptions, plan_spec};
    use engine::workload::BatchSpec;

    use super::*;

    fn shown(options: &PlanOptions) -> Shown {
        let text = crate::samples::find("pat-11").unwrap().text;
        Shown::new(plan_spec(&BatchSpec::from_ron(text).unwrap(), options).unwrap(), None)
    }

    #[test]
    fn every_way_that_can_be_tried_is_taken_by_the_next_plan() {
        let options = PlanOptions::new(&engine::hw::builtin()[0]);
        let before = shown(&options);
        let plan = &before.planned.plan;
        let mut tried = [0; 2];
        for decision in plan.decisions.iter().step_by(7) {
            for way in decision.left() {
                let Some(Command::Force(forced)) = attempt(plan, decision, way) else { continue };
                tried[usize::from(matches!(forced, Forced::Tile { .. }))] += 1;
                let mut options = options.clone();
                options.pack.forced = vec![forced];
                let after = shown(&options);
                let same = after.planned.plan.decisions.iter().find(|other| {
                    (other.choice, other.subject, other.other) == (decision.choice, decision.subject, decision.other)
                });
                let same = same.unwrap();
                assert!(same.is_forced() && same.taken().unwrap().what == way.what, "{}", same.sentence());
                assert!(
                    flipped(&plan.decisions, &after.planned.plan.decisions).len() == 1
                        || decision.choice == Choice::Sharing
                );
            }
        }
        assert!(tried.iter().all(|count| *count > 0), "{tried:?}");
    }

    #[test]
    fn rows_sort_by_each_column_and_regret_is_never_negative() {
        let shown = shown(&PlanOptions::new(&engine::hw::builtin()[0]));
        let rows = rows(&shown, None);
        assert_eq!(rows.len(), shown.planned.plan.decisions.len());
        assert!(rows.iter().all(|row| row.regret >= 0.0));
        for column in Column::ALL {
            let (up, down) = (order(&rows, column, false), order(&rows, column, true));
            let mut sorted = up.clone();
            sorted.sort_unstable();
            assert!(sorted == (0..rows.len()).collect::<Vec<_>>() && down.len() == up.len());
        }
        let most = order(&rows, Column::Regret, true)[0];
        assert!(rows.iter().all(|row| row.regret * row.scale <= rows[most].regret * rows[most].scale));
    }
}
