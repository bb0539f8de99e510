//! A trace as the run of an engine, step by step, under several ways of computing attention.
//!
//! ```text
//! trace ─► serving (arrivals, prefix cache, continuous batching) ─► work of a step ─► plan (carried, or not) ──┐
//!             ▲                                                                                                ▼
//!             └── end of the step ◄── layers × (attention: simulated or measured + rest of the layer: roofline)
//! ```
//!
//! Each way serves the trace for itself: a faster one ends its steps earlier, and finds other requests arrived. On the
//! steps of every way the first way is timed too, so that both can be compared on the same batches. The same trace and
//! options give the same steps on every machine, unless they are measured.

mod cache;
mod layer;
mod planner;
mod published;
mod report;
mod serving;
#[cfg(test)]
mod tests;
mod timing;

pub use planner::STAND_IN;
pub use published::{pat_conversation, pod_offline, pod_online};
pub use report::{Percentiles, Summary};
pub use serving::{Served, ServingOptions, Work};
pub use timing::{Measure, Sampled, Timed};

use rayon::prelude::*;

use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::import::Trace;
use crate::plan;
use crate::replan::How;
use crate::replay::layer::rest_of_layer;
use crate::replay::planner::Planner;
use crate::replay::serving::Serving;
use crate::session::PlanOptions;
use crate::units::Nanos;
use crate::workload::{AttentionShape, BatchSpec, Model};

/// What is replayed, and on what.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The model whose layers run.
    pub model: &'static Model,
    /// GPUs over which it is divided.
    pub gpus: u32,
    /// Tokens of a KV block.
    pub block_size: u32,
    /// How the engine serves.
    pub serving: ServingOptions,
    /// Most steps; the run ends there though requests may be left.
    pub max_steps: u64,
}

/// One step of a way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When it begins.
    pub begin: Nanos,
    /// All layers.
    pub duration: Nanos,
    /// What was computed.
    pub work: Vec<Work>,
    /// Attention of one layer.
    pub attention: Timed,
    /// The same under the first way; `None` for the first way itself.
    pub first: Option<Timed>,
    /// The rest of one layer.
    pub rest: Nanos,
    /// How its plan was carried over from the step before; `None` where it was made from scratch.
    pub how: Option<How>,
    /// Whether the scheduler refused the step, and each request was planned alone.
    pub stood_in: bool,
    /// How its CTAs reached the GPU: the way's strategy, or streams where that needs prefill beside decode.
    pub strategy: plan::Strategy,
    /// KV blocks that requests held.
    pub blocks_held: u64,
}

impl Step {
    /// Attention under the first way.
    pub fn first_way(&self) -> &Timed {
        self.first.as_ref().unwrap_or(&self.attention)
    }

    /// KV tokens of all its requests.
    pub fn kv_tokens(&self) -> u64 {
        self.work.iter().map(|work| work.kv).sum()
    }
}

/// A trace as one way serves it.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Scheduler.
    pub scheduler: String,
    /// Strategy.
    pub strategy: &'static str,
    /// The steps.
    pub steps: Vec<Step>,
    /// What became of each request, in the order of the trace.
    pub served: Vec<Served>,
    /// Requests that the cache could never hold.
    pub refused: Vec<u32>,
    /// KV blocks of the cache.
    pub cache_blocks: u64,
    /// Blocks that were evicted for others.
    pub evicted: u64,
    /// The figures.
    pub summary: Summary,
    way: PlanOptions,
    shape: AttentionShape,
}

impl Replayed {
    /// The batch of a step; `None` past the last.
    pub fn batch_of(&self, step: usize) -> Option<BatchSpec> {
        let work = &self.steps.get(step)?.work;
        Some(serving::spec_of(&self.served, work, self.shape, format!("step {step} of a replay")))
    }

    /// What a step was planned with, those that stood in for the way included; `None` past the last.
    pub fn options_of(&self, step: usize) -> Option<PlanOptions> {
        let Step { strategy, stood_in, .. } = *self.steps.get(step)?;
        let scheduler = if stood_in { STAND_IN } else { &self.way.scheduler };
        Some(PlanOptions { scheduler: scheduler.to_owned(), strategy, ..self.way.clone() })
    }

    /// Steps that lose to the first way, those that lose most first.
    pub fn lost(&self) -> Vec<usize> {
        let by = |at: usize| self.steps[at].attention.time.0.saturating_sub(self.steps[at].first_way().time.0);
        let mut lost: Vec<usize> = (0..self.steps.len()).filter(|at| by(*at) > 0).collect();
        lost.sort_by_key(|at| std::cmp::Reverse(by(*at)));
        lost
    }
}

/// Replays a trace under every way on the simulator, several at once. `tell` is called after each step.
///
/// # Errors
/// [`Error::Unsupported`] where no scheduler can take a step; [`Error::Batch`]; [`Error::Cancelled`].
pub fn replay(
    trace: &Trace,
    ways: &[PlanOptions],
    options: &ReplayOptions,
    cancel: &Cancel,
    tell: &(dyn Fn() + Sync),
) -> Result<Vec<Replayed>> {
    ways.par_iter().map(|way| one_way(trace, (way, first_of(ways, way)), options, None, (cancel, tell))).collect()
}

/// The same with some of the steps of every way measured.
///
/// # Errors
/// As [`replay`], and whatever measuring meets.
pub fn replay_measured(
    trace: &Trace,
    ways: &[PlanOptions],
    options: &ReplayOptions,
    sampled: &mut Sampled<'_>,
    cancel: &Cancel,
    tell: &(dyn Fn() + Sync),
) -> Result<Vec<Replayed>> {
    let mut one = |way| one_way(trace, (way, first_of(ways, way)), options, Some(&mut *sampled), (cancel, tell));
    ways.iter().map(&mut one).collect()
}

/// The way that another is compared with.
fn first_of<'a>(ways: &'a [PlanOptions], way: &PlanOptions) -> Option<&'a PlanOptions> {
    ways.first().filter(|first| !std::ptr::eq(*first, way))
}

fn one_way(
    trace: &Trace,
    (way, first): (&PlanOptions, Option<&PlanOptions>),
    options: &ReplayOptions,
    mut sampled: Option<&mut Sampled<'_>>,
    (cancel, tell): (&Cancel, &(dyn Fn() + Sync)),
) -> Result<Replayed> {
    let shape = options.model.shape(options.gpus, options.block_size)?;
    shape.validate()?;
    let layers = u64::from(options.model.layers);
    let mut serving = Serving::new(trace, shape, options.serving);
    let (mut own, mut other) = (Planner::new(way), first.map(Planner::new));
    let (mut steps, mut now) = (Vec::new(), Nanos::ZERO);
    while (steps.len() as u64) < options.max_steps {
        cancel.check()?;
        let Some(work) = serving.step(now) else {
            let Some(arrival) = serving.next_arrival() else { break };
            now = now.max(arrival);
            continue;
        };
        let number = steps.len() as u64;
        let changes = serving.take_changes();
        let (planned, how) = own.plan(&serving, &work, &changes)?;
        let stood_in = planned.options.scheduler != way.scheduler;
        let attention = timing::time(number, &planned, sampled.as_deref_mut(), cancel)?;
        let first = match &mut other {
            None => None,
            Some(other) => {
                let (planned, _) = other.plan(&serving, &work, &changes)?;
                Some(timing::time(number, &planned, sampled.as_deref_mut(), cancel)?)
            }
        };
        let tokens = work.iter().map(|one| one.chunk.unwrap_or(1)).sum();
        let rest = rest_of_layer(options.model, options.gpus, &way.device, tokens);
        let duration = Nanos(layers * (attention.time + rest).0);
        let (blocks_held, ..) = serving.cache();
        serving.finish(&work, now + duration);
        let strategy = planned.options.strategy;
        steps.push(Step { begin: now, duration, work, attention, first, rest, how, stood_in, strategy, blocks_held });
        now += duration;
        tell();
    }
    if steps.is_empty() {
        return Err(Error::Batch("no request of the trace fits the cache; give it more tokens".to_owned()));
    }
    let (_, cache_blocks, evicted) = serving.cache();
    Ok(Replayed {
        scheduler: way.scheduler.clone(),
        strategy: way.strategy.name(),
        summary: Summary::of(&serving.served, &steps, layers),
        served: serving.served,
        refused: serving.refused,
        steps,
        cache_blocks,
        evicted,
        way: way.clone(),
        shape,
    })
}
