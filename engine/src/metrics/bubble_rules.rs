//! The rules by which an idle stretch of a lane gets its cause. Pure functions of times and counts.
//!
//! The run is cut into groups of overlapping launches (`phases`). A moment lies before a group with
//! nothing running, or inside one. The first rule that holds decides:
//!
//! ```text
//! nothing runs
//!   before the first group                                      launch ramp
//!   next group waits for another stream, until it is ready      dependency wait
//!   next group merges, from its readiness                       merge wait
//!   otherwise                                                   inter-kernel gap
//! a group runs
//!   it merges                                                   merge wait
//!   the lane gets a CTA of it later, by the end of its ramp      launch ramp
//!   the lane gets a CTA of it later                             other (no room, dispatch, queue)
//!   the lane lies above what fits on an SM                      other (no room)
//!   the lane is one that an even last wave leaves empty         wave quantisation, one CTA's time
//!   the rest                                                    tail imbalance
//! ```
//!
//! The ramp of a group ends when its last launch is ready or its first CTA ends, whichever is later:
//! until then lanes are filled for the first time.
//!
//! Worked number: 1,134 requests of 1,024 tokens under 8 KV heads are 9,072 CTAs; on 108 SMs that
//! hold two each they fill 216 lanes 42 times, no lane is left over, and idle time at the end is
//! imbalance. One request more makes 9,080 CTAs, 42.04 waves: 43 · 216 − 9,080 = 208 lanes have
//! nothing in the last wave, and up to one mean CTA time of each is wave quantisation.

use serde::{Deserialize, Serialize};

use crate::metrics::phases::Group;
use crate::units::Nanos;

/// Why a lane had nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BubbleCause {
    /// Until the first CTA runs, and until each lane has its first.
    LaunchRamp,
    /// The CTAs do not fill the last wave.
    WaveQuantisation,
    /// CTAs of unequal length end at different times.
    TailImbalance,
    /// One kernel has ended, the next has not begun.
    InterKernelGap,
    /// The merge runs on other lanes.
    MergeWait,
    /// A launch waits for launches of other streams.
    DependencyWait,
    /// Cost of the in-kernel trace.
    ProbeCost,
    /// No room beside the CTAs on the SM, or between two CTAs of a lane: dispatch, or taking a task.
    Other,
}

impl BubbleCause {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 8] = [
        Self::LaunchRamp,
        Self::WaveQuantisation,
        Self::TailImbalance,
        Self::InterKernelGap,
        Self::MergeWait,
        Self::DependencyWait,
        Self::ProbeCost,
        Self::Other,
    ];

    /// Name in JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::LaunchRamp => "launch-ramp",
            Self::WaveQuantisation => "wave-quantisation",
            Self::TailImbalance => "tail-imbalance",
            Self::InterKernelGap => "inter-kernel-gap",
            Self::MergeWait => "merge-wait",
            Self::DependencyWait => "dependency-wait",
            Self::ProbeCost => "probe-cost",
            Self::Other => "other",
        }
    }

    /// Name for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::LaunchRamp => "launch ramp",
            Self::WaveQuantisation => "wave quantisation",
            Self::TailImbalance => "tail imbalance",
            Self::InterKernelGap => "inter-kernel gap",
            Self::MergeWait => "merge wait",
            Self::DependencyWait => "dependency wait",
            Self::ProbeCost => "probe cost",
            Self::Other => "other",
        }
    }

    /// What it is, in one sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::LaunchRamp => "Lanes wait for the launch to reach the GPU and for their first CTA.",
            Self::WaveQuantisation => "The CTAs do not divide into full waves, so lanes stay empty in the last one.",
            Self::TailImbalance => "CTAs of unequal length end at different times, and nothing is left to take.",
            Self::InterKernelGap => "One kernel has ended and the next has not begun.",
            Self::MergeWait => "The merge starts, or runs on other lanes.",
            Self::DependencyWait => "The next launch waits for launches on other streams.",
            Self::ProbeCost => "Time that the in-kernel trace itself takes.",
            Self::Other => "No room beside the CTAs on the SM, or the time in which the next CTA or task comes.",
        }
    }

    /// What it would take to close it.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::LaunchRamp => "fewer launches, a CUDA graph, or more work per launch",
            Self::WaveQuantisation => "cut packs so that the CTAs fill the last wave, or use a persistent launch",
            Self::TailImbalance => "split the longest packs along the KV, or start them first",
            Self::InterKernelGap => "put the kernels on streams of their own, or fuse them",
            Self::MergeWait => "fewer partials, or a merge by the last arriver",
            Self::DependencyWait => "a merge by the last arriver instead of a join of streams",
            Self::ProbeCost => "run without the trace",
            Self::Other => "tiles that take less of an SM, or fewer, longer tasks",
        }
    }
}

/// Lanes that stay empty in the last wave when equal CTAs fill `lanes` lanes.
pub(super) fn empty_in_last_wave(ctas: u64, lanes: u64) -> u64 {
    if lanes == 0 || ctas == 0 { 0 } else { ctas.div_ceil(lanes) * lanes - ctas }
}

/// Mean time of a CTA of a group.
pub(super) fn mean_cta(group: &Group) -> Nanos {
    Nanos(group.busy / group.ctas.max(1))
}

/// Causes of the time before group `at`, in which nothing runs: until the moment given, the first;
/// from then on, the second.
pub(super) fn before(at: usize, group: &Group) -> (Nanos, BubbleCause, BubbleCause) {
    let waiting = if group.joined { BubbleCause::DependencyWait } else { BubbleCause::InterKernelGap };
    let starting = if group.merge { BubbleCause::MergeWait } else { BubbleCause::InterKernelGap };
    match at {
        0 => (group.begin, BubbleCause::LaunchRamp, BubbleCause::LaunchRamp),
        _ => (group.ready, waiting, starting),
    }
}

/// What is known of an idle stretch inside a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inside {
    /// Begin of the next span of this group on the lane.
    pub(super) next: Option<Nanos>,
    /// Lane of the SM.
    pub(super) slot: u32,
}

/// Cause of an idle stretch inside a group; `None` for the tail, which [`tail`] parts.
pub(super) fn inside(group: &Group, idle: Inside) -> Option<BubbleCause> {
    if group.merge {
        return Some(BubbleCause::MergeWait);
    }
    match idle.next {
        Some(next) if next <= group.ramp_end => Some(BubbleCause::LaunchRamp),
        Some(_) => Some(BubbleCause::Other),
        None if idle.slot >= group.room => Some(BubbleCause::Other),
        None => None,
    }
}

/// How much of a tail of length `len` is wave quantisation, where `rank` counts the group's tails
/// from the longest: an even last wave leaves that many lanes empty for one CTA's time each.
pub(super) fn tail(group: &Group, lanes: u64, rank: u64, len: Nanos) -> Nanos {
    if rank < empty_in_last_wave(group.ctas, lanes) { len.min(mean_cta(group)) } else { Nanos::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_number_holds() {
        assert_eq!(empty_in_last_wave(9072, 216), 0);
        assert_eq!(empty_in_last_wave(9080, 216), 208);
        assert_eq!(empty_in_last_wave(10, 216), 206);
        assert_eq!(empty_in_last_wave(0, 216), 0);
    }
}
