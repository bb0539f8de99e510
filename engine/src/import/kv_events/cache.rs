//! The blocks that a prefix cache holds, by its events.

use rustc_hash::{FxHashMap, FxHashSet};

use super::wire::{Event, EventBatch, Hash};
use crate::units::counted;

/// A cached block.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// Number that no other block ever has; what a page id is.
    page: u64,
    parent: Option<u64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Cache {
    blocks: FxHashMap<Hash, Block>,
    next_page: u64,
    block_size: Option<u32>,
    begin: Option<f64>,
    rank: Option<i64>,
    last: Option<u64>,
    lost: u64,
    of_other_ranks: u64,
    elsewhere: u64,
    unknown: u64,
    orphans: u64,
    restarted: bool,
}

impl Cache {
    /// Takes a message, unless it came later than asked for, `until` in ms after the first.
    pub(super) fn take(&mut self, sequence: u64, batch: EventBatch, until: Option<f64>) -> Result<(), String> {
        let begin = *self.begin.get_or_insert(batch.ts);
        if until.is_some_and(|until| (batch.ts - begin) * 1e3 > until) {
            return Ok(());
        }
        if *self.rank.get_or_insert(batch.rank) != batch.rank {
            self.of_other_ranks += 1;
            return Ok(());
        }
        match self.last {
            Some(last) if sequence > last + 1 => {
                self.lost += sequence - last - 1;
            }
            // A server that starts anew counts from 0, with an empty cache.
            Some(last) if sequence <= last => {
                self.restarted = true;
                self.blocks.clear();
            }
            _ => {}
        }
        self.last = Some(sequence);
        batch.events.into_iter().try_for_each(|event| self.apply(event))
    }

    fn apply(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Stored { elsewhere: true, .. } | Event::Removed { elsewhere: true, .. } => self.elsewhere += 1,
            // Further groups of a hybrid model hold other layers of the same tokens.
            Event::Stored { group: 1.., .. } | Event::Removed { group: 1.., .. } => {}
            Event::Stored { hashes, parent, block_size, .. } => {
                let own = *self.block_size.get_or_insert(block_size);
                if own != block_size {
                    return Err(format!("a block has {block_size} tokens, but {own} in the events before"));
                }
                self.store(hashes, parent.as_ref());
            }
            Event::Removed { hashes, .. } => {
                for hash in hashes {
                    self.blocks.remove(&hash);
                }
            }
            Event::Cleared => self.blocks.clear(),
            Event::Unknown => self.unknown += 1,
        }
        Ok(())
    }

    fn store(&mut self, hashes: Vec<Hash>, parent: Option<&Hash>) {
        let mut before = parent.and_then(|parent| self.blocks.get(parent)).map(|block| block.page);
        self.orphans += u64::from(parent.is_some() && before.is_none());
        for hash in hashes {
            let fresh = self.next_page;
            let block = self.blocks.entry(hash).or_insert(Block { page: fresh, parent: before });
            self.next_page += u64::from(block.page == fresh);
            before = Some(block.page);
        }
    }

    /// Tokens of a block; `None` while nothing is cached.
    pub(super) fn block_size(&self) -> Option<u32> {
        self.block_size.filter(|_| !self.blocks.is_empty())
    }

    /// Page of a cached block.
    pub(super) fn page(&self, hash: &Hash) -> Option<u64> {
        self.blocks.get(hash).map(|block| block.page)
    }

    /// For each block that no other continues, in the order in which they came: the pages from the root to it.
    pub(super) fn leaves(&self) -> Vec<Vec<u64>> {
        let parents: FxHashMap<u64, Option<u64>> =
            self.blocks.values().map(|block| (block.page, block.parent)).collect();
        let inner: FxHashSet<u64> = self.blocks.values().filter_map(|block| block.parent).collect();
        let mut leaves: Vec<u64> = parents.keys().copied().filter(|page| !inner.contains(page)).collect();
        leaves.sort_unstable();
        let path = |leaf: u64| {
            let mut path = vec![leaf];
            let mut at = leaf;
            // A block whose parent is gone is where its path begins.
            while let Some(parent) = parents[&at].filter(|parent| parents.contains_key(parent)) {
                path.push(parent);
                at = parent;
            }
            path.reverse();
            path
        };
        leaves.into_iter().map(path).collect()
    }

    /// What the events leave open.
    pub(super) fn notes(&self, messages: u64) -> Vec<String> {
        let mut notes = vec![format!(
            "{} of {}, {} cached",
            counted(messages, "message"),
            counted(self.next_page, "stored block"),
            counted(self.blocks.len() as u64, "block")
        )];
        let mut note = |count: u64, text: &str, noun: &str| {
            if count > 0 {
                notes.push(format!("{} {text}", counted(count, noun)));
            }
        };
        note(self.lost, "lost, by gaps of their sequence; the cache may hold more or less", "message");
        note(self.of_other_ranks, "of other data-parallel ranks left out", "message");
        note(self.elsewhere, "about memory other than the GPU's left out", "event");
        note(self.unknown, "of unknown type passed over", "event");
        note(self.orphans, "after a parent that is not cached; they are taken as beginnings", "run of blocks");
        if self.restarted {
            notes.push("the sequence began anew; the cache was taken as empty then".to_owned());
        }
        notes
    }
}
