//! What a plan of decodes takes, by cohorts: in microseconds of our time where the simulator takes milliseconds.
//!
//! CTAs of one launch with the same tile, rows, tokens and hits are of a *kind*; those of a kind that begin together are
//! a *cohort*, which runs, shares the memory and ends as one. The costs of a CTA and the limits of the memory are those
//! of the simulator, and so is the order of launches. What is left out is where on the GPU a CTA is:
//!
//! ```text
//! hits      of KV that k packs read, one reading comes from HBM, and of k − 1 what L2 has forgotten by then
//! duration  begin + loop · max(1, local, e · s) + end    local: port and tensor cores of an SM that holds the most
//! s         the least stretch at which all cohorts that load take no more than HBM gives, and move no more than L2 gives
//! merge     by the last arriver of a query: it counts for every CTA of its kind in the mean, and for the last one whole. Where
//!           nothing follows the first wave, by the one with the most queries of those that end last
//! ```
//!
//! Who compares candidates asks here; who shows a run simulates it. Of plans that differ by their strategy alone,
//! [`Alike`] is found once; and [`Pricing::least`] says in a fraction of the time what a plan takes at least: no CTA is
//! faster than alone, and no memory than its limits.

mod alike;
mod cohorts;
mod kinds;
mod least;
mod merges;
mod running;

pub use alike::Alike;
pub use kinds::Kinds;
pub use least::{Least, least_of_reading};

use crate::backend::sim::cost::CostModel;
use crate::backend::sim::estimate::cohorts::Cohorts;
use crate::backend::sim::limits::Limits;
use crate::backend::sim::marks;
use crate::hw::Device;
use crate::plan::LaunchPlan;
use crate::units::Nanos;
use crate::workload::PrefixTree;

/// The time of a plan with cold L2; `None` where it has prefill, which cohorts do not describe.
pub fn estimate(plan: &LaunchPlan, tree: &PrefixTree, device: &Device) -> Option<Nanos> {
    Pricing::of(plan, &Alike::of(plan, tree, device), device)?.time(Nanos(u64::MAX))
}

/// A plan with all that its price is found from.
#[derive(Debug)]
pub struct Pricing<'a> {
    plan: &'a LaunchPlan,
    model: CostModel<'a>,
    kinds: Kinds,
}

impl<'a> Pricing<'a> {
    /// Of a plan on a device; `None` where it has prefill.
    pub fn of(plan: &'a LaunchPlan, alike: &Alike, device: &'a Device) -> Option<Self> {
        let model = CostModel { device, shape: &plan.shape };
        let limits = Limits::of(&model, plan, marks::part(&model, plan, alike.unique_tokens, || alike));
        let kinds = Kinds::of(plan, alike, &model, &limits)?;
        Some(Self { plan, model, kinds })
    }

    /// Of a plan whose queue has another order by now than when its kinds were found.
    pub fn of_order(plan: &'a LaunchPlan, mut kinds: Kinds, device: &'a Device) -> Self {
        kinds.order_again(plan);
        Self { plan, model: CostModel { device, shape: &plan.shape }, kinds }
    }

    /// What CTAs the plan has, whatever their order.
    pub fn into_kinds(self) -> Kinds {
        self.kinds
    }

    /// The time of the plan with cold L2; nothing where it is seen to be more than `most` before it is known.
    pub fn time(mut self, most: Nanos) -> Option<Nanos> {
        let cohorts =
            |kinds: &Kinds| Cohorts::new(self.plan, self.model.device, kinds, kinds.limits).run(most.as_f64());
        let (ends, last_merges) = if merges::end_the_only_wave(self.plan, &self.kinds) {
            // Nothing begins behind them, so that who comes last is told by how the others ran.
            let ends = cohorts(&self.kinds)?;
            let merges = merges::by_last_arrivers(self.plan, &self.model, &mut self.kinds, Some(&ends));
            (ends, merges)
        } else {
            let merges = merges::by_last_arrivers(self.plan, &self.model, &mut self.kinds, None);
            (cohorts(&self.kinds)?, merges)
        };
        let end_of = |(kind, end): (usize, &f64)| end + last_merges.of_kinds.get(kind).copied().unwrap_or(0.0);
        let last = ends.iter().copied().fold(0.0, f64::max) + last_merges.held;
        Some(Nanos(ends.iter().enumerate().map(end_of).fold(last, f64::max).round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::sim::{self, estimate};
    use crate::pack;
    use crate::pack::testing::with_input;
    use crate::plan::testing::with_preferred_plan;
    use crate::plan::{PlanChoice, PlannedPack, Strategy, build};
    use crate::workload::{AttentionShape, PrefixTree, parse_tree};

    /// Leaves and pieces of shared KV that end about together: a merge by the one takes several times that by the other.
    #[test]
    fn who_merges_last_in_the_only_wave_is_told_as_by_the_simulation() {
        let scheduler = pack::find("min-time").unwrap();
        let choice = PlanChoice {
            scheduler: "min-time",
            strategy: Strategy::Fused,
            rule: scheduler.tile_rule(),
            explain: false,
        };
        let mut waves = 0;
        for (tree, query_heads, kv_heads) in [
            ("1,10_4096,416", 32, 8),
            ("1,10_4096,416", 28, 4),
            ("1,3_2080,295", 32, 32),
            ("1,16_8192,256", 32, 8),
            ("1,6_3008,700", 32, 8),
            ("1,2,6_4448,224,648", 28, 4),
            ("1,4,12_3008,704,482", 24, 8),
        ] {
            let shape = AttentionShape { query_heads, kv_heads, ..AttentionShape::default() };
            let batch = parse_tree(tree, shape).unwrap().build().unwrap();
            let prefixes = PrefixTree::of(&batch);
            with_input(&batch, &prefixes, ("h100-sxm", None), |input| {
                for packing in scheduler.packings(input).unwrap() {
                    let plan = build(input, &packing, &choice).unwrap();
                    if plan.attention_ctas() > u64::from(input.device.sm_count) {
                        continue;
                    }
                    let price = estimate(&plan, &prefixes, input.device).unwrap().as_f64();
                    let run = sim::makespan(&plan, &prefixes, input.device).unwrap().as_f64();
                    let partials = plan.merge.max_partials();
                    assert!((price / run - 1.0).abs() < 0.08, "{tree}, {partials} partials: {price} and {run}");
                    waves += 1;
                }
            });
        }
        assert!(waves > 12, "{waves}");
    }

    /// Joined packs end when half of the run is over, and merge then for as long as a leaf takes.
    #[test]
    fn what_joined_packs_merge_does_not_hold_up_the_end_of_the_run() {
        for tree in ["1,8,512_32,2048,256", "1,384_7776,1067"] {
            let shape = AttentionShape { query_heads: 32, kv_heads: 8, ..AttentionShape::default() };
            with_preferred_plan(&parse_tree(tree, shape).unwrap(), ("min-time", "h200-sxm"), |input, plan| {
                assert!(plan.packs.iter().any(PlannedPack::is_joined), "{tree}");
                let price = estimate::estimate(plan, input.tree, input.device).unwrap().as_f64();
                let run = sim::makespan(plan, input.tree, input.device).unwrap().as_f64();
                assert!((price / run - 1.0).abs() < 0.03, "{tree}: {price} and {run}");
            });
        }
    }
}
