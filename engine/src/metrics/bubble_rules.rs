//! Which cause an idle stretch of a lane has. Every idle nanosecond gets exactly one.
//!
//! The run falls into phases; a stretch is cut at their borders, and each part is judged:
//!
//! ```text
//! 0 ──launch ramp──► first CTA ──attention──► last attention CTA ──gap──► merge ──► end
//! ```
//!
//! | part | cause |
//! |---|---|
//! | before the first CTA of the run | launch ramp |
//! | nothing runs on any lane, and a launch waits for launches of other streams | dependency wait |
//! | nothing runs on any lane | inter-kernel gap |
//! | the merge kernel runs, this lane has nothing of it | merge wait |
//! | the lane's next CTA is of a launch that was ready, none before it on the lane | launch ramp |
//! | the lane's next CTA is of a launch that was ready | other (taking the next task, dispatch) |
//! | the lane's next CTA is of a launch not yet ready, or there is none | the tail, see below |
//!
//! A tail is split between two causes. If the N CTAs of the run were equal, `ceil(N / S)` waves on S
//! lanes would leave `ceil(N / S)·S − N` lane-turns of one CTA's mean time idle, whatever their
//! order: that much of the tail is wave quantisation, the rest is tail imbalance. Worked number:
//! 9,072 equal CTAs on 216 lanes are 42 full waves, none is left; 9,080 leave 208 lane-turns.

use serde::{Deserialize, Serialize};

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
    /// Between two CTAs of a lane: dispatch, or taking the next task.
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

    /// What it is, in one sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::LaunchRamp => "Lanes wait for the launch to reach the GPU and for their first CTA.",
            Self::WaveQuantisation => "The CTAs do not divide into full waves, so lanes stay empty in the last one.",
            Self::TailImbalance => "CTAs of unequal length end at different times, and nothing is left to take.",
            Self::InterKernelGap => "One kernel has ended and the next has not begun.",
            Self::MergeWait => "The merge runs on other lanes.",
            Self::DependencyWait => "The next launch waits for launches on other streams.",
            Self::ProbeCost => "Time that the in-kernel trace itself takes.",
            Self::Other => "Between two CTAs of a lane: dispatch, or taking the next task from the queue.",
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
            Self::Other => "fewer, longer tasks",
        }
    }
}

/// Borders of the phases of a run, in ns from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Phases {
    /// First CTA of the run.
    pub(super) first_begin: u64,
    /// Last end of the attention kernels, merging by workers included.
    pub(super) attention_end: u64,
    /// The merge kernel could be dispatched.
    pub(super) merge_ready: u64,
    /// First CTA of the merge kernel; the end of the run if there is none.
    pub(super) merge_begin: u64,
    /// End of the run.
    pub(super) end: u64,
    /// Whether the merge waits for several streams.
    pub(super) merge_joins: bool,
}

impl Phases {
    /// Parts of the run outside the attention phase, with the cause of whatever is idle there.
    pub(super) fn outside_attention(&self) -> [(u64, u64, BubbleCause); 4] {
        let waiting = if self.merge_joins { BubbleCause::DependencyWait } else { BubbleCause::InterKernelGap };
        let ready = self.merge_ready.clamp(self.attention_end, self.merge_begin.max(self.attention_end));
        let merge_begin = self.merge_begin.max(ready);
        [
            (0, self.first_begin, BubbleCause::LaunchRamp),
            (self.attention_end, ready, waiting),
            (ready, merge_begin, BubbleCause::InterKernelGap),
            (merge_begin, self.end.max(merge_begin), BubbleCause::MergeWait),
        ]
    }
}

/// Lane-turns that `ctas` equal CTAs leave empty on `lanes` lanes.
pub(super) fn empty_turns(ctas: u64, lanes: u64) -> u64 {
    if lanes == 0 { 0 } else { ctas.div_ceil(lanes) * lanes - ctas }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_waves_leave_nothing() {
        assert_eq!(empty_turns(9072, 216), 0);
        assert_eq!(empty_turns(9080, 216), 208);
        assert_eq!(empty_turns(1, 264), 263);
    }
}
