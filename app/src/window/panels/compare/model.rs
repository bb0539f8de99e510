//! Runs side by side as rows: sorting, the axis, and what differs from the baseline.

use std::sync::Arc;

use engine::capture::Source;
use engine::metrics::BubbleCause;
use engine::units::{Bytes, Nanos};
use engine::workload::BatchSpec;

use crate::runs::compared::{Compared, Way};
use crate::window::frame::Frame;
use crate::window::panels::parts::signed;

/// A column that can be sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Column {
    /// Measured runs first, then as they came.
    #[default]
    Order,
    /// Name.
    Name,
    /// Makespan.
    Makespan,
    /// Busy share.
    Busy,
    /// Bytes that CTAs issue.
    Issued,
    /// Attention CTAs.
    Ctas,
    /// Name of the device.
    Device,
}

impl Column {
    pub(super) const ALL: [Self; 7] =
        [Self::Order, Self::Name, Self::Makespan, Self::Busy, Self::Issued, Self::Ctas, Self::Device];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Order => "as they came",
            Self::Name => "name",
            Self::Makespan => "makespan",
            Self::Busy => "busy",
            Self::Issued => "issued bytes",
            Self::Ctas => "CTAs",
            Self::Device => "device",
        }
    }
}

/// A row with what is said about it.
pub(super) struct Row {
    pub(super) way: Compared,
    pub(super) about: Option<&'static str>,
}

/// Measured runs of the shown plan, those of earlier plans, captures, then the simulated ways and devices.
pub(super) fn rows(frame: &Frame<'_>) -> Vec<Row> {
    let now = frame.shown.and_then(|shown| shown.measured.as_ref());
    let is_shown = |run: &Arc<_>| now.is_some_and(|now| Arc::ptr_eq(now, run));
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
    let captures = frame.rows.captures.iter().map(|row| {
        let batch = row.outcome.as_ref().ok().map(|way| &way.run.capture.batch);
        let same = batch.zip(frame.shown).is_some_and(|(batch, shown)| is_same_work(batch, &shown.planned.spec));
        Row {
            way: row.clone(),
            about: Some(if same { "a capture of this batch" } else { "a capture of another batch" }),
        }
    });
    let ways = frame.compared.iter().map(|way| Row { way: way.clone(), about: None });
    measured.chain(captures).chain(ways).collect()
}

/// Whether two batches are the same work, whatever they are called.
fn is_same_work(one: &BatchSpec, other: &BatchSpec) -> bool {
    (one.shape, &one.roots, &one.requests) == (other.shape, &other.roots, &other.requests)
}

impl Row {
    fn device(&self) -> Option<&str> {
        self.run().map(|way| way.run.capture.provenance.device_name.as_str())
    }

    fn run(&self) -> Option<&Way> {
        self.way.outcome.as_ref().ok()
    }
}

/// Positions of the rows in order; those without a run stand last.
pub(super) fn order(rows: &[Row], by: Column, descending: bool) -> Vec<usize> {
    let mut all: Vec<usize> = (0..rows.len()).collect();
    let figure = |at: usize| -> f64 {
        rows[at].run().map_or(0.0, |way| match by {
            Column::Order | Column::Name | Column::Device => at as f64,
            Column::Makespan => way.run.times().median.as_f64(),
            Column::Busy => way.run.bubbles.busy_share(),
            Column::Issued => way.traffic.issued().as_f64(),
            Column::Ctas => way.run.told.attention_ctas as f64,
        })
    };
    all.sort_by(|a, b| {
        let ordering = match by {
            Column::Name => rows[*a].way.name.cmp(&rows[*b].way.name),
            Column::Device => rows[*a].device().cmp(&rows[*b].device()),
            _ => figure(*a).total_cmp(&figure(*b)),
        };
        let ordering = if descending { ordering.reverse() } else { ordering };
        rows[*a].run().is_none().cmp(&rows[*b].run().is_none()).then(ordering)
    });
    all
}

pub(super) fn makespan(way: &Compared) -> Option<Nanos> {
    way.outcome.as_ref().ok().map(|way| way.run.times().median)
}

/// How far a row reaches: its makespan, or the end of its last CTA where tracing made that later.
fn extent(way: &Compared) -> Option<u64> {
    way.outcome.as_ref().ok().map(|way| way.run.times().median.0.max(way.run.lanes.end))
}

/// Longest time that is shown unless one zooms: no row that is slower than three times the median flattens the others.
pub(super) fn end(rows: &[Row]) -> u64 {
    let mut all: Vec<u64> = rows.iter().filter_map(|row| extent(&row.way)).collect();
    all.sort_unstable();
    let middle = all.get(all.len() / 2).copied().unwrap_or(1);
    all.iter().copied().filter(|end| *end <= middle.saturating_mul(3)).max().unwrap_or(1)
}

/// Slot time of each cause and bytes of each kind, against the baseline. Runs of two sources are never subtracted in
/// time: the reason stands in place of the figures.
pub(super) struct Against {
    pub(super) bubbles: Result<Vec<(BubbleCause, Nanos, String)>, &'static str>,
    pub(super) bytes: Vec<(&'static str, Bytes, String)>,
}

pub(super) fn against(way: &Way, base: &Way) -> Against {
    let same = way.run.source() == base.run.source();
    let bubbles = if !same {
        Err("one run is measured and the other simulated: their bubbles are not subtracted; see Differences")
    } else if way.run.damage.of_causes().is_some() || base.run.damage.of_causes().is_some() {
        Err("not known: a file had lost what they are derived from")
    } else {
        let rows = BubbleCause::ALL.into_iter().map(|cause| {
            let (own, other) = (way.run.bubbles.of(cause), base.run.bubbles.of(cause));
            (cause, own, signed(own.0.cast_signed() - other.0.cast_signed()))
        });
        Ok(rows.filter(|(cause, own, _)| own.0 > 0 || base.run.bubbles.of(*cause).0 > 0).collect())
    };
    // Bytes are derived from the plan, whatever ran it.
    let bytes = way.traffic.kinds().into_iter().zip(base.traffic.kinds());
    let bytes = bytes.map(|((name, own), (_, other))| {
        let sign = if own < other { '−' } else { '+' };
        (name, own, format!("{sign}{}", Bytes(own.0.abs_diff(other.0))))
    });
    Against { bubbles, bytes: bytes.collect() }
}

/// The change of the makespan against the baseline, in words that say so where the sources differ.
pub(super) fn change(way: &Way, base: &Way) -> (f64, Option<&'static str>) {
    let change = (way.run.times().median.as_f64() / base.run.times().median.as_f64().max(1.0) - 1.0) * 100.0;
    let words = match (way.run.source(), base.run.source()) {
        (own, other) if own == other => None,
        (Source::Simulated, _) => Some("against measured"),
        (Source::Measured, _) => Some("against simulated"),
    };
    (change, words)
}
