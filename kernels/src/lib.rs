//! CUDA kernels of packscope and the thin, checked layer that compiles, loads and launches them.
//!
//! ```text
//!  cuda/*.cuh, *.cu ──► compile (NVRTC, disk cache) ──► module ──► call: launches of a plan ──► outputs, trace
//!                                                                 └► limits: plain reads, mma rate
//! ```
//!
//! The crate knows nothing of batches, trees or schedulers: it takes plain arrays (packs, query lists, block
//! lists, merge lists), checks every index once, and runs them. It links to no CUDA library: the driver and NVRTC
//! are loaded at run time, and a machine without one of them gets a [`KernelError`] that says what to install.

mod arrivals;
mod beside;
mod build;
mod cache;
mod call;
mod check;
mod clock;
mod co_run;
mod compile;
mod context;
mod error;
mod gpu;
mod limits;
mod lists;
mod marks;
mod masks;
mod params;
mod places;
mod plan;
mod spec;
mod stop;
mod stream;
mod tails;
mod timing;
mod trace;
mod watch;

pub use arrivals::Arrivals;
pub use cache::{KvCache, KvLayout};
pub use call::{Call, CallOptions, KernelInfo};
pub use clock::{Pulses, Stamps, clock_step};
pub use co_run::{CoRate, CoRunRates, co_run};
pub use compile::{CompileEvent, CompiledKernel, Compiler, Resources, nvrtc_version};
pub use error::KernelError;
pub use gpu::{DeviceBuffer, DeviceValue, Gpu, GpuInfo};
pub use limits::{Sweep, Values, fill_random, fill_random_part, mma_rate, random_value, read_time};
pub use marks::{MARKED_BYTES, READ_AGAIN};
pub use params::{ClockReading, TraceRecord};
pub use places::Places;
pub use plan::{
    CtaRoles, DecodeShape, Dtype, HybridWork, Launch, MergeRows, PackTask, PlanArrays, PrefillTask, RowSlots, TaskRows,
    Tile, Work,
};
pub use spec::{Arch, Copies, Folds, Groups, HybridSpec, KernelSpec, PrefillSpec, Roles, Sight};
pub use stream::Stream;
pub use timing::{Protocol, Timing, Turns};
