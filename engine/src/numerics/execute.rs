//! Runs the packs of a plan for one row of the output, as the kernels do: f32, one tile of n tokens
//! at a time, a partial in each slot, and a merge over the slots of the query.

use crate::numerics::input::{HeadKv, Input};
use crate::numerics::state::{Partial, Running, merge};
use crate::plan::{LaunchPlan, PlannedPack};
use crate::units::QueryIdx;
use crate::workload::Batch;

/// Finds the pack that writes a slot.
#[derive(Debug)]
pub(super) struct SlotOwners<'a> {
    plan: &'a LaunchPlan,
    /// Pack of each slot.
    owner: Vec<u32>,
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
        Self { plan, owner }
    }

    fn pack(&self, slot: u32) -> Option<&PlannedPack> {
        self.plan.packs.get(*self.owner.get(slot as usize)? as usize)
    }
}

/// The output row of one query and query head under the plan, `[d]`.
pub(super) fn plan_row(
    batch: &Batch,
    owners: &SlotOwners<'_>,
    input: &Input,
    kv: &HeadKv,
    query: QueryIdx,
    head: u32,
) -> Vec<f32> {
    let head_dim = batch.shape.head_dim as usize;
    let q = input.query(query, head);
    let slots = owners.plan.merge.of(query);
    let partials: Vec<Partial> = slots
        .iter()
        .map(|slot| match owners.pack(*slot) {
            Some(pack) if owners.plan.queries[*slot as usize] == query => partial(batch, owners.plan, pack, kv, &q),
            // Somebody else's slot, or nobody's: what a kernel would read there is garbage.
            _ => Partial { o: vec![f32::NAN; head_dim], lse: f32::NAN },
        })
        .collect();
    merge(partials.iter(), head_dim).o
}

/// The partial of one query row over one pack. Blocks come from the pack's first query, as on the
/// GPU, so a pack whose queries do not share them gives a wrong result here too.
fn partial(batch: &Batch, plan: &LaunchPlan, pack: &PlannedPack, kv: &HeadKv, q: &[f32]) -> Partial {
    let block_size = batch.shape.block_size;
    let first_query = plan.queries[pack.slots_begin as usize];
    let blocks = &batch.tables().row(first_query)[pack.blocks_begin as usize..pack.blocks_end as usize];
    let place = |token: u32| (blocks[(token / block_size) as usize], token % block_size);
    let scale = 1.0 / (batch.shape.head_dim as f32).sqrt();
    let tokens = pack.tokens.0 as u32;
    let mut running = Running::new(q.len());
    let mut begin = 0;
    let mut scores = Vec::with_capacity(pack.tile.n as usize);
    while begin < tokens {
        let end = tokens.min(begin + pack.tile.n);
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
