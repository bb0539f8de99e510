//! `auto`: the scheduler and the strategy whose run is shortest, with the others as runners-up.
//!
//! Decodes alone are priced by cohorts of like CTAs ([`estimate`]), in microseconds a plan, as far as they may be among the
//! best, and of plans with few CTAs the best ones are simulated after that. Beside prefill no such form knows how tails,
//! co-residency and power fall together, so there the scheduler is the one that is best for the decodes alone, and each
//! strategy is simulated. Where a GPU is there, it may have the last word among the best ones ([`Runner::tune`]).

mod priced;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use self::priced::Made;
use super::packed::pack_batch;
use super::{PlanOptions, Planned, RunOptions, Runner, check_tile, plan_batch, proven, simulate};
use crate::backend::sim::{estimate, makespan};
use crate::cancel::Cancel;
use crate::decision::{Choice, Considered, Decision, Price, Subject};
use crate::error::{Error, Result};
use crate::hw::Device;
use crate::pack;
use crate::plan::{LaunchPlan, Strategy, hybrid};
use crate::tile::{self, TileSet};
use crate::units::Nanos;
use crate::workload::{Batch, BatchSpec, PrefixTree};

/// What of a plan is found by its time instead of being asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Auto {
    /// The scheduler, of [`pack::AUTO`] and, by how many requests there are, [`pack::AUTO_OF_FEW`],
    /// [`pack::AUTO_OF_MANY`] or [`pack::AUTO_OF_CROWDS`] besides.
    pub scheduler: bool,
    /// The strategy, of all that the device has kernels for.
    pub strategy: bool,
}

impl Auto {
    /// Both.
    pub const BOTH: Self = Self { scheduler: true, strategy: true };

    /// Whether anything is.
    pub fn any(self) -> bool {
        self.scheduler || self.strategy
    }
}

/// How many of the best ways a GPU tries.
const TRIED: usize = 3;

/// What a way must gain on those before it to be taken, unless both are simulated after all: cohorts err by more, and of
/// many requests most plans that may gain less need not be priced then, a quarter of the planning time. Of 188 random batches
/// on an H200 and an H100 `auto` takes a way within 5 % of the fastest in 176, and without this in 170.
const WORTH: f64 = 0.98;

/// CTAs of a plan that is simulated in about the time in which the others are priced.
const FEW_CTAS: u64 = 150;

/// The time of what has none.
const LAST: Nanos = Nanos(u64::MAX);

/// A scheduler under a strategy.
#[derive(Clone, Debug, PartialEq)]
struct Pair {
    scheduler: String,
    strategy: Strategy,
}

impl Pair {
    /// The options of this pair.
    fn options(&self, asked: &PlanOptions) -> PlanOptions {
        PlanOptions {
            scheduler: self.scheduler.clone(),
            strategy: self.strategy,
            auto: Auto::default(),
            explain: false,
            ..asked.clone()
        }
    }
}

/// A pair, and the time that it is expected to take.
struct Way {
    time: Nanos,
    pair: Pair,
    /// Its plan, where that has few CTAs.
    plan: Option<LaunchPlan>,
}

/// All ways by time, and those that the device or the batch refuses.
struct Ways {
    auto: Auto,
    /// How the times were found.
    by: By,
    timed: Vec<Way>,
    /// The one that is taken of those that were priced so far, and its time.
    first: Option<(Pair, Nanos)>,
    refused: Vec<Pair>,
    /// Those that have the packs of another, or launch the same.
    same: Vec<Pair>,
    /// Those that are not among so many best ones: what they take at least is more than these take.
    slower: Vec<Pair>,
    best: usize,
    /// Whether the batch is one of few CTAs, of which the best ways are simulated.
    few: bool,
    /// How many of the first ones have the simulator's times.
    sure: usize,
    tree: Arc<PrefixTree>,
    tiles: Arc<TileSet>,
    /// The first of the ways as it was planned, where that was without decisions.
    made: Option<Made>,
    /// What the first of these said.
    why: Option<Error>,
    /// From the block tables to the choice.
    took: Duration,
}

/// What says how long a way takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Cohorts,
    Simulation,
}

/// Plans a batch in the way that is expected to take the least time; of equals the first in the order of menus.
///
/// # Errors
/// As [`plan_batch`]; where every way refuses the batch, what the first one said.
pub(super) fn plan(spec: &Arc<BatchSpec>, batch: &Arc<Batch>, options: &PlanOptions) -> Result<Planned> {
    let best = if options.explain { TRIED } else { 1 };
    let ways = Ways::of((spec, batch), options, best)?;
    let why = options.explain.then(|| ways.explain());
    ways.take(0, (spec, batch), options, why)
}

/// The ways that may be taken with their expected times: first the one that a plan takes, then by these.
///
/// # Errors
/// As [`plan_batch`].
pub fn ranking(spec: &BatchSpec, options: &PlanOptions) -> Result<Vec<(PlanOptions, Nanos)>> {
    let batch = Arc::new(spec.build()?);
    let ways = Ways::of((&Arc::new(spec.clone()), &batch), options, usize::MAX)?;
    Ok(ways.timed.into_iter().map(|way| (way.pair.options(options), way.time)).collect())
}

/// How long the choice takes on this thread. Where it is found by simulation, as long as it took: that is not repeated
/// for the sake of its time.
///
/// # Errors
/// As [`plan`].
pub(super) fn plan_time(planned: &Planned) -> Result<Duration> {
    if planned.batch.prefills().next().is_some() {
        return Ok(planned.plan_time);
    }
    Ok(Ways::of((&planned.spec, &planned.batch), &planned.options, 1)?.took)
}

impl Runner {
    /// Plans a batch in the way that this GPU runs fastest of the three that are expected to take the least time.
    ///
    /// # Errors
    /// As [`super::plan_spec`] and [`Runner::run`]; [`Error::Unsupported`] without a GPU.
    pub fn tune(
        &mut self,
        spec: &BatchSpec,
        options: &PlanOptions,
        run: &RunOptions,
        cancel: &Cancel,
    ) -> Result<Planned> {
        if self.device().is_none() {
            return Err(Error::Unsupported {
                who: "tuning".to_owned(),
                limit:
                    "it runs the best ways on a GPU, and there is none here; leave it out, and the simulator decides"
                        .to_owned(),
            });
        }
        let (spec, batch) = (Arc::new(spec.clone()), Arc::new(spec.build()?));
        // A GPU may refuse some, so that others are among the best.
        let mut ways = Ways::of((&spec, &batch), options, usize::MAX)?;
        let (mut taken, mut measured) = (Vec::new(), Vec::new());
        for way in std::mem::take(&mut ways.timed) {
            if measured.len() == TRIED {
                taken.push(way);
                continue;
            }
            let planned = plan_batch(&spec, &batch, &way.pair.options(options))?;
            match self.accepts(&planned) {
                Ok(()) => {
                    measured.push(self.run(&planned, run, cancel)?.time());
                    taken.push(way);
                }
                Err(error) => ways.refuse(error, [way.pair])?,
            }
        }
        ways.timed = taken;
        let best = (0..measured.len()).min_by_key(|at| measured[*at]).unwrap_or(0);
        let why = options.explain.then(|| ways.explain_tuned(&measured, best));
        ways.take(best, (&spec, &batch), options, why)
    }
}

impl Ways {
    /// Prices every way that may be among the `best` ones.
    fn of((spec, batch): (&Arc<BatchSpec>, &Arc<Batch>), options: &PlanOptions, best: usize) -> Result<Self> {
        let tiles = Arc::new(tile::solve(&options.device, batch.shape.head_dim, batch.shape.dtype));
        check_tile(options, &tiles)?;
        let start = Instant::now();
        let tree = Arc::new(PrefixTree::of(batch));
        let prefill = batch.prefills().next().is_some();
        let mut ways = Self {
            auto: options.auto,
            by: if prefill { By::Simulation } else { By::Cohorts },
            timed: Vec::new(),
            first: None,
            refused: Vec::new(),
            same: Vec::new(),
            slower: Vec::new(),
            best,
            few: has_few_ctas(batch),
            sure: 0,
            tree: Arc::clone(&tree),
            tiles: Arc::clone(&tiles),
            made: None,
            why: None,
            took: Duration::ZERO,
        };
        if prefill {
            let schedulers = match options.auto.scheduler.then(|| best_of_decodes(batch, &tree, &tiles, options)) {
                Some(best) => vec![best?],
                None => vec![options.scheduler.as_str()],
            };
            ways.simulated((spec, batch), options, &pairs(batch, options, &schedulers)?)?;
        } else {
            ways.priced(batch, options)?;
        }
        // A stable sort: of equals the first in the order of menus.
        ways.timed.sort_by_key(|way| (ways.first.as_ref().is_some_and(|(pair, _)| *pair != way.pair), way.time));
        ways.make_sure(&options.device);
        ways.took = start.elapsed();
        Ok(ways)
    }

    /// Simulates the best ways as long as they have few CTAs and are near the first, and puts them in order: cohorts do not
    /// know where on the GPU each CTA is, nor, behind the first wave, which one of a query comes last and merges. Of 109 random
    /// batches on an H100 `auto` takes a way within 5 % of the fastest in 99, and without this in 97.
    fn make_sure(&mut self, device: &Device) {
        let Some(best) = self.timed.first().map(|way| way.time) else { return };
        let first = self.timed.iter().take(TRIED).take_while(|way| way.time <= near(best));
        let plans: Vec<&LaunchPlan> = first.map_while(|way| way.plan.as_ref()).collect();
        if plans.len() < 2 {
            return;
        }
        let times: Result<Vec<Nanos>> = plans.iter().map(|plan| makespan(plan, &self.tree, device)).collect();
        // What cannot be simulated says so when it is planned.
        let Ok(times) = times else { return };
        let planned = self.timed[0].pair.clone();
        self.sure = times.len();
        for (way, time) in self.timed.iter_mut().zip(times) {
            way.time = time;
        }
        self.timed[..self.sure].sort_by_key(|way| way.time);
        if self.timed[0].pair != planned {
            self.made = None;
        }
    }

    /// Plans and simulates ways, on all cores.
    fn simulated(
        &mut self,
        (spec, batch): (&Arc<BatchSpec>, &Arc<Batch>),
        options: &PlanOptions,
        asked: &[Pair],
    ) -> Result<()> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some(at) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < asked.len()) {
                done.push((at, simulated(spec, batch, &asked[at].options(options))));
            }
            done
        };
        let workers = thread::available_parallelism().map_or(1, usize::from).min(asked.len());
        let mut done: Vec<_> = thread::scope(|scope| {
            let handles: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
            let mut done = work();
            for handle in handles {
                // A panic of a worker goes on here, as if the work had been done on this thread.
                done.extend(handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            done
        });
        // Workers end in any order.
        done.sort_by_key(|(at, _)| *at);
        for (at, result) in done {
            match result {
                Ok(time) => self.timed.push(Way { time, pair: asked[at].clone(), plan: None }),
                Err(error) => self.refuse(error, [asked[at].clone()])?,
            }
        }
        Ok(())
    }

    /// Keeps the ways that the device or the batch refuses; any other error ends the choice.
    fn refuse(&mut self, error: Error, ways: impl IntoIterator<Item = Pair>) -> Result<()> {
        let Error::Unsupported { .. } = error else { return Err(error) };
        self.refused.extend(ways);
        self.why.get_or_insert(error);
        Ok(())
    }

    /// The way at a place of the list, planned, with `why` as the first of its decisions.
    fn take(
        mut self,
        at: usize,
        (spec, batch): (&Arc<BatchSpec>, &Arc<Batch>),
        options: &PlanOptions,
        why: Option<Decision>,
    ) -> Result<Planned> {
        if at >= self.timed.len() {
            return Err(self.why.unwrap_or_else(|| Error::Plan("there is no strategy for this batch".to_owned())));
        }
        let way = PlanOptions { explain: options.explain, ..self.timed[at].pair.options(options) };
        let made = self.made.take().filter(|_| at == 0 && !options.explain);
        let mut planned = match made {
            Some((packing, plan)) => {
                let (tree, tiles) = (Arc::clone(&self.tree), Arc::clone(&self.tiles));
                proven((spec, batch), (tree, tiles), (&packing, plan), &way)?
            }
            None => plan_batch(spec, batch, &way)?,
        };
        if let Some(why) = why {
            let mut plan: LaunchPlan = (*planned.plan).clone();
            plan.decisions.insert(0, why);
            planned.plan = Arc::new(plan);
        }
        planned.plan_time = self.took;
        planned.options = Arc::new(PlanOptions { auto: options.auto, ..(*planned.options).clone() });
        Ok(planned)
    }

    fn explain(&self) -> Decision {
        let (unit, rule) = match self.by {
            By::Cohorts => (
                "µs by cohorts",
                "auto takes the way whose run is shortest by cohorts of like CTAs, with cold L2, on the simulator's rates, or one before it in the order of menus that takes less than 2 % more",
            ),
            By::Simulation => {
                ("µs simulated", "auto takes the way whose whole run is shortest on the simulator, with cold L2")
            }
        };
        let sure = match self.sure {
            0 => String::new(),
            sure => format!("; of the first {sure}, which have few CTAs, the times are simulated"),
        };
        let rule = format!("{rule}{sure}{}", self.others());
        self.decision(unit, self.timed.iter().map(|way| way.time), 0, rule)
    }

    fn explain_tuned(&self, measured: &[Nanos], best: usize) -> Decision {
        let expected: Vec<String> =
            self.timed.iter().map(|way| format!("{} {}", self.name(&way.pair), way.time)).collect();
        let rule = format!(
            "of the {} ways that are expected to be shortest this GPU runs it fastest, with cold L2 (expected: {}){}",
            measured.len(),
            expected.join(", "),
            self.others()
        );
        self.decision("µs measured", measured.iter().copied(), best, rule)
    }

    fn decision(
        &self,
        unit: &'static str,
        times: impl Iterator<Item = Nanos>,
        chosen: usize,
        rule: String,
    ) -> Decision {
        let way = |(way, time): (&Way, Nanos)| {
            Considered::new(self.name(&way.pair), time.as_f64() * 1e-3, Price::run(time.as_f64()))
        };
        Decision {
            subject: Subject::Plan,
            other: None,
            choice: Choice::Launch,
            considered: self.timed.iter().zip(times).map(way).collect(),
            chosen,
            unit: unit.into(),
            rule: rule.into(),
            constant: None,
        }
    }

    /// The ways that were not priced, and why.
    fn others(&self) -> String {
        let mut text = String::new();
        for (pairs, why) in [
            (&self.refused, "cannot run this batch on this device"),
            (&self.same, "have the packs of another, or would launch the same"),
            (&self.slower, "take longer at least than these, for their bytes or their CTAs alone"),
        ] {
            if !pairs.is_empty() {
                let names: Vec<String> = pairs.iter().map(|pair| self.name(pair)).collect();
                // Writing to a string cannot fail.
                let _ = write!(text, "; {} {why}", names.join(", "));
            }
        }
        text
    }

    /// What of a way was not asked for.
    fn name(&self, way: &Pair) -> String {
        let strategy = way.strategy.name();
        match (self.auto.scheduler, self.auto.strategy) {
            (true, true) => format!("{} {strategy}", way.scheduler),
            (true, false) => way.scheduler.clone(),
            (false, _) => strategy.to_owned(),
        }
    }
}

/// The latest time that may turn out to be less than one of cohorts once both are simulated.
fn near(time: Nanos) -> Nanos {
    Nanos(time.0.saturating_add(time.0 / 8))
}

/// Whether plans of a batch may have few CTAs: each request has one at least for every run of KV heads, unless all its KV
/// is another's too.
fn has_few_ctas(batch: &Batch) -> bool {
    let runs = batch.shape.kv_heads.div_ceil(tile::SIDE_BY_SIDE);
    batch.requests().len() as u64 * u64::from(runs) <= FEW_CTAS
}

/// The schedulers that may be taken.
fn schedulers<'a>(batch: &Batch, options: &'a PlanOptions) -> Vec<&'a str> {
    match options.auto.scheduler {
        true if batch.requests().len() <= pack::FEW => [&pack::AUTO[..], &pack::AUTO_OF_FEW].concat(),
        true if batch.requests().len() > pack::CROWD => {
            [&pack::AUTO[..], &pack::AUTO_OF_MANY, &pack::AUTO_OF_CROWDS].concat()
        }
        true => [&pack::AUTO[..], &pack::AUTO_OF_MANY].concat(),
        false => vec![options.scheduler.as_str()],
    }
}

/// Every way of some schedulers, in the order of menus.
fn pairs(batch: &Batch, options: &PlanOptions, schedulers: &[&str]) -> Result<Vec<Pair>> {
    let strategies =
        if options.auto.strategy { hybrid::offered(&options.device, batch) } else { vec![options.strategy] };
    let mut all = Vec::new();
    for scheduler in schedulers {
        pack::find(scheduler)?;
        all.extend(strategies.iter().map(|strategy| Pair { scheduler: (*scheduler).to_owned(), strategy: *strategy }));
    }
    Ok(all)
}

/// The scheduler that is best for the decodes of a hybrid batch by themselves, as one kernel.
fn best_of_decodes<'a>(batch: &Batch, tree: &PrefixTree, tiles: &TileSet, options: &'a PlanOptions) -> Result<&'a str> {
    let mut best = (LAST, pack::AUTO[0]);
    for scheduler in schedulers(batch, options) {
        let alone = Pair { scheduler: scheduler.to_owned(), strategy: Strategy::Serial }.options(options);
        let plan = pack_batch(batch, (tree, tiles), &alone).and_then(|packed| packed.plan(Strategy::Serial, false));
        match plan.map(|plan| estimate(&plan, tree, &options.device)) {
            Ok(Some(time)) if time < best.0 => best = (time, scheduler),
            Ok(_) | Err(Error::Unsupported { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(best.1)
}

fn simulated(spec: &Arc<BatchSpec>, batch: &Arc<Batch>, options: &PlanOptions) -> Result<Nanos> {
    let planned = plan_batch(spec, batch, options)?;
    Ok(simulate(&planned, &RunOptions::default(), &Cancel::default())?.makespan())
}
