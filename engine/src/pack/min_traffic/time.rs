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
//! **Runs.** T sees one kind of CTA at a time. So the cuts of least T of both are planned too, and priced by cohorts as runs
//! under the strategy ([`Scheduler::packings`]): one that gains a twentieth there goes before the one of least T, and one of
//! whole subtrees alone, which merges nothing, where it gains a fiftieth. Of runs that take alike the one with the fewest partials
//! is taken. With one KV head for 16 query heads that makes configuration 1 a third shorter on an H200, 16.6 µs instead of 24.2.
//!
//! **Shared merges.** Where all CTAs are on the GPU at once, those without a task share the merges of queries with many partials
//! (`kernels/src/watch.rs`), so it does not matter what arrives last, and leaves may be shorter than what is above them. Of each
//! number of pieces the cuts of least T with such merges are priced as runs too. In one wave cohorts know who ends last, so a
//! hundredth is gain enough. On an H200, 49 batches of 10 to 120 µs that this plans otherwise took 3 % less in the mean, at most
//! 15 % less and 7 % more.
//!
//! **Tiles.** Packs of few tokens are cut by queries to the flattest tile where that makes T smaller ([`narrowed`]).
//!
//! **Heads.** The flattest tile takes four KV heads side by side, so few packs make few CTAs, and more pieces of them more
//! partials to merge. Up to two CTAs a lane, the cuts of packs with one KV head a CTA are priced as runs too: 10,592 tokens
//! of one request at 20/4 are cut into 37 pieces of four heads or 24 of one, 27.7 and 16.7 µs on an H200.
//!
//! **Subtrees.** But for cuts for shared merges each one is priced with subtree packs too ([`with_subtrees`]): those that take less of
//! the lanes, and those that take little more.
//!
//! **Joined packs.** What is beyond the rows of a tile reads its KV once more for each 64 rows, from L2. Where the run is long and L2
//! has much of that to do, packs of the same KV are joined by two, and cut so that they compute on one lane of each SM while the other
//! streams ([`with_joined_packs`]). Where measured runs say that this gains they go before what the closed form takes, and near these
//! limits they are one more packing to price.
//!
//! **Order.** Longest first, so that what starts last is short; of equals the widest first, since what
//! ends last merges its queries.
//!
//! Worked number, H200 at 32/8, configuration 1 of PAT, ten requests whose 416 tokens follow on a shared
//! run of 4,096: eight pieces of the run and two of each leaf end after 15.2 µs, where HBM alone needs 13.6, and the ten
//! partials of a request are merged in 4.3 with a lane's share, 19.5 in all; sixteen and three pieces end by 15.7, and merge
//! 19 partials in 8.1. As runs ten and four pieces are shortest, 19.1 µs with the launch; eight and three take as long within half
//! a percent and have fewer partials, eight and two 19.9: measured 19.6, 19.1 and 20.0.

use std::cmp::Reverse;

use crate::decision::{Choice, Considered, Decision, RuleConstant, Subject};
use crate::error::Result;
use crate::pack::min_traffic::doubled::{JoinedPacking, with_joined_packs};
use crate::pack::min_traffic::lanes::{Again, Lanes, Limit, Makespan};
use crate::pack::min_traffic::narrow::narrowed;
use crate::pack::min_traffic::search::Price;
use crate::pack::min_traffic::subtrees::{AS_RUNS, with_subtrees, with_tall_packs};
use crate::pack::min_traffic::{searched, without_partials};
use crate::pack::splits::push_pieces;
use crate::pack::{Pack, PackInput, Packing, Scheduler, price as bytes};
use crate::tile::TileRule;
use crate::units::PackIdx;
use crate::workload::Node;

/// Into how many pieces the longest pack may be cut; each is a candidate limit.
const PIECES: [u32; 22] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256];
/// How many times as long the packs at the ends of requests may be, so that they arrive last.
const ENDS: [f64; 5] = [1.0, 1.25, 1.5, 2.0, 3.0];
/// The same where CTAs without tasks share merges, and it does not matter what arrives last.
const ENDS_FIRST: [f64; 2] = [0.5, 0.7];
/// The candidates end after so many that were worse than the best one before.
const WORSE: u32 = 3;
/// So many cuts of each way to share are priced as runs.
const CUTS: usize = 5;
/// Of packs of one request with one KV head a CTA so many, up to those with which all lanes have a CTA: the closed form does
/// not see that few CTAs keep few bytes in flight, and takes 10 pieces for two requests of 400,000 tokens at 28/4, 427 µs by
/// cohorts, where 16 take 387.
const CUTS_OF_ONE_HEAD: usize = 10;
/// What sharing merges must gain for a cut to be priced for it.
const SHARED_GAIN: f64 = 0.99;
/// So many cuts for merges that are shared, of those that take so many times the least by the closed form.
const CUTS_OF_SHARED_MERGES: usize = 16;
const NEAR: f64 = 1.2;
/// Of those with more partials a query than so many times those of the closed form's own and of the best cut of the same way to
/// share, no price tells who comes last: of PAT's configurations at 32/8 they made 5 and 18 a sixth longer on an H200, which
/// cohorts give 6 to 9 % less.
const MORE_PARTIALS: f64 = 1.15;
/// The same where each lane has one CTA at most: of these cohorts know how they end. On an H100 20 requests of 7 query heads a
/// KV head over 5,984 shared tokens take 32.1 µs with 17 partials, and 35.6 with 11.
const MORE_PARTIALS_OF_ONE_WAVE: f64 = 1.6;
/// Up to so many CTAs a lane, packs are also priced with one KV head a CTA: there four times as many CTAs of a pack are in place
/// of pieces of it.
const WAVES_OF_ONE_HEAD: f64 = 2.0;
/// So many packs those have in all at most, for planning to stay within tenths of a millisecond.
const PRICED: usize = 4096;

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
        "Ours: min-traffic's search with L2 priced in, then cut and put in order for the least makespan: by a closed form, and by pricing its best as runs, with CTAs for whole subtrees where their leaves are short."
    }

    fn tile_rule(&self) -> TileRule {
        TileRule::Quickest
    }

    fn pack(&self, input: &PackInput<'_>) -> Result<Packing> {
        let (ways, first) = ways(input);
        Ok(ways[first].cut(input, ways[first].limits[0]))
    }

    fn packings(&self, input: &PackInput<'_>) -> Result<Vec<Packing>> {
        let (mut ways, first) = ways(input);
        ways.extend(ways.iter().filter_map(|way| way.with_one_head(input)).collect::<Vec<_>>());
        let mut candidates = Candidates { input, packings: Vec::new(), packs: 0 };
        let mut joined = ways[first].joined(input);
        if let Some(known) = joined.take_if(|joined| joined.known) {
            candidates.add(known.packing, false);
        }
        let by_last = cuts(&ways, first).into_iter().map(|cut| (cut, true));
        let shared = cuts_of_shared_merges(&ways, first).into_iter().map(|cut| (cut, false));
        for ((way, cut), subtrees) in by_last.chain(shared) {
            if !candidates.add(ways[way].cut(input, cut), subtrees) {
                break;
            }
        }
        if let Some(open) = joined {
            candidates.add(open.packing, false);
        }
        Ok(candidates.packings)
    }
}

/// A limit with its makespan.
type Timed = (Limit, Makespan);

/// A cut of one of several ways to share.
type Cut = (usize, Timed);

/// The cuts that are priced as runs, by the closed form in which the last to arrive merges: what it takes comes first, the others
/// by its times.
fn cuts(ways: &[Way<'_>], first: usize) -> Vec<Cut> {
    let mut cuts: Vec<(usize, &Timed)> = Vec::new();
    for (number, way) in ways.iter().enumerate() {
        let most = if way.packing.takes_requests_by_heads() { CUTS_OF_ONE_HEAD } else { CUTS };
        let open = way.limits.iter().take(most).filter(|(_, makespan)| is_open(ways, (first, number), makespan));
        cuts.extend(open.map(|cut| (number, cut)));
    }
    cuts.sort_by(|(_, a), (_, b)| a.1.total().total_cmp(&b.1.total()));
    if let Some(taken) = cuts.iter().position(|(way, _)| *way == first) {
        cuts[..=taken].rotate_right(1);
    }
    cuts.into_iter().map(|(way, cut)| (way, *cut)).collect()
}

/// The same for merges that CTAs without tasks share. Then leaves may end before the packs above them.
fn cuts_of_shared_merges(ways: &[Way<'_>], first: usize) -> Vec<Cut> {
    let all = || ways.iter().enumerate().flat_map(|(number, way)| way.shared.iter().map(move |cut| (number, cut)));
    let least = all().map(|(_, (_, makespan))| makespan.total_shared()).fold(f64::INFINITY, f64::min);
    let near = |(number, (_, makespan)): &(usize, &Timed)| {
        makespan.total_shared() <= NEAR * least && is_open(ways, (first, *number), makespan)
    };
    let mut cuts: Vec<(usize, &Timed)> = all().filter(near).collect();
    cuts.sort_by(|(_, a), (_, b)| a.1.total_shared().total_cmp(&b.1.total_shared()));
    cuts.truncate(CUTS_OF_SHARED_MERGES);
    cuts.into_iter().map(|(way, cut)| (way, *cut)).collect()
}

/// Whether a cut of way `number` is priced as a run, where the closed form takes way `first`.
fn is_open(ways: &[Way<'_>], (first, number): (usize, usize), makespan: &Makespan) -> bool {
    let of = |way: usize| ways[way].limits[0].1.partials();
    let more = if makespan.is_one_wave() { MORE_PARTIALS_OF_ONE_WAVE } else { MORE_PARTIALS };
    f64::from(makespan.partials()) <= more * f64::from(of(first).max(of(number))) && ways[number].is_told(makespan)
}

/// The packings that are to be priced as runs.
struct Candidates<'a> {
    input: &'a PackInput<'a>,
    packings: Vec<Packing>,
    packs: usize,
}

impl Candidates<'_> {
    /// Adds a packing, and with `subtrees` those that take CTAs for whole subtrees in place of some of its packs. False
    /// where there is no time to price it.
    fn add(&mut self, packing: Packing, subtrees: bool) -> bool {
        // Limits that cut alike, or ways that share alike.
        if self.packings.iter().any(|other| (other.one_head, &other.packs) == (packing.one_head, &packing.packs)) {
            return true;
        }
        self.packs += packing.packs.len();
        if self.packs > PRICED && !self.packings.is_empty() {
            return false;
        }
        let mut with: Vec<Packing> = Vec::new();
        for most in if packing.one_head || !subtrees { &[][..] } else { &[1.0, AS_RUNS] } {
            let more = with_subtrees(self.input, &packing, *most);
            with.extend(more.filter(|more| with.iter().all(|other| other.packs != more.packs)));
        }
        self.packings.push(packing);
        for packing in with {
            let tall = with_tall_packs(self.input, &packing);
            self.packings.push(packing);
            self.packings.extend(tall);
        }
        true
    }
}

/// Ways to share, before their packs are cut, and which of them the closed form takes.
fn ways<'a>(input: &PackInput<'a>) -> (Vec<Way<'a>>, usize) {
    let shared = narrower(input, Way::of(input, searched(input, price(input), &[]).0, Again::Together));
    let most = GAIN * shared.total();
    // Where nothing is shared, both ways are the same.
    let nothing_shared = input.tree.nodes.iter().all(|node| node.query_count() == 1);
    if nothing_shared || reading_without_partials(input) >= most {
        return (vec![shared], 0);
    }
    let alone = Way::of(input, without_partials(input), Again::Apart);
    let first = usize::from(alone.total() < most);
    (vec![shared, alone], first)
}

/// The way with packs of few tokens in flatter tiles, where that takes less time.
fn narrower<'a>(input: &PackInput<'a>, way: Way<'a>) -> Way<'a> {
    let Some(packing) = narrowed(input, &way.packing) else { return way };
    let narrower = Way::of(input, packing, Again::Together);
    if narrower.total() < way.total() { narrower } else { way }
}

/// A packing with its limits, the best first, and those for merges that CTAs without tasks share.
struct Way<'a> {
    packing: Packing,
    lanes: Lanes<'a>,
    limits: Vec<Timed>,
    shared: Vec<Timed>,
}

impl<'a> Way<'a> {
    fn of(input: &PackInput<'a>, packing: Packing, again: Again) -> Self {
        let lanes = Lanes::new(input, &packing, again);
        let (limits, shared) = limits(&lanes, packing.takes_requests_by_heads());
        Self { packing, lanes, limits, shared }
    }

    /// The same packs with one KV head a CTA, where few CTAs take several.
    fn with_one_head(&self, input: &PackInput<'a>) -> Option<Self> {
        let few = self.limits[0].1.waves() <= WAVES_OF_ONE_HEAD;
        let open = input.fixed_tile.is_none() && few && self.lanes.takes_several_heads();
        open.then(|| Self::of(input, Packing { one_head: true, ..self.packing.clone() }, self.lanes.again()))
    }

    /// The same with packs of the same KV joined, where that shortens the run or may.
    fn joined(&self, input: &PackInput<'_>) -> Option<JoinedPacking> {
        with_joined_packs(input, self.total(), |pieces, ends| {
            let limit = self.lanes.limit(pieces, ends);
            self.cut(input, (limit, self.lanes.makespan(limit)))
        })
    }

    /// Whether cohorts tell who comes last where packs are cut so. Leaves of one KV head end soon, so that a pack which several
    /// requests share may end after them. In one wave how they ran tells it; of plans with more two took 9 and 14 % longer on an
    /// H200, and two 4 and 8 % less.
    fn is_told(&self, makespan: &Makespan) -> bool {
        !self.packing.one_head || makespan.is_one_wave() || self.packing.takes_requests_by_heads()
    }

    /// The makespan at the best limit, ns.
    fn total(&self) -> f64 {
        self.limits[0].1.total()
    }

    /// The packs, those beyond the limit cut, and the longest first.
    fn cut(&self, input: &PackInput<'_>, (limit, makespan): Timed) -> Packing {
        let block_size = input.batch.shape.block_size;
        let Packing { packs: whole, queries, imposed, one_head, decisions, .. } = &self.packing;
        let pieces: Vec<u32> = (0..whole.len()).map(|number| self.lanes.pieces(number, limit)).collect();
        let (packs, queries) = (Vec::with_capacity(whole.len()), queries.clone());
        let (imposed, decisions) = (imposed.clone(), decisions.clone());
        let (one_head, one_wave) = (*one_head, makespan.is_one_wave());
        let mut packing = Packing { packs, queries, imposed, one_head, one_wave, decisions };
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

/// Limits with their makespans, the least first: at least one; and those at which CTAs without tasks would share merges. Where
/// all lanes are to be filled, up to those that do.
fn limits(lanes: &Lanes<'_>, all_lanes: bool) -> (Vec<Timed>, Vec<Timed>) {
    let at = |pieces: u32, ends: f64| {
        let limit = lanes.limit(pieces, ends);
        (limit, lanes.makespan(limit))
    };
    let mut found = vec![at(1, 1.0)];
    let mut shared = Vec::new();
    let mut best = found[0].1;
    let ends = if lanes.has_two_kinds() { &ENDS[..] } else { &ENDS[..1] };
    let ends_first = if lanes.has_two_kinds() && lanes.shares_merges() { &ENDS_FIRST[..] } else { &[] };
    let mut worse = 0;
    for pieces in PIECES {
        // Without a tail, and after a few that were worse, more pieces only cost more.
        let enough = !best.has_tail() || worse >= WORSE;
        let idle = all_lanes && found.last().is_some_and(|(_, makespan)| makespan.is_one_wave());
        if enough && !idle {
            break;
        }
        worse += 1;
        let begin = found.len();
        for candidate in ends.iter().map(|ends| at(pieces, *ends)) {
            if candidate.1.total() < best.total() {
                best = candidate.1;
                worse = 0;
            }
            found.push(candidate);
        }
        // Shorter leaves are more CTAs.
        let shorter = if found[begin].1.is_one_wave() { ends_first } else { &[] };
        let shorter: Vec<Timed> = shorter.iter().map(|ends| at(pieces, *ends)).collect();
        shared.extend([&shorter[..], &found[begin..]].into_iter().filter_map(least_shared));
    }
    found.sort_by(|a, b| a.1.total().total_cmp(&b.1.total()));
    // Limits that cut alike take the same time to the last bit.
    found.dedup_by_key(|(_, makespan)| makespan.total().to_bits());
    (found, shared)
}

/// Of the limits at which sharing merges gains enough the one with which all takes the least.
fn least_shared(limits: &[Timed]) -> Option<Timed> {
    let gains = limits.iter().filter(|(_, makespan)| makespan.total_shared() < SHARED_GAIN * makespan.total());
    gains.min_by(|a, b| a.1.total_shared().total_cmp(&b.1.total_shared())).copied()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::testing::with_input;
    use crate::workload::{AttentionShape, PrefixTree, parse_tree};

    /// Cuts of packs that ten requests share, and of their leaves, by number: how many of each are priced as runs.
    #[test]
    fn leaves_shorter_than_shared_packs_are_priced_where_ctas_without_tasks_share_merges() {
        let pieces = |device| {
            let shape = AttentionShape { query_heads: 32, kv_heads: 8, ..AttentionShape::default() };
            let batch = parse_tree("1,10_4096,416", shape).unwrap().build().unwrap();
            with_input(&batch, &PrefixTree::of(&batch), (device, None), |input| {
                let of = |packing: &Packing| {
                    let (leaves, shared): (Vec<&Pack>, Vec<&Pack>) =
                        packing.packs.iter().partition(|pack| pack.queries_len == 1);
                    (!packing.one_head).then_some((shared.len(), leaves.len() / 10))
                };
                MinTime.packings(input).unwrap().iter().filter_map(of).collect::<Vec<_>>()
            })
        };
        let (shared, by_last) = (pieces("h200-sxm"), pieces("h100-sxm-pat"));
        assert!(shared[0] == (8, 2) && shared.contains(&(8, 3)), "{shared:?}");
        assert!(!by_last.contains(&(8, 3)), "{by_last:?}");
    }

    /// The closed form takes a pack a query there, whose four partials are far fewer than those of shared packs.
    #[test]
    fn shared_packs_of_one_kv_head_are_priced_as_runs_though_they_have_more_partials() {
        let shape = AttentionShape { query_heads: 8, kv_heads: 1, block_size: 16, ..AttentionShape::default() };
        let batch = parse_tree("1,15,60_6256,1104,271", shape).unwrap().build().unwrap();
        with_input(&batch, &PrefixTree::of(&batch), ("h200-sxm", None), |input| {
            let (ways, first) = ways(input);
            let partials = |way: &Way<'_>| way.limits[0].1.partials();
            let partials = [partials(&ways[0]), partials(&ways[1])].map(f64::from);
            assert!(first == 1 && partials[0] > MORE_PARTIALS_OF_ONE_WAVE * partials[1], "{first} {partials:?}");
            let packings = MinTime.packings(input).unwrap();
            assert!(
                packings[0].packs.iter().all(|pack| pack.queries_len <= 2),
                "what the closed form takes comes first"
            );
            assert!(packings.iter().any(|packing| packing.packs.iter().any(|pack| pack.queries_len == 8)));
        });
    }
}
