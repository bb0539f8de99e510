//! Digests of plans, by which two captures of one plan know each other.
//!
//! | version | CRC-32 of the postcard form of |
//! |---|---|
//! | 1 | scheduler, strategy, device, shape, packs, queries, order, launches and merge, then of the prescribed merge rounds where there are any |
//! | 2 | the whole plan: rounds and prefill in their places, decisions left out; then, where there are any, of the [`Placement`]s of its launches |
//!
//! Version 1 leaves prefill out, so two hybrid plans with other chunks could pass as one. Files that hold
//! such a digest are compared by it, as what it is.

use serde::{Deserialize, Serialize};

use crate::plan::{Launch, LaunchPlan, MergePlan, Placement, PlannedPack, PrefillPlan, Strategy};
use crate::units::{PackIdx, QueryIdx};
use crate::workload::AttentionShape;

/// What a plan is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PlanDigest {
    /// How it was made, from 1.
    pub version: u32,
    /// CRC-32 of what that version covers.
    pub crc: u32,
}

impl PlanDigest {
    /// The version that this build makes.
    pub const VERSION: u32 = 2;

    /// A digest of the first version, as captures of versions 1 and 2 and their rows hold it.
    pub fn first(crc: u32) -> Self {
        Self { version: 1, crc }
    }

    /// Whether it is of this plan, by its own version; `None` for a version that this build does not know.
    pub fn is_of(&self, plan: &LaunchPlan) -> Option<bool> {
        plan.digest_as(self.version).map(|digest| digest == *self)
    }
}

/// The plan as captures of versions 1 and 2 hold it: without merge rounds and prefill.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FirstPlan {
    scheduler: String,
    strategy: Strategy,
    device: String,
    shape: AttentionShape,
    packs: Vec<PlannedPack>,
    queries: Vec<QueryIdx>,
    order: Vec<PackIdx>,
    launches: Vec<Launch>,
    merge: FirstMerge,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct FirstMerge {
    starts: Vec<u32>,
    slots: Vec<u32>,
}

impl From<FirstPlan> for LaunchPlan {
    fn from(plan: FirstPlan) -> Self {
        Self {
            scheduler: plan.scheduler,
            strategy: plan.strategy,
            device: plan.device,
            shape: plan.shape,
            packs: plan.packs,
            queries: plan.queries,
            order: plan.order,
            launches: plan.launches,
            merge: MergePlan { starts: plan.merge.starts, slots: plan.merge.slots, rounds: Vec::new() },
            prefill: PrefillPlan::default(),
            decisions: Vec::new(),
        }
    }
}

impl From<&LaunchPlan> for FirstPlan {
    fn from(plan: &LaunchPlan) -> Self {
        Self {
            scheduler: plan.scheduler.clone(),
            strategy: plan.strategy,
            device: plan.device.clone(),
            shape: plan.shape,
            packs: plan.packs.clone(),
            queries: plan.queries.clone(),
            order: plan.order.clone(),
            launches: plan.launches.clone(),
            merge: FirstMerge { starts: plan.merge.starts.clone(), slots: plan.merge.slots.clone() },
        }
    }
}

impl LaunchPlan {
    /// The digest of the plan, by the newest version.
    pub fn digest(&self) -> PlanDigest {
        // The plan is plain data; bytes of it that cannot be written would be a fault of the serialiser.
        let mut bytes = postcard::to_stdvec(self).unwrap_or_default();
        let placements: Vec<Placement> = self.placements();
        if !placements.is_empty() {
            bytes.extend(postcard::to_stdvec(&placements).unwrap_or_default());
        }
        PlanDigest { version: PlanDigest::VERSION, crc: crc32fast::hash(&bytes) }
    }

    /// The digest by a version; `None` for one that this build does not know.
    pub fn digest_as(&self, version: u32) -> Option<PlanDigest> {
        match version {
            1 => Some(PlanDigest::first(self.first_crc())),
            PlanDigest::VERSION => Some(self.digest()),
            _ => None,
        }
    }

    fn first_crc(&self) -> u32 {
        let mut bytes = postcard::to_stdvec(&FirstPlan::from(self)).unwrap_or_default();
        if !self.merge.rounds.is_empty() {
            bytes.extend(postcard::to_stdvec(&self.merge.rounds).unwrap_or_default());
        }
        crc32fast::hash(&bytes)
    }
}
