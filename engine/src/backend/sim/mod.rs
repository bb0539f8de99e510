//! The simulator: a deterministic discrete-event model of the GPU. It runs everywhere and is the
//! default.
//!
//! ```text
//! launches ─► ready (host, stream order, events) ─► CTAs placed on SMs by shared memory, registers,
//!   warps ─► prologue ─► main loop: a fluid that shares HBM, L2, each SM's port and its tensor
//!   cores, prefill and decode each at its own pace ─► epilogue, with the last CTA's what depends on the launch may begin ─►
//!   turnover ─► the lane is free
//! ```
//!
//! Its constants are those of the device table. What it leaves out: clock changes, DRAM refresh and
//! page conflicts, the order in which a memory controller serves requests, and instruction issue.

mod cost;
mod dispatch;
mod estimate;
mod fits;
mod l2;
mod limits;
mod marks;
mod masked;
mod memory;
mod merge_cost;
mod own;
mod run;
mod runs_on;
mod segments;
mod series;
mod share;
mod sight;
mod tall;
mod watched;

pub use cost::one_cta_time;
pub use estimate::{Alike, Kinds, Least, Pricing, estimate, least_of_reading};

use crate::backend::sim::cost::CostModel;
use crate::backend::sim::l2::{L2, Pieces};
use crate::backend::sim::limits::Limits;
use crate::backend::sim::memory::Fluid;
use crate::backend::sim::run::Simulation;
use crate::cancel::Cancel;
use crate::capture::{Capture, L2State, Provenance, RunTimes, Source, Spans};
use crate::error::Result;
use crate::hw::Device;
use crate::plan::LaunchPlan;
use crate::units::Nanos;
use crate::workload::{BatchSpec, PrefixTree};

/// Whether every CTA of a plan fits on an SM.
///
/// # Errors
/// [`crate::Error::Unsupported`] with the launch whose CTAs do not, and what they need more.
pub fn accepts(plan: &LaunchPlan, device: &Device) -> Result<()> {
    fits::check(&CostModel { device, shape: &plan.shape }, plan)
}

/// Runs a plan on the simulator.
///
/// # Errors
/// [`crate::Error::Cancelled`]; as [`accepts`]; [`crate::Error::Device`] where the run would be longer than a capture
/// can hold.
pub fn run(
    spec: &BatchSpec,
    plan: &LaunchPlan,
    tree: &PrefixTree,
    device: &Device,
    l2: L2State,
    command: &str,
    cancel: &Cancel,
) -> Result<Capture> {
    let outcome = simulation(plan, tree, device, l2)?.run(cancel)?;
    let spans = Spans::from_unsorted(outcome.spans);
    let end = spans.last_end();
    let mut kernels = outcome.kernels;
    kernels.sort_unstable_by_key(|window| window.launch);
    Ok(Capture {
        provenance: provenance(device, plan, command),
        batch: spec.clone(),
        plan: plan.clone(),
        times: RunTimes { makespans: vec![end], l2, upload: None },
        kernels,
        counters: vec![
            outcome.dram_read.finish("dram_read", end.as_f64()),
            outcome.dram_write.finish("dram_write", end.as_f64()),
            outcome.moved.finish("l2", end.as_f64()),
        ],
        counted: None,
        spans,
        pauses: None,
        probe_overhead: None,
        warnings: Vec::new(),
    })
}

/// How long a plan takes with cold L2 where of CTAs that end together the one comes last that has the most to merge, and
/// nothing else of its run. Of two plans the better one is that which is better even so.
///
/// # Errors
/// As [`run()`].
pub fn makespan(plan: &LaunchPlan, tree: &PrefixTree, device: &Device) -> Result<Nanos> {
    let outcome = simulation(plan, tree, device, L2State::Cold)?.with_widest_last().run(&Cancel::default())?;
    Ok(outcome.spans.iter().map(|span| span.end).max().unwrap_or_default())
}

fn simulation<'a>(plan: &'a LaunchPlan, tree: &PrefixTree, device: &'a Device, l2: L2State) -> Result<Simulation<'a>> {
    let model = CostModel { device, shape: &plan.shape };
    fits::check(&model, plan)?;
    let useful = device.useful_l2_bytes();
    let prefill: u64 = plan.prefill.chunks.iter().map(|chunk| u64::from(chunk.kv)).sum();
    let unique = plan.shape.kv_bytes_per_token().as_f64() * (tree.unique_tokens().0 + prefill) as f64;
    let warm = l2 == L2State::Warm && unique <= useful;
    let cache = L2::new(Pieces::of(plan, tree), plan.shape.kv_heads, useful, warm);
    let limits =
        Limits::of(&model, plan, marks::part(&model, plan, tree.unique_tokens(), || Alike::of(plan, tree, device)));
    let dirty = if l2 == L2State::Cold { device.dirty_bytes() } else { 0.0 };
    let fluid = Fluid::new(device.sm_count as usize, limits).with_dirty_l2(dirty);
    Ok(Simulation::new((plan, tree), model, cache, fluid))
}

fn provenance(device: &Device, plan: &LaunchPlan, command: &str) -> Provenance {
    Provenance {
        packscope: env!("CARGO_PKG_VERSION").to_owned(),
        backend: "sim".to_owned(),
        source: Source::Simulated,
        device: device.key.clone(),
        device_name: device.name.clone(),
        driver: None,
        sm_clock_khz: None,
        plan: plan.digest(),
        command: command.to_owned(),
        sm_count: device.sm_count,
        clock_step: Nanos(1),
        clock_error_ns: None,
        peak_bytes_per_s: device.hbm_bytes_per_s,
        calibrated: device.calibrated,
        expected_error: device.expected_error.filter(|_| plan.prefill.is_empty()),
        gpcs: device.gpcs.clone(),
        deterministic: false,
    }
}
