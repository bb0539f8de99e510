//! Random forests of requests that share prefixes, cut at random into packs, pieces and tiles. Not how a scheduler
//! would do it: every way that the kernels must bear.

pub(crate) mod launches;

use std::ops::Range;

use kernels::{DecodeShape, KernelSpec, PackTask, PlanArrays, Sight, Tile};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

/// A batch and a plan for it.
#[derive(Debug, Default)]
pub(crate) struct Forest {
    tiles: Vec<Tile>,
    packs: Vec<PackTask>,
    query_index: Vec<u32>,
    block_ids: Vec<u32>,
    masks: Vec<u64>,
    merge_offsets: Vec<u32>,
    merge_slots: Vec<u32>,
    num_slots: u32,
    slots: Vec<Vec<u32>>,
    /// Blocks of the cache.
    pub(crate) blocks: u32,
    /// Tokens in each block; 0 where no request uses it.
    pub(crate) filled: Vec<u32>,
    /// Blocks of each request with their tokens, in order.
    paths: Vec<Vec<(u32, u32)>>,
}

impl Forest {
    /// A forest for this shape whose packs use these tiles.
    pub(crate) fn random(rng: &mut StdRng, shape: &DecodeShape, tiles: &[Tile]) -> Self {
        // More than 64 rows for a tile that has more.
        let most = if tiles.iter().any(|tile| tile.m > 64) { 48 } else { 20_u32 };
        let queries = rng.random_range(1..=most);
        let mut forest = Self { tiles: tiles.to_vec(), ..Self::default() };
        forest.slots = vec![Vec::new(); queries as usize];
        forest.paths = vec![Vec::new(); queries as usize];
        let mut order: Vec<u32> = (0..queries).collect();
        order.shuffle(rng);
        // Numbers of the blocks, to be given out; a few are never used.
        let mut free: Vec<u32> = (0..queries * (12 + 800 / shape.block_size) + 4).collect();
        forest.blocks = free.len() as u32;
        forest.filled = vec![0; free.len()];
        free.shuffle(rng);
        let mut rest = order.as_slice();
        while !rest.is_empty() {
            let (tree, others) = rest.split_at(rng.random_range(1..=rest.len()));
            forest.node(rng, shape, tree, &[], &mut free, 0);
            rest = others;
        }
        forest.packs.shuffle(rng);
        forest.merge_offsets.push(0);
        for list in &forest.slots {
            forest.merge_slots.extend(list);
            forest.merge_offsets.push(forest.merge_slots.len() as u32);
        }
        forest
    }

    /// A node of the prefix tree: its tokens, then packs for it or its children with its blocks before theirs.
    fn node(
        &mut self,
        rng: &mut StdRng,
        shape: &DecodeShape,
        queries: &[u32],
        above: &[(u32, u32)],
        free: &mut Vec<u32>,
        depth: u32,
    ) {
        let bs = shape.block_size;
        let leaf = queries.len() == 1 || depth == 3;
        let limit = if rng.random_range(0..4) == 0 { 400 } else { 90 };
        let tokens = rng.random_range(0..=limit);
        // Only whole blocks are shared by requests that go on.
        let tokens = if leaf { tokens } else { tokens / bs * bs };
        let mut blocks = above.to_vec();
        for begin in (0..tokens).step_by(bs as usize) {
            let (Some(block), filled) = (free.pop(), bs.min(tokens - begin)) else { break };
            self.filled[block as usize] = filled;
            blocks.push((block, filled));
            for &q in queries {
                self.paths[q as usize].push((block, filled));
            }
        }
        if !leaf && !blocks.is_empty() && self.may_mask(shape, queries) && rng.random_range(0..3) == 0 {
            return self.subtree(rng, shape, queries, &blocks, free, depth);
        }
        let hand_down = !leaf && rng.random_range(0..3) == 0;
        if !hand_down {
            self.emit(rng, shape, queries, &blocks);
            blocks.clear();
        }
        let mut rest = if leaf { &[] } else { queries };
        while !rest.is_empty() {
            let (child, others) = rest.split_at(rng.random_range(1..=rest.len().min(8)));
            self.node(rng, shape, child, &blocks, free, depth + 1);
            rest = others;
        }
    }

    /// A forest of packs of 128 rows of which few queries see so little that a warpgroup of its own takes it.
    pub(crate) fn apart(rng: &mut StdRng, shape: &DecodeShape) -> Self {
        let mut forest = Self { tiles: vec![Tile::TALL], ..Self::default() };
        let most = Tile::TALL.m / shape.group();
        for _ in 0..rng.random_range(1..=3) {
            let first = forest.slots.len() as u32;
            let queries: Vec<u32> = (first..first + rng.random_range(1..=most.min(40))).collect();
            forest.slots.resize(forest.slots.len() + queries.len(), Vec::new());
            forest.paths.resize(forest.slots.len(), Vec::new());
            forest.apart_pack(rng, shape, &queries);
        }
        forest.merge_offsets.push(0);
        for list in &forest.slots {
            forest.merge_slots.extend(list);
            forest.merge_offsets.push(forest.merge_slots.len() as u32);
        }
        let apart = |pack: &PackTask| pack.leaves_few_apart(&forest.masks);
        assert!(forest.packs.iter().all(apart), "some pack has too much that few see");
        forest
    }

    /// One of its packs: tiles that all share with what few have between, 128 tokens at a time.
    fn apart_pack(&mut self, rng: &mut StdRng, shape: &DecodeShape, queries: &[u32]) {
        let (bs, all) = (shape.block_size, 0..queries.len());
        // Numbers of its blocks, to be given out.
        let mut free: Vec<u32> = (self.blocks..self.blocks + 600 + 40 * queries.len() as u32).collect();
        self.blocks += free.len() as u32;
        self.filled.resize(self.blocks as usize, 0);
        free.shuffle(rng);
        let mut few = Vec::new();
        let depth = rng.random_range(1..3);
        self.below(rng, shape, queries, all.clone(), &mut free, depth, &mut few);
        let of_tile = (Tile::TALL.n / bs).max(1) as usize;
        // Turns of 64 tokens for the 16 rows of a warp.
        let warps = |parts: &[(u32, u32, Range<usize>)]| {
            let first = parts.iter().map(|part| part.2.start).min().unwrap_or(0) as u32 * shape.group() / 16;
            let end = (parts.iter().map(|part| part.2.end).max().unwrap_or(0) as u32 * shape.group()).div_ceil(16);
            (end - first) * (bs / 64).max(1)
        };
        let turns: u32 = few.chunks((64 / bs).max(1) as usize).map(warps).sum();
        let tiles = turns.max(1) + rng.random_range(0..3);
        let blocks = (tiles * Tile::TALL.n).div_ceil(bs);
        let shared = free.split_off(free.len().saturating_sub(blocks as usize));
        for &block in &shared {
            self.filled[block as usize] = bs;
            for q in queries {
                self.paths[*q as usize].push((block, bs));
            }
        }
        let shared: Vec<(u32, u32, Range<usize>)> = shared.iter().map(|block| (*block, bs, all.clone())).collect();
        let mut parts = shared[..of_tile].to_vec();
        let (mut shared, mut few) = (shared[of_tile..].chunks(of_tile), few.chunks(of_tile));
        while shared.len() + few.len() > 0 {
            // What is no whole tile comes last.
            let next = if shared.len() > 0 && (few.len() <= 1 || rng.random()) { shared.next() } else { few.next() };
            parts.extend_from_slice(next.unwrap_or(&[]));
        }
        self.push_subtree(shape, 0, queries, &parts);
    }

    /// Packs of some queries over some blocks: cut by rows, then into pieces.
    fn emit(&mut self, rng: &mut StdRng, shape: &DecodeShape, queries: &[u32], blocks: &[(u32, u32)]) {
        let mut rest = queries;
        while !rest.is_empty() {
            let tile = rng.random_range(0..self.tiles.len());
            let rows = (self.tiles[tile].m / shape.group()) as usize;
            let (pack, others) = rest.split_at(rows.min(rest.len()));
            rest = others;
            let mut left = blocks;
            // So many partials that warps share those of a row, of some.
            let into_many = rng.random_range(0..6) == 0;
            loop {
                let cut = if into_many {
                    rng.random_range(1..=3).min(left.len())
                } else if rng.random() {
                    left.len()
                } else {
                    rng.random_range(0..=left.len())
                };
                let (piece, after) = left.split_at(cut);
                left = after;
                self.push(tile as u32, pack, piece);
                self.see_all(shape);
                if left.is_empty() {
                    break;
                }
            }
        }
    }

    /// Masks for the last pack, if its tile has none without them, of which all see all.
    fn see_all(&mut self, shape: &DecodeShape) {
        let Some(pack) = self.packs.last_mut() else { return };
        let tile = self.tiles[pack.tile as usize];
        if tile != Tile::TALL {
            return;
        }
        // Whole blocks, the last of them partly filled.
        let filled = pack.kv_tokens;
        pack.kv_tokens = filled.next_multiple_of(shape.block_size);
        let words = pack.kv_tokens.next_multiple_of(tile.n) / 64;
        let tokens = (0..words).map(|word| filled.saturating_sub(word * 64).min(64));
        let word = |tokens: u32| u64::MAX.checked_shr(64 - tokens).unwrap_or(0);
        let seen: Vec<u64> = tokens.flat_map(|tokens| (0..pack.num_queries).map(move |_| word(tokens))).collect();
        pack.masks = Some(self.masks.len() as u32);
        self.masks.extend(tile.masks(&seen, pack.num_queries, shape.group()));
    }

    /// Whether one pack can hold these queries with all that lies below them.
    fn may_mask(&self, shape: &DecodeShape, queries: &[u32]) -> bool {
        let spec = KernelSpec::new(&self.tiles, shape.head_dim, shape.dtype, true, false);
        let masked = KernelSpec { sight: Sight::Masked, ..spec };
        let rows = queries.len() as u32 * shape.group();
        masked.check().is_ok() && self.tiles.iter().any(|tile| tile.takes_masks() && rows <= tile.m)
    }

    /// One pack for `blocks`, which all of its queries have, and everything below, behind the first block in any order.
    fn subtree(
        &mut self,
        rng: &mut StdRng,
        shape: &DecodeShape,
        queries: &[u32],
        blocks: &[(u32, u32)],
        free: &mut Vec<u32>,
        depth: u32,
    ) {
        let all = 0..queries.len();
        let mut parts: Vec<(u32, u32, Range<usize>)> = blocks.iter().map(|b| (b.0, b.1, all.clone())).collect();
        self.below(rng, shape, queries, all, free, depth + 1, &mut parts);
        parts[1..].shuffle(rng);
        let tile = self.tiles.iter().position(Tile::takes_masks).unwrap();
        self.push_subtree(shape, tile, queries, &parts);
    }

    /// A pack of blocks with their tokens and the queries that have them, by places in the pack.
    fn push_subtree(&mut self, shape: &DecodeShape, tile: usize, queries: &[u32], parts: &[(u32, u32, Range<usize>)]) {
        let bs = shape.block_size;
        let listed: Vec<(u32, u32)> = parts.iter().map(|part| (part.0, bs)).collect();
        self.push(tile as u32, queries, &listed);
        let tokens = bs * parts.len() as u32;
        self.packs.last_mut().unwrap().masks = Some(self.masks.len() as u32);
        let mut all_seen = Vec::new();
        for first in (0..tokens.next_multiple_of(self.tiles[tile].n)).step_by(64) {
            let mut seen = vec![0_u64; queries.len()];
            for token in first..tokens.min(first + 64) {
                let (_, filled, of) = &parts[(token / bs) as usize];
                if token % bs < *filled {
                    of.clone().for_each(|query| seen[query] |= 1 << (token - first));
                }
            }
            all_seen.extend(seen);
        }
        self.masks.extend(self.tiles[tile].masks(&all_seen, queries.len() as u32, shape.group()));
    }

    /// The children of a node as blocks with their tokens and the queries that have them, by places in the pack.
    #[allow(clippy::too_many_arguments)]
    fn below(
        &mut self,
        rng: &mut StdRng,
        shape: &DecodeShape,
        queries: &[u32],
        of: Range<usize>,
        free: &mut Vec<u32>,
        depth: u32,
        parts: &mut Vec<(u32, u32, Range<usize>)>,
    ) {
        let mut begin = of.start;
        while begin < of.end {
            let child = begin..begin + rng.random_range(1..=of.end - begin);
            begin = child.end;
            let (bs, leaf) = (shape.block_size, child.len() == 1 || depth == 3);
            let tokens = rng.random_range(0..=90);
            let tokens = if leaf { tokens } else { tokens / bs * bs };
            for at in (0..tokens).step_by(bs as usize) {
                let (Some(block), filled) = (free.pop(), bs.min(tokens - at)) else { break };
                self.filled[block as usize] = filled;
                parts.push((block, filled, child.clone()));
                child.clone().for_each(|q| self.paths[queries[q] as usize].push((block, filled)));
            }
            if !leaf {
                self.below(rng, shape, queries, child, free, depth + 1, parts);
            }
        }
    }

    fn push(&mut self, tile: u32, queries: &[u32], blocks: &[(u32, u32)]) {
        self.packs.push(PackTask {
            query_begin: self.query_index.len() as u32,
            num_queries: queries.len() as u32,
            block_begin: self.block_ids.len() as u32,
            kv_tokens: blocks.iter().map(|b| b.1).sum(),
            slot_begin: self.num_slots,
            tile,
            masks: None,
        });
        for (i, &q) in queries.iter().enumerate() {
            self.slots[q as usize].push(self.num_slots + i as u32);
        }
        self.num_slots += queries.len() as u32;
        self.query_index.extend(queries);
        self.block_ids.extend(blocks.iter().map(|b| b.0));
    }

    /// Requests.
    pub(crate) fn num_queries(&self) -> u32 {
        self.slots.len() as u32
    }

    /// (block, token in it) of a request, in order.
    pub(crate) fn tokens_of(&self, query: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.paths[query as usize].iter().flat_map(|&(block, filled)| (0..filled).map(move |t| (block, t)))
    }

    /// The plan's arrays.
    pub(crate) fn plan(&self) -> PlanArrays<'_> {
        PlanArrays {
            tiles: &self.tiles,
            packs: &self.packs,
            query_index: &self.query_index,
            block_ids: &self.block_ids,
            masks: &self.masks,
            merge_offsets: &self.merge_offsets,
            merge_slots: &self.merge_slots,
            num_queries: self.num_queries(),
            num_slots: self.num_slots,
            ..PlanArrays::default()
        }
    }
}
