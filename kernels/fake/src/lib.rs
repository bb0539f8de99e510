//! A CUDA driver and an NVRTC without a GPU behind them, for tests of what goes wrong on one.
//!
//! It is a shared library that a test puts on the loader's path as `libcuda.so` and `libnvrtc.so`; the program under
//! test is the real one, unchanged. It shows an H200. Memory is counted, kernels end at once and leave the trace that
//! the real ones would, and nothing is computed.
//!
//! What fails is read from the file that [`PLAN`] names, each time that the driver is started (`cuInit`):
//!
//! | line | |
//! |---|---|
//! | `fail N CODE` | call N returns CODE, once |
//! | `lose N CODE` | call N and all later ones return CODE, as after a fault that leaves the context unusable |
//! | `hang N` | launch N never ends; to free what it works on, or the context, takes until it does |
//! | `memory BYTES` | of device memory in all |
//! | `compile MS` | time that NVRTC takes for a kernel |
//!
//! Calls are counted from `cuInit`, which is the first; those that give something back are not, and they fail only on a
//! lost device. With the context the file [`REPORT`] is written: how many calls and launches there were, the longest rest
//! between two launches, what was left, and how much was asked of a lost device.

mod compiler;
mod driver;
mod kernels;
#[allow(dead_code, unreachable_pub, reason = "the kernels' own structures, of which some are not needed here")]
#[path = "../../src/params.rs"]
mod params;
mod state;

/// Variable that names the file with what fails.
pub const PLAN: &str = "FAKE_CUDA_PLAN";
/// Variable that names the file with what was seen.
pub const REPORT: &str = "FAKE_CUDA_REPORT";
