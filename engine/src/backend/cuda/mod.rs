//! The CUDA backend: a launch plan on the GPU that is here, timed, traced and checked.
//!
//! ```text
//! plan ─► lower ─► upload, compile ─┬─► plain build: repeats with cold or warm L2 ─► makespans
//!                                   ├─► traced build: repeats ─► probe overhead
//!                                   ├─► traced build: one run ─► records ─► spans on one clock
//!                                   └─► where asked: both builds again ─► counts and series
//! ```
//!
//! Timing, tracing and counting are separate passes, so that a time is never one of a traced or counted kernel. The thread that
//! opens a [`Cuda`] owns the GPU; nothing here can be sent to another. A call that fails or is cancelled leaves nothing
//! on the GPU, and the next one opens it anew: see `owner`.

mod clock;
mod count;
mod course;
mod device;
mod fold;
mod gpcs;
mod limits;
mod lower;
mod owner;
mod pauses;
mod trace;

pub use limits::{Limits, ReadTimes};
pub use owner::Cuda;

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use kernels::{
    Call, CallOptions, Compiler, DeviceBuffer, Gpu, KernelError, KvCache, KvLayout, Protocol, Stamps, Stream, Timing,
    Turns, Values,
};

use crate::backend::cuda::count::{Counting, Rig};
use crate::backend::cuda::lower::Lowered;
use crate::backend::cuda::pauses::{Lookout, Schedule, Sight};
use crate::backend::cuda::trace::Traced;
use crate::cancel::Cancel;
use crate::capture::{Capture, L2State, Provenance, RunTimes, Source, Warning};
use crate::error::{Error, Result};
use crate::hw::Device;
use crate::numerics::{self, Arithmetic, CheckReport, CheckedRow, Input, Tensor, error_bound};
use crate::plan::LaunchPlan;
use crate::units::{Nanos, QueryIdx};
use crate::workload::{AttentionShape, Batch, BatchSpec, Request, RequestKind};

/// Traced runs, of which the one of median length is kept.
const TRACED_RUNS: usize = 3;
/// Seed of the values of timed runs; any will do.
const SEED: u64 = 1;
/// After load at the power limit an H200 lowers its clocks, and brings them back within 0.3 to 0.4 s. Runs of 12 µs that
/// were timed meanwhile took up to 1.35 times as long.
const RECOVERY: Duration = Duration::from_millis(500);
/// The longest wait for memory that was freed and made.
const MOST_CLEANING: Duration = Duration::from_secs(1);
/// How often a wait looks whether it is cancelled.
const CANCEL_INTERVAL: Duration = Duration::from_millis(10);

/// Told what the backend is at; a long first compilation is the reason.
pub type Tell = Box<dyn Fn(&str)>;

/// What stays while the GPU is closed.
#[derive(Debug)]
struct Known {
    compiler: Compiler,
    device: Device,
    clock_step: Nanos,
    /// The GPC of each SM, once a run has asked for it; empty where that is unknown.
    gpcs: OnceCell<Vec<u8>>,
    /// How often the memory pauses, ns, once a run has asked for it; `None` in it where it does not.
    pausing: OnceCell<Option<f64>>,
    /// Whether runs are to give the same bits.
    deterministic: Cell<bool>,
}

/// The open GPU, and the buffers that runs share.
#[derive(Debug)]
struct Open {
    inputs: Option<Inputs>,
    flush: Option<DeviceBuffer>,
    /// Of timed and traced runs, whose launches are counted ([`Turns`]).
    stream: Stream,
    /// Of all else: what the driver launches for the counters and for fills of any size is unknown.
    aside: Stream,
    gpu: Gpu,
    known: Rc<Known>,
    /// When clocks that the power limit lowered are back, and memory that was freed is cleaned.
    recovered: Instant,
}

/// Q and the KV cache of one batch: with the values of [`Input`] to be checked, with normal ones to be timed.
#[derive(Debug)]
struct Inputs {
    shape: AttentionShape,
    values: Values,
    seed: u64,
    queries: DeviceBuffer,
    rows: Rows,
    cache: KvCache,
}

impl Inputs {
    fn bytes(&self) -> usize {
        self.cache.k.bytes() + self.cache.v.bytes() + self.queries.bytes()
    }
}

/// How long runs may be slow for after so many bytes were freed and made: where a batch followed one of some GB in a
/// process, its first 17 to 21 runs took 15 to 18 % longer on H100s than all after them, for 6 to 16 ms, and one of 9 GB
/// more than 20 runs of 4 ms. After a wait of half a second none did.
fn cleaning(bytes: usize) -> Duration {
    const OF_A_GB: Duration = Duration::from_millis(50);
    OF_A_GB.mul_f64(bytes as f64 * 1e-9).min(MOST_CLEANING)
}

/// Rows of Q and of the output: one a request, then those of the prefill chunks.
#[derive(Debug, PartialEq, Eq)]
struct Rows {
    requests: usize,
    /// Of each prefill request.
    chunks: BTreeMap<QueryIdx, Range<usize>>,
}

impl Rows {
    fn of(batch: &Batch) -> Self {
        let requests = batch.requests().len();
        let mut next = requests;
        let chunk = |(query, request): (QueryIdx, &Request)| match request.kind {
            RequestKind::Prefill { chunk } => {
                let first = next;
                next += chunk.0 as usize;
                Some((query, first..next))
            }
            RequestKind::Decode => None,
        };
        Self { requests, chunks: batch.prefills().filter_map(chunk).collect() }
    }

    fn all(&self) -> usize {
        self.chunks.values().map(|rows| rows.end).max().unwrap_or(self.requests)
    }

    /// Where a checked row lies.
    fn place(&self, row: &CheckedRow) -> usize {
        match (row.row, self.chunks.get(&row.query)) {
            (Some(nth), Some(chunk)) => chunk.start + nth as usize,
            _ => row.query.at(),
        }
    }

    /// Whether what lies in these rows is what the others want.
    fn serve(&self, others: &Self) -> bool {
        self == others || (others.chunks.is_empty() && self.requests >= others.requests)
    }
}

/// What to run.
#[derive(Debug)]
pub struct Job<'a> {
    /// The batch as edited, for the capture.
    pub spec: &'a BatchSpec,
    /// The batch.
    pub batch: &'a Batch,
    /// Its plan.
    pub plan: &'a LaunchPlan,
    /// Runs that count; five warm-ups come before them.
    pub repeats: u32,
    /// State of L2 before each.
    pub l2: L2State,
    /// Whether the launches are replayed as a CUDA graph.
    pub graph: bool,
    /// Whether the hardware counts, in passes after the timed ones.
    pub counters: bool,
    /// The command line or window action, for the capture.
    pub command: &'a str,
}

impl Open {
    /// A buffer larger than any L2: written before a run, it leaves nothing of the inputs there.
    fn flush(&mut self) -> Result<DeviceBuffer> {
        if let Some(buffer) = self.flush.take() {
            return Ok(buffer);
        }
        let buffer = self.gpu.allocate(512 << 20).map_err(translate)?;
        // It is read before it is first written before a run, to look for pauses of the memory.
        buffer.fill(0, &self.aside).map_err(translate)?;
        Ok(buffer)
    }

    /// Runs a plan: plain repeats for the times, then traced ones for the spans.
    fn run(&mut self, job: &Job<'_>, cancel: &Cancel) -> Result<Capture> {
        let batch = dense(job.batch)?;
        let lowered = lower::lower(&batch, job.plan)?;
        self.prepare(&batch, Values::Normal, SEED)?;
        let start = Instant::now();
        let plain = self.call(&batch, &lowered, 0)?;
        let upload = start.elapsed();
        self.recover(cancel)?;
        let before = self.sight(job)?;
        let plain_times = self.time(&plain, job)?;
        let mut pauses = pauses::of_timing(&plain_times, before, self.sight(job)?);
        drop(plain);
        cancel.check()?;
        let places = lowered.arrays().trace_places(&lower::shape(&batch.shape));
        let traced = self.call(&batch, &lowered, places)?;
        let traced_times = self.time(&traced, job)?;
        cancel.check()?;
        let (spans, lost, origin) = self.trace(&traced, &lowered, job)?;
        let around = self.sight(job)?.map(|(seen, period)| Schedule::of(seen, period));
        if let (Some(pauses), Some(around)) = (&mut pauses, around) {
            let begins = around.within(origin, origin + spans.spans.last_end().0);
            pauses.begins = begins.into_iter().map(|begin| Nanos(begin.max(0.0).round() as u64)).collect();
        }
        if self.known.gpcs.get().is_none() {
            let found = gpcs::find(&self.gpu, &self.known.compiler, &self.aside).map_err(translate)?;
            self.known.gpcs.get_or_init(|| found);
        }
        let mut warnings = lowered.warnings.clone();
        if lost > 0 {
            warnings.push(Warning { text: format!("{lost} trace records were lost, and as many CTAs are missing") });
        }
        let mut counting = Counting::default();
        if job.counters {
            cancel.check()?;
            let build = || self.call(&batch, &lowered, 0);
            counting = self.rig(job).run(traced, traced_times.median(), build, cancel)?;
        }
        warnings.extend(counting.warnings);
        let overhead = traced_times.median() / plain_times.median() - 1.0;
        Ok(Capture {
            provenance: self.provenance(job, &spans),
            batch: job.spec.clone(),
            plan: job.plan.clone(),
            times: RunTimes {
                l2: job.l2,
                upload: Some(Nanos(u64::try_from(upload.as_nanos()).unwrap_or(u64::MAX))),
                ..pauses::times(&plain_times)
            },
            kernels: spans.kernels,
            spans: spans.spans,
            counters: counting.series,
            counted: counting.counted,
            pauses,
            probe_overhead: overhead.is_finite().then_some(overhead),
            warnings,
        })
    }

    /// Runs plans of one batch once each on fresh random input with poisoned outputs, and compares with the f64
    /// reference, which is computed once. One report a plan.
    fn check(&mut self, batch: &Batch, plans: &[&LaunchPlan], seed: u64, cancel: &Cancel) -> Result<Vec<CheckReport>> {
        let batch = dense(batch)?;
        self.prepare(&batch, Values::Exact, seed)?;
        let outputs = plans.iter().map(|plan| self.output(&batch, plan)).collect::<Result<Vec<_>>>()?;
        let dim = batch.shape.head_dim as usize;
        let bounds: Vec<f64> = plans.iter().map(|plan| error_bound(plan, Arithmetic::Gpu)).collect();
        let rows = Rows::of(&batch);
        numerics::check_rows(&batch, (seed, &bounds), cancel, |_, row| {
            let first = (rows.place(row) * batch.shape.query_heads as usize + row.head as usize) * dim;
            let row = |output: &Vec<u16>| -> Vec<f32> {
                output[first..first + dim].iter().map(|bits| batch.shape.dtype.from_bits(*bits)).collect()
            };
            outputs.iter().map(row).collect()
        })
    }

    /// What a plan computes on the inputs that are there, all heads of all queries, as stored.
    fn output(&self, batch: &Batch, plan: &LaunchPlan) -> Result<Vec<u16>> {
        let lowered = lower::lower(batch, plan)?;
        let call = self.call(batch, &lowered, 0)?;
        call.launch(&self.aside).map_err(translate)?;
        self.aside.synchronize().map_err(translate)?;
        call.output().map_err(translate)
    }

    /// What the counting passes of a run need.
    fn rig(&self, job: &Job<'_>) -> Rig<'_> {
        Rig {
            gpu: &self.gpu,
            compiler: &self.known.compiler,
            stream: &self.aside,
            flush: self.flush.as_ref().filter(|_| job.l2 == L2State::Cold),
            clock_step: self.known.clock_step,
        }
    }

    /// Makes Q and KV cache for a batch, unless those of the last run serve.
    fn prepare(&mut self, batch: &Batch, values: Values, seed: u64) -> Result<()> {
        let shape = lower::shape(&batch.shape);
        let blocks = batch.tables().all().iter().map(|block| block.0 + 1).max().unwrap_or(1);
        let rows = Rows::of(batch);
        if let Some(held) = &self.inputs
            && held.shape == batch.shape
            && (held.values, held.seed) == (values, seed)
            && held.rows.serve(&rows)
            && held.cache.blocks >= blocks
        {
            return Ok(());
        }
        // Before the new ones are made, or both would have to fit.
        let freed = self.inputs.take().map_or(0, |inputs| inputs.bytes());
        let input = Input::new(seed, batch.shape);
        let allocate = |bytes: usize| self.gpu.allocate(bytes).map_err(translate);
        let fill = |buffer: &DeviceBuffer, tensor: Tensor, places: Range<usize>, first: u64| {
            let kind = (values, input.seed(tensor));
            kernels::fill_random_part(
                &self.gpu,
                &self.known.compiler,
                &self.aside,
                (buffer, places, first),
                shape.dtype,
                kind,
            )
            .map_err(translate)
        };
        let count = KvCache::bytes(&shape, blocks) / 2;
        let cache = KvCache { k: allocate(count * 2)?, v: allocate(count * 2)?, layout: KvLayout::Nhd, blocks };
        fill(&cache.k, Tensor::K, 0..count, 0)?;
        fill(&cache.v, Tensor::V, 0..count, 0)?;
        let row = (shape.q_heads * shape.head_dim) as usize;
        let queries = allocate(rows.all() * row * 2)?;
        fill(&queries, Tensor::Q, 0..rows.requests * row, 0)?;
        for (request, chunk) in &rows.chunks {
            let first = (u64::from(request.0) << 32) * row as u64;
            fill(&queries, Tensor::PrefillQ, chunk.start * row..chunk.end * row, first)?;
        }
        self.aside.synchronize().map_err(translate)?;
        let inputs = Inputs { shape: batch.shape, values, seed, queries, rows, cache };
        self.rest(cleaning(freed + inputs.bytes()));
        self.inputs = Some(inputs);
        Ok(())
    }

    fn call(&self, batch: &Batch, lowered: &Lowered, trace_capacity: u32) -> Result<Call> {
        let Some(inputs) = &self.inputs else { return Err(Error::Gpu("no inputs were made".to_owned())) };
        let options =
            CallOptions { trace_capacity, deterministic: self.known.deterministic.get(), ..CallOptions::default() };
        let (shape, compiler) = (lower::shape(&batch.shape), &self.known.compiler);
        Call::new(&self.gpu, compiler, &shape, &inputs.cache, &inputs.queries, &lowered.arrays(), &options)
            .map_err(translate)
    }

    /// Has what is timed next wait for so long from now.
    fn rest(&mut self, time: Duration) {
        self.recovered = self.recovered.max(Instant::now() + time);
    }

    /// Waits until the GPU has all of its speed again.
    fn recover(&self, cancel: &Cancel) -> Result<()> {
        loop {
            cancel.check()?;
            let left = self.recovered.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(CANCEL_INTERVAL));
        }
    }

    /// Times of the repeats, events around the whole call.
    fn time(&mut self, call: &Call, job: &Job<'_>) -> Result<Timing> {
        let flush = if job.l2 == L2State::Cold { Some(self.flush()?) } else { None };
        let repeats = job.repeats.max(1);
        // Of runs from L2 no one asks when they were: no pause of the memory is looked for.
        let stamps = flush.as_ref().map(|_| Stamps::new(&self.gpu, &self.known.compiler, repeats as usize));
        let stamps = stamps.transpose().map_err(translate)?;
        let protocol = Protocol { warm_ups: 5, repeats, flush, graph: job.graph, stamps };
        let timing = protocol.time(&self.gpu, &self.stream, |stream| call.launch(stream));
        if protocol.flush.is_some() {
            self.flush = protocol.flush;
        }
        timing.map_err(translate)
    }

    /// A pause of the memory and how often they come, ns; `None` where it has none, or L2 holds what a run reads.
    fn sight(&mut self, job: &Job<'_>) -> Result<Sight> {
        if job.l2 == L2State::Warm || self.known.pausing.get() == Some(&None) {
            return Ok(None);
        }
        let source = self.flush()?;
        let seen = self.sight_in(&source).map_err(translate);
        self.flush = Some(source);
        seen
    }

    fn sight_in(&self, source: &DeviceBuffer) -> Result<Sight, KernelError> {
        let lookout = Lookout::new(&self.gpu, &self.known.compiler, source)?;
        let pausing = &self.known.pausing;
        if pausing.get().is_none() {
            let found = lookout.period(source, &self.aside)?;
            pausing.get_or_init(|| found);
        }
        let Some(period) = pausing.get().copied().flatten() else { return Ok(None) };
        Ok(lookout.sight(source, &self.aside, period)?.map(|seen| (seen, period)))
    }

    /// Traced runs one by one; the one of median length becomes spans. Beside them the records that were lost, and when the run
    /// began on the device's clock.
    fn trace(&self, call: &Call, lowered: &Lowered, job: &Job<'_>) -> Result<(Traced, u32, u64)> {
        let stamps = Stamps::new(&self.gpu, &self.known.compiler, 2).map_err(translate)?;
        let turns = Turns::new(&self.gpu).map_err(translate)?;
        let mut runs = Vec::new();
        for run in 0..TRACED_RUNS {
            let one = || {
                // As when the repeats are timed: the SMs know the code, and come to the call straight from the flush.
                // After a wait, which the reading of the run before is, the first tasks took up to 8 µs longer.
                call.launch(&self.stream)?;
                call.clear_trace(&self.stream)?;
                let flush = self.flush.as_ref().filter(|_| job.l2 == L2State::Cold);
                // The flush and the stamp come between.
                turns.align(u32::from(flush.is_some()) + 1, &self.stream)?;
                if let Some(flush) = flush {
                    flush.fill(run as u8, &self.stream)?;
                }
                stamps.stamp(0, &self.stream)?;
                call.launch(&self.stream)?;
                stamps.stamp(1, &self.stream)?;
                self.stream.synchronize()?;
                Ok((stamps.read()?, call.trace()?))
            };
            let (times, (records, lost)) = one().map_err(translate)?;
            runs.push((times[1].saturating_sub(times[0]), times[0], records, lost));
        }
        runs.sort_by_key(|run| run.0);
        let (_, origin, records, lost) = runs.swap_remove(runs.len() / 2);
        let spans = trace::spans(job.plan, (lowered, call.watched()), &records, origin, self.known.clock_step)?;
        Ok((spans, lost, origin))
    }

    fn provenance(&self, job: &Job<'_>, traced: &Traced) -> Provenance {
        let info = self.gpu.info();
        let version = info.driver_version;
        Provenance {
            packscope: env!("CARGO_PKG_VERSION").to_owned(),
            backend: "cuda".to_owned(),
            source: Source::Measured,
            device: self.known.device.key.clone(),
            device_name: info.name.clone(),
            driver: Some(format!("CUDA {}.{}", version / 1000, version % 1000 / 10)),
            sm_clock_khz: Some(traced.clock_khz),
            plan: job.plan.digest(),
            command: job.command.to_owned(),
            sm_count: info.sms,
            clock_step: self.known.clock_step,
            clock_error_ns: Some(traced.clock_error),
            peak_bytes_per_s: self.known.device.hbm_bytes_per_s,
            calibrated: true,
            expected_error: None,
            gpcs: self.known.gpcs.get().cloned().unwrap_or_default(),
            deterministic: self.known.deterministic.get(),
        }
    }
}

/// The batch with block ids that are places in a cache without holes.
fn dense(batch: &Batch) -> Result<std::borrow::Cow<'_, Batch>> {
    let tables = batch.tables();
    let largest = tables.all().iter().map(|block| block.at()).max().unwrap_or(0);
    if largest < 2 * tables.all().len() + 1024 {
        return Ok(std::borrow::Cow::Borrowed(batch));
    }
    batch.renumbered().map(std::borrow::Cow::Owned)
}

/// The kernels' errors as the engine's: what is missing, what cannot be, what failed.
fn translate(error: KernelError) -> Error {
    match error {
        KernelError::Stopped => Error::Cancelled,
        error if error.is_absence() => Error::Hardware(error.to_string()),
        KernelError::Unsupported(limit) => Error::Unsupported { who: "the GPU".to_owned(), limit },
        KernelError::Plan(what) => Error::Plan(what),
        other => Error::Gpu(other.to_string()),
    }
}
