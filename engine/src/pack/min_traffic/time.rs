//! `min-time`: the packs of the same search at prices in time, then cut and put in order for the
//! least makespan by a closed form.
//!
//! **Prices.** A KV token that was read before comes from L2, where a byte costs `hbm / l2` of one
//! from HBM; so does a partial that the merge reads, but it is written to HBM first.
//!
//! **Cuts.** Lanes take the packs from a queue, longest first, each CTA with the time that its like takes
//! alone ([`Lanes`]). With `n(p)` of `N` lanes that have more than `p` to do, and `B` the time that the memory system needs
//! for all bytes, `r = B / mean load` is what all lanes together ask of it, and
//!
//! ```text
//! E         = ∫ max(1, r · n(p) / N) dp  +  what the last lane is late       memory gives the more the fewer lanes are left
//! T(limits) = E + merge of all on all lanes + merge of the last CTA          packs beyond a limit cut into equal pieces
//! ```
//!
//! More pieces make the last lanes end earlier, and `B` and the merges longer: each piece begins and ends once more, and
//! each of its queries has a partial more to write, read and merge. The last CTA of a query's merges it, and a pack of many
//! queries merges them one after another. So the packs that requests end with have a limit of their own, up to three times
//! the other, with which they arrive last. The least T over the candidates decides, and between packs with partials
//! and one pack a query.
//!
//! **Tiles.** Packs of few tokens are cut by queries to the flattest tile where that makes T smaller ([`narrowed`]).
//!
//! **Order.** Longest first, so that what starts last is short; of equals the widest first, since what
//! ends last merges its queries.
//!
//! Worked number, H200 at 32/8, configuration 1 of PAT, ten requests whose 416 tokens follow on a shared
//! run of 4,096: eight pieces of the run and two of each leaf end after 15.2 µs, where HBM alone needs 13.6, and the ten
//! partials of a request are merged in 4.3 with a lane's share, 19.5 in all; sixteen and three pieces end by 15.7, and merge
//! 19 partials in 8.1. Measured with the launch: 23.3 and 25.2.

use std::cmp::Reverse;

use crate::decision::{Choice, Considered, Decision, RuleConstant, Subject};
use crate::error::Result;
use crate::pack::min_traffic::lanes::{Again, Lanes, Limit, Makespan};
use crate::pack::min_traffic::narrow::narrowed;
use crate::pack::min_traffic::search::Price;
use crate::pack::min_traffic::{searched, without_partials};
use crate::pack::splits::push_pieces;
use crate::pack::{Pack, PackInput, Packing, Scheduler, price as bytes};
use crate::units::PackIdx;
use crate::workload::Node;

/// Into how many pieces the longest pack may be cut; each is a candidate limit.
const PIECES: [u32; 16] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64];
/// How many times as long the packs at the ends of requests may be, so that they arrive last.
const ENDS: [f64; 5] = [1.0, 1.25, 1.5, 2.0, 3.0];
/// The candidates end after so many that were worse than the best one before.
const WORSE: u32 = 3;

/// What sharing must gain against one pack a query. The closed form does not tell which of CTAs that end together comes
/// last, and where it is one of many queries it merges them one after another: a batch for which it gave 10.7 µs
/// both ways took 27 µs shared and 11.7 alone.
const GAIN: f64 = 1.05;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(in crate::pack) struct MinTime;

impl Scheduler for MinTime {
    fn name(&self) -> &'static str {
        "min-time"
    }

    fn about(&self) -> &'static str {
        "Ours: min-traffic's search with L2 priced in, then cut and put in order for the least makespan by a closed form."
    }

    fn pack(&self, input: &PackInput<'_>) -> Result<Packing> {
        let shared = narrower(input, Way::of(input, searched(input, price(input), &[]).0, Again::Together));
        let most = GAIN * shared.makespan.total();
        if reading_without_partials(input) >= most {
            return Ok(cut(input, shared));
        }
        let alone = Way::of(input, without_partials(input), Again::Apart);
        let take_alone = alone.makespan.total() < most;
        Ok(cut(input, if take_alone { alone } else { shared }))
    }
}

/// The way with packs of few tokens in flatter tiles, where that takes less time.
fn narrower<'a>(input: &PackInput<'a>, way: Way<'a>) -> Way<'a> {
    let Some(packing) = narrowed(input, &way.packing) else { return way };
    let narrower = Way::of(input, packing, Again::Together);
    if narrower.makespan.total() < way.makespan.total() { narrower } else { way }
}

/// A packing with its best limit.
struct Way<'a> {
    packing: Packing,
    lanes: Lanes<'a>,
    limit: Limit,
    makespan: Makespan,
}

impl<'a> Way<'a> {
    fn of(input: &PackInput<'a>, packing: Packing, again: Again) -> Self {
        let lanes = Lanes::new(input, &packing, again);
        let (limit, makespan) = best_limit(&lanes);
        Self { packing, lanes, limit, makespan }
    }
}

/// The least time for the KV of [`without_partials`], ns: all of it comes through L2.
fn reading_without_partials(input: &PackInput<'_>) -> f64 {
    let block = u64::from(input.batch.shape.block_size);
    let most = input.max_queries();
    let of = |node: &Node| {
        let path = u64::from(node.blocks.start) * block + node.tokens.0;
        u64::from(node.ending.div_ceil(most)) * path
    };
    let tokens: u64 = input.tree.nodes.iter().map(of).sum();
    let bytes = input.batch.shape.kv_bytes_per_token().as_f64() * tokens as f64;
    bytes / (input.device.sim.l2_bytes_per_s as f64 * 1e-9)
}

/// Prices by where bytes come from: in bytes of HBM.
pub(super) fn price(input: &PackInput<'_>) -> Price {
    let exact = super::price(input);
    let shape = &input.batch.shape;
    let l2 = input.device.reachable_bytes_per_s() / input.device.sim.l2_bytes_per_s as f64;
    let (q, p) = (shape.query_bytes().as_f64(), shape.partial_bytes().as_f64());
    let slot = l2 * q + (1.0 + l2) * p;
    Price { kv_token: (l2 * exact.kv_token as f64).round() as u64, slot: slot.round() as u64, ..exact }
}

/// The limit at which the makespan is least, and that makespan.
fn best_limit(lanes: &Lanes<'_>) -> (Limit, Makespan) {
    let at = |pieces: u32, ends: f64| (lanes.limit(pieces, ends), lanes.makespan(lanes.limit(pieces, ends)));
    let mut best = at(1, 1.0);
    let ends = if lanes.has_two_kinds() { &ENDS[..] } else { &ENDS[..1] };
    let mut worse = 0;
    for pieces in PIECES {
        // Without a tail, and after a few that were worse, more pieces only cost more.
        if !best.1.has_tail() || worse == WORSE {
            break;
        }
        worse += 1;
        for candidate in ends.iter().map(|ends| at(pieces, *ends)) {
            if candidate.1.total() < best.1.total() {
                best = candidate;
                worse = 0;
            }
        }
    }
    best
}

/// Cuts the packs that are beyond the limit, and puts the longest first.
fn cut(input: &PackInput<'_>, way: Way<'_>) -> Packing {
    let block_size = input.batch.shape.block_size;
    let mut packing = way.packing;
    let whole = std::mem::take(&mut packing.packs);
    let pieces: Vec<u32> = (0..whole.len()).map(|number| way.lanes.pieces(number, way.limit)).collect();
    for (pack, pieces) in whole.iter().zip(&pieces) {
        push_pieces(&mut packing.packs, *pack, pack.block_count().div_ceil(*pieces), block_size);
    }
    // Stable: of equals in the order of nodes, as the search gave them, which such a sort finds nearly done.
    packing.packs.sort_by_key(|pack| Reverse((pack.tokens, pack.queries_len)));
    if input.explain {
        for (pack, pieces) in whole.iter().zip(pieces).filter(|(_, pieces)| *pieces > 1) {
            let begin = (pack.queries_begin, pack.blocks_begin);
            let first = packing.packs.iter().position(|piece| (piece.queries_begin, piece.blocks_begin) == begin);
            packing.decisions.records.extend(first.map(|first| explain(input, first, pack, pieces)));
        }
    }
    packing
}

fn explain(input: &PackInput<'_>, first: usize, pack: &Pack, pieces: u32) -> Decision {
    let whole = pack.tokens.as_f64();
    let piece = whole / f64::from(pieces);
    Decision {
        subject: Subject::Pack(PackIdx::from(first)),
        other: None,
        choice: Choice::Split,
        considered: vec![
            Considered::new("cut", piece, bytes::partials(input, pieces * pack.queries_len)),
            Considered::new("keep whole", whole, bytes::partials(input, pack.queries_len)),
        ],
        chosen: 0,
        unit: "KV tokens of its CTA".into(),
        rule: "of the limits of a CTA's time, the one at which the makespan by the closed form is least".into(),
        constant: Some(RuleConstant::new("limit in KV tokens of this tile", piece, Some(whole))),
    }
}
