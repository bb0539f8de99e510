//! The plain arrays that a launch is made of, and the one place where they are checked.

use crate::error::KernelError;

/// Element type of Q, K, V and the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
}

/// Rows (queries times group) and KV tokens that a CTA holds at a time.
///
/// Tile 16 x 16 is special: its CTA takes four KV heads side by side, one warp each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tile {
    /// Rows: 16, 32 or 64.
    pub m: u32,
    /// KV tokens: 16, 32, 64 or 128.
    pub n: u32,
}

impl Tile {
    /// KV heads that a CTA takes together: 4 for tile 16 x 16, else 1.
    pub fn heads_together(&self) -> u32 {
        if self.m == 16 && self.n == 16 { 4 } else { 1 }
    }
}

/// Shape of the attention call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecodeShape {
    /// Query heads.
    pub q_heads: u32,
    /// KV heads; divides `q_heads`, the quotient being 1, 2, 4, 8 or 16 for decode and any number for prefill.
    pub kv_heads: u32,
    /// Head dimension, 64 or 128.
    pub head_dim: u32,
    /// Element type.
    pub dtype: Dtype,
    /// Tokens per KV block: 16, 32, 64, 128 or 256.
    pub block_size: u32,
    /// Softmax scale, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
}

impl DecodeShape {
    /// Query heads per KV head.
    pub fn group(&self) -> u32 {
        self.q_heads / self.kv_heads.max(1)
    }

    pub(crate) fn check(&self) -> Result<(), KernelError> {
        self.check_cache()?;
        if !matches!(self.group(), 1 | 2 | 4 | 8 | 16) {
            return Err(self.bad_heads());
        }
        Ok(())
    }

    fn bad_heads(&self) -> KernelError {
        KernelError::Unsupported(format!("{} query heads over {} KV heads", self.q_heads, self.kv_heads))
    }

    /// What every kernel asks for; any number of query heads may share a KV head.
    pub(crate) fn check_cache(&self) -> Result<(), KernelError> {
        let bad = |what: String| Err(KernelError::Unsupported(what));
        if self.kv_heads == 0 || self.q_heads == 0 || !self.q_heads.is_multiple_of(self.kv_heads) {
            return Err(self.bad_heads());
        }
        if !matches!(self.head_dim, 64 | 128) {
            return bad(format!("head dimension {}; 64 and 128 exist", self.head_dim));
        }
        if !matches!(self.block_size, 16 | 32 | 64 | 128 | 256) {
            return bad(format!("KV blocks of {} tokens; 16, 32, 64, 128 and 256 exist", self.block_size));
        }
        Ok(())
    }
}

/// One pack: some queries over one run of KV blocks. A CTA computes it for one KV head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackTask {
    /// First entry in [`PlanArrays::query_index`].
    pub query_begin: u32,
    /// Queries of the pack; times the group at most the tile's `m`.
    pub num_queries: u32,
    /// First entry in [`PlanArrays::block_ids`].
    pub block_begin: u32,
    /// Tokens from the start of that block on; the last block may be partly filled. May be 0.
    pub kv_tokens: u32,
    /// Partial slot of the pack's first query; query `i` of the pack has slot `slot_begin + i`.
    pub slot_begin: u32,
    /// Index into [`PlanArrays::tiles`].
    pub tile: u32,
}

/// One merge launch: each row joins partials of one query, in order, on a CTA of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeRows {
    /// Row r joins `slots[offsets[r]..offsets[r + 1]]`, at least one.
    pub offsets: Vec<u32>,
    /// Slots of all rows.
    pub slots: Vec<u32>,
    /// Where each row's result goes: a query's output, or [`Self::TO_SLOT`] with the slot of a partial.
    pub targets: Vec<u32>,
}

impl MergeRows {
    /// A target with this bit is a slot.
    pub const TO_SLOT: u32 = 1 << 31;

    /// Adds a row.
    pub fn push(&mut self, slots: &[u32], target: u32) {
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        self.slots.extend_from_slice(slots);
        self.offsets.push(self.slots.len() as u32);
        self.targets.push(target);
    }

    /// Slots of each row with its target.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&[u32], u32)> {
        let slots = |run: &[u32]| self.slots.get(run[0] as usize..run[1] as usize).unwrap_or(&[]);
        self.offsets.windows(2).map(slots).zip(self.targets.iter().copied())
    }

    fn check(&self, owner: &[u32]) -> Result<(), KernelError> {
        let bad = |row: usize, what: &str| Err(KernelError::Plan(format!("merge row {row} {what}")));
        if self.offsets.len() != self.targets.len() + 1 {
            return bad(self.targets.len(), "has no target");
        }
        for (row, (slots, target)) in self.rows().enumerate() {
            let own = |slot: u32| owner.get(slot as usize).copied();
            let Some(query) = slots.first().and_then(|slot| own(*slot)) else { return bad(row, "joins nothing") };
            let to = if target & Self::TO_SLOT == 0 { Some(target) } else { own(target & !Self::TO_SLOT) };
            if to != Some(query) || slots.iter().any(|slot| own(*slot) != Some(query)) {
                return bad(row, "joins partials of several queries, or gives them to another");
            }
        }
        Ok(())
    }
}

/// Launches that follow each other: packs, then merges one after the other. A phase begins when everything
/// of the one before is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// Past its last pack; it begins where the phase before ends.
    pub packs_end: u32,
    /// Its merges.
    pub merges: Vec<MergeRows>,
}

/// A whole plan as arrays, in launch order.
#[derive(Clone, Copy, Debug)]
pub struct PlanArrays<'a> {
    /// Tiles that the packs use.
    pub tiles: &'a [Tile],
    /// The packs, in the order in which they are to start.
    pub packs: &'a [PackTask],
    /// Query numbers of the packs, one run per pack.
    pub query_index: &'a [u32],
    /// KV block numbers of the packs, one run per pack.
    pub block_ids: &'a [u32],
    /// Where each query's run in `merge_slots` begins; one entry more than there are queries.
    pub merge_offsets: &'a [u32],
    /// Slots of each query, in merge order. Each slot of each pack occurs once, at its own query.
    pub merge_slots: &'a [u32],
    /// Queries of the batch.
    pub num_queries: u32,
    /// Partial slots.
    pub num_slots: u32,
    /// Phases of a plan without a queue. Without any, all packs are one, and then one launch merges the
    /// queries with two or more partials.
    pub phases: &'a [Phase],
}

impl PlanArrays<'_> {
    /// Checks every index against the array it points into, so that no launch can read or write out of bounds, and
    /// that each slot is written by one pack and merged at the query that it belongs to.
    ///
    /// # Errors
    /// [`KernelError::Plan`] with what is wrong.
    pub fn check(&self, shape: &DecodeShape, blocks_in_cache: u32) -> Result<(), KernelError> {
        let bad = |what: String| Err(KernelError::Plan(what));
        if self.merge_offsets.len() != self.num_queries as usize + 1 {
            return bad(format!("{} merge offsets for {} queries", self.merge_offsets.len(), self.num_queries));
        }
        let owner = self.slot_owners()?;
        let mut written = vec![false; self.num_slots as usize];
        for (number, pack) in self.packs.iter().enumerate() {
            let Some(tile) = self.tiles.get(pack.tile as usize) else {
                return bad(format!("pack {number} names tile {} of {}", pack.tile, self.tiles.len()));
            };
            if pack.num_queries == 0 || pack.num_queries * shape.group() > tile.m {
                return bad(format!("pack {number}: {} queries do not fit {} rows", pack.num_queries, tile.m));
            }
            let queries = slice(self.query_index, pack.query_begin, pack.num_queries);
            let blocks = slice(self.block_ids, pack.block_begin, pack.kv_tokens.div_ceil(shape.block_size));
            let (Some(queries), Some(blocks)) = (queries, blocks) else {
                return bad(format!("pack {number} runs past the query or block list"));
            };
            if let Some(block) = blocks.iter().find(|&&b| b >= blocks_in_cache) {
                return bad(format!("pack {number} reads block {block} of {blocks_in_cache}"));
            }
            for (i, &query) in queries.iter().enumerate() {
                let slot = pack.slot_begin as usize + i;
                match (owner.get(slot), written.get_mut(slot)) {
                    (Some(&q), Some(w)) if q == query && !*w => *w = true,
                    _ => return bad(format!("pack {number} writes slot {slot}, which is not its query {query}'s")),
                }
            }
        }
        if let Some(slot) = written.iter().position(|w| !w) {
            return bad(format!("no pack writes slot {slot}"));
        }
        let ends = || self.phases.iter().map(|phase| phase.packs_end as usize);
        if !ends().is_sorted() || ends().next_back().is_some_and(|end| end != self.packs.len()) {
            return bad(format!("the phases do not part the {} packs", self.packs.len()));
        }
        self.phases.iter().flat_map(|phase| &phase.merges).try_for_each(|rows| rows.check(&owner))
    }

    /// The phases, or the one that stands for none.
    pub(crate) fn phases(&self) -> std::borrow::Cow<'_, [Phase]> {
        if !self.phases.is_empty() {
            return std::borrow::Cow::Borrowed(self.phases);
        }
        let mut gather = MergeRows::default();
        for (query, run) in (0..).zip(self.merge_offsets.windows(2)).filter(|(_, run)| run[1] - run[0] > 1) {
            gather.push(&self.merge_slots[run[0] as usize..run[1] as usize], query);
        }
        let merges = if gather.targets.is_empty() { Vec::new() } else { vec![gather] };
        std::borrow::Cow::Owned(vec![Phase { packs_end: self.packs.len() as u32, merges }])
    }

    /// The query of each slot, from the merge lists; every query needs at least one.
    fn slot_owners(&self) -> Result<Vec<u32>, KernelError> {
        let bad = |what: String| Err(KernelError::Plan(what));
        let mut owner = vec![u32::MAX; self.num_slots as usize];
        for (query, run) in self.merge_offsets.windows(2).enumerate() {
            let Some(slots) = self.merge_slots.get(run[0] as usize..run[1] as usize) else {
                return bad(format!("query {query} merges {}..{} of {}", run[0], run[1], self.merge_slots.len()));
            };
            if slots.is_empty() {
                return bad(format!("query {query} is in no pack; give it one with 0 tokens"));
            }
            for &slot in slots {
                match owner.get_mut(slot as usize) {
                    Some(o) if *o == u32::MAX => *o = query as u32,
                    _ => return bad(format!("slot {slot} of {} is merged twice or does not exist", self.num_slots)),
                }
            }
        }
        Ok(owner)
    }
}

fn slice(of: &[u32], begin: u32, len: u32) -> Option<&[u32]> {
    of.get(begin as usize..(begin as usize).checked_add(len as usize)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: DecodeShape =
        DecodeShape { q_heads: 8, kv_heads: 2, head_dim: 64, dtype: Dtype::F16, block_size: 16, scale: 0.125 };

    fn plan<'a>(packs: &'a [PackTask], slots: &'a [u32]) -> PlanArrays<'a> {
        PlanArrays {
            tiles: &[Tile { m: 16, n: 32 }],
            packs,
            query_index: &[0, 1],
            block_ids: &[0, 3],
            merge_offsets: &[0, 1, 2],
            merge_slots: slots,
            num_queries: 2,
            num_slots: 2,
            phases: &[],
        }
    }

    #[test]
    fn phases_part_the_packs_and_merge_rows_stay_with_their_query() {
        let pack = PackTask { num_queries: 2, kv_tokens: 20, ..PackTask::default() };
        let rows = |slots: &[u32], target| {
            let mut rows = MergeRows::default();
            rows.push(slots, target);
            rows
        };
        let check = |packs_end, merge| {
            let phases = [Phase { packs_end, merges: vec![merge] }];
            PlanArrays { phases: &phases, ..plan(&[pack], &[0, 1]) }.check(&SHAPE, 4)
        };
        assert!(check(1, rows(&[1], 1)).is_ok());
        assert!(check(1, rows(&[1], MergeRows::TO_SLOT | 1)).is_ok());
        assert!(check(0, rows(&[1], 1)).is_err(), "a pack in no phase");
        assert!(check(1, rows(&[1], 0)).is_err(), "another query's partial");
        assert!(check(1, rows(&[0, 1], 0)).is_err(), "partials of two queries");
        assert!(check(1, rows(&[], 0)).is_err(), "nothing to join");
        assert!(check(1, rows(&[1], MergeRows::TO_SLOT | 7)).is_err(), "a slot that is not there");
    }

    #[test]
    fn a_sound_plan_passes_and_damaged_ones_do_not() {
        let pack = PackTask { num_queries: 2, kv_tokens: 20, ..PackTask::default() };
        assert!(plan(&[pack], &[0, 1]).check(&SHAPE, 4).is_ok());
        assert!(plan(&[pack], &[1, 0]).check(&SHAPE, 4).is_err(), "slots exchanged");
        assert!(plan(&[pack], &[0, 0]).check(&SHAPE, 4).is_err(), "slot merged twice");
        assert!(plan(&[pack], &[0, 1]).check(&SHAPE, 3).is_err(), "block outside the cache");
        let long = PackTask { kv_tokens: 40, ..pack };
        assert!(plan(&[long], &[0, 1]).check(&SHAPE, 4).is_err(), "past the block list");
        let twice = [PackTask { num_queries: 1, ..pack }; 2];
        assert!(plan(&twice, &[0, 1]).check(&SHAPE, 4).is_err(), "slot written twice");
    }
}
