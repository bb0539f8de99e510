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
//! merge     by the last arriver of a query: it counts for every CTA of its kind in the mean, and for the last one whole
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
        let limits = Limits::of(device, plan, marks::part(&model, plan, alike.unique_tokens, || alike));
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
        let last_merges = merges::by_last_arrivers(self.plan, &self.model, &mut self.kinds);
        let ends = Cohorts::new(self.plan, self.model.device, &self.kinds, self.kinds.limits).run(most.as_f64())?;
        let end_of = |(kind, end): (usize, &f64)| end + last_merges.of_kinds.get(kind).copied().unwrap_or(0.0);
        let last = ends.iter().copied().fold(0.0, f64::max) + last_merges.held;
        Some(Nanos(ends.iter().enumerate().map(end_of).fold(last, f64::max).round() as u64))
    }
}
