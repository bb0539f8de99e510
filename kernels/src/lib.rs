//! CUDA kernels of packscope and the thin, checked layer that compiles, loads and launches them.
//!
//! ```text
//!  cuda/*.cuh, *.cu ──► compile (NVRTC, disk cache) ──► module ──► decode: serial | streams | fused ──► outputs, trace
//!                                                                 ├► prefill: chunks, merges ──► outputs, trace
//!                                                                 └► limits: plain reads, mma rate
//! ```
//!
//! The crate knows nothing of batches, trees or schedulers: it takes plain arrays (packs, query lists, block
//! lists, merge lists), checks every index once, and runs them. It links to no CUDA library: the driver and NVRTC
//! are loaded at run time, and a machine without one of them gets a [`KernelError`] that says what to install.

mod cache;
mod clock;
mod compile;
mod context;
mod decode;
mod error;
mod gpu;
mod limits;
mod lists;
mod params;
mod plan;
mod prefill;
mod spec;
mod stop;
mod timing;
mod trace;

pub use cache::{KvCache, KvLayout};
pub use clock::{Pulses, Stamps, clock_step};
pub use compile::{CompileEvent, CompiledKernel, Compiler, Resources, nvrtc_version};
pub use decode::{Decode, DecodeOptions, Strategy};
pub use error::KernelError;
pub use gpu::{DeviceBuffer, DeviceValue, Gpu, GpuInfo, Stream};
pub use limits::{Sweep, fill_random, mma_rate, random_value, read_time};
pub use params::{ClockReading, TraceRecord};
pub use plan::{DecodeShape, Dtype, MergeRows, PackTask, Phase, PlanArrays, Tile};
pub use prefill::{Prefill, PrefillArrays, PrefillMerge, PrefillOptions, PrefillTask, RowSlots};
pub use spec::{Arch, KernelSpec, PrefillSpec};
pub use timing::{Protocol, Timing};
