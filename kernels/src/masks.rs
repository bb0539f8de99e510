//! Packs that go on below what their queries share: which tokens of a tile each query sees, as decode kernels read it.

use crate::plan::{PackTask, Tile};

/// Tokens of a word of a mask.
pub(crate) const MASK_TOKENS: u32 = u64::BITS;

/// Tiles of [`Tile::MASKED`] that a word of [`quarters_of_queries`] is of.
pub(crate) const TILES_OF_A_WORD: usize = 8;

impl Tile {
    /// What [`PlanArrays::masks`](crate::PlanArrays::masks) has of a pack with this tile. `seen` says what each query sees of
    /// the first 64 tokens, then of the next, of whole tiles.
    pub fn masks(&self, seen: &[u64], queries: u32, group: u32) -> Vec<u64> {
        let queries = queries.max(1) as usize;
        let of_queries = seen.chunks(queries).flat_map(|each| each.iter().copied().chain([seen_by_some(each)]));
        if *self == Self::TALL {
            let tiles = seen.chunks(queries * (self.n / MASK_TOKENS) as usize);
            return tiles.map(|seen| seen_by_warps(seen, queries, group)).chain(of_queries).collect();
        }
        let runs = seen.chunks(queries * TILES_OF_A_WORD);
        runs.flat_map(|seen| quarters_of_queries(seen, queries)).chain(of_queries).collect()
    }

    /// What [`Self::masks`] has made these of, for a pack.
    pub(crate) fn seen(self, masks: &[u64], pack: &PackTask) -> Vec<u64> {
        let queries = pack.num_queries as usize;
        let of_queries = masks.get(self.words_before_queries(pack)..).unwrap_or(&[]);
        of_queries.chunks(queries + 1).flat_map(|words| &words[..queries.min(words.len())]).copied().collect()
    }

    /// Words of the masks of a pack before those that say what each query sees of each token.
    fn words_before_queries(self, pack: &PackTask) -> usize {
        let tiles = pack.kv_tokens.div_ceil(self.n) as usize;
        if self == Self::TALL { tiles } else { tiles.div_ceil(TILES_OF_A_WORD) * pack.num_queries as usize }
    }
}

impl PackTask {
    /// Entries in [`PlanArrays::masks`](crate::PlanArrays::masks) of a pack that has any, on this tile.
    pub(crate) fn mask_words(&self, tile: Tile) -> usize {
        let runs = self.kv_tokens.div_ceil(tile.n) as usize * (tile.n / MASK_TOKENS) as usize;
        tile.words_before_queries(self) + runs * (self.num_queries as usize + 1)
    }

    /// Whether a warpgroup of its own may take what few queries see of this pack on [`Tile::TALL`], of whose plan these are
    /// the masks: it goes through 64 tokens for the rows of a warp in the time in which the others take a tile that all
    /// see, and is not to end long after them.
    pub fn leaves_few_apart(&self, masks: &[u64]) -> bool {
        let tiles = self.kv_tokens.div_ceil(Tile::TALL.n) as usize;
        let words = self.masks.and_then(|begin| masks.get(begin as usize..)).and_then(|words| words.get(..tiles));
        let Some(words) = words else { return false };
        let (all, few): (Vec<u64>, Vec<u64>) = words.iter().partition(|word| **word >> 63 == 1);
        let turns: usize = few.iter().map(|word| turns_of_warps(*word)).sum();
        !all.is_empty() && turns <= all.len()
    }

    /// The mask of all of the 64 tokens of place `place` that there are.
    pub(crate) fn tokens_of_mask(&self, place: u32) -> u64 {
        let left = self.kv_tokens.saturating_sub(place * MASK_TOKENS);
        if left >= MASK_TOKENS { u64::MAX } else { (1 << left) - 1 }
    }
}

/// Tokens that some query sees, of whose sight these are.
pub(crate) fn seen_by_some(each: &[u64]) -> u64 {
    each.iter().fold(0, |all, one| all | one)
}

/// Each 16 of 64 tokens.
pub(crate) fn quarters(own: u64) -> impl Iterator<Item = u64> {
    (0..4).map(move |nth| own >> (16 * nth) & 0xffff)
}

/// Bit i where any of the 16 tokens from 16 i on is seen.
pub(crate) fn seen_quarters(own: u64) -> u64 {
    quarters(own).enumerate().map(|(nth, quarter)| u64::from(quarter != 0) << nth).sum()
}

/// Of each query a byte for each of up to 8 tiles of 64 tokens, of which these are what each query sees: bit i that it sees
/// the 16 tokens from 16 i on, bit 5 that there is such a tile. Where some query sees only some of 16, or nobody one of the
/// tile, all bytes of the tile have bit 4, and say nothing of what is seen.
fn quarters_of_queries(seen: &[u64], queries: usize) -> Vec<u64> {
    let mut words = vec![0; queries];
    for (tile, each) in seen.chunks(queries).enumerate() {
        let whole = each.iter().all(|own| quarters(*own).all(|quarter| quarter == 0 || quarter == 0xffff));
        let ragged = !whole || seen_by_some(each) != u64::MAX;
        for (word, own) in words.iter_mut().zip(each) {
            *word |= (0x20 | if ragged { 0x1f } else { seen_quarters(*own) }) << (8 * tile);
        }
    }
    words
}

/// What the warps of [`Tile::TALL`], of 16 rows each, see of a tile, of whose first and second 64 tokens these are what each
/// query sees: bit 4 w + i that a row of warp w sees one of the 32 from 32 i on, and the highest that all see all.
fn seen_by_warps(seen: &[u64], queries: usize, group: u32) -> u64 {
    let all = seen.iter().fold(u64::MAX, |all, one| all & one);
    let mut of_warps = if all == u64::MAX { 1 << 63 } else { 0 };
    for (place, each) in (0..).zip(seen.chunks(queries)) {
        for (query, own) in (0..).zip(each) {
            let parts = u64::from(*own as u32 != 0) | u64::from(own >> 32 != 0) << 1;
            for warp in query * group / 16..=(query * group + group - 1) / 16 {
                of_warps |= parts.checked_shl(warp * 4 + place * 2).unwrap_or(0);
            }
        }
    }
    of_warps
}

/// How often 64 tokens of a tile of [`seen_by_warps`] are for the rows of a warp.
fn turns_of_warps(word: u64) -> usize {
    let of_warp = |warp: u32| word >> (4 * warp) & 0xf;
    (0..8).map(of_warp).map(|parts| usize::from(parts & 3 != 0) + usize::from(parts >> 2 != 0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    /// What queries see of so many tokens, of which each sees runs of `unit`.
    fn sight(rng: &mut StdRng, queries: u32, tokens: u32, unit: u32) -> Vec<u64> {
        let mut words = vec![0; (queries * tokens.div_ceil(MASK_TOKENS)) as usize];
        for run in 0..tokens.div_ceil(unit) {
            for query in (0..queries).filter(|_| rng.random_bool(0.5)) {
                for token in run * unit..((run + 1) * unit).min(tokens) {
                    words[(token / MASK_TOKENS * queries + query) as usize] |= 1 << (token % MASK_TOKENS);
                }
            }
        }
        words
    }

    /// The check of a plan goes by it, whatever a pack claims.
    #[test]
    fn words_of_the_longest_pack_are_counted() {
        let pack = PackTask { num_queries: 64, kv_tokens: u32::MAX, ..PackTask::default() };
        let tiles = 1_usize << 26;
        assert_eq!(pack.mask_words(Tile::MASKED), tiles * 65 + tiles / 8 * 64);
        assert_eq!(pack.mask_words(Tile::TALL), tiles * 65 + tiles / 2);
    }

    #[test]
    fn bytes_say_of_each_16_tokens_what_the_words_behind_them_say() {
        let mut rng = StdRng::seed_from_u64(11);
        let (mut even, mut ragged) = (0, 0);
        for case in 0..200 {
            let (queries, tokens) = (rng.random_range(1..=64), rng.random_range(1..=1200));
            let seen = sight(&mut rng, queries, tokens, [64, 32, 16, 5][case % 4]);
            let pack = PackTask { num_queries: queries, kv_tokens: tokens, ..PackTask::default() };
            let masks = Tile::MASKED.masks(&seen, queries, 1);
            assert_eq!(masks.len(), pack.mask_words(Tile::MASKED));
            assert_eq!(Tile::MASKED.seen(&masks, &pack), seen);
            for (tile, each) in seen.chunks(queries as usize).enumerate() {
                let words = &masks[tile / 8 * queries as usize..][..queries as usize];
                let bytes: Vec<u64> = words.iter().map(|word| word >> (tile % 8 * 8) & 0xff).collect();
                if bytes[0] & 0x10 != 0 {
                    ragged += 1;
                    assert!(bytes.iter().all(|byte| *byte == 0x3f), "of a ragged tile all 16 tokens count as seen");
                    continue;
                }
                even += 1;
                assert_eq!(each.iter().fold(0, |all, own| all | own), u64::MAX, "none is left out");
                for (byte, own) in bytes.iter().zip(each) {
                    let tokens =
                        (0..64).filter(|token| byte >> (token / 16) & 1 == 1).fold(0, |all, one| all | 1 << one);
                    assert_eq!((byte >> 4, tokens), (0b10, *own), "case {case} tile {tile}");
                }
            }
        }
        assert!(even > 300 && ragged > 300, "{even} even tiles and {ragged} ragged");
    }
}
