//! Lanes of a capture with a pyramid of summaries, and the folding of what is too narrow to see.
//!
//! ```text
//! level 2   [................64................]
//! level 1   [...8...][...8...] ...
//! spans     | | | | | | | | | | | | | | | | | |   sorted by begin, never overlapping within a lane
//! ```
//!
//! Folding at `fold` nanoseconds (3 pixels): a span of two folds or more is drawn alone. All others
//! that begin within one fold of the first join a block, which knows how many it holds. So a block
//! and what follows it advance by a fold each, on average, and a lane of `w` pixels draws at most
//! `w / 3 + 2` rectangles, whatever the capture. Worked number: 132 SMs × 2 lanes, 1,800 pixels:
//! at most 264 × 602 = 158,928.

use std::ops::Range;

use engine::capture::{Capture, SpanKind, Spans};
use engine::plan::{CtaWork, Launch};

/// Children of a summary.
const FAN: usize = 8;
/// Pixels under which spans fold.
pub const FOLD_PX: f64 = 3.0;
/// Entity of a merge, which belongs to no pack.
pub const NO_PACK: u32 = u32::MAX;
/// Entity of a CTA that computes prefill.
pub const PREFILL: u32 = u32::MAX - 1;
/// Entity of a CTA that computes prefill and decode, as warps side by side.
pub const BOTH: u32 = u32::MAX - 2;

/// What is known of a run of spans.
#[derive(Clone, Copy, Debug, Default)]
struct Summary {
    widest: u64,
    busy: u64,
    entity: u32,
    weight: u64,
}

impl Summary {
    fn add(&mut self, other: Self) {
        self.widest = self.widest.max(other.widest);
        self.busy += other.busy;
        if other.entity == self.entity {
            self.weight += other.weight;
        } else if other.weight > self.weight {
            (self.entity, self.weight) = (other.entity, other.weight);
        }
    }
}

/// One residency lane of an SM.
#[derive(Clone, Debug)]
pub struct Lane {
    /// SM.
    pub sm: u32,
    /// Lane of the SM.
    pub slot: u32,
    /// Its spans in the capture.
    pub spans: Range<usize>,
    /// Busy nanoseconds.
    pub busy: u64,
    levels: Vec<Vec<Summary>>,
}

/// A rectangle of a lane: one span, or a block of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First nanosecond.
    pub begin: u64,
    /// Past the last nanosecond.
    pub end: u64,
    /// First span.
    pub first: usize,
    /// Spans in it.
    pub count: u32,
    /// Pack with the most time in it; [`NO_PACK`] for a merge, [`PREFILL`] and [`BOTH`] for prefill.
    pub entity: u32,
    /// Busy nanoseconds in it.
    pub busy: u64,
}

/// All lanes of a capture.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    /// Lanes by SM and slot; lanes without any span are there too.
    pub lanes: Vec<Lane>,
    /// Pack of each span, the first where a CTA hosts several; [`NO_PACK`] for a merge, [`PREFILL`]
    /// and [`BOTH`] for prefill.
    pub pack_of: Vec<u32>,
    /// End of the last span.
    pub end: u64,
    /// Busy nanoseconds and issued KV bytes of all spans before each.
    before: Vec<(u64, f64)>,
}

impl Lanes {
    /// Lanes of a capture: every SM of the device times the most lanes of any.
    pub fn of(capture: &Capture) -> Self {
        let pack_of = packs_of(capture);
        let slots = capture.slots_per_sm();
        let mut lanes = Vec::new();
        let mut at = 0;
        for sm in 0..capture.provenance.sm_count {
            for slot in 0..slots {
                let begin = at;
                while at < capture.spans.len() && (capture.spans.sm[at], capture.spans.slot[at]) == (sm, slot) {
                    at += 1;
                }
                lanes.push(lane(&capture.spans, &pack_of, sm, slot, begin..at));
            }
        }
        let before = totals(capture);
        Self { lanes, pack_of, end: capture.makespan().0, before }
    }

    /// Calls `emit` for each rectangle of a lane within `view`, folding at `fold` nanoseconds.
    pub fn pieces(&self, spans: &Spans, lane: &Lane, view: Range<u64>, fold: u64, mut emit: impl FnMut(Piece)) {
        let fold = fold.max(1);
        let offset = lane.spans.start;
        let mut at = offset + spans.end[lane.spans.clone()].partition_point(|end| *end <= view.start);
        while at < lane.spans.end && spans.begin[at] < view.end {
            let (next, summary) = self.block(spans, lane, at, fold);
            emit(Piece {
                begin: spans.begin[at],
                end: spans.end[next - 1],
                first: at,
                count: (next - at) as u32,
                entity: summary.entity,
                busy: summary.busy,
            });
            at = next;
        }
    }

    /// The block that starts at span `first`: past its last span, and its summary.
    fn block(&self, spans: &Spans, lane: &Lane, first: usize, fold: u64) -> (usize, Summary) {
        let mut sum = leaf(spans, &self.pack_of, first);
        let mut at = first + 1;
        let limit = spans.begin[first].saturating_add(fold);
        let wide = fold.saturating_mul(2);
        if sum.widest >= wide {
            return (at, sum);
        }
        while at < lane.spans.end && spans.begin[at] < limit {
            let step = widest_step(spans, lane, at, limit, wide);
            if let Some((length, summary)) = step {
                sum.add(summary);
                at += length;
                continue;
            }
            let one = leaf(spans, &self.pack_of, at);
            if one.widest >= wide {
                break;
            }
            sum.add(one);
            at += 1;
        }
        (at, sum)
    }

    /// Busy nanoseconds, spans and issued KV bytes within a range of time, in O(lanes · log n).
    pub fn within(&self, spans: &Spans, range: Range<u64>) -> (u64, u64, f64) {
        let (mut busy, mut count, mut bytes) = (0, 0, 0.0);
        for lane in &self.lanes {
            let first = lane.spans.start + spans.end[lane.spans.clone()].partition_point(|end| *end <= range.start);
            let last = lane.spans.start + spans.begin[lane.spans.clone()].partition_point(|begin| *begin < range.end);
            if first >= last {
                continue;
            }
            let (from, to) = (self.before[first], self.before[last]);
            count += (last - first) as u64;
            busy += to.0 - from.0;
            bytes += to.1 - from.1;
            // What of the first and the last span lies outside.
            for (at, outside) in [
                (first, range.start.saturating_sub(spans.begin[first])),
                (last - 1, spans.end[last - 1].saturating_sub(range.end)),
            ] {
                let (left, right) = (self.before[at], self.before[at + 1]);
                busy -= outside;
                bytes -= (right.1 - left.1) * outside as f64 / (right.0 - left.0).max(1) as f64;
            }
        }
        (busy, count, bytes)
    }

    /// The span of `lane` at time `at`, in O(log n).
    pub fn hit(&self, spans: &Spans, lane: &Lane, at: u64) -> Option<usize> {
        let index = lane.spans.start + spans.end[lane.spans.clone()].partition_point(|end| *end <= at);
        (index < lane.spans.end && spans.begin[index] <= at).then_some(index)
    }
}

/// The longest summary that begins at `at` and folds whole.
fn widest_step(spans: &Spans, lane: &Lane, at: usize, limit: u64, wide: u64) -> Option<(usize, Summary)> {
    let local = at - lane.spans.start;
    let mut found = None;
    let mut length = 1;
    for level in &lane.levels {
        length *= FAN;
        let last = at + length - 1;
        if !local.is_multiple_of(length) || last >= lane.spans.end || spans.begin[last] >= limit {
            break;
        }
        let summary = level[local / length];
        if summary.widest >= wide {
            break;
        }
        found = Some((length, summary));
    }
    found
}

fn packs_of(capture: &Capture) -> Vec<u32> {
    (0..capture.spans.len()).map(|at| entity(capture, at).unwrap_or(NO_PACK)).collect()
}

/// The CTA of a span, where it computes and is one of the plan.
fn computing(capture: &Capture, at: usize) -> Option<(&Launch, CtaWork)> {
    let spans = &capture.spans;
    let launch = capture.plan.launches.get(spans.launch[at] as usize)?;
    let right = spans.kind[at] == SpanKind::Attention && spans.cta[at] < capture.plan.cta_count(launch);
    right.then(|| (launch, capture.plan.work_of(launch, spans.cta[at])))
}

fn entity(capture: &Capture, at: usize) -> Option<u32> {
    let (launch, work) = computing(capture, at)?;
    match (work.prefill, work.decodes.is_empty()) {
        (Some(_), true) => Some(PREFILL),
        (Some(_), false) => Some(BOTH),
        (None, false) => Some(capture.plan.cta_work(launch, work.decodes.start).0.0),
        (None, true) => None,
    }
}

/// KV tokens that the CTA of a span loads.
fn tokens(capture: &Capture, at: usize) -> u64 {
    let Some((launch, work)) = computing(capture, at) else { return 0 };
    let plan = &capture.plan;
    let prefill = work.prefill.and_then(|(task, _)| plan.prefill.tasks.get(task as usize));
    let decodes = work.decodes.map(|index| plan.pack(plan.cta_work(launch, index).0).tokens.0);
    prefill.map_or(0, |task| task.tokens().0) + decodes.sum::<u64>()
}

/// Running totals over all spans: busy nanoseconds and issued KV bytes, from nothing to all.
fn totals(capture: &Capture) -> Vec<(u64, f64)> {
    let token = capture.plan.shape.kv_bytes_per_token_head().as_f64();
    let spans = capture.spans.begin.iter().zip(&capture.spans.end).enumerate();
    let sums = spans.scan((0, 0.0), |sum, (at, (begin, end))| {
        *sum = (sum.0 + end.saturating_sub(*begin), sum.1 + tokens(capture, at) as f64 * token);
        Some(*sum)
    });
    std::iter::once((0, 0.0)).chain(sums).collect()
}

fn leaf(spans: &Spans, pack_of: &[u32], at: usize) -> Summary {
    let width = spans.end[at].saturating_sub(spans.begin[at]);
    Summary { widest: width, busy: width, entity: pack_of[at], weight: width }
}

fn lane(spans: &Spans, pack_of: &[u32], sm: u32, slot: u32, range: Range<usize>) -> Lane {
    let leaves: Vec<Summary> = range.clone().map(|at| leaf(spans, pack_of, at)).collect();
    let busy = leaves.iter().map(|leaf| leaf.busy).sum();
    let mut levels: Vec<Vec<Summary>> = Vec::new();
    let mut below = &leaves;
    while below.len() > FAN {
        let level = below.chunks(FAN).map(|chunk| {
            let mut sum = chunk[0];
            chunk[1..].iter().for_each(|one| sum.add(*one));
            sum
        });
        levels.push(level.collect());
        below = &levels[levels.len() - 1];
    }
    Lane { sm, slot, spans: range, busy, levels }
}
