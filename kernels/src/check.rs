//! The one place where the arrays of a plan are checked, so that no launch can read or write out of bounds, and so that
//! each row and each partial is written once and merged where it belongs.

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::error::KernelError;
use crate::masks::seen_by_some;
use crate::plan::{
    CtaRoles, DecodeShape, HybridWork, Launch, MergeRows, PackTask, PlanArrays, PrefillTask, TaskRows, Tile, Work,
};
use crate::spec::{HybridSpec, PrefillSpec, Roles};
use crate::tails::{MOST_TOKENS, by_some, count_seen, live_tokens};

/// No kernel takes more tokens at a time.
const LARGEST_TILE: u32 = 128;

/// So that sums of positions stay within 32 bits.
const LARGEST_POSITION: u32 = 1 << 30;

/// What is wrong, for whom to say where.
type Wrong = String;

impl PlanArrays<'_> {
    /// Checks every index against the array it points into, that each slot is written once and merged at the row that
    /// it belongs to, and that every pack and task is launched once.
    ///
    /// # Errors
    /// [`KernelError::Plan`] with what is wrong.
    pub fn check(&self, shape: &DecodeShape, blocks_in_cache: u32) -> Result<(), KernelError> {
        self.find_wrong(shape, blocks_in_cache).map_err(KernelError::Plan)
    }

    fn find_wrong(&self, shape: &DecodeShape, blocks_in_cache: u32) -> Result<(), Wrong> {
        let mut owners = self.query_slots()?;
        let mut written = Written { slots: vec![false; owners.len()], rows: vec![false; self.rows() as usize] };
        for (number, pack) in self.packs.iter().enumerate() {
            let Some(tile) = self.tiles.get(pack.tile as usize) else {
                return Err(format!("pack {number} names tile {} of {}", pack.tile, self.tiles.len()));
            };
            if pack.num_queries == 0 || pack.num_queries * shape.group() > tile.m {
                return Err(format!("pack {number}: {} queries do not fit {} rows", pack.num_queries, tile.m));
            }
            let queries = slice(self.query_index, pack.query_begin, pack.num_queries);
            let queries = queries.ok_or_else(|| format!("pack {number} runs past the query list"))?;
            let end = pack.block_begin.saturating_add(pack.kv_tokens.div_ceil(shape.block_size));
            self.check_blocks((pack.block_begin, end), blocks_in_cache)
                .map_err(|why| format!("pack {number} {why}"))?;
            self.check_masks(pack, shape, blocks_in_cache).map_err(|why| format!("pack {number} {why}"))?;
            for (slot, query) in (pack.slot_begin..).zip(queries) {
                written.slot(&owners, slot, *query).map_err(|why| format!("pack {number} {why}"))?;
            }
        }
        for (number, task) in self.tasks.iter().enumerate() {
            self.check_task(task, shape, blocks_in_cache, &mut owners, &mut written)
                .map_err(|why| format!("prefill task {number} {why}"))?;
        }
        if let Some(slot) = written.slots.iter().position(|w| !w) {
            return Err(format!("nothing writes slot {slot}"));
        }
        self.check_launches()?;
        for rows in self.launches.iter().filter_map(Launch::merge) {
            check_merge(rows, &owners, &mut written)?;
        }
        match written.rows.iter().skip(self.num_queries as usize).position(|w| !w) {
            Some(row) => Err(format!("nothing computes prefill row {row}")),
            None => Ok(()),
        }
    }

    /// The row of each slot, from the merge lists; those of prefill rows are found with their tasks.
    fn query_slots(&self) -> Result<Vec<u32>, Wrong> {
        if self.merge_offsets.len() != self.num_queries as usize + 1 {
            return Err(format!("{} merge offsets for {} queries", self.merge_offsets.len(), self.num_queries));
        }
        let mut owners = vec![u32::MAX; self.num_slots as usize];
        for (query, run) in self.merge_offsets.windows(2).enumerate() {
            let Some(slots) = self.merge_slots.get(run[0] as usize..run[1] as usize) else {
                return Err(format!("query {query} merges {}..{} of {}", run[0], run[1], self.merge_slots.len()));
            };
            if slots.is_empty() && self.prefill_rows == 0 {
                return Err(format!("query {query} is in no pack; give it one with 0 tokens"));
            }
            for &slot in slots {
                match owners.get_mut(slot as usize) {
                    Some(owner) if *owner == u32::MAX => *owner = query as u32,
                    _ => return Err(format!("slot {slot} of {} is merged twice or does not exist", self.num_slots)),
                }
            }
        }
        owners.resize((self.num_slots + self.prefill_slots) as usize, u32::MAX);
        Ok(owners)
    }

    fn check_task(
        &self,
        task: &PrefillTask,
        shape: &DecodeShape,
        blocks_in_cache: u32,
        owners: &mut [u32],
        written: &mut Written,
    ) -> Result<(), Wrong> {
        if task.num_rows == 0 || task.num_rows > PrefillSpec::ROWS {
            return Err(format!("has {} rows; 1 to {} fit", task.num_rows, PrefillSpec::ROWS));
        }
        let unit = shape.block_size.min(LARGEST_TILE);
        if task.kv_begin > task.kv_end || (task.kv_begin < task.kv_end && !task.kv_begin.is_multiple_of(unit)) {
            return Err(format!("reads tokens {}..{}; they begin at a multiple of {unit}", task.kv_begin, task.kv_end));
        }
        if task.kv_end.max(task.position) > LARGEST_POSITION {
            return Err(format!("reaches token {}; {LARGEST_POSITION} is the last", task.kv_end.max(task.position)));
        }
        let blocks = (task.kv_begin / shape.block_size, task.kv_end.div_ceil(shape.block_size));
        let blocks = (task.block_begin.saturating_add(blocks.0), task.block_begin.saturating_add(blocks.1));
        self.check_blocks(blocks, blocks_in_cache)?;
        let folds = if task.folded { shape.group() } else { 1 };
        if !task.num_rows.is_multiple_of(folds) {
            return Err(format!("folds {} rows of {folds} heads", task.num_rows));
        }
        for nth in 0..task.num_rows / folds {
            let row = self.row(task, nth).filter(|row| *row < self.rows());
            let row = row.ok_or_else(|| format!("has a row past the {} there are", self.rows()))?;
            match task.slots {
                None => {
                    written.row(row)?;
                    // A query's only partial is its output.
                    for slot in self.slots_of(row) {
                        written.slot(owners, *slot, row)?;
                    }
                }
                Some(slots) => {
                    let slot = u64::from(slots.begin) + u64::from(nth) * u64::from(slots.step);
                    let slot = u32::try_from(slot).map_err(|_| "writes to a slot past the last".to_owned())?;
                    // A prefill row's slot belongs to whoever writes it.
                    if let Some(owner) = owners.get_mut(slot as usize).filter(|_| slot >= self.num_slots) {
                        *owner = row;
                    }
                    written.slot(owners, slot, row)?;
                }
            }
        }
        Ok(())
    }

    /// Row (or query, where heads are folded) `nth` of a task.
    fn row(&self, task: &PrefillTask, nth: u32) -> Option<u32> {
        match task.rows {
            TaskRows::From(row) => row.checked_add(nth),
            TaskRows::Listed(at) => self.query_index.get(at.checked_add(nth)? as usize).copied(),
        }
    }

    /// Slots of a query; none of a prefill row.
    fn slots_of(&self, row: u32) -> &[u32] {
        let run = self.merge_offsets.get(row as usize).zip(self.merge_offsets.get(row as usize + 1));
        run.and_then(|(begin, end)| self.merge_slots.get(*begin as usize..*end as usize)).unwrap_or(&[])
    }

    fn check_blocks(&self, (begin, end): (u32, u32), blocks_in_cache: u32) -> Result<(), Wrong> {
        let blocks = self.block_ids.get(begin.min(end) as usize..end as usize);
        match blocks.ok_or("runs past the block list")?.iter().find(|block| **block >= blocks_in_cache) {
            Some(block) => Err(format!("reads block {block} of {blocks_in_cache}")),
            None => Ok(()),
        }
    }

    /// Masks are there for each tile, say of each token whether a query sees it, and leave each query a token of the first.
    fn check_masks(&self, pack: &PackTask, shape: &DecodeShape, blocks_in_cache: u32) -> Result<(), Wrong> {
        let tile = self.tiles.get(pack.tile as usize).copied().filter(Tile::takes_masks);
        let Some(begin) = pack.masks else {
            let needs = tile == Some(Tile::TALL);
            return if needs { Err("has no masks, without which there is no tile 128x128".to_owned()) } else { Ok(()) };
        };
        let Some(of_pack) = tile.filter(|_| shape.head_dim <= Tile::MASKED_DIM) else {
            let most = Tile::MASKED_DIM;
            return Err(format!("has masks; those of tiles 64x64 and 128x128 do, up to head dimension {most}"));
        };
        let words = self.masks.get(begin as usize..(begin as usize).saturating_add(pack.mask_words(of_pack)));
        let words = words.ok_or("has masks past the last")?;
        let (queries, seen) = (pack.num_queries, of_pack.seen(words, pack));
        if of_pack.masks(&seen, queries, shape.group()) != words {
            return Err("has masks that say something else of a tile than its queries see".to_owned());
        }
        for (place, each) in (0..).zip(seen.chunks(queries as usize)) {
            if seen_by_some(each) & !pack.tokens_of_mask(place) != 0 {
                return Err(format!("sees more than there is of the 64 tokens at place {place}"));
            }
            if place == 0 && each.contains(&0) {
                return Err("has a query that sees none of its first 64 tokens".to_owned());
            }
        }
        if u64::from(blocks_in_cache) * u64::from(shape.block_size) > MOST_TOKENS {
            return Err(format!("has masks over a cache of more than {MOST_TOKENS} tokens"));
        }
        if !pack.kv_tokens.is_multiple_of(shape.block_size) {
            return Err(format!("has masks for {} tokens, no whole blocks of {}", pack.kv_tokens, shape.block_size));
        }
        check_blocks_of_masks(&seen, (queries, shape.block_size))
    }

    fn check_one_tile(&self, packs: &[u32]) -> Result<(), Wrong> {
        let tile = |pack: &u32| self.packs[*pack as usize].tile;
        if packs.windows(2).any(|two| tile(&two[0]) != tile(&two[1])) {
            return Err("has packs of several tiles".to_owned());
        }
        Ok(())
    }

    /// Its CTAs have one decode kernel, and rows of prefill chunks alone.
    fn check_hybrid(&self, hybrid: &HybridWork) -> Result<(), Wrong> {
        self.check_one_tile(&hybrid.packs)?;
        let Some(pack) = hybrid.packs.first() else { return Err("has no packs beside its prefill".to_owned()) };
        let together = self.tiles[self.packs[*pack as usize].tile as usize].heads_together();
        if hybrid.tasks.is_empty() || hybrid.heads == 0 || hybrid.heads > together {
            return Err(format!(
                "has {} tasks, and {} KV heads to a CTA that takes {together}",
                hybrid.tasks.len(),
                hybrid.heads
            ));
        }
        let most = HybridSpec::rows_of(Roles::from(hybrid.roles));
        let tasks = hybrid.tasks.iter().map(|task| &self.tasks[*task as usize]);
        for task in tasks {
            if !matches!(task.rows, TaskRows::From(_)) || task.folded || task.num_rows > most {
                return Err(format!(
                    "has a task of {} rows; its CTAs take {most} rows of a chunk and a query head",
                    task.num_rows
                ));
            }
        }
        match hybrid.roles {
            CtaRoles::Tickets { period, prefill } if period == 0 || prefill > period => {
                Err(format!("gives {prefill} of {period} tickets to prefill"))
            }
            _ => Ok(()),
        }
    }

    /// Every pack and every task is in one launch, and launches wait for earlier ones.
    fn check_launches(&self) -> Result<(), Wrong> {
        let (mut packs, mut tasks) = (vec![false; self.packs.len()], vec![false; self.tasks.len()]);
        for (at, launch) in self.launches.iter().enumerate() {
            let once = |all: &mut Vec<bool>, some: &[u32]| {
                let free = |one: &u32| all.get_mut(*one as usize).is_some_and(|taken| !std::mem::replace(taken, true));
                if some.iter().all(free) {
                    Ok(())
                } else {
                    Err(format!("launch {at} takes what is not there, or taken"))
                }
            };
            match &launch.work {
                Work::Packs(some) => {
                    once(&mut packs, some)?;
                    self.check_one_tile(some).map_err(|why| format!("launch {at} {why}"))?;
                }
                Work::Hybrid(hybrid) => {
                    once(&mut packs, &hybrid.packs)?;
                    once(&mut tasks, &hybrid.tasks)?;
                    self.check_hybrid(hybrid).map_err(|why| format!("launch {at} {why}"))?;
                }
                Work::Queue(some) => once(&mut packs, some)?,
                Work::Prefill(some) => once(&mut tasks, some)?,
                Work::Merge(_) => {}
            }
            if launch.after.iter().any(|before| *before as usize >= at) {
                return Err(format!("launch {at} waits for a later one"));
            }
        }
        match (packs.iter().position(|taken| !taken), tasks.iter().position(|taken| !taken)) {
            (Some(pack), _) => Err(format!("no launch has pack {pack}")),
            (_, Some(task)) => Err(format!("no launch has prefill task {task}")),
            _ => Ok(()),
        }
    }
}

/// What has been written so far.
struct Written {
    slots: Vec<bool>,
    rows: Vec<bool>,
}

impl Written {
    fn slot(&mut self, owners: &[u32], slot: u32, row: u32) -> Result<(), Wrong> {
        match (owners.get(slot as usize), self.slots.get_mut(slot as usize)) {
            (Some(owner), Some(written)) if *owner == row && !*written => {
                *written = true;
                Ok(())
            }
            _ => Err(format!("writes slot {slot}, which is not that of its row {row}")),
        }
    }

    fn row(&mut self, row: u32) -> Result<(), Wrong> {
        match self.rows.get_mut(row as usize) {
            Some(written) if !*written => {
                *written = true;
                Ok(())
            }
            _ => Err(format!("writes row {row} where something else is written")),
        }
    }
}

/// What some query sees of a block are its first tokens, and each that sees any of it sees all of these.
fn check_blocks_of_masks(seen: &[u64], (queries, block_size): (u32, u32)) -> Result<(), Wrong> {
    let by_some = by_some(seen, queries);
    let live: Vec<Range<u32>> = (0..)
        .step_by(block_size as usize)
        .zip(live_tokens(&by_some, block_size))
        .map(|(begin, count)| begin..begin + count)
        .collect();
    if let Some((block, live)) = (0..).zip(&live).find(|(_, live)| count_seen(&by_some, live) != live.len() as u32) {
        return Err(format!("has block {block}, of which queries see {} tokens, but not the first", live.len()));
    }
    for query in 0..queries as usize {
        let own: Vec<u64> = seen.iter().skip(query).step_by(queries as usize).copied().collect();
        for (block, live) in live.iter().enumerate() {
            let count = count_seen(&own, live) as usize;
            if count != 0 && count != live.len() {
                return Err(format!("has a query that sees {count} of {} tokens of block {block}", live.len()));
            }
        }
    }
    Ok(())
}

fn check_merge(rows: &MergeRows, owners: &[u32], written: &mut Written) -> Result<(), Wrong> {
    if rows.offsets.len() != rows.targets.len() + 1 {
        return Err(format!("merge row {} has no target", rows.targets.len()));
    }
    for (at, (slots, target)) in rows.rows().enumerate() {
        let bad = |what: &str| Err(format!("merge row {at} {what}"));
        let own = |slot: u32| owners.get(slot as usize).copied();
        let Some(row) = slots.first().and_then(|slot| own(*slot)) else { return bad("joins nothing") };
        let to_slot = target & MergeRows::TO_SLOT != 0;
        let to = if to_slot { own(target & !MergeRows::TO_SLOT) } else { Some(target) };
        if to != Some(row) || slots.iter().any(|slot| own(*slot) != Some(row)) {
            return bad("joins partials of several rows, or gives them to another");
        }
        if !to_slot {
            written.row(row).map_err(|why| format!("merge row {at} {why}"))?;
        }
    }
    Ok(())
}

fn slice(of: &[u32], begin: u32, len: u32) -> Option<&[u32]> {
    of.get(begin as usize..(begin as usize).checked_add(len as usize)?)
}
