//! The main loops of merges, and which partials they find in L2.

use super::Simulation;
use crate::backend::sim::cost::MainLoop;
use crate::plan::LaunchKind;
use crate::units::QueryIdx;

impl Simulation<'_> {
    /// What a CTA of a merge launch does; `None` for a launch of another kind.
    pub(super) fn merge_loop(&self, kind: LaunchKind, cta: u32) -> Option<MainLoop> {
        Some(match kind {
            LaunchKind::Merge => {
                let slots = self.plan.merge.of(QueryIdx(self.merged[cta as usize]));
                self.model.merge_cta(slots.len() as u32, self.partials_in_l2(slots))
            }
            LaunchKind::MergeRound(round) => {
                let round = &self.plan.merge.rounds[round as usize];
                self.model.round_cta(round, cta as usize, self.partials_in_l2(round.row(cta as usize)))
            }
            LaunchKind::MergePrefill => self.model.merge_cta(self.plan.prefill.partials_of_merged(cta), 1.0),
            _ => return None,
        })
    }

    /// Bytes that have come through L2 from or for HBM so far.
    pub(super) fn through(&self) -> f64 {
        self.dram_bytes + self.dram_written
    }

    /// Fraction of the partials in `slots` that L2 still holds.
    pub(super) fn partials_in_l2(&self, slots: &[u32]) -> f64 {
        let now = self.through();
        let held = |slot: &u32| self.l2.keeps(self.stored[self.pack_of_slot[*slot as usize].at()], now);
        slots.iter().map(held).sum::<f64>() / slots.len().max(1) as f64
    }
}
