//! The range of each figure of a device file. Inside it a plan and a simulated run mean something; outside, a
//! figure is a slip of the pen: a rate in GB instead of bytes, a time in seconds, a zero too few.
//!
//! The ranges are wide: from about a hundredth of the smallest GPU that anyone has to a thousand times the largest.
//! They are limits of what is believed, not figures of any GPU.
//!
//! [`figures`] takes each struct apart by name, so that a new field does not compile until it stands here.

use std::fmt;
use std::ops::RangeInclusive;

use super::{
    Device, ExpectedError, HybridLimits, JoinedPacks, KernelResources, MarkedReads, MergeKernel, PairRates,
    PrefillKernels, PrefillResources, QueueItems, SimConstants, TileStep, WorkerTimes,
};
use crate::units::{Bytes, Nanos, Tokens};

/// A number of a device file as it is written there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A count, a size, a time or a rate.
    Whole(u64),
    /// A fraction or a ratio.
    Part(f64),
}

/// A figure of a device file with the range that it must lie in.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Where it stands, such as `sim.l2_latency` or `kernels[3].warps`, counted from 0.
    pub field: String,
    /// The figure.
    pub value: Number,
    /// The least that it may be.
    pub least: Number,
    /// The most that it may be.
    pub most: Number,
    /// Whether it may be 0 though `least` is above: where 0 says that there is none.
    pub or_none: bool,
    /// What it is counted in; empty for plain counts.
    pub unit: &'static str,
}

impl Figure {
    /// Whether it lies in its range; not-a-number lies in none.
    pub fn holds(&self) -> bool {
        match (self.value, self.least, self.most) {
            (Number::Whole(value), Number::Whole(least), Number::Whole(most)) => {
                (least..=most).contains(&value) || (self.or_none && value == 0)
            }
            (Number::Part(value), Number::Part(least), Number::Part(most)) => (least..=most).contains(&value),
            _ => false,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Written like tokens: with a comma for each thousand.
            Self::Whole(value) => Tokens(*value).fmt(f),
            Self::Part(value) if *value != 0.0 && value.abs() < 1e-3 => write!(f, "{value:e}"),
            Self::Part(value) => value.fmt(f),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, value, least, most, or_none, unit } = self;
        let (space, none) = (if unit.is_empty() { "" } else { " " }, if *or_none { "0, or " } else { "" });
        write!(f, "{field} is {value}{space}{unit}, but must be {none}from {least} to {most}{space}{unit}")
    }
}

/// Bytes of L2.
const LARGEST_L2: u64 = 1 << 40;
/// Bytes of memories inside an SM: a CTA's, an SM's, what a CTA keeps outstanding.
const SHARED: RangeInclusive<u64> = 1 << 10..=1 << 24;
/// Bytes per second of one SM.
const SM_RATE: RangeInclusive<u64> = 100_000_000..=1_000_000_000_000_000;
/// Bytes per second of the whole GPU.
const RATE: RangeInclusive<u64> = 1_000_000_000..=10_000_000_000_000_000;
/// FLOP per second of the whole GPU.
const FLOPS: RangeInclusive<u64> = 100_000_000_000..=1_000_000_000_000_000_000;
/// A clock, Hz.
const CLOCK: RangeInclusive<u64> = 100_000_000..=100_000_000_000;
/// A time that a GPU always takes, ns: from 1 to 1 ms.
const LATENCY: RangeInclusive<u64> = 1..=1_000_000;
/// A time that may be none, ns: up to 1 ms.
const TIME: RangeInclusive<u64> = 0..=1_000_000;
/// A time of the host, ns: up to 10 ms.
const HOST_TIME: RangeInclusive<u64> = 0..=10_000_000;
/// Part of a data sheet's figure that is reached.
const EFFICIENCY: RangeInclusive<f64> = 0.05..=1.0;
/// Warps of one CTA.
const CTA_WARPS: RangeInclusive<u64> = 1..=64;
/// Registers of a thread; more than a thread may have say that no kernel is made.
const REGISTERS: RangeInclusive<u64> = 1..=1024;
/// Sides of a tile.
const SIDE: RangeInclusive<u64> = 1..=4096;
/// Relative errors of simulated times.
const ERROR: RangeInclusive<f64> = 0.0..=1e3;
/// Heads that are computed or merged at once.
const HEADS: RangeInclusive<u64> = 1..=1024;

/// Every figure of a device.
pub fn figures(device: &Device) -> Vec<Figure> {
    let mut list = List::default();
    list.device(device);
    list.figures
}

#[derive(Default)]
struct List {
    figures: Vec<Figure>,
    /// Path of the struct that is taken apart: `sim.`, `kernels[3].`.
    within: String,
}

impl List {
    fn whole(&mut self, field: &str, value: impl Into<u64>, range: RangeInclusive<u64>, unit: &'static str) {
        let [value, least, most] = [value.into(), *range.start(), *range.end()].map(Number::Whole);
        let field = format!("{}{field}", self.within);
        self.figures.push(Figure { field, value, least, most, or_none: false, unit });
    }

    /// As [`Self::whole`] for a figure that is 0 where there is none.
    fn whole_or_none(&mut self, field: &str, value: u64, range: RangeInclusive<u64>, unit: &'static str) {
        self.whole(field, value, range, unit);
        if let Some(last) = self.figures.last_mut() {
            last.or_none = true;
        }
    }

    fn part(&mut self, field: &str, value: f64, range: RangeInclusive<f64>) {
        let [value, least, most] = [value, *range.start(), *range.end()].map(Number::Part);
        let field = format!("{}{field}", self.within);
        self.figures.push(Figure { field, value, least, most, or_none: false, unit: "" });
    }

    fn bytes(&mut self, field: &str, value: Bytes, range: RangeInclusive<u64>) {
        self.whole(field, value.0, range, "B");
    }

    fn time(&mut self, field: &str, value: Nanos, range: RangeInclusive<u64>) {
        self.whole(field, value.0, range, "ns");
    }

    fn rate(&mut self, field: &str, value: u64, range: RangeInclusive<u64>) {
        self.whole(field, value, range, "B/s");
    }

    fn device(&mut self, device: &Device) {
        let Device {
            key: _,
            name: _,
            calibrated: _,
            expected_error,
            compute_capability: (major, minor),
            sm_count,
            gpcs: _,
            shared_per_sm,
            shared_per_cta,
            shared_reserved_per_cta,
            registers_per_sm,
            register_granule_per_warp,
            registers_per_thread,
            warps_per_sm,
            ctas_per_sm,
            l2,
            hbm_bytes_per_s,
            tensor_flops,
            loaded_latency,
            sim,
            kernels,
            kernels_d64,
            kernels_d256,
            worker,
            heads_side_by_side: _,
            queue_items,
            marked_reads,
            joined_packs,
            merge_kernel,
            prefill_kernel,
            hybrid_limits,
            tile_steps,
            sources: _,
        } = device;
        self.whole("compute_capability.0", *major, 1..=99, "");
        self.whole("compute_capability.1", *minor, 0..=9, "");
        self.whole("sm_count", *sm_count, 1..=4096, "");
        self.bytes("shared_per_sm", *shared_per_sm, SHARED);
        self.bytes(
            "shared_per_cta",
            *shared_per_cta,
            *SHARED.start()..=shared_per_sm.0.clamp(*SHARED.start(), *SHARED.end()),
        );
        self.bytes("shared_reserved_per_cta", *shared_reserved_per_cta, 0..=1 << 16);
        self.whole("registers_per_sm", *registers_per_sm, 1 << 10..=1 << 22, "");
        self.whole("register_granule_per_warp", *register_granule_per_warp, 1..=1 << 12, "");
        self.whole("registers_per_thread", *registers_per_thread, REGISTERS, "");
        self.whole("warps_per_sm", *warps_per_sm, 1..=256, "");
        self.whole("ctas_per_sm", *ctas_per_sm, 1..=64, "");
        self.bytes("l2", *l2, 1 << 16..=LARGEST_L2);
        self.rate("hbm_bytes_per_s", *hbm_bytes_per_s, RATE);
        self.whole("tensor_flops", *tensor_flops, FLOPS, "FLOP/s");
        self.time("loaded_latency", *loaded_latency, LATENCY);
        if let Some(error) = expected_error {
            self.inside("expected_error.", |list| list.expected_error(error));
        }
        self.inside("sim.", |list| list.sim(sim));
        for (name, kernels) in [("kernels", kernels), ("kernels_d64", kernels_d64), ("kernels_d256", kernels_d256)] {
            for (at, kernel) in kernels.iter().enumerate() {
                self.inside(&format!("{name}[{at}]."), |list| list.kernel(kernel));
            }
        }
        if let Some(worker) = worker {
            self.inside("worker.", |list| list.worker(worker));
        }
        if let Some(items) = queue_items {
            self.inside("queue_items.", |list| list.queue_items(items));
        }
        if let Some(MarkedReads { kv_bytes, read_again, written_back, outdated: _ }) = marked_reads {
            self.bytes("marked_reads.kv_bytes", *kv_bytes, 0..=1 << 40);
            self.part("marked_reads.read_again", *read_again, 1.0..=1e6);
            self.part("marked_reads.written_back", *written_back, 0.0..=1.0);
        }
        if let Some(JoinedPacks { least_run, longest, saved, hbm }) = joined_packs {
            self.time("joined_packs.least_run", *least_run, 0..=1_000_000_000);
            self.part("joined_packs.longest", *longest, 0.0..=1.0);
            self.part("joined_packs.saved", *saved, 0.0..=1.0);
            self.part("joined_packs.hbm", *hbm, 0.0..=1.0);
        }
        if let Some(kernel) = merge_kernel {
            self.inside("merge_kernel.", |list| list.merge_kernel(kernel));
        }
        if let Some(PrefillKernels { full, slim, either, both, lean_decode, pair }) = prefill_kernel {
            self.inside("prefill_kernel.full.", |list| list.prefill(full));
            self.inside("prefill_kernel.slim.", |list| list.prefill(slim));
            for (name, kernel) in [("prefill_kernel.either.", either), ("prefill_kernel.both.", both)] {
                if let Some(kernel) = kernel {
                    self.inside(name, |list| list.prefill(kernel));
                }
            }
            self.inside("prefill_kernel.lean_decode.", |list| list.kernel(lean_decode));
            if let Some(PairRates { tensor_flops_per_sm, read_beside_per_sm, read_alone_per_sm }) = pair {
                self.inside("prefill_kernel.pair.", |list| {
                    list.whole("tensor_flops_per_sm", *tensor_flops_per_sm, FLOPS, "FLOP/s");
                    list.rate("read_beside_per_sm", *read_beside_per_sm, RATE);
                    list.rate("read_alone_per_sm", *read_alone_per_sm, RATE);
                });
            }
        }
        if let Some(limits) = hybrid_limits {
            self.inside("hybrid_limits.", |list| list.hybrid_limits(limits));
        }
        for (at, step) in tile_steps.iter().enumerate() {
            self.inside(&format!("tile_steps[{at}]."), |list| list.tile_step(step));
        }
    }

    fn inside(&mut self, within: &str, fill: impl FnOnce(&mut Self)) {
        within.clone_into(&mut self.within);
        fill(self);
        self.within.clear();
    }

    fn expected_error(&mut self, error: &ExpectedError) {
        let ExpectedError { runs, median, nine_of_ten, worst } = error;
        self.whole("runs", *runs, 1..=u64::from(u32::MAX), "");
        // What is out of its range itself bounds none of the others.
        let least = |error: f64| error.clamp(*ERROR.start(), *ERROR.end())..=*ERROR.end();
        self.part("median", *median, ERROR);
        self.part("nine_of_ten", *nine_of_ten, least(*median));
        self.part("worst", *worst, least(*nine_of_ten));
    }

    fn sim(&mut self, sim: &SimConstants) {
        let SimConstants {
            hbm_efficiency,
            tile_read_efficiency,
            idle_latency,
            sm_bytes_per_s,
            l2_bytes_per_s,
            l2_peak_bytes_per_s,
            l2_useful_fraction,
            l2_latency,
            tensor_efficiency,
            prefill_efficiency,
            exp_per_sm_per_s,
            launch_latency,
            kernel_gap,
            attention_gap,
            host_launch_interval,
            cta_prologue,
            cta_epilogue,
            last_step,
            cta_turnover,
            dispatch_interval,
            tile_step,
            softmax_step,
            store_bytes_per_s,
            merge_trip,
            worker_merge_trip,
            worker_arrival,
            worker_prologue,
            cold_write_back,
            cold_dirty,
            queue_pop,
            stream_fork,
            stream_join,
        } = sim;
        self.part("hbm_efficiency", *hbm_efficiency, EFFICIENCY);
        self.part("tile_read_efficiency", *tile_read_efficiency, EFFICIENCY);
        self.time("idle_latency", *idle_latency, LATENCY);
        self.rate("sm_bytes_per_s", *sm_bytes_per_s, SM_RATE);
        self.rate("l2_bytes_per_s", *l2_bytes_per_s, RATE);
        self.whole_or_none("l2_peak_bytes_per_s", *l2_peak_bytes_per_s, RATE, "B/s");
        self.part("l2_useful_fraction", *l2_useful_fraction, EFFICIENCY);
        self.time("l2_latency", *l2_latency, LATENCY);
        self.part("tensor_efficiency", *tensor_efficiency, EFFICIENCY);
        self.part("prefill_efficiency", *prefill_efficiency, EFFICIENCY);
        self.whole("exp_per_sm_per_s", *exp_per_sm_per_s, SM_RATE, "exponentials/s");
        self.time("launch_latency", *launch_latency, HOST_TIME);
        self.time("kernel_gap", *kernel_gap, HOST_TIME);
        self.time("attention_gap", *attention_gap, HOST_TIME);
        self.time("host_launch_interval", *host_launch_interval, HOST_TIME);
        self.time("cta_prologue", *cta_prologue, TIME);
        self.time("cta_epilogue", *cta_epilogue, TIME);
        self.part("last_step", *last_step, 0.0..=1.0);
        self.time("cta_turnover", *cta_turnover, TIME);
        self.time("dispatch_interval", *dispatch_interval, TIME);
        self.time("tile_step", *tile_step, TIME);
        self.time("softmax_step", *softmax_step, TIME);
        self.whole_or_none("store_bytes_per_s", *store_bytes_per_s, SM_RATE, "B/s");
        self.time("merge_trip", *merge_trip, TIME);
        self.time("worker_merge_trip", *worker_merge_trip, TIME);
        self.time("worker_arrival", *worker_arrival, TIME);
        self.time("worker_prologue", *worker_prologue, TIME);
        self.part("cold_write_back", *cold_write_back, 0.0..=10.0);
        if let Some(dirty) = cold_dirty {
            self.bytes("cold_dirty", *dirty, 0..=LARGEST_L2);
        }
        self.time("queue_pop", *queue_pop, TIME);
        self.time("stream_fork", *stream_fork, HOST_TIME);
        self.time("stream_join", *stream_join, HOST_TIME);
    }

    fn kernel(&mut self, kernel: &KernelResources) {
        let KernelResources { m, n, warps, registers, shared, in_flight, heads, step, chain, sm_step } = kernel;
        self.whole("m", *m, SIDE, "");
        self.whole("n", *n, SIDE, "");
        self.whole("warps", *warps, CTA_WARPS, "");
        self.whole("registers", *registers, REGISTERS, "");
        if let Some(shared) = shared {
            self.bytes("shared", *shared, SHARED);
        }
        if let Some(in_flight) = in_flight {
            self.bytes("in_flight", *in_flight, SHARED);
        }
        self.whole("heads", *heads, HEADS, "");
        if let Some(step) = step {
            self.time("step", *step, LATENCY);
        }
        for (name, time) in [("chain", chain), ("sm_step", sm_step)] {
            if let Some(time) = time {
                self.time(name, *time, LATENCY);
            }
        }
    }

    fn prefill(&mut self, kernel: &PrefillResources) {
        let PrefillResources {
            m,
            n,
            warps,
            registers,
            shared,
            in_flight,
            efficiency,
            efficiency_d64,
            copy,
            by_token,
            item,
        } = kernel;
        self.whole("m", *m, SIDE, "");
        self.whole("n", *n, SIDE, "");
        self.whole("warps", *warps, CTA_WARPS, "");
        self.whole("registers", *registers, REGISTERS, "");
        self.bytes("shared", *shared, SHARED);
        self.bytes("in_flight", *in_flight, SHARED);
        self.part("efficiency", *efficiency, EFFICIENCY);
        self.part("efficiency_d64", *efficiency_d64, EFFICIENCY);
        self.time("copy", *copy, TIME);
        if let Some(by_token) = by_token {
            self.time("by_token", *by_token, TIME);
        }
        self.time("item", *item, TIME);
    }

    fn hybrid_limits(&mut self, limits: &HybridLimits) {
        let HybridLimits { flops_alone, bytes_per_s_alone, flops, bytes_per_s, clock_most, clock_alone, clock } =
            limits;
        self.whole("flops_alone", *flops_alone, FLOPS, "FLOP/s");
        self.rate("bytes_per_s_alone", *bytes_per_s_alone, RATE);
        self.whole("flops", *flops, FLOPS, "FLOP/s");
        self.rate("bytes_per_s", *bytes_per_s, RATE);
        self.whole("clock_most", *clock_most, CLOCK, "Hz");
        self.whole("clock_alone", *clock_alone, CLOCK, "Hz");
        self.whole("clock", *clock, CLOCK, "Hz");
    }

    fn worker(&mut self, worker: &WorkerTimes) {
        let WorkerTimes { begin, end, merge_bytes_per_s, first_bytes_per_s } = worker;
        self.time("begin", *begin, TIME);
        self.time("end", *end, TIME);
        self.rate("merge_bytes_per_s", *merge_bytes_per_s, SM_RATE);
        self.rate("first_bytes_per_s", *first_bytes_per_s, RATE);
    }

    fn queue_items(&mut self, items: &QueueItems) {
        let QueueItems { tokens, tasks_per_lane, workers_per_sm } = items;
        self.whole("tokens", *tokens, 0..=1 << 20, "");
        self.whole("tasks_per_lane", *tasks_per_lane, 0..=1 << 20, "");
        if let Some(workers) = workers_per_sm {
            self.whole("workers_per_sm", *workers, 1..=32, "");
        }
    }

    fn merge_kernel(&mut self, kernel: &MergeKernel) {
        let MergeKernel { warps, registers, registers_d64, heads, rows, worker_rows, fold, fold_tasks } = kernel;
        if let Some(rows) = worker_rows {
            self.whole("worker_rows", *rows, 1..=1 << 20, "");
        }
        self.whole("warps", *warps, CTA_WARPS, "");
        self.whole("registers", *registers, REGISTERS, "");
        if let Some(registers) = registers_d64 {
            self.whole("registers_d64", *registers, REGISTERS, "");
        }
        self.whole("heads", *heads, HEADS, "");
        self.whole("rows", *rows, 1..=1 << 20, "");
        self.whole("fold", *fold, 0..=1 << 20, "");
        if let Some(tasks) = fold_tasks {
            self.whole("fold_tasks", *tasks, 0..=1 << 20, "");
        }
    }

    fn tile_step(&mut self, step: &TileStep) {
        let TileStep { m, n, from_tokens } = step;
        self.whole("m", *m, SIDE, "");
        self.whole("n", *n, SIDE, "");
        self.whole("from_tokens", *from_tokens, 0..=1 << 40, "");
    }
}
