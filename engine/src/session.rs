//! The only place that knows the whole order: batch → tree → packs → tiles → plan → run → report.
//!
//! The window, the command line, tests and benchmarks all come in here.

mod auto;
mod packed;

pub use auto::{Auto, ranking};
pub(crate) use packed::shortest;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend;
use crate::cancel::Cancel;
use crate::capture::{Capture, L2State};
use crate::error::Result;
use crate::hw::{Device, HybridLimits};
use crate::metrics::{self, Bandwidth, BubbleReport, Traffic};
use crate::numerics::{self, CheckReport};
use crate::pack::{self, PackOptions, Packing};
use crate::plan::hybrid::{self, PodChoice};
use crate::plan::{LaunchPlan, Strategy};
use crate::tile::{self, Tile, TileSet};
use crate::workload::{Batch, BatchSpec, PrefixTree};

/// What to plan with.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanOptions {
    /// Name of the scheduler; see [`pack::schedulers`].
    pub scheduler: String,
    /// How the CTAs reach the GPU.
    pub strategy: Strategy,
    /// Which of `scheduler` and `strategy` are those that are expected to take the least time. What was planned so has in them what
    /// was taken.
    pub auto: Auto,
    /// The device that the plan is for.
    pub device: Device,
    /// One tile for every pack instead of the scheduler's rule; must be feasible on the device.
    pub tile: Option<Tile>,
    /// Constants of the rules.
    pub pack: PackOptions,
    /// Which way of POD's kernel `fused` takes where the batch has prefill.
    pub pod: PodChoice,
    /// Whether to write down decisions.
    pub explain: bool,
}

impl PlanOptions {
    /// `pat` under `streams` on a device.
    pub fn new(device: &Device) -> Self {
        Self {
            scheduler: pack::DEFAULT.to_owned(),
            strategy: Strategy::default(),
            auto: Auto::default(),
            device: device.clone(),
            tile: None,
            pack: PackOptions::default(),
            pod: PodChoice::default(),
            explain: true,
        }
    }
}

/// A batch with everything that planning made of it. Cheap to clone and to send to a thread.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The batch as edited.
    pub spec: Arc<BatchSpec>,
    /// The batch, checked.
    pub batch: Arc<Batch>,
    /// Its prefix tree.
    pub tree: Arc<PrefixTree>,
    /// Tiles of the device at this head dimension.
    pub tiles: Arc<TileSet>,
    /// The plan.
    pub plan: Arc<LaunchPlan>,
    /// The options it was made with.
    pub options: Arc<PlanOptions>,
    /// Time from block tables to launch plan, tree building included.
    pub plan_time: Duration,
}

/// Builds the batch and plans it.
///
/// # Errors
/// Whatever is wrong with the batch, the device or the choice; see [`crate::Error`].
pub fn plan_spec(spec: &BatchSpec, options: &PlanOptions) -> Result<Planned> {
    let batch = Arc::new(spec.build()?);
    plan_batch(&Arc::new(spec.clone()), &batch, options)
}

/// Plans a batch that is built already.
///
/// # Errors
/// As [`plan_spec`].
pub fn plan_batch(spec: &Arc<BatchSpec>, batch: &Arc<Batch>, options: &PlanOptions) -> Result<Planned> {
    options.device.validate()?;
    if options.auto.any() {
        return auto::plan(spec, batch, options);
    }
    let tiles = Arc::new(tile::solve(&options.device, batch.shape.head_dim, batch.shape.dtype));
    check_tile(options, &tiles)?;
    check_hybrid_tile(options, batch)?;
    let start = Instant::now();
    let (tree, packing, plan) = block_tables_to_plan(batch, &tiles, options)?;
    let plan_time = start.elapsed();
    let planned = proven((spec, batch), (Arc::new(tree), tiles), (&packing, plan), options)?;
    Ok(Planned { plan_time, ..planned })
}

/// A plan with all that it was made of. A proof, not a part of planning: no plan leaves here that computes a token twice or
/// never.
fn proven(
    (spec, batch): (&Arc<BatchSpec>, &Arc<Batch>),
    (tree, tiles): (Arc<PrefixTree>, Arc<TileSet>),
    (packing, plan): (&Packing, LaunchPlan),
    options: &PlanOptions,
) -> Result<Planned> {
    pack::coverage(batch, packing)?;
    plan.prefill.coverage(batch.requests())?;
    Ok(Planned {
        spec: Arc::clone(spec),
        batch: Arc::clone(batch),
        tree,
        tiles,
        plan: Arc::new(plan),
        options: Arc::new(options.clone()),
        plan_time: Duration::ZERO,
    })
}

/// Refuses a fixed tile that the device cannot run well.
fn check_tile(options: &PlanOptions, tiles: &TileSet) -> Result<()> {
    match options.tile {
        Some(tile) if !tiles.feasible().contains(&tile) => Err(crate::Error::UnknownName {
            kind: "feasible tile",
            name: tile.to_string(),
            known: tiles.feasible().iter().map(Tile::to_string).collect::<Vec<_>>().join(", "),
        }),
        _ => Ok(()),
    }
}

/// Refuses a fixed tile where the strategy prescribes the one of its kernel.
fn check_hybrid_tile(options: &PlanOptions, batch: &Batch) -> Result<()> {
    match (options.tile, hybrid::decode_tile(&options.device, batch, options.strategy)) {
        (Some(asked), Some(own)) if asked != own => Err(crate::Error::Unsupported {
            who: options.strategy.name().to_owned(),
            limit: format!(
                "its kernel computes decodes in tiles of {own} beside prefill, not {asked}; leave the fixed tile out"
            ),
        }),
        _ => Ok(()),
    }
}

/// What planning gave for a capture: its batch, tree and plan, on a device with its tiles.
///
/// # Errors
/// Whatever is wrong with the batch; [`crate::Error::Capture`] where the plan names tree nodes that the batch
/// has not.
pub fn planned_of(capture: &Capture, device: &Device) -> Result<Planned> {
    let batch = capture.batch.build()?;
    let tree = PrefixTree::of(&batch);
    if let Some(pack) = capture.plan.packs.iter().find(|pack| pack.node.at() >= tree.nodes.len()) {
        let (node, nodes) = (pack.node.0, tree.nodes.len());
        return Err(crate::Error::Capture(format!(
            "the capture is damaged past use: its plan names node {node}, but the prefix tree of its batch has {nodes}"
        )));
    }
    let options = PlanOptions {
        scheduler: capture.plan.scheduler.clone(),
        strategy: capture.plan.strategy,
        ..PlanOptions::new(device)
    };
    Ok(Planned {
        spec: Arc::new(capture.batch.clone()),
        tree: Arc::new(tree),
        tiles: Arc::new(tile::solve(device, batch.shape.head_dim, batch.shape.dtype)),
        batch: Arc::new(batch),
        plan: Arc::new(capture.plan.clone()),
        options: Arc::new(options),
        plan_time: Duration::ZERO,
    })
}

/// The timed part of planning: block tables → tree → packs → tiles → launch plan.
fn block_tables_to_plan(
    batch: &Batch,
    tiles: &TileSet,
    options: &PlanOptions,
) -> Result<(PrefixTree, Packing, LaunchPlan)> {
    let tree = PrefixTree::of(batch);
    let mut packed = packed::pack_batch(batch, (&tree, tiles), options)?;
    let prepared = hybrid::prepare(&packed.input, &mut packed.packing, options.strategy, options.pod)?;
    let mut plan = packed.plan(options.strategy, options.explain)?;
    if let Some(prepared) = prepared {
        prepared.compose(&packed.input, &mut plan);
    }
    let packing = packed.packing;
    Ok((tree, packing, plan))
}

/// The shortest of `repeats` plannings on this thread, without decisions, as a scheduler in a
/// serving engine would run.
///
/// # Errors
/// As [`plan_spec`].
pub fn best_plan_time(planned: &Planned, repeats: u32) -> Result<Duration> {
    let options = PlanOptions { explain: false, ..(*planned.options).clone() };
    let once = || -> Result<Duration> {
        if options.auto.any() {
            return auto::plan_time(planned);
        }
        let start = Instant::now();
        let made = block_tables_to_plan(&planned.batch, &planned.tiles, &options)?;
        let took = start.elapsed();
        drop(made);
        Ok(took)
    };
    let mut best = Duration::MAX;
    for _ in 0..repeats.max(1) {
        best = best.min(once()?);
    }
    Ok(best)
}

/// How to run a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Runs to take the median of; the simulator, being deterministic, runs once.
    pub repeats: u32,
    /// State of L2 before each run.
    pub l2: L2State,
    /// Whether a GPU replays the launches as a CUDA graph.
    pub graph: bool,
    /// Whether a GPU counts bytes and activity, in passes after the timed ones; refusal is a warning.
    pub counters: bool,
    /// The command line or window action, for the capture's provenance.
    pub command: String,
}

/// Runs a plan on the simulator.
///
/// # Errors
/// [`crate::Error::Cancelled`] when cancelled.
pub fn simulate(planned: &Planned, run: &RunOptions, cancel: &Cancel) -> Result<Capture> {
    backend::sim::run(
        planned.spec.as_ref(),
        &planned.plan,
        &planned.tree,
        &planned.options.device,
        run.l2,
        &run.command,
        cancel,
    )
}

/// Told in a few words what a runner is at.
pub type Tell = Box<dyn Fn(&str)>;

/// What runs plans: the simulator, or the GPU of this machine. A GPU belongs to the thread that opened
/// it; after a call that fails or is cancelled it is closed, and the next one opens it anew.
#[derive(Debug, Default)]
pub struct Runner {
    #[cfg(feature = "cuda")]
    gpu: Option<backend::cuda::Cuda>,
}

impl Runner {
    /// The simulator.
    pub fn simulator() -> Self {
        Self::default()
    }

    /// Name of the first GPU of this machine, and its built-in device where there is one. Takes none of its
    /// memory.
    ///
    /// # Errors
    /// As [`Self::gpu`].
    #[cfg(feature = "cuda")]
    pub fn find_gpu() -> Result<(String, Option<&'static Device>)> {
        backend::cuda::Cuda::find()
    }

    /// Name of the first GPU of this machine.
    ///
    /// # Errors
    /// Always: this build has no CUDA backend.
    #[cfg(not(feature = "cuda"))]
    pub fn find_gpu() -> Result<(String, Option<&'static Device>)> {
        Self::gpu(None, Box::new(|_| ()), &Cancel::default()).map(|_| (String::new(), None))
    }

    /// The first GPU of this machine. Compiled kernels are kept in `cache`.
    ///
    /// # Errors
    /// [`crate::Error::Hardware`] where there is none, or a part to run it is missing, with the remedy;
    /// [`crate::Error::Cancelled`].
    #[cfg(feature = "cuda")]
    pub fn gpu(cache: Option<std::path::PathBuf>, tell: Tell, cancel: &Cancel) -> Result<Self> {
        Ok(Self { gpu: Some(backend::cuda::Cuda::open(cache, tell, cancel)?) })
    }

    /// The first GPU of this machine.
    ///
    /// # Errors
    /// Always: this build has no CUDA backend.
    #[cfg(not(feature = "cuda"))]
    pub fn gpu(_cache: Option<std::path::PathBuf>, _tell: Tell, _cancel: &Cancel) -> Result<Self> {
        Err(crate::Error::Hardware("this build has no CUDA backend; build it with the feature 'cuda'".to_owned()))
    }

    /// Has a GPU give the same bits in every run from now on, or be as fast as it can; the simulator computes no bits.
    pub fn set_deterministic(&self, on: bool) {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu {
            gpu.set_deterministic(on);
        }
        #[cfg(not(feature = "cuda"))]
        let _ = on;
    }

    /// The GPU as a device of the table; `None` for the simulator, which runs any device.
    pub fn device(&self) -> Option<&Device> {
        #[cfg(feature = "cuda")]
        return self.gpu.as_ref().map(backend::cuda::Cuda::device);
        #[cfg(not(feature = "cuda"))]
        None
    }

    /// What the GPU can do at best, measured now, each plain read `repeats` times; `None` for the simulator.
    ///
    /// # Errors
    /// [`crate::Error::Gpu`], [`crate::Error::Cancelled`].
    pub fn limits(&mut self, repeats: u32, cancel: &Cancel) -> Result<Option<metrics::Limits>> {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &mut self.gpu {
            let backend::cuda::Limits { read, flops, hybrid } = gpu.limits(repeats, cancel)?;
            let spread =
                |of: &backend::cuda::ReadTimes| metrics::ReadSpread { all: of.spread.share(), steady: of.steady };
            let read_spread = read.iter().map(spread).collect();
            let read = read.iter().map(|read| (read.bytes, read.spread.median)).collect();
            return Ok(Some(metrics::Limits { read, read_spread, flops, hybrid }));
        }
        #[cfg(not(feature = "cuda"))]
        let _ = (repeats, cancel);
        Ok(None)
    }

    /// Whether this runs a plan as its system prescribes.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] with what it does not run.
    pub fn accepts(&self, planned: &Planned) -> Result<()> {
        #[cfg(feature = "cuda")]
        if self.gpu.is_some() {
            return backend::cuda::Cuda::accepts(&planned.plan);
        }
        // The simulator runs every plan whose CTAs fit.
        backend::sim::accepts(&planned.plan, &planned.options.device)
    }

    /// Runs a plan.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] for what the backend does not run, [`crate::Error::Gpu`] when the GPU
    /// fails, [`crate::Error::Cancelled`].
    pub fn run(&mut self, planned: &Planned, run: &RunOptions, cancel: &Cancel) -> Result<Capture> {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &mut self.gpu {
            let job = backend::cuda::Job {
                spec: &planned.spec,
                batch: &planned.batch,
                plan: &planned.plan,
                repeats: run.repeats,
                l2: run.l2,
                graph: run.graph,
                counters: run.counters,
                command: &run.command,
            };
            return gpu.run(&job, cancel);
        }
        simulate(planned, run, cancel)
    }

    /// Computes the plan on fresh random input, on the GPU or on the CPU in f32, and compares with the f64
    /// reference.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn check(&mut self, planned: &Planned, seed: u64, cancel: &Cancel) -> Result<CheckReport> {
        Ok(self.check_all(std::slice::from_ref(planned), seed, cancel)?.swap_remove(0))
    }

    /// As [`Self::check`] for several plans of the first one's batch, with one reference. One report a plan.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn check_all(&mut self, all: &[Planned], seed: u64, cancel: &Cancel) -> Result<Vec<CheckReport>> {
        let Some(first) = all.first() else { return Ok(Vec::new()) };
        let plans: Vec<&LaunchPlan> = all.iter().map(|planned| &*planned.plan).collect();
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &mut self.gpu {
            return gpu.check(&first.batch, &plans, seed, cancel);
        }
        numerics::check_all(&first.batch, &plans, seed, cancel)
    }
}

/// The least time that any plan of the batch can take on its device, ns, by the device file.
pub fn oracle_ns(planned: &Planned) -> f64 {
    let device = &planned.options.device;
    floor_ns(planned, device.hybrid_limits.as_ref().filter(|_| device.prefill_kernel.is_some()))
}

/// The least time that any plan of the batch can take, ns: what the limits of tensor cores beside reads give. Where those
/// were not measured, the FLOP of its prefill at the rate that prefill reaches, or all compulsory bytes at the bandwidth
/// that a plain read does, whichever takes longer.
pub fn floor_ns(planned: &Planned, limits: Option<&HybridLimits>) -> f64 {
    let (plan, device) = (&planned.plan, &planned.options.device);
    let (shape, pairs) = (&plan.shape, plan.prefill.attended() as f64);
    let flop = 4.0 * f64::from(shape.head_dim) * f64::from(shape.query_heads) * pairs;
    let bytes = metrics::traffic(plan, &planned.batch, &planned.tree).compulsory.as_f64();
    let rate = device.tensor_flops as f64 * device.best_prefill_efficiency();
    let apart = (flop / rate).max(bytes / device.reachable_bytes_per_s()) * 1e9;
    limits.map_or(apart, |limits| limits.floor_ns(flop, bytes))
}

/// All figures of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Bytes by kind.
    pub traffic: Traffic,
    /// Busy time and bubbles by cause.
    pub bubbles: BubbleReport,
    /// Achieved against peak.
    pub bandwidth: Bandwidth,
}

/// The figures of a run, from plan and capture alone.
pub fn report_of(batch: &Batch, tree: &PrefixTree, capture: &Capture) -> Report {
    let traffic = metrics::traffic(&capture.plan, batch, tree);
    Report {
        traffic,
        bubbles: metrics::bubbles(&capture.plan, capture),
        bandwidth: metrics::bandwidth(&traffic, capture),
    }
}
