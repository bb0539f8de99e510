//! In which order the CTA of a subtree pack goes through its blocks, and which of its queries see which tokens.
//!
//! What all share comes from L2 for all packs but the first, what few have from HBM. A pack that read one after the other
//! would wait for HBM in its second part with all others that began with it, so the two are mixed: a tile of what few have
//! behind every so many of what all share.
//!
//! On the tall tile a warp computes alone what few have, as far as it is of its own rows. There it is dealt out among the
//! warps, so that all have something to do at once. Where it is little beside what all share, a warpgroup of its own takes
//! it (`kernels/cuda/few.cuh`), 64 tokens at a time for the rows of a warp, and it stays in the order of the rows.
//!
//! ```text
//! shared  s0 s1 s2 s3 s4 s5          s0 b0 s1 s2 b1 s3 s4 b2 s5      of each query all s, and its own of b
//! below   b0 b1 b2            ──►
//! ```
//!
//! Worked number, configuration 3 of PAT on an H100: 16 queries share 2,048 tokens and have 32 each, 40 tiles. All packs take
//! 124.7 µs one after the other and 102.5 mixed; as packs of the prefix, of leaves and merges 121.7. On the tall tile, 32
//! queries a pack, they take 101. On an H200 they take 93 there, and 84 where what few have is taken apart.

use std::collections::BTreeMap;
use std::ops::Range;
use std::slice::{Chunks, ChunksExact};

use rustc_hash::FxHashMap;

use crate::tile::Tile;
use crate::units::{BlockIdx, QueryIdx, Tokens};
use crate::workload::Batch;

/// A block that the CTA goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    block: BlockIdx,
    /// KV tokens in it.
    tokens: u32,
    /// Bit i: query i of the pack has it.
    seen: u128,
}

/// The blocks of a subtree pack in the order of its CTA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubtreeLayout {
    parts: Vec<Part>,
    block_size: u32,
    queries: usize,
}

impl SubtreeLayout {
    /// The tile of such packs: a mask is a word of 64 bits for each tile and query.
    pub const TILE: Tile = Tile { m: 64, n: 64 };
    /// The one of packs with more rows, which read K and V once for all of them.
    pub const TALL: Tile = Tile { m: 128, n: 128 };
    /// Rows of a warp of that one.
    pub const ROWS_OF_WARP: u32 = 16;
    /// Tokens of which such a warp computes all or none.
    pub const TOKENS_OF_WARP: u32 = 32;

    /// The tile of a pack of so many rows.
    pub fn tile(rows: u32) -> Tile {
        if rows > Self::TILE.m { Self::TALL } else { Self::TILE }
    }

    /// Of queries that share a run of blocks, from it on to the end of each. Of more than 128 the last see nothing. Only a
    /// persistent kernel takes apart what few have.
    pub fn of(batch: &Batch, shared: Range<u32>, queries: &[QueryIdx], persistent: bool) -> Self {
        let block_size = batch.shape.block_size;
        let all = queries.iter().fold(0_u128, |all, _| all << 1 | 1);
        let row = queries.first().map_or(&[][..], |first| batch.tables().row(*first));
        let whole = |block: &BlockIdx| Part { block: *block, tokens: block_size, seen: all };
        let shared_parts: Vec<Part> =
            row.get(shared.start as usize..shared.end as usize).unwrap_or(&[]).iter().map(whole).collect();
        let below = below(batch, shared.end, queries);
        let group = batch.shape.group();
        let tile = Self::tile(queries.len() as u32 * group);
        // What all share but is no whole tile comes last, so that all others are whole; or first, where there are none.
        let whole = shared_parts.chunks_exact((tile.n / block_size).max(1) as usize);
        let rest = whole.remainder().to_vec();
        let apart = || Turns::of(below.iter().chain(&rest), group, block_size).are_apart(whole.len() as u32);
        let others = if tile == Self::TALL && persistent && apart() {
            [below, rest].concat()
        } else if whole.len() > 0 {
            [dealt(&below, group, block_size), rest].concat()
        } else {
            [rest, dealt(&below, group, block_size)].concat()
        };
        Self { parts: mixed(whole, &others), block_size, queries: queries.len() }
    }

    /// Tokens that the CTA goes through: those of all blocks, filled or not.
    pub fn tokens(&self) -> Tokens {
        Tokens(self.parts.len() as u64 * u64::from(self.block_size))
    }

    /// The blocks.
    pub fn blocks(&self) -> impl Iterator<Item = BlockIdx> + '_ {
        self.parts.iter().map(|part| part.block)
    }

    /// For each 64 tokens, of whole tiles, a word for each query, whose bit i says whether it sees token i.
    pub fn masks(&self, tile: Tile) -> Vec<u64> {
        let (step, block) = (u64::BITS, self.block_size);
        let words = (self.parts.len() as u32 * block).next_multiple_of(tile.n) / step;
        let mut masks = vec![0; words as usize * self.queries];
        for (part, first) in self.parts.iter().zip((0..).step_by(block as usize)) {
            // The tokens of a block, in as many words as they reach into.
            let end = first + part.tokens;
            for at in first / step..end.div_ceil(step) {
                let begin = first.max(at * step) - at * step;
                let count = end.min((at + 1) * step) - at * step - begin;
                let bits = (u64::MAX >> (step - count)) << begin;
                for (query, word) in masks[at as usize * self.queries..][..self.queries].iter_mut().enumerate() {
                    let sees = part.seen.checked_shr(query as u32).unwrap_or(0) & 1 == 1;
                    *word |= if sees { bits } else { 0 };
                }
            }
        }
        masks
    }
}

/// What a warpgroup of its own has to do that takes what few queries of a pack on [`SubtreeLayout::TALL`] have: turns of 64
/// tokens for the 16 rows of a warp.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    whole: u32,
    /// Tokens since the last whole 64, and the warps that see some, a bit each.
    tokens: u32,
    warps: u32,
}

impl Turns {
    const TOKENS: u32 = 64;

    /// Of blocks in their order.
    fn of<'a>(parts: impl Iterator<Item = &'a Part>, group: u32, block_size: u32) -> Self {
        let mut turns = Self::default();
        for part in parts {
            let (first, last) = (part.seen.trailing_zeros(), u128::BITS - part.seen.leading_zeros());
            turns.add(block_size, first * group..last * group);
        }
        turns
    }

    /// Tokens that come next, and the rows that see them.
    pub fn add(&mut self, mut tokens: u32, rows: Range<u32>) {
        // Those of the warps below one.
        let below = |warp: u32| 1_u32.checked_shl(warp).unwrap_or(0).wrapping_sub(1);
        let first = below(rows.start / SubtreeLayout::ROWS_OF_WARP);
        let warps = below(rows.end.div_ceil(SubtreeLayout::ROWS_OF_WARP)) & !first;
        while tokens > 0 {
            let now = tokens.min(Self::TOKENS - self.tokens);
            self.warps |= warps;
            self.tokens += now;
            tokens -= now;
            if self.tokens == Self::TOKENS {
                *self = Self { whole: self.count(), ..Self::default() };
            }
        }
    }

    /// So many turns.
    pub fn count(&self) -> u32 {
        self.whole + self.warps.count_ones()
    }

    /// Whether that is little beside so many tiles that all see: a turn takes as long as one of them, and the warpgroup is
    /// not to end long after the others. The kernels judge so too.
    pub fn are_apart(&self, tiles: u32) -> bool {
        tiles > 0 && self.count() <= tiles
    }
}

/// Blocks of the queries from a place of their rows on, each once for all that came the same way to it.
fn below(batch: &Batch, from: u32, queries: &[QueryIdx]) -> Vec<Part> {
    let block_size = batch.shape.block_size;
    let mut parts: Vec<Part> = Vec::new();
    // (block before it, itself, its tokens): a partly filled block is of those that end in it alone.
    let mut known: FxHashMap<(usize, BlockIdx, u32), usize> = FxHashMap::default();
    for (bit, query) in (0..).zip(queries) {
        let kv = batch.request(*query).kv.0;
        let mut before = usize::MAX;
        for (block, place) in batch.tables().row(*query).iter().zip(0..).skip(from as usize) {
            let left = kv.saturating_sub(place * u64::from(block_size));
            let tokens = left.min(u64::from(block_size)) as u32;
            let part = *known.entry((before, *block, tokens)).or_insert(parts.len());
            if part == parts.len() {
                parts.push(Part { block: *block, tokens, seen: 0 });
            }
            parts[part].seen |= 1_u128.checked_shl(bit).unwrap_or(0);
            before = part;
        }
    }
    parts
}

/// The same dealt out among the warps of a tile, which take 16 rows each: in turns 32 tokens that rows of each see.
fn dealt(below: &[Part], group: u32, block_size: u32) -> Vec<Part> {
    let warp = |part: &Part| part.seen.trailing_zeros() * group / SubtreeLayout::ROWS_OF_WARP;
    let mut of_warps: BTreeMap<u32, Vec<Part>> = BTreeMap::new();
    for part in below {
        of_warps.entry(warp(part)).or_default().push(*part);
    }
    let unit = (SubtreeLayout::TOKENS_OF_WARP / block_size).max(1) as usize;
    let mut of_warps: Vec<Chunks<'_, Part>> = of_warps.values().map(|parts| parts.chunks(unit)).collect();
    let mut dealt = Vec::with_capacity(below.len());
    while dealt.len() < below.len() {
        dealt.extend(of_warps.iter_mut().filter_map(Iterator::next).flatten());
    }
    dealt
}

/// Tiles of what all share and blocks of what few have, evenly mixed by tiles; what all share begins, and what is no whole
/// tile ends, so that all others are.
fn mixed(mut shared: ChunksExact<'_, Part>, below: &[Part]) -> Vec<Part> {
    let unit = shared.clone().next().map_or(1, <[Part]>::len);
    let mut below = below.chunks_exact(unit);
    let rest = below.remainder();
    let (of_shared, of_below) = (shared.len(), below.len());
    let (mut taken, mut mixed) = ((0, 0), Vec::new());
    while shared.len() + below.len() > 0 {
        let share = below.len() == 0 || (shared.len() > 0 && taken.0 * of_below <= taken.1 * of_shared);
        let next = if share { shared.next() } else { below.next() };
        mixed.extend_from_slice(next.unwrap_or(&[]));
        *if share { &mut taken.0 } else { &mut taken.1 } += 1;
    }
    mixed.extend_from_slice(rest);
    mixed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::units::NodeIdx;
    use crate::workload::{PrefixTree, random_forest};

    /// Of each query of a layout the tokens that its mask lets it see, as (block, token in it), sorted, and whether it sees
    /// one of the first 64.
    fn seen(layout: &SubtreeLayout, tile: Tile) -> Vec<(Vec<(u32, u32)>, bool)> {
        let (blocks, masks): (Vec<BlockIdx>, Vec<u64>) = (layout.blocks().collect(), layout.masks(tile));
        let mut seen = vec![(Vec::new(), false); layout.queries];
        for (at, words) in masks.chunks(layout.queries).enumerate() {
            for (query, word) in words.iter().enumerate() {
                seen[query].1 |= at == 0 && *word != 0;
                for token in (0..64).filter(|bit| word >> bit & 1 == 1).map(|bit| at as u32 * 64 + bit) {
                    seen[query].0.push((blocks[(token / layout.block_size) as usize].0, token % layout.block_size));
                }
            }
        }
        for (tokens, _) in &mut seen {
            tokens.sort_unstable();
        }
        seen
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

        /// Any queries below any node with blocks: the tokens of the layout are those of the tree, and each query sees
        /// its own once, wherever they stand.
        #[test]
        fn each_query_sees_its_own_tokens_once(seed in any::<u64>(), pick in any::<u64>(), most in 1_usize..=128) {
            let spec = random_forest(seed, 0);
            let batch = spec.build().unwrap();
            let tree = PrefixTree::of(&batch);
            let inner: Vec<usize> =
                (0..tree.nodes.len()).filter(|at| !tree.nodes[*at].is_leaf() && !tree.nodes[*at].blocks.is_empty()).collect();
            prop_assume!(!inner.is_empty());
            let node = NodeIdx::from(inner[pick as usize % inner.len()]);
            let of = tree.queries(node);
            // Not those that stand beside each other alone.
            let step = 1 + pick as usize % 3;
            let queries: Vec<QueryIdx> = of.iter().step_by(step).take(most).copied().collect();
            let shared = tree.node(node).blocks.clone();
            let layout = SubtreeLayout::of(&batch, shared.clone(), &queries, pick % 2 == 0);
            let below = tree.below(node, &queries);
            let blocks: usize = below.iter().map(|node| tree.node(*node).blocks.len()).sum();
            let block = u64::from(batch.shape.block_size);
            prop_assert_eq!(layout.tokens().0, (shared.len() + blocks) as u64 * block);
            for tile in [SubtreeLayout::TILE, SubtreeLayout::TALL] {
                for (query, (seen, begins)) in queries.iter().zip(seen(&layout, tile)) {
                    let row = &batch.tables().row(*query)[shared.start as usize..];
                    let tokens = batch.request(*query).kv.0 - u64::from(shared.start) * block;
                    let mut own: Vec<(u32, u32)> =
                        (0..tokens).map(|token| (row[(token / block) as usize].0, (token % block) as u32)).collect();
                    own.sort_unstable();
                    prop_assert!(begins && seen == own, "query {}", query.0);
                }
            }
        }
    }

    #[test]
    fn what_few_have_stands_between_what_all_share() {
        let spec = crate::workload::parse_tree("1,4_256,64", crate::workload::AttentionShape::default()).unwrap();
        let batch = spec.build().unwrap();
        let queries: Vec<QueryIdx> = (0..4).map(QueryIdx).collect();
        let tiles = 256 / 64;
        let layout = SubtreeLayout::of(&batch, 0..256 / batch.shape.block_size, &queries, false);
        let shared: Vec<bool> =
            layout.masks(SubtreeLayout::TILE).chunks(4).map(|words| words.iter().all(|word| *word != 0)).collect();
        assert_eq!(shared.len(), tiles + 4);
        assert_eq!(shared, [true, false, true, false, true, false, true, false]);
    }

    #[test]
    fn turns_are_of_64_tokens_and_the_rows_of_a_warp() {
        let count = |parts: &[(u32, Range<u32>)]| {
            let mut turns = Turns::default();
            for (tokens, rows) in parts {
                turns.add(*tokens, rows.clone());
            }
            turns.count()
        };
        assert_eq!(count(&[(32, 0..4), (32, 4..8)]), 1, "two leaves of one warp");
        assert_eq!(count(&[(32, 0..16), (32, 16..32)]), 2, "of two");
        assert_eq!(count(&[(48, 0..16), (48, 16..32)]), 3, "what reaches past 64 tokens is of both");
        assert_eq!(count(&[(64, 0..128), (16, 12..20)]), 8 + 2, "all warps, and a query whose rows lie in two");
        assert_eq!(count(&[(640, 0..5)]), 10);
        assert_eq!(count(&[]), 0);
    }

    #[test]
    fn what_few_have_stays_in_order_where_it_is_taken_apart() {
        let of = |tree: &str, persistent: bool| {
            let batch =
                crate::workload::parse_tree(tree, crate::workload::AttentionShape::default()).unwrap().build().unwrap();
            let queries: Vec<QueryIdx> = (0..32).map(QueryIdx).collect();
            let shared = PrefixTree::of(&batch).node(NodeIdx(0)).blocks.clone();
            let layout = SubtreeLayout::of(&batch, shared, &queries, persistent);
            // Of what some do not see, who is the first that does.
            let few = layout.parts.iter().filter(|part| part.seen.count_ones() < 32);
            few.map(|part| part.seen.trailing_zeros()).is_sorted()
        };
        assert!(of("1,32_2048,32", true), "1,024 tokens, 16 turns beside 16 tiles");
        assert!(!of("1,32_2048,32", false) && !of("1,32_1536,32", true) && !of("1,32_2048,64", true));
    }

    /// Else each tile behind it would hold a part of two.
    #[test]
    fn what_is_no_whole_tile_of_few_comes_last() {
        let shape = crate::workload::AttentionShape::default();
        for (tree, queries, tile) in
            [("1,31_2304,32", 31, SubtreeLayout::TALL), ("1,7_1024,16", 7, SubtreeLayout::TILE)]
        {
            let batch = crate::workload::parse_tree(tree, shape).unwrap().build().unwrap();
            let shared = PrefixTree::of(&batch).node(NodeIdx(0)).blocks.clone();
            let tokens = shared.len() as u32 * shape.block_size;
            let all: Vec<QueryIdx> = (0..queries).map(QueryIdx).collect();
            let layout = SubtreeLayout::of(&batch, shared, &all, true);
            let words = layout.masks(tile);
            let of_tile = queries as usize * (tile.n / 64) as usize;
            let whole = words.chunks(of_tile).filter(|words| words.iter().all(|word| *word == u64::MAX)).count();
            assert_eq!(whole, (tokens / tile.n) as usize, "{tree}");
        }
    }
}
