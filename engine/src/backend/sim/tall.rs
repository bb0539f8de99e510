//! What subtree packs take on the tall tile, whose warpgroups compute together what all rows see and whose warps compute
//! alone, 32 tokens at a time, what few do (`kernels/cuda/tall.cuh`). Where that is little, a warpgroup of its own takes it
//! beside the others, 64 tokens at a time for the rows of a warp (`kernels/cuda/few.cuh`).
//!
//! ```text
//! steps = tiles that all see + few · 0.4 · turns + rest / 32 + w · (0.6 + few behind such · 0.57 + few that part two · 0.15)
//! turns = 1 + 1.5 · (1 - (1 - f)⁴) + 0.75 · f      f: further warps that see a token, in the mean; at most 4
//! w     = 3.1 TB/s / what HBM gives
//!
//! apart: steps = tiles that all see + 0.9 + 0.25 · t² / tiles that all see
//! t = turns of that warpgroup, 1.2 times as many where some blocks are not full
//! ```
//!
//! A task begins with its masks and rows of Q, which its warps fetch themselves. A tile that few see costs its own products,
//! and a stop: warpgroups have to be done with the tile before, and begin again. Two tiles that all see, one after the other,
//! hide a part of each other's work. A tile that few see has 32 tokens for each of four warps, in a turn. One that sees
//! those of another besides takes two, and all wait for it: with a query in `1 / f` whose rows lie in two warps in
//! `1 - (1 - f)⁴` of the tiles. What all see but is no whole tile, the rest, shares one with those, and all warps go through
//! it at once.
//!
//! What few see comes from HBM, as do masks and rows of Q, so waits for it are as long as it is slow: a tile that few see
//! behind two that all do took 1.96 µs on an H100, and 1.3 on an H200. The other figures are from packs of 3 to 32 tiles that
//! all see and 2 to 32 that few do on an H100, in groups of 1 to 16. Worked number there, configuration 3 of PAT at 32/8: 16
//! tiles that all see and 8 that few do are 0.6 + 16 + 8 · (0.4 + 0.57 + 0.15) = 25.6 steps of 1.72 µs.
//!
//! Apart, what few see is in the way the more the longer it goes on beside the others: by its copies, which come from HBM,
//! and its products; rows of V behind the last token of a block have to be cleared first. These figures are from an H200,
//! with 16 to 32 tiles that all see beside 8 and 16 turns. Worked number, the same packs: 16 turns are
//! 16 + 0.9 + 0.25 · 16 = 20.9 steps.

use rustc_hash::FxHashMap;

use crate::pack::{SubtreeLayout, Turns};
use crate::plan::LaunchPlan;
use crate::units::{PackIdx, QueryIdx};
use crate::workload::PrefixTree;

/// Rows of a warp, and tokens of a turn.
const ROWS: u32 = SubtreeLayout::ROWS_OF_WARP;
const TOKENS: u32 = SubtreeLayout::TOKENS_OF_WARP;
/// In times of a tile that all rows see, as are 32 tokens of the rest: to begin, a tile that few see, a stop, and a parting of
/// two.
const BEGIN: f64 = 0.6;
const FEW: f64 = 0.4;
const STOP: f64 = 0.57;
const PART: f64 = 0.15;
/// Turns more of a tile of which a warp has to do what is another's too, and of each that does.
const WAIT: f64 = 1.5;
const FURTHER: f64 = 0.75;
/// With so many a warp has gone through the whole tile.
const MOST: f64 = 4.0;
/// Apart: what is done before and behind, how much turns beside as many tiles hold these up, and how much longer they are
/// where blocks are not full.
const APART: f64 = 0.9;
const BESIDE: f64 = 0.25;
const GAPS: f64 = 1.2;
/// What HBM gave where all of these were measured but the last three, bytes per s.
const MEASURED_AT: f64 = 3.1e12;

/// What few rows of a pack see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Few {
    tokens: f64,
    /// How many warps see one of them, in the mean.
    warps: f64,
    /// What all see but is no whole tile.
    rest: f64,
    /// Turns of the warpgroup that takes them apart, if one does, in times of those over full blocks.
    apart: Option<f64>,
}

impl Few {
    const NONE: Self = Self { tokens: 0.0, warps: 1.0, rest: 0.0, apart: None };

    /// Of a subtree pack of a plan, on the tall tile.
    pub(super) fn of(plan: &LaunchPlan, tree: &PrefixTree, at: PackIdx) -> Self {
        let (pack, shape) = (plan.pack(at), &plan.shape);
        let queries = plan.queries_of(at);
        let places: FxHashMap<QueryIdx, u32> = queries.iter().copied().zip(0..).collect();
        let (mut tokens, mut seen, mut turns, mut gaps) = (0.0, 0.0, Turns::default(), false);
        for node in tree.below(pack.node, queries) {
            let own = tree.queries(node).iter().filter_map(|query| places.get(query).copied());
            let (count, first, last) = own
                .fold((0, u32::MAX, 0), |(count, first, last), place| (count + 1, place.min(first), place.max(last)));
            let of_node = tree.node(node).blocks.len() as u32 * shape.block_size;
            let rows = first * shape.group()..(last + 1) * shape.group();
            turns.add(of_node, rows.clone());
            gaps |= tree.node(node).ends_within_a_block(shape.block_size);
            if count == pack.queries_len {
                continue;
            }
            let of_node = f64::from(of_node);
            tokens += of_node;
            seen += of_node * f64::from((rows.end - 1) / ROWS - rows.start / ROWS + 1);
        }
        let shared = (pack.blocks_end - pack.blocks_begin) * shape.block_size;
        let rest = shared % pack.tile.n;
        turns.add(rest, 0..pack.queries_len * shape.group());
        let persistent = plan.has_queue();
        let time = f64::from(turns.count()) * if gaps { GAPS } else { 1.0 };
        let apart = (persistent && turns.are_apart(shared / pack.tile.n)).then_some(time);
        let rest = f64::from(rest);
        if tokens > 0.0 { Self { tokens, warps: seen / tokens, rest, apart } } else { Self::NONE }
    }

    /// Steps of so many tiles of `n` tokens, in those of tiles that all rows see, where HBM gives so many bytes per s.
    pub(super) fn steps(&self, tiles: f64, n: u32, hbm: f64) -> f64 {
        if self.tokens == 0.0 {
            return tiles;
        }
        let few = ((self.tokens + self.rest) / f64::from(n)).ceil().min(tiles);
        let (all, further) = (tiles - few, self.warps - 1.0);
        if let Some(turns) = self.apart {
            return all + APART + BESIDE * turns.powi(2) / all.max(1.0);
        }
        let turns = 1.0 + WAIT * (1.0 - (1.0 - further.min(1.0)).powi(4)) + FURTHER * further;
        let products = few * FEW * turns.min(MOST) + self.rest / f64::from(TOKENS);
        let waits = BEGIN + few.min(all) * STOP + few.min((all - few).max(0.0)) * PART;
        all + products + waits * MEASURED_AT / hbm
    }

    /// What tells it from others.
    pub(super) fn key(&self) -> (u32, u32) {
        (self.tokens as u32, self.apart.map_or((8.0 * self.warps) as u32, |turns| 1000 + turns as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::sim::sight::testing::subtree_plan;
    use crate::workload::AttentionShape;

    /// Of the first pack of a tree by `min-time`, where that is on the tall tile.
    fn few(tree: &str, (query_heads, kv_heads): (u32, u32)) -> Few {
        let shape = AttentionShape { query_heads, kv_heads, ..AttentionShape::default() };
        let (plan, tree) = subtree_plan(SubtreeLayout::TALL, tree, shape);
        Few::of(&plan, &tree, PackIdx(0))
    }

    #[test]
    fn of_a_prefix_and_leaves_each_leaf_is_for_one_warp() {
        let of = few("1,1024_2048,32", (32, 8));
        assert_eq!(of, Few { tokens: 1024.0, warps: 1.0, rest: 0.0, apart: Some(16.0) });
        let steps = |few: Few| few.steps(24.0, 128, MEASURED_AT);
        assert!((steps(of) - 20.9).abs() < 1e-9, "the worked number apart: {}", steps(of));
        let by_warps = Few { apart: None, ..of };
        assert!((steps(by_warps) - 25.56).abs() < 1e-9, "the worked number: {}", steps(by_warps));
        // A leaf for 16 rows, so that 64 tokens are of two warps.
        assert_eq!(few("1,1024_4096,32", (128, 8)), Few { tokens: 256.0, warps: 1.0, rest: 0.0, apart: Some(8.0) });
        assert_eq!(few("1,1024_2048,64", (32, 8)).apart, None, "32 turns are too many beside 16 tiles");
    }

    #[test]
    fn what_is_no_whole_tile_and_what_several_warps_see_takes_longer() {
        // Below 4,128 tokens nodes of 8 queries: 32 rows, of two warps. The rest is 32 tokens.
        let of = few("1,128,1024_4128,32,32", (32, 8));
        assert_eq!((of.tokens, of.rest), (1152.0, 32.0));
        assert!((of.warps - (1024.0 + 2.0 * 128.0) / 1152.0).abs() < 1e-9, "{of:?}");
        let tiles = |few: Few| few.steps(43.0, 128, MEASURED_AT);
        let simple = Few { warps: 1.0, rest: 0.0, ..of };
        assert!(tiles(of) > tiles(Few { rest: 0.0, ..of }) && tiles(Few { rest: 0.0, ..of }) > tiles(simple));
        assert!((Few::NONE.steps(43.0, 128, MEASURED_AT) - 43.0).abs() < 1e-9);
    }
}
