//! Launch plans: CTA tasks in launch order, launches, streams, dependencies, merge and slots.

mod build;
mod digest;
pub mod hybrid;
mod hybrid_kernel;
mod imposed;
mod kind_name;
mod numbering;
mod placement;
mod prefill;
mod queue;
#[cfg(test)]
pub(crate) mod testing;
mod types;

pub use crate::pack::CtaOrder;
pub use build::{PlanChoice, build, draft, launch, order_queue};
pub use digest::PlanDigest;
pub use hybrid_kernel::{Dispatch, HybridKernel, PrefillKernel, Tickets};
pub use numbering::{CtaNumbers, CtaRole, CtaWork, DecodeWork, PrefillWork, Work};
pub use placement::Placement;
pub use prefill::{PrefillChunk, PrefillPlan, PrefillTask};
pub use types::{Launch, LaunchKind, LaunchPlan, MergePlan, MergeRound, PlannedPack, Strategy};
