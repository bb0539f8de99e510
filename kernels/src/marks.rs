//! What of a plan's KV leaves L2 first, since no other pack reads it.

use std::borrow::Cow;
use std::ops::Range;

use crate::params::PackQuery;
use crate::plan::{DecodeShape, PackTask, PlanArrays};

/// KV bytes in HBM up to which packs of any tile mark what no other reads. L2 begins a cold run with some 30 MB that others
/// have written, and what is read drives them out to HBM; marked reads drive out each other. On an H100 runs over 25 to 200 MB
/// take 4 to 9 % less for it, and those over more nothing to 1 % more; on an H200 those over 134, 164 and 201 MB 6, 5 and 2 %
/// less, and three over 270 MB 1 to 3 % more. What is read again comes from L2 and does not count: configuration 3 of PAT
/// reads 403 MB, of which 142 MB come from HBM, and takes 1.5 % less.
pub const MARKED_BYTES: u64 = 240_000_000;

/// KV bytes of a KV head up to which packs of few rows mark in longer runs what they read alone. A task that finds the partials
/// of its queries in L2 ends 2 us earlier on an H200, whatever its length; but marked reads are slower, by 3 to 4 % of tasks
/// of 256 to 1,024 tokens and 7 % of 4,096.
pub const SHORT_BYTES: u64 = 256 << 10;

/// Of a block that one pack with masks reads alone.
const ALONE: u32 = 1 << 31;

/// How many packs of a plan read each block.
pub(crate) struct Readers {
    of_block: Vec<u8>,
    block_size: u32,
    /// Of a token and a KV head.
    token_bytes: u64,
    /// KV bytes of the blocks that some pack reads.
    bytes: u64,
}

impl Readers {
    pub(crate) fn of(plan: &PlanArrays<'_>, shape: &DecodeShape) -> Self {
        let mut of_block = vec![0_u8; plan.block_ids.iter().max().map_or(0, |last| *last as usize + 1)];
        for pack in plan.packs {
            for block in plan.block_ids.get(blocks_of(pack, shape.block_size)).unwrap_or(&[]) {
                let readers = &mut of_block[*block as usize];
                *readers = readers.saturating_add(1);
            }
        }
        let blocks = of_block.iter().filter(|readers| **readers > 0).count() as u64;
        let bytes = blocks * u64::from(shape.block_size * shape.kv_heads) * shape.token_bytes();
        Self { of_block, block_size: shape.block_size, token_bytes: shape.token_bytes(), bytes }
    }

    /// Of each pack, whether its KV is to leave L2 first. Where there are partials, packs of few rows make room for them: short
    /// ones, and those of KV that others read too.
    pub(crate) fn marked_packs(&self, plan: &PlanArrays<'_>, queries: &[PackQuery]) -> Vec<bool> {
        let has_partials = queries.iter().any(|query| query.count > 1);
        let few_rows =
            |pack: &PackTask| plan.tiles.get(pack.tile as usize).is_some_and(|tile| tile.heads_together() > 1);
        let short = |pack: &PackTask| u64::from(pack.kv_tokens) * self.token_bytes <= SHORT_BYTES;
        let once = |pack: &PackTask| {
            let mut blocks = plan.block_ids.get(blocks_of(pack, self.block_size)).unwrap_or(&[]).iter();
            blocks.all(|block| self.of_block[*block as usize] == 1)
        };
        let makes_room = |pack: &PackTask| has_partials && few_rows(pack) && (short(pack) || !once(pack));
        let marks = |pack| (self.bytes <= MARKED_BYTES && once(pack)) || makes_room(pack);
        plan.packs.iter().map(marks).collect()
    }

    /// The blocks as decode kernels read them: in packs with masks those that no other reads say so, where they come by
    /// `bulk` copies and the plan's KV is up to [`MARKED_BYTES`].
    pub(crate) fn marked_blocks<'a>(&self, plan: &PlanArrays<'a>, bulk: bool) -> Cow<'a, [u32]> {
        let mut masked = plan.packs.iter().filter(|pack| pack.masks.is_some()).peekable();
        if masked.peek().is_none() || !bulk || self.bytes > MARKED_BYTES {
            return Cow::Borrowed(plan.block_ids);
        }
        let mut ids = plan.block_ids.to_vec();
        for pack in masked {
            for block in ids.get_mut(blocks_of(pack, self.block_size)).unwrap_or(&mut []) {
                *block |= if self.of_block[*block as usize] == 1 { ALONE } else { 0 };
            }
        }
        Cow::Owned(ids)
    }
}

/// Where the blocks of a pack stand in their list.
fn blocks_of(pack: &PackTask, block_size: u32) -> Range<usize> {
    let begin = pack.block_begin as usize;
    begin..begin + pack.kv_tokens.div_ceil(block_size) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lists::items;
    use crate::plan::{Dtype, Tile};

    #[test]
    fn packs_mark_what_no_other_reads_and_of_much_only_those_of_few_rows() {
        let shape =
            DecodeShape { q_heads: 8, kv_heads: 2, head_dim: 64, dtype: Dtype::F16, block_size: 16, scale: 1.0 };
        let pack = |block_begin, kv_tokens, tile| PackTask {
            query_begin: 0,
            num_queries: 1,
            block_begin,
            kv_tokens,
            slot_begin: 0,
            tile,
            masks: None,
        };
        // Blocks 5 and 6; 6 and 7; 8, once by a tile of few rows; nothing.
        let packs = [pack(0, 32, 0), pack(2, 32, 0), pack(4, 3, 1), pack(4, 1, 0), pack(5, 0, 0)];
        let tiles = [Tile { m: 64, n: 64 }, Tile { m: 16, n: 16 }];
        let of = |packs: &[PackTask], block_ids: &[u32], partials: u32| {
            let plan = PlanArrays { packs, block_ids, tiles: &tiles, ..PlanArrays::default() };
            let queries = [PackQuery { count: partials, ..PackQuery::default() }];
            Readers::of(&plan, &shape).marked_packs(&plan, &queries)
        };
        assert_eq!(of(&packs, &[5, 6, 6, 7, 8], 1), [false, false, false, false, true]);
        assert_eq!(of(&packs[..3], &[5, 6, 9, 7, 8], 1), [true, true, true]);
        // Whole packs of 1,000 blocks, over the limit together.
        let packs_of = |blocks: u32| -> (Vec<PackTask>, Vec<u32>) {
            let last = MARKED_BYTES.div_ceil(u64::from(blocks) * 16 * 2 * 64 * 4) as u32;
            let packs = (0..=last).map(|number| pack(number * blocks, blocks * 16, number % 2)).collect();
            (packs, (0..(last + 1) * blocks).collect())
        };
        let (many, ids) = packs_of(1_000);
        for partials in [1, 2] {
            assert!(of(&many, &ids, partials).iter().all(|marked| !marked), "marking gains them nothing");
        }
        let (short, ids) = packs_of((SHORT_BYTES / (16 * 64 * 4)) as u32);
        assert!(of(&short, &ids, 1).iter().all(|marked| !marked), "nothing is to stay in L2");
        let expected: Vec<bool> = (0..short.len()).map(|number| number % 2 == 1).collect();
        assert_eq!(of(&short, &ids, 2), expected, "partials are to stay in L2");
        // All but the last read the same blocks, which come from HBM once.
        let long = many.len() - 1;
        let again: Vec<u32> =
            (0..=long).flat_map(|number| if number < long { 0..1_000 } else { 1_000..2_000 }).collect();
        let few_rows: Vec<bool> = (0..=long).map(|number| number % 2 == 1 || number == long).collect();
        assert_eq!(of(&many, &again, 2), few_rows, "what is read again makes room too");
        let marked = of(&many, &again, 1);
        assert!(marked.iter().rev().skip(1).all(|marked| !marked) && marked[long]);
    }

    #[test]
    fn blocks_that_a_pack_with_masks_reads_alone_say_so() {
        let shape =
            DecodeShape { q_heads: 8, kv_heads: 2, head_dim: 64, dtype: Dtype::F16, block_size: 16, scale: 1.0 };
        let pack =
            |block_begin, masks| PackTask { num_queries: 1, block_begin, kv_tokens: 32, masks, ..PackTask::default() };
        let packs = [pack(0, Some(0)), pack(2, None)];
        let tiles = [Tile::MASKED];
        // Of one query: its own word and that of all. Its tile has 32 tokens.
        let of = |masks: &[u64], bulk| {
            let plan =
                PlanArrays { packs: &packs, tiles: &tiles, block_ids: &[5, 6, 6, 7], masks, ..PlanArrays::default() };
            let marked = items(&plan, (&[0, 1], &[true, false]), 1, |tile| tile, |_, _| 1);
            let ids = Readers::of(&plan, &shape).marked_blocks(&plan, bulk).into_owned();
            (ids, marked[0].marked, marked[1].marked)
        };
        let all = u64::from(u32::MAX);
        assert_eq!(of(&[all, all], true), (vec![5 | ALONE, 6, 6, 7], 0b11, 0));
        assert_eq!(of(&[all, all], false).0, [5, 6, 6, 7], "copies token by token have no mark");
        assert_eq!(of(&[1, 1], true).1, 0b11 | 1 << 31, "tokens that nobody sees are gaps");
    }
}
