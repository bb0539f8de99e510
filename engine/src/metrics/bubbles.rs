//! Bubbles: idle slot time by cause. Busy time and all bubbles add up to slots × makespan exactly,
//! in whole nanoseconds, for any capture. The rules stand in `bubble_rules`.

use serde::{Deserialize, Serialize};

use crate::capture::Capture;
use crate::metrics::bubble_rules::{self, BubbleCause, Inside};
use crate::metrics::lanes::{Idle, Lanes, lanes};
use crate::metrics::phases::{Group, groups};
use crate::plan::LaunchPlan;
use crate::units::{Nanos, grouped};

/// Idle slot time of one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bubble {
    /// Why.
    pub cause: BubbleCause,
    /// Idle time over all lanes.
    pub slot_time: Nanos,
    /// The few CTAs that bound it, as indices into the capture's spans; empty if there is none of it.
    pub bounded_by: Vec<usize>,
    /// What it would take to close it, in one sentence; empty if there is none of it.
    pub close: String,
}

/// Busy time and bubbles of a run. `busy_slot` and the bubbles add up to `total_slot` exactly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BubbleReport {
    /// Lanes: SMs × the largest number of CTAs on one SM at once.
    pub slots: u64,
    /// Length of each lane.
    pub makespan: Nanos,
    /// Slots × makespan.
    pub total_slot: Nanos,
    /// Time in which a CTA was on a lane.
    pub busy_slot: Nanos,
    /// One entry a cause, in the order of [`BubbleCause::ALL`].
    pub bubbles: Vec<Bubble>,
    /// What was wrong with the spans, one sentence each.
    pub warnings: Vec<String>,
}

impl BubbleReport {
    /// Part of all slot time that `time` is, 0 to 1.
    pub fn share(&self, time: Nanos) -> f64 {
        if self.total_slot.0 == 0 { 0.0 } else { time.as_f64() / self.total_slot.as_f64() }
    }

    /// Busy part of all slot time, 0 to 1.
    pub fn busy_share(&self) -> f64 {
        self.share(self.busy_slot)
    }

    /// The cause with the most slot time, if any lane was idle.
    pub fn largest(&self) -> Option<&Bubble> {
        let some = self.bubbles.iter().filter(|bubble| bubble.slot_time > Nanos::ZERO);
        some.max_by_key(|bubble| (bubble.slot_time, std::cmp::Reverse(bubble.cause)))
    }

    /// Idle slot time of one cause.
    pub fn of(&self, cause: BubbleCause) -> Nanos {
        self.bubbles.iter().filter(|bubble| bubble.cause == cause).map(|bubble| bubble.slot_time).sum()
    }
}

/// An idle stretch of one lane with one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// SM.
    pub sm: u32,
    /// Residency lane of the SM.
    pub slot: u32,
    /// Where it begins.
    pub begin: Nanos,
    /// Where it ends.
    pub end: Nanos,
    /// Why the lane is idle.
    pub cause: BubbleCause,
}

impl Gap {
    /// For how long the lane is idle.
    pub fn length(&self) -> Nanos {
        self.end.saturating_sub(self.begin)
    }
}

/// Every idle stretch of a run by (SM, slot, begin), for drawing.
pub fn gaps(plan: &LaunchPlan, capture: &Capture) -> Vec<Gap> {
    let lanes = lanes(capture);
    let groups = groups(plan, capture);
    let mut all = Vec::with_capacity(lanes.idle.len());
    classify(&lanes, &groups, capture, |gap, _| all.push(gap));
    all
}

/// The few CTAs that bound one idle stretch, as indices into the capture's spans; empty where the spans do not say.
pub fn bounded_by(plan: &LaunchPlan, capture: &Capture, gap: &Gap) -> Vec<usize> {
    let (lanes, groups) = (lanes(capture), groups(plan, capture));
    let mut found = Vec::new();
    classify(&lanes, &groups, capture, |one, group| {
        if one == *gap {
            found = bounds(gap.cause, &groups, group);
        }
    });
    found
}

/// Busy time and bubbles by cause.
pub fn bubbles(plan: &LaunchPlan, capture: &Capture) -> BubbleReport {
    bubbles_and(plan, capture, |_| ())
}

/// The same, and `emit` is given each gap as [`gaps`] has it, in one pass over the run.
pub fn bubbles_and(plan: &LaunchPlan, capture: &Capture, mut emit: impl FnMut(Gap)) -> BubbleReport {
    let lanes = lanes(capture);
    let groups = groups(plan, capture);
    // Slot time by group and cause; what lies past every group comes last.
    let mut time = vec![[Nanos::ZERO; BubbleCause::ALL.len()]; groups.len() + 1];
    classify(&lanes, &groups, capture, |gap, group| {
        time[group.min(groups.len())][gap.cause as usize] += gap.length();
        emit(gap);
    });
    let bubble = |cause: BubbleCause| {
        let of_groups = || time.iter().map(|by_cause| by_cause[cause as usize]).enumerate();
        let slot_time = of_groups().map(|(_, time)| time).sum();
        let some = of_groups().filter(|(_, time)| *time > Nanos::ZERO);
        let worst = some.max_by_key(|(group, time)| (*time, std::cmp::Reverse(*group))).map(|(at, _)| at);
        Bubble {
            cause,
            slot_time,
            bounded_by: worst.map_or_else(Vec::new, |at| bounds(cause, &groups, at)),
            close: worst.map_or_else(String::new, |at| remedy(cause, groups.get(at), &lanes)),
        }
    };
    BubbleReport {
        slots: lanes.count(),
        makespan: lanes.makespan,
        total_slot: lanes.total(),
        busy_slot: lanes.busy,
        bubbles: BubbleCause::ALL.into_iter().map(bubble).collect(),
        warnings: warnings(&lanes),
    }
}

fn warnings(lanes: &Lanes) -> Vec<String> {
    let mut warnings = Vec::new();
    if lanes.clipped > 0 {
        warnings.push(format!("{} spans overlap another on their lane and were clipped", grouped(lanes.clipped)));
    }
    if lanes.left_out > 0 {
        warnings.push(format!("{} spans lie on no lane or end before they begin; left out", grouped(lanes.left_out)));
    }
    warnings
}

/// A piece of an idle stretch: within group `group`, or in the time before it.
#[derive(Clone, Copy)]
struct Piece {
    idle: Idle,
    group: usize,
    begin: Nanos,
    end: Nanos,
    inside: bool,
}

/// Gives every idle stretch its causes, in order, with the group that it lies in or before.
fn classify(lanes: &Lanes, groups: &[Group], capture: &Capture, mut emit: impl FnMut(Gap, usize)) {
    let ranks = tail_ranks(lanes, groups, capture);
    let mut tail_at = 0;
    each_piece(lanes, groups, |piece| {
        let Piece { idle, group, begin, end, inside } = piece;
        let mut put = |begin: Nanos, end: Nanos, cause| {
            if begin < end {
                emit(Gap { sm: idle.sm, slot: idle.slot, begin, end, cause }, group);
            }
        };
        let Some(now) = groups.get(group) else { return put(begin, end, BubbleCause::Other) };
        if !inside {
            let (until, first, then) = bubble_rules::before(group, now);
            let cut = until.clamp(begin, end);
            put(begin, cut, first);
            return put(cut, end, then);
        }
        if let Some(cause) = bubble_rules::inside(now, known(&piece, now, capture)) {
            return put(begin, end, cause);
        }
        let rank = ranks.get(tail_at).copied().unwrap_or(u64::MAX);
        tail_at += 1;
        let cut = begin + bubble_rules::tail(now, lanes_of(lanes, now), rank, end - begin);
        put(begin, cut, BubbleCause::WaveQuantisation);
        put(cut, end, BubbleCause::TailImbalance);
    });
}

fn known(piece: &Piece, group: &Group, capture: &Capture) -> Inside {
    let next = piece.idle.next.map(|at| Nanos(capture.spans.begin[at as usize]));
    Inside { next: next.filter(|begin| *begin < group.end), slot: piece.idle.slot }
}

fn lanes_of(lanes: &Lanes, group: &Group) -> u64 {
    u64::from(group.room.min(lanes.slots_per_sm)) * u64::from(lanes.sms)
}

/// Rank of each tail among those of its group, longest first, in the order of [`each_piece`].
fn tail_ranks(lanes: &Lanes, groups: &[Group], capture: &Capture) -> Vec<u64> {
    let mut tails: Vec<(usize, Nanos)> = Vec::new();
    each_piece(lanes, groups, |piece| {
        if let Some(group) = groups.get(piece.group)
            && piece.inside
            && bubble_rules::inside(group, known(&piece, group, capture)).is_none()
        {
            tails.push((piece.group, piece.end - piece.begin));
        }
    });
    let mut order: Vec<usize> = (0..tails.len()).collect();
    order.sort_by_key(|at| (tails[*at].0, std::cmp::Reverse(tails[*at].1), *at));
    let mut ranks = vec![0; tails.len()];
    let (mut group, mut rank) = (usize::MAX, 0);
    for at in order {
        if tails[at].0 != group {
            (group, rank) = (tails[at].0, 0);
        }
        ranks[at] = rank;
        rank += 1;
    }
    ranks
}

/// Cuts idle stretches at the begin and end of each group.
fn each_piece(lanes: &Lanes, groups: &[Group], mut visit: impl FnMut(Piece)) {
    for idle in &lanes.idle {
        let mut cursor = idle.begin;
        let first = groups.partition_point(|group| group.end <= cursor);
        for (at, group) in groups.iter().enumerate().skip(first) {
            for (until, inside) in [(group.begin, false), (group.end, true)] {
                let end = until.min(idle.end);
                if cursor < end {
                    visit(Piece { idle: *idle, group: at, begin: cursor, end, inside });
                    cursor = end;
                }
            }
            if cursor >= idle.end {
                break;
            }
        }
        // Past every group: only spans of launches that the plan has not lie there.
        if cursor < idle.end {
            visit(Piece { idle: *idle, group: groups.len(), begin: cursor, end: idle.end, inside: false });
        }
    }
}

fn bounds(cause: BubbleCause, groups: &[Group], at: usize) -> Vec<usize> {
    let Some(group) = groups.get(at) else { return Vec::new() };
    let spans = match cause {
        BubbleCause::LaunchRamp => vec![group.first],
        BubbleCause::InterKernelGap | BubbleCause::DependencyWait => {
            let before = at.checked_sub(1).and_then(|at| groups.get(at)).and_then(|group| group.last.first().copied());
            before.into_iter().chain([group.first]).collect()
        }
        _ => group.last.clone(),
    };
    spans.into_iter().map(|at| at as usize).collect()
}

/// What would close the bubble, with the numbers of the group that has most of it.
fn remedy(cause: BubbleCause, group: Option<&Group>, lanes: &Lanes) -> String {
    let Some(group) = group else { return "the capture does not say; its spans are damaged".to_owned() };
    let room = lanes_of(lanes, group);
    let mean = bubble_rules::mean_cta(group);
    match cause {
        BubbleCause::LaunchRamp => {
            "fewer launches, or a graph or persistent kernel that is on the GPU already".to_owned()
        }
        BubbleCause::WaveQuantisation => format!(
            "{} CTAs are {:.2} waves of {} lanes; {} more CTAs (split long packs) or {} fewer would fill the last wave",
            grouped(group.ctas),
            group.ctas as f64 / room.max(1) as f64,
            grouped(room),
            grouped(bubble_rules::empty_in_last_wave(group.ctas, room)),
            grouped(group.ctas % room.max(1)),
        ),
        BubbleCause::TailImbalance => {
            format!("split the packs behind the last CTAs, or start them first; a CTA takes {mean} on average")
        }
        BubbleCause::InterKernelGap => "overlap the kernels: one stream a tile shape, or one fused launch".to_owned(),
        BubbleCause::MergeWait => {
            "fewer partials (merge packs), or merge by the last arriver in a fused launch".to_owned()
        }
        BubbleCause::DependencyWait => "a fused launch needs no join of streams before the merge".to_owned(),
        BubbleCause::ProbeCost => "run without tracing".to_owned(),
        BubbleCause::Other => {
            format!(
                "a tile with less shared memory and fewer registers than what lets {} CTAs on an SM, or longer tasks",
                group.room
            )
        }
    }
}
