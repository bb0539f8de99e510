//! Bubbles: every idle nanosecond of every lane, by cause, so that
//! `busy + Σ bubbles = slots × makespan` exactly.

use serde::{Deserialize, Serialize};

use crate::capture::{Capture, SpanKind};
use crate::metrics::bubble_rules::{BubbleCause, Phases, empty_turns};
use crate::metrics::lanes::{Idle, Lane, idle, lanes};
use crate::plan::{LaunchKind, LaunchPlan};
use crate::units::Nanos;

/// How many CTAs a bubble names as those that bound it.
const BOUNDING: usize = 3;

/// Idle time of one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bubble {
    /// Why.
    pub cause: BubbleCause,
    /// Lane time of it over all lanes.
    pub slot_time: Nanos,
    /// Spans that bound it, as positions in the capture; for a tail those that ended last.
    pub bounded_by: Vec<usize>,
}

/// Busy and idle time of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BubbleReport {
    /// SMs × the largest number of CTAs on one SM at once.
    pub slots: u64,
    /// Length of the run.
    pub makespan: Nanos,
    /// `slots × makespan`.
    pub total_slot: Nanos,
    /// Lane time in which a CTA was there.
    pub busy_slot: Nanos,
    /// Idle lane time by cause, all causes, in the order of [`BubbleCause::ALL`].
    pub bubbles: Vec<Bubble>,
}

impl BubbleReport {
    /// Part of all lane time, 0 to 1.
    pub fn share(&self, time: Nanos) -> f64 {
        if self.total_slot == Nanos::ZERO { 0.0 } else { time.as_f64() / self.total_slot.as_f64() }
    }

    /// Busy part of all lane time, 0 to 1.
    pub fn busy_share(&self) -> f64 {
        self.share(self.busy_slot)
    }

    /// Idle time of a cause.
    pub fn of(&self, cause: BubbleCause) -> Nanos {
        self.bubbles.iter().find(|bubble| bubble.cause == cause).map_or(Nanos::ZERO, |bubble| bubble.slot_time)
    }

    /// The cause with the most idle time, if any lane was idle.
    pub fn largest(&self) -> Option<&Bubble> {
        self.bubbles
            .iter()
            .filter(|b| b.slot_time > Nanos::ZERO)
            .max_by_key(|b| (b.slot_time, std::cmp::Reverse(b.cause)))
    }
}

/// An idle stretch of a lane with its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// SM of the lane.
    pub sm: u32,
    /// Residency slot of the lane.
    pub slot: u32,
    /// Begin of the stretch.
    pub begin: Nanos,
    /// End of the stretch.
    pub end: Nanos,
    /// Why.
    pub cause: BubbleCause,
}

/// Sums up the idle time of a run by cause.
pub fn bubbles(plan: &LaunchPlan, capture: &Capture) -> BubbleReport {
    let makespan = capture.makespan();
    let slots = capture.slots();
    let total_slot = makespan * slots;
    let mut times = [0_u64; BubbleCause::ALL.len()];
    for gap in gaps(plan, capture) {
        times[gap.cause as usize] += (gap.end - gap.begin).0;
    }
    let idle: u64 = times.iter().sum();
    let last = last_ended(capture);
    let bounded_by = |cause| match cause {
        BubbleCause::WaveQuantisation | BubbleCause::TailImbalance => last.clone(),
        _ => Vec::new(),
    };
    BubbleReport {
        slots,
        makespan,
        total_slot,
        busy_slot: total_slot.saturating_sub(Nanos(idle)),
        bubbles: BubbleCause::ALL
            .into_iter()
            .map(|cause| Bubble { cause, slot_time: Nanos(times[cause as usize]), bounded_by: bounded_by(cause) })
            .collect(),
    }
}

/// Every idle stretch of every lane with its cause, by lane and time. Neighbouring stretches of one
/// lane may have different causes; none overlap.
pub fn gaps(plan: &LaunchPlan, capture: &Capture) -> Vec<Gap> {
    let lanes = lanes(capture);
    let phases = phases(plan, capture);
    let idle_of: Vec<Vec<Idle>> = lanes.iter().map(|lane| idle(capture, lane, phases.end)).collect();
    let mut out = Vec::new();
    let mut tails = Vec::new();
    for (lane, stretches) in lanes.iter().zip(&idle_of) {
        let mut judge = Judge { capture, phases: &phases, lane, out: &mut out, tails: &mut tails };
        for stretch in stretches {
            judge.stretch(*stretch);
        }
    }
    split_tails(capture, lanes.len() as u64, &mut out, &tails);
    out.sort_unstable_by_key(|gap| (gap.sm, gap.slot, gap.begin));
    out
}

/// Judges the idle stretches of one lane.
struct Judge<'a> {
    capture: &'a Capture,
    phases: &'a Phases,
    lane: &'a Lane,
    out: &'a mut Vec<Gap>,
    /// Parts of tails, to be split between wave quantisation and imbalance once all are known.
    tails: &'a mut Vec<Gap>,
}

impl Judge<'_> {
    fn stretch(&mut self, stretch: Idle) {
        for (from, to, cause) in self.phases.outside_attention() {
            if let Some(gap) = self.gap(stretch.begin.max(from), stretch.end.min(to), cause) {
                self.out.push(gap);
            }
        }
        let begin = stretch.begin.max(self.phases.first_begin);
        let end = stretch.end.min(self.phases.attention_end.max(self.phases.first_begin));
        self.in_attention(begin, end, stretch.next);
    }

    fn in_attention(&mut self, begin: u64, end: u64, next: Option<usize>) {
        let next = next.filter(|at| self.capture.spans.begin[*at] <= self.phases.attention_end);
        let Some(next) = next else {
            let tail = self.gap(begin, end, BubbleCause::TailImbalance);
            self.tails.extend(tail);
            return;
        };
        let window = self.capture.kernels.iter().find(|window| window.launch == self.capture.spans.launch[next]);
        let ready = window.map_or(0, |window| window.ready.0).clamp(begin.min(end), end);
        // Before its launch was ready, the lane sat in the tail of another; from then on it waited
        // for the CTA to be dispatched.
        let tail = self.gap(begin, ready, BubbleCause::TailImbalance);
        self.tails.extend(tail);
        let cause = if next == self.lane.spans.start { BubbleCause::LaunchRamp } else { BubbleCause::Other };
        let waiting = self.gap(ready, end, cause);
        self.out.extend(waiting);
    }

    fn gap(&self, begin: u64, end: u64, cause: BubbleCause) -> Option<Gap> {
        let (sm, slot) = (self.lane.sm, self.lane.slot);
        (begin < end).then_some(Gap { sm, slot, begin: Nanos(begin), end: Nanos(end), cause })
    }
}

/// Gives each tail its part of wave quantisation, at its end, and leaves the rest to imbalance.
fn split_tails(capture: &Capture, lanes: u64, out: &mut Vec<Gap>, tails: &[Gap]) {
    let (mut ctas, mut busy) = (0_u64, 0_u64);
    for span in capture.spans.iter().filter(|span| span.kind == SpanKind::Attention) {
        ctas += 1;
        busy += span.end.saturating_sub(span.begin).0;
    }
    let mean = if ctas == 0 { 0 } else { busy / ctas };
    let idle: u64 = tails.iter().map(|tail| (tail.end - tail.begin).0).sum();
    let quantised = (empty_turns(ctas, lanes) * mean).min(idle);
    for tail in tails {
        let length = (tail.end - tail.begin).0;
        let part = (u128::from(length) * u128::from(quantised) / u128::from(idle.max(1))) as u64;
        let border = Nanos(tail.end.0 - part);
        if tail.begin < border {
            out.push(Gap { end: border, ..*tail });
        }
        if border < tail.end {
            out.push(Gap { begin: border, cause: BubbleCause::WaveQuantisation, ..*tail });
        }
    }
}

fn phases(plan: &LaunchPlan, capture: &Capture) -> Phases {
    let end = capture.makespan().0;
    let merge_launch = plan.launches.iter().position(|launch| launch.kind == LaunchKind::Merge).map(|at| at as u32);
    let in_merge_kernel = |launch: u32| Some(launch) == merge_launch;
    let (mut first_begin, mut attention_end, mut merge_begin) = (end, 0, end);
    for span in capture.spans.iter() {
        first_begin = first_begin.min(span.begin.0);
        if in_merge_kernel(span.launch) {
            merge_begin = merge_begin.min(span.begin.0);
        } else {
            attention_end = attention_end.max(span.end.0);
        }
    }
    let window = capture.kernels.iter().find(|window| in_merge_kernel(window.launch));
    let merge_joins = merge_launch.is_some_and(|at| {
        let merge = &plan.launches[at as usize];
        merge.after.iter().any(|before| plan.launches.get(*before as usize).is_some_and(|l| l.stream != merge.stream))
    });
    Phases {
        first_begin,
        attention_end,
        merge_ready: window.map_or(attention_end, |window| window.ready.0),
        merge_begin,
        end,
        merge_joins,
    }
}

fn last_ended(capture: &Capture) -> Vec<usize> {
    let mut attention: Vec<usize> =
        (0..capture.spans.len()).filter(|at| capture.spans.kind[*at] == SpanKind::Attention).collect();
    let count = BOUNDING.min(attention.len());
    if count == 0 {
        return attention;
    }
    attention.select_nth_unstable_by_key(count - 1, |at| (std::cmp::Reverse(capture.spans.end[*at]), *at));
    attention.truncate(count);
    attention.sort_unstable_by_key(|at| (std::cmp::Reverse(capture.spans.end[*at]), *at));
    attention
}
