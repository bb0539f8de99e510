//! Residency lanes of a run: where each is busy and where it is idle.
//!
//! A lane is one residency slot of one SM; there are SMs × slots of them, each as long as the
//! makespan. Idle time is what the spans of a lane leave, so busy + idle = lanes × makespan in whole
//! nanoseconds whatever the spans are: one that overlaps another on its lane is clipped, one that
//! lies on no lane is left out, and both are counted for a warning.

use crate::capture::Capture;
use crate::units::Nanos;

/// No GPU has more residency slots an SM; a span above is damage.
const SLOTS_AT_MOST: u32 = 1024;

/// A stretch in which a lane is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Idle {
    /// SM.
    pub(super) sm: u32,
    /// Residency lane of the SM.
    pub(super) slot: u32,
    /// End of the span before it, or the start of the run.
    pub(super) begin: Nanos,
    /// Begin of the span after it, or the end of the run.
    pub(super) end: Nanos,
    /// The span after it on this lane, as an index into the capture's spans.
    pub(super) next: Option<u32>,
}

/// All lanes of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lanes {
    /// SMs.
    pub(super) sms: u32,
    /// Lanes an SM.
    pub(super) slots_per_sm: u32,
    /// Length of every lane.
    pub(super) makespan: Nanos,
    /// Time in which a span was on a lane, over all lanes.
    pub(super) busy: Nanos,
    /// Idle stretches by (SM, slot, begin), none of them empty.
    pub(super) idle: Vec<Idle>,
    /// Spans that overlapped another on their lane, and were clipped.
    pub(super) clipped: u64,
    /// Spans on no lane of the device, or that end before they begin; left out.
    pub(super) left_out: u64,
}

impl Lanes {
    /// Number of lanes.
    pub(super) fn count(&self) -> u64 {
        u64::from(self.sms) * u64::from(self.slots_per_sm)
    }

    /// Lanes × makespan.
    pub(super) fn total(&self) -> Nanos {
        self.makespan * self.count()
    }
}

/// The spans that lie on a lane of the device by (SM, slot, begin, end), as indices into the capture's.
pub(crate) fn on_lanes(capture: &Capture) -> Vec<u32> {
    let (spans, sms) = (&capture.spans, capture.provenance.sm_count);
    let usable = |at: &u32| {
        let at = *at as usize;
        spans.sm[at] < sms && spans.slot[at] < SLOTS_AT_MOST && spans.begin[at] <= spans.end[at]
    };
    let mut order: Vec<u32> = (0..spans.len() as u32).filter(usable).collect();
    let key = |at: &u32| {
        let at = *at as usize;
        (spans.sm[at], spans.slot[at], spans.begin[at], spans.end[at])
    };
    if !order.is_sorted_by_key(key) {
        order.sort_by_key(key);
    }
    order
}

/// Busy and idle time of each lane.
pub(super) fn lanes(capture: &Capture) -> Lanes {
    let (spans, sms) = (&capture.spans, capture.provenance.sm_count);
    let order = on_lanes(capture);
    let slots_per_sm = order.iter().map(|at| spans.slot[*at as usize] + 1).max().unwrap_or(0);
    let makespan = order.iter().map(|at| spans.end[*at as usize]).max().unwrap_or(0);
    let mut lanes = Lanes {
        sms,
        slots_per_sm,
        makespan: Nanos(makespan),
        left_out: (spans.len() - order.len()) as u64,
        ..Lanes::default()
    };
    let mut rest = order.as_slice();
    for sm in 0..sms {
        for slot in 0..slots_per_sm {
            let on_lane = rest.partition_point(|at| (spans.sm[*at as usize], spans.slot[*at as usize]) <= (sm, slot));
            let (lane, after) = rest.split_at(on_lane);
            rest = after;
            lanes.walk(capture, (sm, slot), lane);
        }
    }
    lanes
}

impl Lanes {
    fn walk(&mut self, capture: &Capture, (sm, slot): (u32, u32), lane: &[u32]) {
        let mut cursor = Nanos::ZERO;
        for at in lane {
            let (begin, end) = (Nanos(capture.spans.begin[*at as usize]), Nanos(capture.spans.end[*at as usize]));
            if begin > cursor {
                self.idle.push(Idle { sm, slot, begin: cursor, end: begin, next: Some(*at) });
            }
            if begin < cursor {
                self.clipped += 1;
            }
            let from = begin.max(cursor);
            self.busy += end.saturating_sub(from);
            cursor = cursor.max(end);
        }
        if cursor < self.makespan {
            self.idle.push(Idle { sm, slot, begin: cursor, end: self.makespan, next: None });
        }
    }
}
