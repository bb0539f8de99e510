//! What of a plan's KV leaves L2 first, since no other pack reads it.
//!
//! L2 begins a cold run with some 30 MB that others have written, and what is read drives them out to HBM. Marked reads drive
//! out each other, so that written lines stay: those from before, and partials and outputs of the run itself. HBM turns around
//! between reads and writes: an H200 reads 4.7 TB/s, and 4.3 while 0.03 to 0.1 TB/s go back among the reads. So
//!
//! * a plan that reads little marks from the start, and most of what L2 held stays there;
//! * in a longer run it would go back bit by bit until the end. There the tasks that begin with the run do not mark, so that it
//!   is gone after 40 us; all that follow mark;
//! * where packs read much again, HBM idles at first in any case, and what is read again is to stay in L2: all tasks mark.

use std::borrow::Cow;
use std::ops::Range;

use crate::params::{Item, PackQuery};
use crate::plan::{DecodeShape, PackTask, PlanArrays};

/// KV bytes in HBM up to which a plan reads little. On an H100 runs over 25 to 200 MB take 4 to 9 % less where all that is read
/// alone is marked, and those over more nothing to 1 % more; on an H200 those over 134, 164 and 201 MB 6, 5 and 2 % less, and
/// three over 270 MB 1 to 3 % more. What is read again comes from L2 and does not count: configuration 3 of PAT reads 403 MB, of
/// which 142 MB come from HBM, and takes 1.5 % less.
pub const MARKED_BYTES: u64 = 240_000_000;

/// How many times what they read from HBM the packs of a longer run read in all, from where on they read much again. Where the
/// first tasks do not mark, of 27 runs of 1.0 to 1.27 times over 0.3 to 1.6 GB 18 take 1 to 6 % less on an H200, 7 as long within
/// 1 %, and two 1 % more; of eight of 1.3 to 1.9 times five take 0.2 to 1.2 % more.
pub const READ_AGAIN: f64 = 1.3;

/// Of a block that one pack with masks reads alone.
const ALONE: u32 = 1 << 31;

/// How many packs of a plan read each block.
pub(crate) struct Readers {
    of_block: Vec<u8>,
    block_size: u32,
    /// KV bytes of the blocks that some pack reads.
    bytes: u64,
    /// KV bytes that all packs read.
    read: u64,
}

/// Which tasks of a plan mark.
pub(crate) struct Marks {
    packs: Vec<bool>,
    /// Whether those that begin with the run mark too.
    from_start: bool,
}

impl Marks {
    /// Of each pack, whether its KV is to leave L2 first.
    pub(crate) fn of_packs(&self) -> &[bool] {
        &self.packs
    }

    /// Takes the mark from the items that begin with the run, the first `at_once`, where they are not to mark.
    pub(crate) fn spare_first(&self, items: &mut [Item], at_once: u32) {
        if !self.from_start {
            items.iter_mut().take(at_once as usize).for_each(|item| item.marked &= !Item::MARKED);
        }
    }
}

impl Readers {
    pub(crate) fn of(plan: &PlanArrays<'_>, shape: &DecodeShape) -> Self {
        let mut of_block = vec![0_u8; plan.block_ids.iter().max().map_or(0, |last| *last as usize + 1)];
        let mut read = 0;
        for pack in plan.packs {
            let blocks = plan.block_ids.get(blocks_of(pack, shape.block_size)).unwrap_or(&[]);
            read += blocks.len() as u64;
            for block in blocks {
                let readers = &mut of_block[*block as usize];
                *readers = readers.saturating_add(1);
            }
        }
        let blocks = of_block.iter().filter(|readers| **readers > 0).count() as u64;
        let block_bytes = u64::from(shape.block_size * shape.kv_heads) * shape.token_bytes();
        Self { of_block, block_size: shape.block_size, bytes: blocks * block_bytes, read: read * block_bytes }
    }

    /// What of each pack's KV is to leave L2 first: what it alone reads, and where there are partials to be kept, what any pack
    /// of few rows reads.
    pub(crate) fn marks(&self, plan: &PlanArrays<'_>, queries: &[PackQuery]) -> Marks {
        let has_partials = queries.iter().any(|query| query.count > 1);
        let few_rows =
            |pack: &PackTask| plan.tiles.get(pack.tile as usize).is_some_and(|tile| tile.heads_together() > 1);
        let once = |pack: &PackTask| {
            let mut blocks = plan.block_ids.get(blocks_of(pack, self.block_size)).unwrap_or(&[]).iter();
            blocks.all(|block| self.of_block[*block as usize] == 1)
        };
        Marks {
            packs: plan.packs.iter().map(|pack| once(pack) || (has_partials && few_rows(pack))).collect(),
            from_start: self.bytes <= MARKED_BYTES || self.read as f64 >= READ_AGAIN * self.bytes as f64,
        }
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

    const SHAPE: DecodeShape =
        DecodeShape { q_heads: 8, kv_heads: 2, head_dim: 64, dtype: Dtype::F16, block_size: 16, scale: 1.0 };
    const TILES: [Tile; 2] = [Tile { m: 64, n: 64 }, Tile { m: 16, n: 16 }];

    fn pack(block_begin: u32, kv_tokens: u32, tile: u32) -> PackTask {
        PackTask { num_queries: 1, block_begin, kv_tokens, tile, ..PackTask::default() }
    }

    /// The marks of packs whose queries have so many partials.
    fn marks(packs: &[PackTask], block_ids: &[u32], partials: u32) -> Marks {
        let plan = PlanArrays { packs, block_ids, tiles: &TILES, ..PlanArrays::default() };
        Readers::of(&plan, &SHAPE).marks(&plan, &[PackQuery { count: partials, ..PackQuery::default() }])
    }

    #[test]
    fn packs_mark_what_no_other_reads_and_those_of_few_rows_make_room_for_partials() {
        // Blocks 5 and 6; 6 and 7; 8, once by a tile of few rows; nothing.
        let packs = [pack(0, 32, 0), pack(2, 32, 0), pack(4, 3, 1), pack(4, 1, 0), pack(5, 0, 0)];
        let blocks = [5, 6, 6, 7, 8];
        assert_eq!(marks(&packs, &blocks, 1).of_packs(), [false, false, false, false, true]);
        assert_eq!(marks(&packs, &blocks, 2).of_packs(), [false, false, true, false, true]);
        assert_eq!(marks(&packs[..3], &[5, 6, 9, 7, 8], 1).of_packs(), [true, true, true]);
    }

    /// Packs of 1,000 blocks each, of which `alone` are read by one pack and one run of blocks by `together`.
    fn long(alone: u32, together: u32) -> Marks {
        let packs: Vec<PackTask> = (0..alone + together).map(|at| pack(at * 1_000, 16_000, at % 2)).collect();
        let runs = (0..alone + together).map(|at| at.min(alone) * 1_000);
        let blocks: Vec<u32> = runs.flat_map(|begin| begin..begin + 1_000).collect();
        marks(&packs, &blocks, 1)
    }

    #[test]
    fn the_first_tasks_of_a_long_run_do_not_mark_where_little_is_read_again() {
        let begin_marked = |marks: &Marks| {
            let mut items = vec![Item { marked: Item::MARKED | 0b110, ..Item::default() }; 5];
            marks.spare_first(&mut items, 3);
            assert!(items[3..].iter().all(|item| item.marked == Item::MARKED | 0b110), "those that follow");
            assert!(items[..3].iter().all(|item| item.marked & !Item::MARKED == 0b110), "masks stay");
            items[0].marked & Item::MARKED != 0
        };
        // A pack reads 8.2 MB, so 29 read 238 MB and 30 246.
        assert!(begin_marked(&long(29, 0)) && !begin_marked(&long(30, 0)));
        assert!(begin_marked(&long(28, 40)), "what is read again comes from L2");
        // 40 that read alone and 13 that read the same: 53 over 41.
        assert!(!begin_marked(&long(40, 13)) && begin_marked(&long(40, 14)));
        let marks = long(40, 13);
        assert!(marks.of_packs()[..40].iter().all(|marked| *marked), "alone, whatever their tile");
        assert!(marks.of_packs()[40..].iter().all(|marked| !marked), "what others read too");
    }

    #[test]
    fn blocks_that_a_pack_with_masks_reads_alone_say_so() {
        let packs = [PackTask { masks: Some(0), ..pack(0, 32, 0) }, pack(2, 32, 0)];
        let tiles = [Tile::MASKED];
        // Of one query: its byte of the tile, its own word and that of all. The tile has 32 tokens.
        let of = |masks: &[u64], bulk| {
            let plan =
                PlanArrays { packs: &packs, tiles: &tiles, block_ids: &[5, 6, 6, 7], masks, ..PlanArrays::default() };
            let marked = items(&plan, (&[0, 1], &[true, false]), 1, |tile| tile, |_, _| 1);
            let ids = Readers::of(&plan, &SHAPE).marked_blocks(&plan, bulk).into_owned();
            (ids, marked[0].marked, marked[1].marked)
        };
        let all = u64::from(u32::MAX);
        assert_eq!(of(&[0x3f, all, all], true), (vec![5 | ALONE, 6, 6, 7], 0b11, 0));
        assert_eq!(of(&[0x3f, all, all], false).0, [5, 6, 6, 7], "copies token by token have no mark");
        assert_eq!(of(&[0x3f, 1, 1], true).1, 0b11 | 1 << 31, "tokens that nobody sees are gaps");
    }
}
