//! Attention on the CPU: the f64 reference, and an executor that runs any plan in f32 with partial
//! results and online-softmax merge, so that a plan is proved by its outputs.

mod bound;
mod check;
mod execute;
mod input;
mod reference;
mod state;

pub use bound::{Arithmetic, error_bound};
pub use check::{CheckReport, CheckedRow, check, check_all, check_rows};
pub use input::{HeadKv, Input, Tensor};
pub use state::{Partial, merge};
