//! Launch plans: CTA tasks in launch order, launches, streams, dependencies, merge and slots.

mod build;
mod imposed;
mod types;

pub use crate::pack::CtaOrder;
pub use build::{PlanChoice, build};
pub use types::{Launch, LaunchKind, LaunchPlan, MergePlan, MergeRound, PlannedPack, Strategy};
