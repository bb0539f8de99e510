//! The main loops of merges, and which partials they find in L2.

use std::ops::Range;

use super::Simulation;
use crate::backend::sim::cost::MainLoop;
use crate::plan::{LaunchKind, LaunchPlan};
use crate::units::{PackIdx, QueryIdx};

impl Simulation<'_> {
    /// What a CTA of a merge launch does; `None` for a launch of another kind.
    pub(super) fn merge_loop(&self, kind: LaunchKind, cta: u32) -> Option<MainLoop> {
        Some(match kind {
            LaunchKind::Merge => {
                let slots = self.plan.merge.of(QueryIdx(self.merged[cta as usize]));
                self.model.merge_cta(slots.len() as u32, self.partials_in_l2(slots, self.all_heads()))
            }
            LaunchKind::MergeRound(round) => {
                let (round, row) = (&self.plan.merge.rounds[round as usize], cta as usize);
                self.model.round_cta(round, row, self.partials_in_l2(round.row(row), self.all_heads()))
            }
            LaunchKind::MergePrefill => self.model.merge_cta(self.plan.prefill.partials_of_merged(cta), 1.0),
            _ => return None,
        })
    }

    /// Bytes that have come through L2 from or for HBM so far.
    pub(super) fn through(&self) -> f64 {
        self.dram_bytes + self.dram_written
    }

    fn all_heads(&self) -> Range<u32> {
        0..self.plan.shape.kv_heads
    }

    /// Fraction of the partials in `slots` that L2 still holds, of these KV heads.
    pub(super) fn partials_in_l2(&self, slots: &[u32], heads: Range<u32>) -> f64 {
        let (now, all) = (self.through(), self.plan.shape.kv_heads as usize);
        let stamps = |slot: &u32| {
            let first = self.pack_of_slot[*slot as usize].at() * all;
            &self.stored[first + heads.start as usize..first + heads.end as usize]
        };
        let held: f64 = slots.iter().flat_map(stamps).map(|stamp| self.l2.keeps(*stamp, now)).sum();
        held / (slots.len() * heads.len()).max(1) as f64
    }
}

/// Whether queries of each pack have other partials too.
pub(super) fn arrives(plan: &LaunchPlan) -> Vec<bool> {
    let partial = |query: &QueryIdx| plan.merge.of(*query).len() > 1;
    (0..plan.packs.len()).map(|pack| plan.queries_of(PackIdx(pack as u32)).iter().any(partial)).collect()
}
