//! Attention on the CPU: the f64 reference, and an executor that runs any plan in f32 with partial
//! results and online-softmax merge, so that a plan is proved by its outputs.

mod check;
mod execute;
mod input;
mod reference;
mod state;

pub use check::{CheckReport, check};
pub use input::{HeadKv, Input};
pub use state::{Partial, merge};
