//! The prefix cache of an engine: so many KV blocks, those of finished prompts kept until others need their place.
//!
//! ```text
//! free ──allocate──► held by requests ──release──► free                     (never published)
//!                        │    ▲                └─► cached, nobody's ──evict──► free
//!                     publish └────── hold ────────────┘
//! ```
//!
//! Whoever was used longest ago is evicted first, and of one request its last blocks before its first, so that what is
//! left of it is still a prefix.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::units::BlockIdx;

/// What a block holds: equal keys mean equal text from the root on.
pub(super) type Key = (u32, u32);

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    key: Option<Key>,
    holders: u32,
    released: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct PrefixCache {
    blocks: Vec<Block>,
    free: Vec<u32>,
    by_key: FxHashMap<Key, u32>,
    /// Cached blocks that nobody holds, the longest unused first.
    idle: BTreeSet<(u64, u32)>,
    clock: u64,
    evicted: u64,
}

impl PrefixCache {
    /// An empty cache of so many blocks.
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            blocks: vec![Block::default(); capacity as usize],
            free: (0..capacity).rev().collect(),
            by_key: FxHashMap::default(),
            idle: BTreeSet::new(),
            clock: 0,
            evicted: 0,
        }
    }

    /// Blocks in all.
    pub(super) fn capacity(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Blocks that requests hold.
    pub(super) fn held(&self) -> u64 {
        (self.blocks.len() - self.free.len() - self.idle.len()) as u64
    }

    /// Blocks that were evicted so far.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// A row for a request: the cached blocks of the longest prefix of `keys`, then fresh ones, `count` in all. Gives
    /// it with the number of cached ones; `None` where there is no room for it now.
    pub(super) fn take(&mut self, keys: &[Key], count: usize) -> Option<(Vec<BlockIdx>, usize)> {
        let hits: Vec<u32> = keys.iter().take(count).map_while(|key| self.by_key.get(key).copied()).collect();
        let idle_hits = hits.iter().filter(|hit| self.blocks[**hit as usize].holders == 0).count();
        if count - hits.len() > self.free.len() + self.idle.len() - idle_hits {
            return None;
        }
        for &hit in &hits {
            self.hold(hit);
        }
        let mut row: Vec<BlockIdx> = hits.iter().map(|hit| BlockIdx(*hit)).collect();
        for _ in hits.len()..count {
            let fresh = self.fresh()?;
            self.blocks[fresh as usize].holders = 1;
            row.push(BlockIdx(fresh));
        }
        Some((row, hits.len()))
    }

    fn hold(&mut self, block: u32) {
        let state = &mut self.blocks[block as usize];
        if state.holders == 0 {
            self.idle.remove(&(state.released, block));
        }
        state.holders += 1;
    }

    fn fresh(&mut self) -> Option<u32> {
        if let Some(block) = self.free.pop() {
            return Some(block);
        }
        let (_, block) = self.idle.pop_first()?;
        if let Some(key) = self.blocks[block as usize].key.take() {
            self.by_key.remove(&key);
        }
        self.evicted += 1;
        Some(block)
    }

    /// A block was computed; others may share it. Where another block holds the same already, this one stays private.
    pub(super) fn publish(&mut self, block: BlockIdx, key: Key) {
        if let std::collections::hash_map::Entry::Vacant(entry) = self.by_key.entry(key) {
            entry.insert(block.0);
            self.blocks[block.at()].key = Some(key);
        }
    }

    /// A request is done with its row.
    pub(super) fn release(&mut self, row: &[BlockIdx]) {
        for block in row.iter().rev() {
            self.clock += 1;
            let state = &mut self.blocks[block.at()];
            state.holders -= 1;
            if state.holders == 0 {
                state.released = self.clock;
                if state.key.is_some() {
                    self.idle.insert((self.clock, block.0));
                } else {
                    self.free.push(block.0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_goes_first_and_of_it_the_end() {
        let mut cache = PrefixCache::new(4);
        let (old, _) = cache.take(&[], 2).unwrap();
        cache.publish(old[0], (1, 0));
        cache.publish(old[1], (1, 1));
        cache.release(&old);
        let (young, _) = cache.take(&[], 1).unwrap();
        cache.publish(young[0], (2, 0));
        cache.release(&young);
        // Two idle of the old, one idle of the young, one free.
        let (_, hits) = cache.take(&[(9, 9)], 2).unwrap();
        assert_eq!((hits, cache.evicted(), cache.held()), (0, 1, 2));
        let (_, hits) = cache.take(&[(1, 0), (1, 1)], 2).unwrap();
        assert_eq!(hits, 1, "the end of the old one was evicted, its beginning not");
        assert!(cache.take(&[], 1).is_none(), "all are held");
    }

    #[test]
    fn a_hit_is_not_counted_as_room_for_the_rest() {
        let mut cache = PrefixCache::new(2);
        let (row, _) = cache.take(&[], 1).unwrap();
        cache.publish(row[0], (1, 0));
        cache.release(&row);
        assert!(cache.take(&[(1, 0)], 3).is_none(), "one cached, one free, but three needed");
        assert_eq!(cache.take(&[(1, 0)], 2).unwrap().1, 1);
    }
}
