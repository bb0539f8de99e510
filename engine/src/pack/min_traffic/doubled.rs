//! Packs of the same KV that are joined.
//!
//! A pack that is cut to the rows of a tile reads its KV once for each part: the first from HBM, the others from L2, whose way to
//! the SMs fills up with what HBM sends to others. [`DOUBLE`] has twice the rows: its CTAs compute as long as two would, and read
//! half as much.
//!
//! Beside a stream on its SM such a CTA takes 1,590 ns for 64 tokens whatever HBM gives, beside another of its kind 1,820 (H200).
//! So they are cut into few long pieces: one lane of each SM computes while the other streams, for as much of the run as there is to
//! compute, and a query has few partials. With `t` the time of the longest CTA and `m` that of what it may merge,
//!
//! ```text
//! turns   ⌊(0.85 · run − m) / t⌋                    how many such CTAs a lane takes one after another, one at least
//! lanes   CTAs / turns                              at most one and a half an SM where no pack is cut, one where packs are
//! ```
//!
//! and of the cuts that hold to it the one that takes least by the closed form.
//!
//! Worked number, H200 at 32/8: 384 requests with 7,776 tokens in common and 1,067 of their own. Twelve packs of 128 rows and a CTA
//! for each of eight KV heads, on 96 of 264 lanes for 196 of 396 µs: it takes 402 µs, in four pieces 448, and 456 in packs of 64 rows.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::decision::Subject;
use crate::hw::{JoinedPacks, WARPS_OF_WORKER};
use crate::pack::min_traffic::lanes::{Again, Lanes, lane_time, tile_of};
use crate::pack::min_traffic::subtrees::{even_parts, explain_rows};
use crate::pack::{Pack, PackInput, Packing, SubtreeLayout};
use crate::tile::{BULK_BLOCK, DOUBLE, FEW_ROWS, LaneTime};
use crate::units::{NodeIdx, PackIdx, QueryIdx, Tokens};

/// Rows of joined packs at least, as a part of those of the tile: a CTA computes all of these.
const FULL: f64 = 0.875;
/// Lanes of an SM that joined packs take at most where they are whole: with two there is nothing beside them.
const LANES: f64 = 1.5;
/// Into how many pieces the longest pack may be cut.
const PIECES: u32 = 8;
/// For packs at the ends of requests that are not cut.
const WHOLE: f64 = f64::INFINITY;
/// How much longer than without a joined packing may take by the closed form, which has too much for it: of 99 trees that took 5 %
/// less in the mean on an H200 it gave three in ten 5 to 15 % more.
const LONGER: f64 = 1.15;
/// What part of the limits on the run and on what is saved will do for joined packs to be priced as a run. Of 44 trees beyond the
/// limits an H200 took 9 % less to 8 % more with them; of 19 that are shorter by their price 17 took less, 6 % in the mean, and two
/// 1 and 5 % more.
const OPEN_RUN: f64 = 0.8;
const OPEN_SAVED: f64 = 0.6;

/// The packing of a way to share with packs of the same blocks joined as far as [`DOUBLE`] has rows. `cut` gives the packs of the way
/// for a number of pieces of the longest, and how many times as long those at the ends of requests may be.
///
/// None where no packs have more rows than those of another tile then, where there is no kernel for them and the others, or where
/// they save a run that takes `run` ns without too little, or would end after it.
pub(super) fn with_joined_packs(
    input: &PackInput<'_>,
    run: f64,
    cut: impl Fn(u32, f64) -> Packing,
) -> Option<JoinedPacking> {
    let limits = input.device.joined_packs?;
    let has_kernel = input.fixed_tile.is_none() && input.tiles.double().is_some();
    let is_long = run >= OPEN_RUN * limits.least_run.as_f64();
    if !has_kernel || !is_long || input.batch.shape.block_size < BULK_BLOCK {
        return None;
    }
    let mut best: Option<(f64, JoinedPacking)> = None;
    let (mut pieces, mut most) = (1, 1);
    while pieces <= most {
        let mut before: Option<Packing> = None;
        for ends in [WHOLE, 1.0] {
            let apart = cut(pieces, ends);
            if before.as_ref().is_some_and(|before| before.packs == apart.packs) {
                continue;
            }
            let (packing, joined) = joined(input, &apart)?;
            before = Some(apart);
            // However they are cut.
            let known = joined.save(&limits, run)?;
            if pieces == 1 {
                most = ((joined.sms / joined.ctas) as u32).clamp(1, PIECES);
            }
            if joined.end_in_time(&limits, run) {
                let lanes = Lanes::new(input, &packing, Again::Together);
                let time = lanes.makespan(lanes.limit(1, WHOLE)).total();
                if time < best.as_ref().map_or(LONGER * run, |(least, _)| *least) {
                    best = Some((time, JoinedPacking { packing, known }));
                }
            }
        }
        pieces += 1;
    }
    best.map(|(_, joined)| joined)
}

/// A packing with joined packs.
pub(super) struct JoinedPacking {
    pub(super) packing: Packing,
    /// Whether measured runs say that they shorten this one. Where not, their price is to.
    pub(super) known: bool,
}

/// The packing with packs of the same blocks joined, and what these take and save; `None` as above.
fn joined(input: &PackInput<'_>, packing: &Packing) -> Option<(Packing, Joined)> {
    let shape = &input.batch.shape;
    if packing.packs.iter().any(|pack| pack.is_subtree(shape.block_size)) || packing.imposed.is_some() {
        return None;
    }
    let most = (DOUBLE.m / shape.group()) as usize;
    let mut packs: Vec<Part> = Vec::with_capacity(packing.packs.len());
    for mut alike in of_the_same_blocks(packing) {
        let queries: Vec<QueryIdx> = alike.iter().flat_map(|pack| packing.queries_of(pack)).copied().collect();
        let count = queries.len().div_ceil(most);
        let least = queries.len() / count * shape.group() as usize;
        if count < alike.len() && least as f64 >= FULL * f64::from(DOUBLE.m) {
            let before = alike.len();
            let joined =
                |own: &[QueryIdx]| Part { pack: alike[0], queries: own.to_vec(), instead: Some((before, count)) };
            packs.extend(even_parts(&queries, count).map(joined));
        } else {
            let own = alike.drain(..).map(|pack| (pack, packing.queries_of(&pack).to_vec()));
            packs.extend(own.map(|(pack, queries)| Part { pack, queries, instead: None }));
        }
    }
    // Tiles that run beside it in one persistent kernel without spills.
    let runs_beside = |pack: &Pack| {
        let tile = tile_of(input, pack, packing.one_head);
        let several = lane_time(input, pack, packing.one_head).heads > 1;
        tile == SubtreeLayout::TILE || (several && pack.rows(shape.group()) <= FEW_ROWS.m)
    };
    let mut others = packs.iter().filter(|part| part.instead.is_none());
    if packs.iter().all(|part| part.instead.is_none()) || !others.all(|part| runs_beside(&part.pack)) {
        return None;
    }
    let joined = Joined::of(input, packing, &packs);
    packs.sort_by_key(|part| Reverse((part.pack.tokens, part.queries.len())));
    Some((packing_of(input, packing, packs), joined))
}

/// A pack of the new packing with its queries.
struct Part {
    pack: Pack,
    queries: Vec<QueryIdx>,
    /// How many packs before read the same blocks, and how many do now, where it is joined.
    instead: Option<(usize, usize)>,
}

/// Packs that read the same blocks, in the order of the first of each.
fn of_the_same_blocks(packing: &Packing) -> Vec<Vec<Pack>> {
    let mut places: BTreeMap<(NodeIdx, u32, u32), usize> = BTreeMap::new();
    let mut all: Vec<Vec<Pack>> = Vec::new();
    for pack in &packing.packs {
        let place = *places.entry((pack.node, pack.blocks_begin, pack.blocks_end)).or_insert(all.len());
        if place == all.len() {
            all.push(Vec::new());
        }
        all[place].push(*pack);
    }
    all
}

/// What joined packs take and save.
struct Joined {
    /// CTAs of them, and SMs that there are.
    ctas: f64,
    sms: f64,
    /// The longest CTA with a stream beside it, and what it may merge while HBM is full, ns.
    longest: f64,
    merges: f64,
    /// L2 for the KV that is read less often, and HBM for all that has to be read, ns.
    saved: f64,
    hbm: f64,
}

impl Joined {
    /// Of the packs that are joined instead of those `before`.
    fn of(input: &PackInput<'_>, before: &Packing, packs: &[Part]) -> Self {
        let (device, shape) = (input.device, &input.batch.shape);
        let joined = || packs.iter().filter(|part| part.instead.is_some());
        let tokens = joined().map(|part| part.pack.tokens.0).max().unwrap_or(0);
        // Who is longer than what is below ends after it, and merges.
        let trip = (device.worker_merge_trip() + device.loaded_latency).as_f64() - device.sim.idle_latency.as_f64();
        let of_warp = DOUBLE.m / WARPS_OF_WORKER;
        let rounds = device.merge_kernel.map_or(0, |kernel| kernel.rounds(of_warp, 1, 2, shape.head_dim));
        let read: u64 = packs.iter().map(|part| part.pack.tokens.0).sum();
        let of_token = shape.kv_bytes_per_token().as_f64();
        let saved = before.moved().tokens.0.saturating_sub(read) as f64 * of_token;
        Self {
            ctas: (joined().count() * shape.kv_heads as usize) as f64,
            sms: f64::from(device.sm_count),
            longest: LaneTime::of(device, DOUBLE, shape).cta(tokens as f64, 1.0),
            merges: f64::from(rounds) * trip,
            saved: saved / (device.sim.l2_bytes_per_s as f64 * 1e-9),
            hbm: input.tree.unique_tokens().as_f64() * of_token / (device.reachable_bytes_per_s() * 1e-9),
        }
    }

    /// Whether a run that takes `run` ns without is known to be shorter by what they save. None where that is too little.
    fn save(&self, limits: &JoinedPacks, run: f64) -> Option<bool> {
        let some = self.saved >= OPEN_SAVED * limits.saved * run && self.hbm >= limits.hbm * run;
        some.then(|| self.saved >= limits.saved * run && run >= limits.least_run.as_f64())
    }

    /// Whether one lane of each SM, or a little more, is done with them before such a run ends.
    fn end_in_time(&self, limits: &JoinedPacks, run: f64) -> bool {
        let turns = ((limits.longest * run - self.merges) / self.longest).floor();
        turns >= 1.0 && self.ctas <= turns * LANES * self.sms
    }
}

fn packing_of(input: &PackInput<'_>, before: &Packing, packs: Vec<Part>) -> Packing {
    let (one_head, one_wave, mut decisions) = (before.one_head, before.one_wave, before.decisions.clone());
    decisions.records.retain(|decision| !matches!(decision.subject, Subject::Pack(_)));
    let mut packing = Packing { one_head, one_wave, decisions, ..Packing::default() };
    for (at, Part { pack, queries, instead }) in packs.into_iter().enumerate() {
        if let (true, Some((before, count))) = (input.explain, instead) {
            let rule = "where the run is shorter by it, packs of the same KV are joined";
            let [now, before] = [count, before].map(|packs| Tokens(pack.tokens.0 * packs as u64));
            let of_token = input.batch.shape.kv_bytes_per_token();
            packing.decisions.records.push(explain_rows(PackIdx::from(at), (now, before), of_token, rule));
        }
        packing.packs.push(Pack {
            queries_begin: packing.queries.len() as u32,
            queries_len: queries.len() as u32,
            ..pack
        });
        packing.queries.extend_from_slice(&queries);
    }
    packing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::min_traffic::time::MinTime;
    use crate::pack::testing::with_input;
    use crate::pack::{Scheduler as _, coverage};
    use crate::workload::{AttentionShape, Batch, PrefixTree, parse_tree};

    fn batch(tree: &str, heads: (u32, u32), block_size: u32) -> Batch {
        let shape = AttentionShape { query_heads: heads.0, kv_heads: heads.1, block_size, ..Default::default() };
        parse_tree(tree, shape).unwrap().build().unwrap()
    }

    /// Rows and tokens of the packs that go before all others, the most rows first.
    fn packs(batch: &Batch, device: &str) -> Vec<(u32, u64)> {
        with_input(batch, &PrefixTree::of(batch), (device, None), |input| {
            let packing = MinTime.packings(input).unwrap().swap_remove(0);
            coverage(batch, &packing).unwrap();
            let group = batch.shape.group();
            let mut packs: Vec<(u32, u64)> =
                packing.packs.iter().map(|pack| (pack.rows(group), pack.tokens.0)).collect();
            packs.sort_unstable_by_key(|pack| Reverse(*pack));
            packs
        })
    }

    /// Configurations 7 and 8 of PAT, and requests of five query heads a KV head: two packs of 120 rows where four had 60.
    #[test]
    fn packs_of_the_same_kv_are_joined_in_long_runs_that_read_much_again() {
        for (tree, heads, block_size, (wide, of)) in [
            ("1,8,512_32,2048,256", (32, 8), 32, (16, 128)),
            ("1,8,512_32,1024,256", (32, 8), 32, (16, 128)),
            ("8,384_4704,854", (20, 4), 16, (16, 120)),
        ] {
            let batch = batch(tree, heads, block_size);
            let packs = packs(&batch, "h200-sxm");
            assert!(packs[..wide].iter().all(|(rows, _)| *rows == of), "{tree}: {:?}", &packs[..=wide]);
            assert!(packs.iter().all(|(rows, _)| *rows == of || *rows <= 64), "{tree}");
        }
    }

    /// On 96 of 264 lanes for half of the run, on 128 where it has to be halved, and not at all where that is not enough.
    #[test]
    fn joined_packs_are_few_and_as_long_as_the_run_lets_them() {
        for (tree, heads, joined, longest) in [
            ("1,384_7776,1067", (32, 8), 12, 7776),
            ("1,256_4800,917", (32, 4), 32, 2400),
            ("1,384_8832,232", (32, 8), 0, 0),
        ] {
            let packs = packs(&batch(tree, heads, 32), "h200-sxm");
            let tokens: Vec<u64> = packs.iter().filter(|(rows, _)| *rows > 64).map(|(_, tokens)| *tokens).collect();
            assert_eq!((tokens.len(), tokens.iter().max().copied().unwrap_or(0)), (joined, longest), "{tree}");
        }
    }

    #[test]
    fn packs_stay_apart_where_that_is_not_known_to_gain() {
        for (why, tree, heads, block_size, device) in [
            ("a short run", "1,8,192_352,896,230", (32, 8), 32, "h200-sxm"),
            ("too long a CTA", "1,192_9088,509", (28, 4), 32, "h200-sxm"),
            ("little that is read again", "1,192_2272,1067", (32, 8), 32, "h200-sxm"),
            ("little for HBM to do beside them", "1,12,1152_1888,3360,80", (32, 8), 32, "h200-sxm"),
            ("rows that fill three quarters of the tile", "16,768_3808,175", (32, 8), 32, "h200-sxm"),
            ("packs of sixteen rows beside", "1,8,128,512_32,2048,256,256", (32, 8), 32, "h200-sxm"),
            ("blocks without bulk copies", "1,8,512_32,2048,256", (32, 8), 8, "h200-sxm"),
            ("a GPU on which it was not measured", "1,8,512_32,2048,256", (32, 8), 32, "h100-sxm"),
        ] {
            let batch = batch(tree, heads, block_size);
            let joined = with_input(&batch, &PrefixTree::of(&batch), (device, None), |input| {
                let packings = MinTime.packings(input).unwrap();
                let rows = |pack: &Pack| pack.rows(batch.shape.group());
                let joined = |pack: &Pack| rows(pack) > 64 && !pack.is_subtree(batch.shape.block_size);
                packings.iter().flat_map(|packing| &packing.packs).any(joined)
            });
            assert!(!joined, "{why}");
        }
    }

    /// As many query heads as KV heads: little of a long run, but its price is 10 % less.
    #[test]
    fn near_the_limits_joined_packs_are_the_last_to_be_priced() {
        for (tree, heads) in [("1,512_6176,564", (32, 32)), ("1,256_3840,495", (32, 4))] {
            let batch = batch(tree, heads, 32);
            with_input(&batch, &PrefixTree::of(&batch), ("h200-sxm", None), |input| {
                let packings = MinTime.packings(input).unwrap();
                let rows = |packing: &Packing| packing.packs.iter().map(|pack| pack.rows(batch.shape.group())).max();
                let rows: Vec<Option<u32>> = packings.iter().map(rows).collect();
                assert!(rows.len() > 1 && rows.ends_with(&[Some(128)]), "{tree}: {rows:?}");
                assert!(rows[..rows.len() - 1].iter().all(|rows| *rows == Some(64)), "{tree}: {rows:?}");
            });
        }
    }

    #[test]
    fn packs_that_are_joined_say_what_they_read_less() {
        let batch = batch("1,8,512_32,2048,256", (32, 8), 32);
        with_input(&batch, &PrefixTree::of(&batch), ("h200-sxm", None), |input| {
            let input = PackInput { explain: true, ..*input };
            let packing = MinTime.packings(&input).unwrap().swap_remove(0);
            let of_packs = packing.decisions.records.iter().filter(|of| matches!(of.subject, Subject::Pack(_)));
            let read: Vec<Vec<f64>> = of_packs.map(|of| of.considered.iter().map(|way| way.cost).collect()).collect();
            assert_eq!(read.len(), 16);
            assert!(read.iter().all(|costs| (2.0 * costs[0] - costs[1]).abs() < 0.5), "{read:?}");
        });
    }
}
