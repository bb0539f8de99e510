//! Launch plans: CTA tasks in launch order, launches, streams, dependencies, merge and slots.

mod build;
mod types;

pub use build::{PlanChoice, build};
pub use types::{CtaOrder, Launch, LaunchKind, LaunchPlan, MergePlan, PlannedPack, Strategy};
