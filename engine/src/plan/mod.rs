//! Launch plans: CTA tasks in launch order, launches, streams, dependencies, merge and slots.

mod build;
pub mod hybrid;
mod hybrid_kernel;
mod imposed;
mod kind_name;
mod prefill;
mod queue;
mod types;

pub use crate::pack::CtaOrder;
pub use build::{PlanChoice, build};
pub use hybrid_kernel::{CtaWork, Dispatch, HybridKernel, PrefillKernel, Tickets};
pub use prefill::{PrefillChunk, PrefillPlan, PrefillTask};
pub use types::{Launch, LaunchKind, LaunchPlan, MergePlan, MergeRound, PlannedPack, Strategy};
