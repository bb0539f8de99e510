//! Packs of the same KV that are joined.
//!
//! A pack that is cut to the rows of a tile reads its KV once for each part: the first from HBM, the others from L2, whose way to
//! the SMs fills up with what HBM sends to others. [`DOUBLE`] has twice the rows: its CTAs compute as long as two would, and read
//! half as much.
//!
//! Worked number, H200 at 32/8, configuration 7 of PAT: 512 requests, each 64 of which share 2,048 tokens, in four packs of 64
//! rows. Of 810 MB that SMs read, 612 are from HBM. Joined by two the packs read 134 MB less, and the run takes 156.4 µs in
//! place of 158.8.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::decision::Subject;
use crate::hw::{JoinedPacks, WARPS_OF_WORKER};
use crate::pack::min_traffic::lanes::{lane_time, tile_of};
use crate::pack::min_traffic::subtrees::{even_parts, explain_rows};
use crate::pack::{Pack, PackInput, Packing, SubtreeLayout};
use crate::tile::{BULK_BLOCK, DOUBLE, FEW_ROWS, LaneTime};
use crate::units::{NodeIdx, PackIdx, QueryIdx, Tokens};

/// Rows of joined packs at least, as a part of those of the tile: a CTA computes all of these.
const FULL: f64 = 0.875;

/// The packing with packs of the same blocks joined as far as [`DOUBLE`] has rows; `None` where there are none that have more than
/// another tile then, or no kernel for them and the others.
pub(super) fn with_joined_packs(input: &PackInput<'_>, packing: &Packing, run: f64) -> Option<Packing> {
    let shape = &input.batch.shape;
    let limits = input.device.joined_packs?;
    let has_kernel = input.fixed_tile.is_none() && input.tiles.double().is_some() && shape.block_size >= BULK_BLOCK;
    let subtrees = packing.packs.iter().any(|pack| pack.is_subtree(shape.block_size));
    if !has_kernel || subtrees || packing.imposed.is_some() {
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
    if !Joined::of(input, packing, &packs).shorten(&limits, run) {
        return None;
    }
    packs.sort_by_key(|part| Reverse((part.pack.tokens, part.queries.len())));
    Some(packing_of(input, packing, packs))
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
    /// The longest CTA of one with its merges while HBM is full, ns.
    longest: f64,
    /// L2 for the KV that is read less often, ns.
    saved: f64,
}

impl Joined {
    /// Of the packs that are joined instead of those `before`.
    fn of(input: &PackInput<'_>, before: &Packing, packs: &[Part]) -> Self {
        let (device, shape) = (input.device, &input.batch.shape);
        let joined = packs.iter().filter(|part| part.instead.is_some());
        let tokens = joined.map(|part| part.pack.tokens.0).max().unwrap_or(0);
        let tiles = LaneTime::of(device, DOUBLE, shape).cta(tokens as f64, 2.0);
        // Who is longer than what is below ends after it, and merges.
        let trip = (device.worker_merge_trip() + device.loaded_latency).as_f64() - device.sim.idle_latency.as_f64();
        let of_warp = DOUBLE.m / WARPS_OF_WORKER;
        let rounds = device.merge_kernel.map_or(0, |kernel| kernel.rounds(of_warp, 1, 2, shape.head_dim));
        let read: u64 = packs.iter().map(|part| part.pack.tokens.0).sum();
        let saved = before.moved().tokens.0.saturating_sub(read) as f64 * shape.kv_bytes_per_token().as_f64();
        Self { longest: tiles + f64::from(rounds) * trip, saved: saved / (device.sim.l2_bytes_per_s as f64 * 1e-9) }
    }

    /// Whether they shorten a run that takes `run` ns without.
    fn shorten(&self, limits: &JoinedPacks, run: f64) -> bool {
        run >= limits.least_run.as_f64() && self.longest <= limits.longest * run && self.saved >= limits.saved * run
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

    /// Rows of the packs of what the closed form takes, the most first.
    fn rows(batch: &Batch, device: &str) -> Vec<u32> {
        with_input(batch, &PrefixTree::of(batch), (device, None), |input| {
            let packing = MinTime.packings(input).unwrap().swap_remove(0);
            coverage(batch, &packing).unwrap();
            let mut rows: Vec<u32> = packing.packs.iter().map(|pack| pack.rows(batch.shape.group())).collect();
            rows.sort_unstable_by_key(|rows| Reverse(*rows));
            rows
        })
    }

    /// Configurations 7 and 8 of PAT, and 192 requests of five query heads a KV head: two packs of 120 rows where four had 60.
    #[test]
    fn packs_of_the_same_kv_are_joined_in_long_runs_that_read_much_again() {
        for (tree, heads, block_size, (wide, of)) in [
            ("1,8,512_32,2048,256", (32, 8), 32, (16, 128)),
            ("1,8,512_32,1024,256", (32, 8), 32, (16, 128)),
            ("8,384_4704,854", (20, 4), 16, (16, 120)),
        ] {
            let batch = batch(tree, heads, block_size);
            let rows = rows(&batch, "h200-sxm");
            assert!(rows[..wide].iter().all(|rows| *rows == of), "{tree}: {:?}", &rows[..=wide]);
            assert!(rows.iter().all(|rows| *rows == of || *rows <= 64), "{tree}");
        }
    }

    #[test]
    fn packs_stay_apart_where_that_is_not_known_to_gain() {
        for (why, tree, heads, block_size, device) in [
            ("a short run", "1,8,256_352,896,230", (32, 8), 32, "h200-sxm"),
            ("too long a CTA", "1,192_9088,509", (28, 4), 32, "h200-sxm"),
            ("little that is read again", "1,192_2784,1067", (32, 8), 32, "h200-sxm"),
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
