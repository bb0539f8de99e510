//! The device table: every hardware number of packscope, with its source beside it.
//!
//! Figures live in `hw/devices/*.ron`; a person may give a file of the same form. Nothing else in
//! the tree holds a number of a GPU.

mod device;
mod expected;
mod hybrid;
mod merge_kernel;
mod prefill;
mod ranges;
mod table;

pub use device::{Device, JoinedPacks, KernelResources, MarkedReads, QueueItems, SimConstants, TileStep, WorkerTimes};
pub use expected::ExpectedError;
pub use hybrid::{HybridLimits, at_power_limit};
pub use merge_kernel::{Folds, MergeKernel, SharedMerges, WARPS_OF_WORKER};
pub use prefill::{PairRates, PrefillKernels, PrefillResources};
pub use ranges::{Figure, Number, figures};
pub use table::{builtin, find, from_ron, names, to_ron};
