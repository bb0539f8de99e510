//! Blocks whose last tokens no query of a pack sees, as bulk copies bring them.
//!
//! Such tokens may hold anything, NaN included, which would meet a zero of P. To clear them in shared memory, tile by tile, took
//! 16 packs of eight requests with 24 tokens of their own in blocks of 32 a quarter longer on an H200 (29.1 µs, and 22.5 without). But
//! copies give zeros for what lies before a block. So of each 64 tokens of a block those that some query sees come last,
//! and masks say so:
//!
//! ```text
//! block   t0 t1 … t23 ? … ?        in the tile   0 … 0 t0 t1 … t23        24 of 32 tokens
//! ```

use std::borrow::Cow;
use std::ops::Range;

use crate::masks::{MASK_TOKENS, TILES_OF_A_WORD, quarters, seen_by_some, seen_quarters};
use crate::plan::{PlanArrays, Tile};

/// The highest bit below which an entry of a pack with masks has how many tokens of the block nobody sees, and below that the
/// block's number.
const DEAD_BIT: u32 = 30;

/// Tokens of KV in all, up to which blocks and tokens of one fit below [`DEAD_BIT`].
pub(crate) const MOST_TOKENS: u64 = 1 << DEAD_BIT;

/// What kernels with bulk copies read in place of masks and block lists.
pub(crate) struct Tails<'a> {
    pub(crate) masks: Cow<'a, [u64]>,
    pub(crate) block_ids: Cow<'a, [u32]>,
}

impl<'a> Tails<'a> {
    /// Of a plan, and of its blocks as they are marked.
    pub(crate) fn of(plan: &PlanArrays<'a>, block_ids: Cow<'a, [u32]>, (block_size, group): (u32, u32)) -> Self {
        let mut tails = Self { masks: Cow::Borrowed(plan.masks), block_ids };
        for pack in plan.packs {
            let (Some(begin), Some(tile)) = (pack.masks, plan.tiles.get(pack.tile as usize)) else { continue };
            let words = begin as usize..begin as usize + pack.mask_words(*tile);
            let mut seen = tile.seen(plan.masks.get(words.clone()).unwrap_or(&[]), pack);
            let blocks = tails.block_ids.to_mut().iter_mut().skip(pack.block_begin as usize);
            let count = pack.kv_tokens.div_ceil(block_size) as usize;
            for (block, live) in blocks.zip(live_tokens(&by_some(&seen, pack.num_queries), block_size)).take(count) {
                *block |= (block_size - live) << (DEAD_BIT - block_size.trailing_zeros());
            }
            put_last(&mut seen, pack.num_queries, block_size.min(MASK_TOKENS));
            let masks = if *tile == Tile::TALL {
                tile.masks(&seen, pack.num_queries, group)
            } else {
                masks_over_zeros(&seen, pack.num_queries as usize)
            };
            tails.masks.to_mut()[words.start..words.start + masks.len()].copy_from_slice(&masks);
        }
        tails
    }
}

/// Of each 64 tokens those that some query sees, where `seen` says so of each query.
pub(crate) fn by_some(seen: &[u64], queries: u32) -> Vec<u64> {
    seen.chunks(queries.max(1) as usize).map(seen_by_some).collect()
}

/// Of each block up to which of its tokens some query sees any.
pub(crate) fn live_tokens(by_some: &[u64], block_size: u32) -> impl Iterator<Item = u32> + '_ {
    let sees = |token: u32| by_some[(token / MASK_TOKENS) as usize] >> (token % MASK_TOKENS) & 1 == 1;
    let blocks = by_some.len() as u32 * MASK_TOKENS / block_size;
    (0..blocks).map(move |block| {
        let first = block * block_size;
        (0..block_size).rev().find(|at| sees(first + at)).map_or(0, |last| last + 1)
    })
}

/// How many of these tokens the words have.
pub(crate) fn count_seen(words: &[u64], tokens: &Range<u32>) -> u32 {
    let of_word = |at: u32| {
        let end = tokens.end.min((at + 1) * MASK_TOKENS) - at * MASK_TOKENS;
        let begin = tokens.start.max(at * MASK_TOKENS) - at * MASK_TOKENS;
        (words[at as usize] << (MASK_TOKENS - end) >> (MASK_TOKENS - end) >> begin).count_ones()
    };
    (tokens.start / MASK_TOKENS..tokens.end.div_ceil(MASK_TOKENS)).map(of_word).sum()
}

/// Of each `unit` of tokens moves those that some query sees behind the others. `seen` is of 64 tokens after 64.
fn put_last(seen: &mut [u64], queries: u32, unit: u32) {
    let unit_mask = u64::MAX >> (MASK_TOKENS - unit);
    for each in seen.chunks_mut(queries.max(1) as usize) {
        let by_some = seen_by_some(each);
        for begin in (0..MASK_TOKENS).step_by(unit as usize) {
            let live = MASK_TOKENS - (by_some >> begin & unit_mask).leading_zeros();
            for word in each.iter_mut().filter(|_| live > 0 && live < unit) {
                let own = *word >> begin & unit_mask;
                *word = *word & !(unit_mask << begin) | own << (unit - live) << begin;
            }
        }
    }
}

/// Of [`Tile::MASKED`] for each 8 tiles the words of all queries, a byte a tile: bit i that it sees some of the 16 tokens from
/// 16 i on, bit 5 always, and bit 4 where what some query sees is behind zeros within 16 tokens. Behind them 16 bits for each tile,
/// four for each 16 tokens: how many zeros come before what some query sees.
fn masks_over_zeros(seen: &[u64], queries: usize) -> Vec<u64> {
    let mut masks = Vec::new();
    for run in seen.chunks(queries * TILES_OF_A_WORD) {
        let begin = masks.len();
        masks.resize(begin + queries, 0x2020_2020_2020_2020);
        masks.resize(begin + queries + 2, 0);
        let (words, zeros) = masks[begin..].split_at_mut(queries);
        for (tile, each) in run.chunks(queries).enumerate() {
            let before = |quarter: u64| if quarter == 0 { 0 } else { u64::from(quarter.trailing_zeros()) };
            let by_some = quarters(seen_by_some(each)).enumerate();
            let of_tile = by_some.map(|(nth, quarter)| before(quarter) << (4 * nth)).sum::<u64>();
            zeros[tile / 4] |= of_tile << (16 * (tile % 4));
            for (word, own) in words.iter_mut().zip(each) {
                *word |= (seen_quarters(*own) | u64::from(of_tile != 0) << 4) << (8 * tile);
            }
        }
    }
    masks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::PackTask;

    /// A block, as its number and its tokens, and which of four queries see it.
    type Part = (u32, u32, u8);

    const QUERIES: u32 = 4;

    /// What a kernel gets of one pack of such blocks.
    struct Got {
        pack: PackTask,
        tile: Tile,
        masks: Vec<u64>,
        block_ids: Vec<u32>,
    }

    impl Got {
        fn of(parts: &[Part], block_size: u32, tile: Tile) -> Self {
            let kv_tokens = parts.len() as u32 * block_size;
            let pack = PackTask { num_queries: QUERIES, kv_tokens, masks: Some(0), ..PackTask::default() };
            let mut seen = vec![0; (kv_tokens.next_multiple_of(tile.n) / MASK_TOKENS * QUERIES) as usize];
            for (block, (_, live, by)) in (0..).zip(parts) {
                for token in block * block_size..block * block_size + live {
                    for query in (0..QUERIES).filter(|query| by >> query & 1 == 1) {
                        seen[(token / MASK_TOKENS * QUERIES + query) as usize] |= 1 << (token % MASK_TOKENS);
                    }
                }
            }
            let (packs, tiles, masks) = ([pack], [tile], tile.masks(&seen, QUERIES, 16));
            let block_ids: Vec<u32> = parts.iter().map(|part| part.0).collect();
            let lists = (block_ids.as_slice(), masks.as_slice());
            let plan = PlanArrays {
                packs: &packs,
                tiles: &tiles,
                block_ids: lists.0,
                masks: lists.1,
                ..PlanArrays::default()
            };
            let tails = Tails::of(&plan, Cow::Borrowed(&block_ids), (block_size, 16));
            let (masks, block_ids) = (tails.masks.to_vec(), tails.block_ids.to_vec());
            Self { pack, tile, masks, block_ids }
        }

        /// Whether a query sees what comes to a place of the tile, as `masks.cuh` reads it, or for the other tile `few.cuh`.
        fn sees(&self, query: u32, token: u32) -> bool {
            if self.tile == Tile::TALL {
                let word = token / MASK_TOKENS * QUERIES + query;
                return self.tile.seen(&self.masks, &self.pack)[word as usize] >> (token % MASK_TOKENS) & 1 == 1;
            }
            let (run, tile, quarter) = (token / 512 * (QUERIES + 2), token / 64 % 8, token / 16 % 4);
            let byte = self.masks[(run + query) as usize] >> (8 * tile);
            let zeros = self.masks[(run + QUERIES + tile / 4) as usize] >> (16 * (tile % 4) + 4 * quarter) & 15;
            assert!(zeros == 0 || byte & 0x10 != 0, "a tile with zeros within 16 tokens is ragged");
            byte >> quarter & 1 == 1 && u64::from(token % 16) >= zeros
        }

        /// What of memory comes to a place of the tile, as `box_of` of `producer.cuh` asks for a box of one token: a block and
        /// its token, or none for a zero.
        fn comes_from(&self, token: u32, block_size: u32) -> Option<(u32, u32)> {
            let entry = self.block_ids[(token / block_size) as usize];
            let (shift, begin) = (DEAD_BIT - block_size.trailing_zeros(), token % block_size);
            let (most, of_block) = (block_size.min(64), block_size - ((entry & 0x7fff_ffff) >> shift));
            let live = of_block.saturating_sub(begin / 64 * 64).min(most);
            let from = if live > 0 { (begin + live).checked_sub(most) } else { None };
            from.map(|from| (entry & ((1 << shift) - 1), from))
        }
    }

    fn parts() -> impl Strategy<Value = (u32, Vec<Part>)> {
        prop::sample::select(vec![16_u32, 32, 64, 128, 256]).prop_flat_map(|size| {
            let part = (0..1_u32 << 20, 0..=size, 1..16_u8);
            (Just(size), prop::collection::vec(part, 1..40))
        })
    }

    proptest! {
        /// Each query sees of the tiles what it sees of memory, each token once, and all else that comes is a number: a zero, or
        /// what some query sees.
        #[test]
        fn what_is_seen_comes_and_nothing_that_nobody_sees((size, parts) in parts()) {
            for tile in [Tile::MASKED, Tile::TALL] {
                let got = Got::of(&parts, size, tile);
                for query in 0..QUERIES {
                    let mut found = Vec::new();
                    for token in 0..got.pack.kv_tokens {
                        let (at, from) = ((token / size) as usize, got.comes_from(token, size));
                        prop_assert!(from.is_none_or(|(block, from)| block == parts[at].0 && from < parts[at].1));
                        if got.sees(query, token) {
                            found.push((at, from.map(|from| from.1)));
                        }
                    }
                    let own = parts.iter().enumerate().filter(|(_, part)| part.2 >> query & 1 == 1);
                    let own: Vec<_> = own.flat_map(|(at, part)| (0..part.1).map(move |from| (at, Some(from)))).collect();
                    prop_assert_eq!(&found, &own);
                }
            }
        }
    }

    #[test]
    fn blocks_say_how_many_tokens_are_nobodys() {
        let got = Got::of(&[(5, 32, 15), (6, 24, 1), (7, 8, 2), (8, 0, 1)], 32, Tile::MASKED);
        assert_eq!(got.block_ids, [5, 6 | 8 << 25, 7 | 24 << 25, 8 | 32 << 25]);
    }

    #[test]
    fn only_tiles_with_zeros_within_sixteen_tokens_are_ragged() {
        let got = Got::of(&[(5, 64, 15), (6, 16, 1), (7, 41, 2)], 64, Tile::MASKED);
        let bytes = |query: usize| [0, 1, 2].map(|tile| got.masks[query] >> (8 * tile) & 0xff);
        assert_eq!(bytes(0), [0x2f, 0x28, 0x30], "of the second tile the last 16 tokens, of the third nothing");
        assert_eq!(bytes(1), [0x2f, 0x20, 0x3e], "41 tokens begin within the second 16");
        assert_eq!(got.masks[4], 7 << 36, "behind seven zeros");
    }
}
