//! The main loops of merges, which partials they find in L2, and how these are seen.

use std::ops::Range;

use super::Simulation;
use crate::backend::sim::cost::MainLoop;
use crate::backend::sim::watched::Watched;
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

/// What tasks of a persistent launch do so that the partials of their pack are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Arrival {
    /// Nothing: its queries have no others.
    Alone,
    /// Nothing either, but whoever merges them sees them a while later.
    Watched,
    /// They count them in, and the last to arrive merges.
    Counted,
}

impl Arrival {
    /// Those of each pack.
    pub(super) fn of_packs(plan: &LaunchPlan, watched: &Watched) -> Vec<Self> {
        let of = |query: &QueryIdx| match plan.merge.of(*query).len() {
            ..=1 => Self::Alone,
            _ if watched.has(*query) => Self::Watched,
            _ => Self::Counted,
        };
        let of_pack = |pack| plan.queries_of(PackIdx(pack)).iter().map(of).max().unwrap_or(Self::Alone);
        (0..plan.packs.len() as u32).map(of_pack).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::sim;
    use crate::cancel::Cancel;
    use crate::capture::{L2State, Span};
    use crate::plan::CtaRole;
    use crate::plan::testing::with_fused_plan;
    use crate::workload::{AttentionShape, parse_tree};

    /// Least time from the last tile to the end of a task of one request, ns, in the first half of a run and in its last 2 µs:
    /// of what `pat` plans under `fused` of a tree at 32/8 on an H200.
    fn least_ends(tree: &str) -> [u64; 2] {
        let shape = AttentionShape { query_heads: 32, kv_heads: 8, ..AttentionShape::default() };
        let spec = parse_tree(tree, shape).unwrap();
        with_fused_plan(&spec, ("pat", "h200-sxm"), |input, plan| {
            let run = sim::run(&spec, plan, input.tree, input.device, L2State::Cold, "", &Cancel::default()).unwrap();
            let end = run.times.makespans[0].0;
            let is_leaf = |span: &Span| {
                let work = plan.decode_at(&plan.launches[span.launch as usize], span.cta);
                span.role == CtaRole::Decode && plan.pack(work.pack).queries_len == 1
            };
            let least = |ends: Range<u64>| {
                let spans = run.spans.iter().filter(|span| is_leaf(span) && ends.contains(&span.end.0));
                spans.map(|span| (span.end - span.loop_end).0).min().unwrap()
            };
            [least(0..end / 2), least(end - 2_000..end + 1)]
        })
    }

    /// The counter is a way to a loaded memory away, where there is something to count.
    #[test]
    fn tasks_count_partials_the_longer_the_busier_the_lanes_are() {
        let [busy, last] = least_ends("1,8,512_32,2048,256");
        assert!((950..1_050).contains(&busy.saturating_sub(last)), "{busy} {last}");
        let [busy, last] = least_ends("512_288");
        assert!(busy.abs_diff(last) < 50, "{busy} {last}");
    }
}
