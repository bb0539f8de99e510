//! Residency lanes: one a slot of an SM, with what ran on it.

use crate::capture::Capture;

/// Spans of one lane as positions in the capture, and the idle stretches between them.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) sm: u32,
    pub(super) slot: u32,
    /// Spans of the lane in time order.
    pub(super) spans: std::ops::Range<usize>,
}

/// An idle stretch of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Idle {
    pub(super) begin: u64,
    pub(super) end: u64,
    /// The span that comes next on the lane.
    pub(super) next: Option<usize>,
}

/// All lanes of a capture, unused ones included: SMs × the largest residency.
pub(super) fn lanes(capture: &Capture) -> Vec<Lane> {
    let slots = capture.slots_per_sm();
    let spans = &capture.spans;
    let mut out = Vec::with_capacity(capture.slots() as usize);
    let mut at = 0;
    for sm in 0..capture.provenance.sm_count {
        for slot in 0..slots {
            let begin = at;
            while at < spans.len() && (spans.sm[at], spans.slot[at]) == (sm, slot) {
                at += 1;
            }
            out.push(Lane { sm, slot, spans: begin..at });
        }
    }
    out
}

/// Idle stretches of a lane up to `makespan`. Time that two spans claim counts once, so busy and
/// idle always add up to the makespan, in damaged captures too.
pub(super) fn idle(capture: &Capture, lane: &Lane, makespan: u64) -> Vec<Idle> {
    let mut out = Vec::new();
    let mut busy_until = 0;
    for at in lane.spans.clone() {
        let (begin, end) = (capture.spans.begin[at], capture.spans.end[at]);
        if begin > busy_until {
            out.push(Idle { begin: busy_until, end: begin, next: Some(at) });
        }
        busy_until = busy_until.max(end);
    }
    if busy_until < makespan {
        out.push(Idle { begin: busy_until, end: makespan, next: None });
    }
    out
}
