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

use engine::capture::{Capture, Spans};
use engine::plan::{CtaNumbers, CtaRole, CtaWork};
use engine::units::PackIdx;

/// Children of a summary.
const FAN: usize = 8;
/// Spans between two running totals.
const TOTALLED: usize = 16;
/// Pixels under which spans fold.
pub const FOLD_PX: f64 = 3.0;

/// What a rectangle stands for: the pack of a decode CTA, or what its CTA does instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entity {
    /// A decode CTA of this pack; of several that it hosts, the first.
    Pack(PackIdx),
    /// A CTA that computes prefill.
    Prefill,
    /// A CTA that computes prefill and decode, in warps of their own.
    Both,
    /// A CTA that merges, which belongs to no pack.
    Merge,
    /// A CTA that the plan has not: damage.
    #[default]
    Unknown,
}

impl Entity {
    /// The pack, where it stands for one.
    pub fn pack(self) -> Option<PackIdx> {
        if let Self::Pack(pack) = self { Some(pack) } else { None }
    }
}

/// What is known of a run of spans.
#[derive(Clone, Copy, Debug, Default)]
struct Summary {
    widest: u64,
    busy: u64,
    entity: Entity,
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
    /// What has the most time in it.
    pub entity: Entity,
    /// Busy nanoseconds in it.
    pub busy: u64,
}

/// All lanes of a capture.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    /// Lanes by SM and slot; lanes without any span are there too.
    pub lanes: Vec<Lane>,
    /// What each span stands for.
    pub entities: Vec<Entity>,
    /// End of the last span.
    pub end: u64,
    /// KV tokens that the CTA of each span loads, over its heads.
    tokens: Vec<u32>,
    /// Busy nanoseconds and KV tokens of all spans before each run of [`TOTALLED`].
    before: Vec<(u64, u64)>,
    /// KV bytes of a token, for one head.
    token: f64,
}

impl Lanes {
    /// Lanes of a capture: every SM of the device times the most lanes of any.
    pub fn of(capture: &Capture) -> Self {
        let works = Works::of(capture);
        let entities: Vec<Entity> = (0..capture.spans.len()).map(|at| works.entity(at)).collect();
        let slots = capture.slots_per_sm();
        let mut lanes = Vec::new();
        let mut at = 0;
        for sm in 0..capture.provenance.sm_count {
            for slot in 0..slots {
                let begin = at;
                while at < capture.spans.len() && (capture.spans.sm[at], capture.spans.slot[at]) == (sm, slot) {
                    at += 1;
                }
                lanes.push(lane(&capture.spans, &entities, sm, slot, begin..at));
            }
        }
        let tokens: Vec<u32> = (0..capture.spans.len()).map(|at| works.tokens(at)).collect();
        let before = totals(&capture.spans, &tokens);
        let token = capture.plan.shape.kv_bytes_per_token_head().as_f64();
        Self { lanes, entities, end: capture.makespan().0, tokens, before, token }
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

    /// The same for what is spread over cells, where many spans begin in each: whole summaries of the pyramid that are no
    /// longer than a fold, and spans where none is.
    pub fn summaries(&self, spans: &Spans, lane: &Lane, view: &Range<u64>, fold: u64, mut emit: impl FnMut(Piece)) {
        let (begin, end) = (&spans.begin[lane.spans.clone()], &spans.end[lane.spans.clone()]);
        let mut at = end.partition_point(|end| *end <= view.start);
        let last = begin.partition_point(|begin| *begin < view.end);
        // Neighbours are mostly of one size, so the search for the next begins with that of the one before.
        let mut height = 0;
        while at < last {
            height = self::height(begin, at, fold, (height, lane.levels.len()));
            let size = FAN.pow(height as u32);
            let sum = match height.checked_sub(1) {
                Some(level) => lane.levels[level][at / size],
                None => leaf(spans, &self.entities, lane.spans.start + at),
            };
            emit(Piece {
                begin: begin[at],
                end: if size == 1 { end[at] } else { begin[at + size] },
                first: lane.spans.start + at,
                count: size as u32,
                entity: sum.entity,
                busy: sum.busy,
            });
            at += size;
        }
    }

    /// The block that starts at span `first`: past its last span, and its summary.
    fn block(&self, spans: &Spans, lane: &Lane, first: usize, fold: u64) -> (usize, Summary) {
        let mut sum = leaf(spans, &self.entities, first);
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
            let one = leaf(spans, &self.entities, at);
            if one.widest >= wide {
                break;
            }
            sum.add(one);
            at += 1;
        }
        (at, sum)
    }

    /// Busy nanoseconds and KV tokens of all spans before one.
    fn total(&self, spans: &Spans, at: usize) -> (u64, u64) {
        let chunk = (at / TOTALLED).min(self.before.len().saturating_sub(1));
        let from = self.before.get(chunk).copied().unwrap_or_default();
        (chunk * TOTALLED..at).fold(from, |(busy, tokens), at| {
            (busy + spans.end[at].saturating_sub(spans.begin[at]), tokens + u64::from(self.tokens[at]))
        })
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
            let (from, to) = (self.total(spans, first), self.total(spans, last));
            count += (last - first) as u64;
            busy += to.0 - from.0;
            bytes += (to.1 - from.1) as f64 * self.token;
            // What of the first and the last span lies outside.
            for (at, outside) in [
                (first, range.start.saturating_sub(spans.begin[first])),
                (last - 1, spans.end[last - 1].saturating_sub(range.end)),
            ] {
                let length = spans.end[at].saturating_sub(spans.begin[at]).max(1);
                busy -= outside;
                bytes -= f64::from(self.tokens[at]) * self.token * outside as f64 / length as f64;
            }
        }
        (busy, count, bytes)
    }

    /// How many spans have begun by a time, and the last of them, in O(lanes · log n).
    pub fn begun(&self, spans: &Spans, time: u64) -> (usize, Option<usize>) {
        let mut all = 0;
        let mut last: Option<usize> = None;
        for lane in &self.lanes {
            let count = spans.begin[lane.spans.clone()].partition_point(|begin| *begin <= time);
            all += count;
            let own = count.checked_sub(1).map(|at| lane.spans.start + at);
            last = last.into_iter().chain(own).max_by_key(|at| (spans.begin[*at], *at));
        }
        (all, last)
    }

    /// Spans of a lane within a range of time.
    pub fn count(&self, spans: &Spans, lane: &Lane, range: &Range<u64>) -> usize {
        let first = spans.end[lane.spans.clone()].partition_point(|end| *end <= range.start);
        spans.begin[lane.spans.clone()].partition_point(|begin| *begin < range.end).saturating_sub(first)
    }

    /// The span of `lane` at time `at`, in O(log n).
    pub fn hit(&self, spans: &Spans, lane: &Lane, at: u64) -> Option<usize> {
        let index = lane.spans.start + spans.end[lane.spans.clone()].partition_point(|end| *end <= at);
        (index < lane.spans.end && spans.begin[index] <= at).then_some(index)
    }
}

/// Levels up to the largest summary that begins at span `at` of a lane and is no longer than a fold, searched from
/// `near`; zero is the span alone.
fn height(begin: &[u64], at: usize, fold: u64, (near, levels): (usize, usize)) -> usize {
    let limit = begin[at].saturating_add(fold);
    let fits = |height: usize| {
        let size = FAN.pow(height as u32);
        at.is_multiple_of(size) && begin.get(at + size).is_some_and(|next| *next <= limit)
    };
    let mut height = near;
    while height > 0 && !fits(height) {
        height -= 1;
    }
    while height < levels && fits(height + 1) {
        height += 1;
    }
    height
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

/// What the CTAs of a capture do.
struct Works<'a> {
    spans: &'a Spans,
    numbers: Vec<CtaNumbers<'a>>,
}

impl<'a> Works<'a> {
    fn of(capture: &'a Capture) -> Self {
        Self { spans: &capture.spans, numbers: capture.plan.all_numbers() }
    }

    /// What the CTA of a span does, where the plan has it.
    fn work(&self, at: usize) -> Option<CtaWork<'a>> {
        self.numbers.get(self.spans.launch[at] as usize)?.work(self.spans.cta[at])
    }

    fn entity(&self, at: usize) -> Entity {
        let Some(work) = self.work(at) else { return Entity::Unknown };
        match (self.spans.role[at], work.first_decode()) {
            (CtaRole::Merge, _) => Entity::Merge,
            (CtaRole::Prefill, _) => Entity::Prefill,
            (CtaRole::Both, _) => Entity::Both,
            (CtaRole::Decode, decode) => decode.map_or(Entity::Unknown, |decode| Entity::Pack(decode.pack)),
        }
    }

    /// KV tokens that the CTA of a span loads, over its heads.
    fn tokens(&self, at: usize) -> u32 {
        let work = self.work(at).filter(|_| self.spans.role[at].computes());
        work.map_or(0, |work| u32::try_from(work.kv_tokens().0).unwrap_or(u32::MAX))
    }
}

/// Busy nanoseconds and KV tokens before each run of [`TOTALLED`] spans.
fn totals(spans: &Spans, tokens: &[u32]) -> Vec<(u64, u64)> {
    let mut sum = (0, 0);
    let mut before = Vec::with_capacity(spans.len() / TOTALLED + 1);
    for (at, tokens) in tokens.iter().enumerate() {
        if at.is_multiple_of(TOTALLED) {
            before.push(sum);
        }
        sum.0 += spans.end[at].saturating_sub(spans.begin[at]);
        sum.1 += u64::from(*tokens);
    }
    before
}

fn leaf(spans: &Spans, entities: &[Entity], at: usize) -> Summary {
    let width = spans.end[at].saturating_sub(spans.begin[at]);
    Summary { widest: width, busy: width, entity: entities[at], weight: width }
}

fn lane(spans: &Spans, entities: &[Entity], sm: u32, slot: u32, range: Range<usize>) -> Lane {
    let leaves: Vec<Summary> = range.clone().map(|at| leaf(spans, entities, at)).collect();
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
