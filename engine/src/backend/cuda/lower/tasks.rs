//! Prefill tasks in the kernels' terms, and packs that run as such.

use kernels::{MergeRows, PrefillSpec, PrefillTask, RowSlots, TaskRows};

use super::{Lowering, TaskOf};
use crate::backend::cuda::lower::gathers;
use crate::capture::Warning;
use crate::plan::{Launch, LaunchKind, LaunchPlan, PlannedPack};

/// Rows of a pack that runs as prefill tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// Its queries, once a query head.
    OfQueries,
    /// The query heads of a KV head of all its queries.
    OfHeads,
}

/// A pack that runs as prefill tasks without a mask.
pub(super) struct Gathered {
    pub(super) pack: PlannedPack,
    /// Its blocks in the kernels' list.
    pub(super) block_begin: u32,
    pub(super) rows: Rows,
}

impl Gathered {
    /// Its tasks: as many queries as fit, of which all or none are merged, since a task writes outputs or partials.
    /// `merged` says so of each slot.
    pub(super) fn tasks(&self, group: u32, merged: &[bool]) -> Vec<PrefillTask> {
        let merged = |slot: u32| merged.get(slot as usize).is_some_and(|merged| *merged);
        let most = match self.rows {
            Rows::OfQueries => PrefillSpec::ROWS,
            Rows::OfHeads => PrefillSpec::ROWS / group.max(1),
        };
        let (mut tasks, end) = (Vec::new(), self.pack.slots_begin + self.pack.queries_len);
        let mut begin = self.pack.slots_begin;
        while begin < end {
            let alike = (begin..end.min(begin + most.max(1))).take_while(|slot| merged(*slot) == merged(begin));
            let count = alike.count() as u32;
            tasks.push(self.task(begin, count, merged(begin), group));
            begin += count;
        }
        tasks
    }

    /// Queries of `count` slots from `begin` on; a slot is also a query's place in the list of queries.
    fn task(&self, begin: u32, count: u32, merged: bool, group: u32) -> PrefillTask {
        let tokens = self.pack.tokens.0 as u32;
        let folded = self.rows == Rows::OfHeads;
        PrefillTask {
            rows: TaskRows::Listed(begin),
            num_rows: if folded { count * group } else { count },
            folded,
            block_begin: self.block_begin,
            kv_begin: 0,
            kv_end: tokens,
            position: tokens,
            slots: merged.then_some(RowSlots { begin, step: 1 }),
        }
    }
}

impl Lowering<'_> {
    /// Adds the blocks of all chunks to the list.
    pub(super) fn chunk_blocks(&mut self) {
        for chunk in &self.plan.prefill.chunks {
            self.chunk_blocks.push(self.lowered.block_ids.len() as u32);
            let row = self.batch.tables().row(chunk.query);
            self.lowered.block_ids.extend(row.iter().map(|block| block.0));
        }
    }

    /// Prefill tasks of a launch. Slots of a row follow each other here, so that their merge needs no list: row r of
    /// split s of a chunk with n splits has `r · n + s` of the chunk's.
    pub(super) fn prefill_tasks(&mut self, launch: &Launch) -> Vec<u32> {
        let (start, end) = launch.kind.tasks();
        let prefill = &self.plan.prefill;
        let mut first_row = self.plan.merge.starts.len() as u32 - 1;
        let mut numbers = Vec::new();
        for (at, chunk) in prefill.chunks.iter().enumerate() {
            for number in chunk.tasks_begin.max(start)..chunk.tasks_end.min(end) {
                let task = &prefill.tasks[number as usize];
                let slots = task.slots_begin.map(|slot| {
                    let split = (slot - chunk.slots_begin) / chunk.rows.max(1);
                    let first = self.first_slot(chunk.slots_begin, chunk.splits, task.rows_begin);
                    RowSlots { begin: first + split, step: chunk.splits }
                });
                let heads = self.plan.heads_of_prefill(launch);
                let task = PrefillTask {
                    rows: TaskRows::From(first_row + task.rows_begin),
                    num_rows: task.rows().saturating_mul(heads),
                    folded: heads > 1,
                    block_begin: self.chunk_blocks[at],
                    kv_begin: task.kv_begin,
                    kv_end: task.kv_end,
                    position: task.position,
                    slots,
                };
                numbers.push(self.push_task(task, TaskOf::Prefill(number)));
            }
            first_row += chunk.rows;
        }
        numbers
    }

    /// The first of a row's slots.
    fn first_slot(&self, chunk_begin: u32, splits: u32, row: u32) -> u32 {
        self.plan.queries.len() as u32 + chunk_begin + row * splits
    }

    /// The merge of all rows of split chunks.
    pub(super) fn prefill_merge(&self) -> MergeRows {
        let mut rows = MergeRows::default();
        let mut first_row = self.plan.merge.starts.len() as u32 - 1;
        for chunk in &self.plan.prefill.chunks {
            for row in (0..chunk.rows).filter(|_| chunk.splits > 1) {
                let first = self.first_slot(chunk.slots_begin, chunk.splits, row);
                let slots: Vec<u32> = (first..first + chunk.splits).collect();
                rows.push(&slots, first_row + row);
            }
            first_row += chunk.rows;
        }
        rows
    }
}

/// FlashAttention's prefill tiles, and packs of decodes with many rows or with a CTA a query head, run on our prefill
/// kernel. What the plan itself puts on it is no difference.
pub(super) fn other_kernel(plan: &LaunchPlan) -> Option<Warning> {
    let own = PrefillSpec::ROWS;
    let of_systems =
        |launch: &&Launch| !matches!(launch.kind, LaunchKind::Hybrid(_)) && gathers(plan, launch).is_some();
    let gathered = plan.launches.iter().filter(of_systems);
    let packs: u32 = gathered.map(|launch| launch.packs_end - launch.packs_begin).sum();
    let planned = |launch: &Launch| launch.kind.is_prefill_queue() || matches!(launch.kind, LaunchKind::Hybrid(_));
    let others = plan.launches.iter().filter(|launch| !planned(launch));
    let tile = others.flat_map(|launch| plan.tasks_of(launch)).map(|task| task.tile).next();
    let what = match (tile, packs) {
        (None, 0) => return None,
        (Some(tile), 0) => format!("prefill of tile {tile}"),
        (None, packs) => format!("{packs} packs with more rows than a decode tile, or with a CTA a query head,"),
        (Some(tile), packs) => format!("prefill of tile {tile} and {packs} packs"),
    };
    Some(Warning { text: format!("{what} ran on the prefill kernel, whose CTAs take {own} rows") })
}
