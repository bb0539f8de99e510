//! Runs the packs of a plan for one row of the output, as the kernels do: f32, one tile of n tokens
//! at a time, a partial in each slot, and a merge over the slots of the query: at once, or in the
//! rounds that the system prescribes. Partials that are stored in the element type of the batch are
//! rounded to it.

use std::ops::Range;

use crate::numerics::check::CheckedRow;
use crate::numerics::input::{HeadKv, Input};
use crate::numerics::state::{Partial, Running, merge};
use crate::plan::{LaunchKind, LaunchPlan, PlannedPack, PrefillChunk, PrefillTask};
use crate::units::{BlockIdx, QueryIdx};
use crate::workload::{Batch, Dtype, PartialForm};

/// Finds the pack or prefill task that writes a slot.
#[derive(Debug)]
pub(super) struct SlotOwners<'a> {
    plan: &'a LaunchPlan,
    /// Pack of each slot.
    owner: Vec<u32>,
    /// Rows of each query's prescribed merges, (round, row), in the order of launches.
    rows: Vec<Vec<(u32, u32)>>,
    /// How each slot is stored; see [`LaunchPlan::slot_forms`].
    forms: Vec<Option<PartialForm>>,
    /// Task of each prefill slot.
    prefill_owner: Vec<u32>,
}

impl<'a> SlotOwners<'a> {
    pub(super) fn new(plan: &'a LaunchPlan) -> Self {
        // A slot that no pack writes stays out of range and so gives a poisoned partial.
        let mut owner = vec![u32::MAX; plan.queries.len()];
        for (at, pack) in plan.packs.iter().enumerate() {
            for slot in pack.slots_begin..pack.slots_begin + pack.queries_len {
                owner[slot as usize] = at as u32;
            }
        }
        let mut prefill_owner = vec![u32::MAX; plan.prefill.slots as usize];
        for (at, task) in plan.prefill.tasks.iter().enumerate() {
            let begin = task.slots_begin.map_or(0..0, |slot| slot..slot + task.rows());
            begin.for_each(|slot| prefill_owner[slot as usize] = at as u32);
        }
        Self { plan, owner, rows: rows_of_queries(plan), forms: plan.slot_forms(), prefill_owner }
    }

    fn pack(&self, slot: u32) -> Option<&PlannedPack> {
        self.plan.packs.get(*self.owner.get(slot as usize)? as usize)
    }

    /// The task that writes the partial of `row` of a chunk into a slot.
    fn task(&self, slot: u32, chunk: &PrefillChunk, row: u32) -> Option<&PrefillTask> {
        let task = self.plan.prefill.tasks.get(*self.prefill_owner.get(slot as usize)? as usize)?;
        let right = task.query == chunk.query && slot - task.slots_begin? + task.rows_begin == row;
        right.then_some(task)
    }
}

/// The output of one row under the plan, `[d]`.
pub(super) fn plan_row(
    batch: &Batch,
    owners: &SlotOwners<'_>,
    input: &Input,
    kv: &HeadKv,
    row: &CheckedRow,
) -> Vec<f32> {
    let head_dim = batch.shape.head_dim as usize;
    let q = row.q(input);
    if let Some(at) = row.row {
        return merge(prefill_partials(batch, owners, (row.query, at), kv, &q).iter(), head_dim).o;
    }
    let query = row.query;
    let slots = owners.plan.merge.of(query);
    let mut partials: Vec<Partial> = slots
        .iter()
        .map(|slot| match owners.pack(*slot) {
            Some(pack) if owners.plan.queries[*slot as usize] == query => stored(
                partial(batch, (owners.plan, query), pack, kv, &q),
                owners.forms[*slot as usize],
                batch.shape.dtype,
            ),
            // Somebody else's slot, or nobody's: what a kernel would read there is garbage.
            _ => garbage(head_dim),
        })
        .collect();
    match (partials.as_mut_slice(), owners.plan.merge.rounds.is_empty()) {
        (partials, true) => merge(partials.iter(), head_dim).o,
        // A pack that nothing merges writes the output itself.
        ([only], false) if owners.rows[query.at()].is_empty() => std::mem::take(&mut only.o),
        (partials, false) => in_rounds(owners, query, slots, partials, batch.shape.dtype).o,
    }
}

/// Merges a query's partials by its rows; the row that finishes gives the output.
fn in_rounds(
    owners: &SlotOwners<'_>,
    query: QueryIdx,
    slots: &[u32],
    partials: &mut [Partial],
    dtype: Dtype,
) -> Partial {
    let head_dim = partials.first().map_or(0, |partial| partial.o.len());
    for (round, row) in &owners.rows[query.at()] {
        let round = &owners.plan.merge.rounds[*round as usize];
        let places: Option<Vec<usize>> =
            round.row(*row as usize).iter().map(|slot| slots.iter().position(|own| own == slot)).collect();
        // A row that reads another query's slot gives what a kernel would read there.
        let Some(places) = places else { return garbage(head_dim) };
        let merged = merge(places.iter().map(|at| &partials[*at]), head_dim);
        if round.finishes[*row as usize] {
            return merged;
        }
        partials[places[0]] = stored(merged, Some(round.writes), dtype);
    }
    garbage(head_dim)
}

fn garbage(head_dim: usize) -> Partial {
    Partial { o: vec![f32::NAN; head_dim], lse: f32::NAN }
}

/// A partial as it comes back from where it was stored.
fn stored(mut partial: Partial, form: Option<PartialForm>, dtype: Dtype) -> Partial {
    if form == Some(PartialForm::Native) {
        partial.o.iter_mut().for_each(|o| *o = dtype.round(*o));
    }
    partial
}

/// Rows by the query of their first slot, in the order of launches.
fn rows_of_queries(plan: &LaunchPlan) -> Vec<Vec<(u32, u32)>> {
    let mut rows = vec![Vec::new(); plan.merge.starts.len().saturating_sub(1)];
    for launch in &plan.launches {
        let LaunchKind::MergeRound(at) = launch.kind else { continue };
        let Some(round) = plan.merge.rounds.get(at as usize) else { continue };
        for row in 0..round.rows() {
            let query = round.row(row).first().and_then(|slot| plan.queries.get(*slot as usize));
            if let Some(of) = query.and_then(|query| rows.get_mut(query.at())) {
                of.push((at, row as u32));
            }
        }
    }
    rows
}

/// The partials of one prefill row: of the one task that has it, or of those that write its slots.
fn prefill_partials(
    batch: &Batch,
    owners: &SlotOwners<'_>,
    (query, row): (QueryIdx, u32),
    kv: &HeadKv,
    q: &[f32],
) -> Vec<Partial> {
    // Somebody else's slot, or nobody's: what a kernel would read there is garbage.
    let poison = || garbage(q.len());
    let prefill = &owners.plan.prefill;
    let Some(chunk) = prefill.chunks.iter().find(|chunk| chunk.query == query) else { return vec![poison()] };
    let one = |task: &PrefillTask| {
        let seen = task.seen_by(row);
        run(batch, batch.tables().row(query), seen, task.tile.n, kv, q)
    };
    if chunk.splits > 1 {
        return chunk.slots_of(row).map(|slot| owners.task(slot, chunk, row).map_or_else(poison, one)).collect();
    }
    let tasks = &prefill.tasks[chunk.tasks_begin as usize..chunk.tasks_end as usize];
    let own = tasks.iter().filter(|task| (task.rows_begin..task.rows_end).contains(&row));
    own.map(one).collect()
}

/// The partial of one query row over one pack. Blocks come from the pack's first query, as on the
/// GPU, so a pack whose queries do not share them gives a wrong result here too. In a subtree pack a row sees what
/// is its own, here in the order of its tokens.
fn partial(
    batch: &Batch,
    (plan, query): (&LaunchPlan, QueryIdx),
    pack: &PlannedPack,
    kv: &HeadKv,
    q: &[f32],
) -> Partial {
    if pack.is_subtree(batch.shape.block_size) {
        let begin = pack.blocks_begin * batch.shape.block_size;
        let kv_end = batch.request(query).kv.0 as u32;
        return run(batch, batch.tables().row(query), begin..kv_end, pack.tile.n, kv, q);
    }
    let first_query = plan.queries[pack.slots_begin as usize];
    let blocks = &batch.tables().row(first_query)[pack.blocks_begin as usize..pack.blocks_end as usize];
    run(batch, blocks, 0..pack.tokens.0 as u32, pack.tile.n, kv, q)
}

/// One query row over a range of the tokens of `blocks`, `step` tokens at a time.
fn run(batch: &Batch, blocks: &[BlockIdx], range: Range<u32>, step: u32, kv: &HeadKv, q: &[f32]) -> Partial {
    let block_size = batch.shape.block_size;
    let place = |token: u32| (blocks[(token / block_size) as usize], token % block_size);
    let scale = 1.0 / (batch.shape.head_dim as f32).sqrt();
    let mut running = Running::new(q.len());
    let mut begin = range.start;
    let mut scores = Vec::with_capacity(step as usize);
    while begin < range.end {
        let end = range.end.min(begin + step);
        scores.clear();
        scores.extend((begin..end).map(|token| {
            let (block, at) = place(token);
            dot(kv.key(block, at), q) * scale
        }));
        running.tile(
            &scores,
            (begin..end).map(|token| {
                let (block, at) = place(token);
                kv.value(block, at)
            }),
        );
        begin = end;
    }
    running.finish()
}

/// A dot product in eight f32 lanes, as vector units sum.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 8];
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a * b;
        }
    }
    lanes.iter().sum()
}
