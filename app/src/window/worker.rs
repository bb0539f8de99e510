//! The one thread that plans and simulates. Jobs carry a generation: a newer job of a kind drops
//! those before it, and the running one is cancelled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use engine::cancel::Cancel;
use engine::capture::Capture;
use engine::metrics::{self, BubbleReport, NodeTraffic, Traffic};
use engine::pack;
use engine::plan::Strategy;
use engine::session::{self, PlanOptions, Planned, RunOptions};
use engine::units::NodeIdx;
use engine::workload::{BatchSpec, PrefixTree};

use super::gaps::Gaps;
use super::lanes::Lanes;

/// A plan and, once it ran, its run; all that views draw.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Batch, tree and plan.
    pub planned: Planned,
    /// The run, if there is one.
    pub capture: Option<Arc<Capture>>,
    /// Lanes of the run.
    pub lanes: Lanes,
    /// Bytes by kind.
    pub traffic: Traffic,
    /// Tokens read of each node.
    pub nodes: Vec<NodeTraffic>,
    /// Tree node of each pack.
    pub nodes_of_packs: Vec<NodeIdx>,
    /// Bubbles in all, where it ran.
    pub bubbles: Option<BubbleReport>,
    /// Each bubble with its cause, by SM, lane and begin.
    pub gaps: Gaps,
    /// Wall time of the simulation.
    pub run_time: Duration,
}

impl Shown {
    /// Derives everything that views need.
    pub fn new(planned: Planned, capture: Option<Capture>, run_time: Duration) -> Self {
        Self {
            lanes: capture.as_ref().map(Lanes::of).unwrap_or_default(),
            traffic: metrics::traffic(&planned.plan, &planned.batch, &planned.tree),
            nodes: metrics::node_traffic(&planned.plan, &planned.tree),
            nodes_of_packs: planned.plan.packs.iter().map(|pack| pack.node).collect(),
            bubbles: capture.as_ref().map(|capture| metrics::bubbles(&planned.plan, capture)),
            gaps: capture.as_ref().map(|run| Gaps::new(metrics::gaps(&planned.plan, run))).unwrap_or_default(),
            capture: capture.map(Arc::new),
            planned,
            run_time,
        }
    }

    /// A capture from a file, with the plan that is in it.
    ///
    /// # Errors
    /// Whatever is wrong with the batch in the capture.
    pub fn of_capture(capture: Capture) -> engine::Result<Self> {
        let device =
            engine::hw::find(&capture.provenance.device).or_else(|error| engine::hw::builtin().first().ok_or(error))?;
        let batch = capture.batch.build()?;
        let options = PlanOptions {
            scheduler: capture.plan.scheduler.clone(),
            strategy: capture.plan.strategy,
            ..PlanOptions::new(device)
        };
        let planned = Planned {
            spec: Arc::new(capture.batch.clone()),
            tree: Arc::new(PrefixTree::of(&batch)),
            tiles: Arc::new(engine::tile::solve(device, batch.shape.head_dim, batch.shape.dtype)),
            batch: Arc::new(batch),
            plan: Arc::new(capture.plan.clone()),
            options: Arc::new(options),
            plan_time: Duration::ZERO,
        };
        Ok(Self::new(planned, Some(capture), Duration::ZERO))
    }
}

/// One way of running the batch, beside others.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Scheduler and strategy.
    pub name: String,
    /// Its plan and run, or why there is none.
    pub outcome: Result<Arc<Shown>, String>,
}

/// What the worker is asked.
#[derive(Clone, Debug)]
pub struct Job {
    /// Number of the edit that it belongs to.
    pub generation: u64,
    /// The batch.
    pub spec: Arc<BatchSpec>,
    /// What to plan with.
    pub options: PlanOptions,
    /// All ways side by side instead of the chosen one.
    pub compare: bool,
    /// Stops it.
    pub cancel: Cancel,
}

/// What the worker tells.
#[derive(Clone, Debug)]
pub enum Event {
    /// The plan is there, with its run if it could be simulated, and why not otherwise.
    Done(u64, Box<Shown>, Option<String>),
    /// There is no plan.
    Failed(u64, String),
    /// It was cancelled.
    Cancelled(u64),
    /// One more way is ready; how many there will be.
    Compared(u64, Compared, usize),
}

/// The worker and its channels.
#[derive(Debug)]
pub struct Worker {
    jobs: Sender<Job>,
    /// What it tells.
    pub events: Receiver<Event>,
}

impl Worker {
    /// Starts the thread; `wake` is called for each event.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub fn start(wake: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (jobs, inbox) = bounded::<Job>(16);
        let (outbox, events) = bounded(64);
        std::thread::Builder::new().name("engine".to_owned()).spawn(move || {
            while let Ok(job) = inbox.recv() {
                let tell = |event| {
                    let sent = outbox.send(event).is_ok();
                    wake();
                    sent
                };
                if !job.cancel.is_cancelled() && !work(&job, &tell) {
                    return;
                }
            }
        })?;
        Ok(Self { jobs, events })
    }

    /// Hands over a job, or gives it back when the worker is behind.
    pub fn submit(&self, job: Job) -> Option<Job> {
        match self.jobs.try_send(job) {
            Ok(()) => None,
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => Some(job),
        }
    }
}

fn work(job: &Job, tell: &dyn Fn(Event) -> bool) -> bool {
    if job.compare {
        return compare(job, tell);
    }
    tell(match run(&job.spec, &job.options, &job.cancel) {
        Ok((shown, problem)) => Event::Done(job.generation, Box::new(shown), problem),
        Err(engine::Error::Cancelled) => Event::Cancelled(job.generation),
        Err(error) => Event::Failed(job.generation, error.to_string()),
    })
}

/// Plans and simulates; a plan that cannot be simulated comes with the reason.
///
/// # Errors
/// Where there is no plan, or it was cancelled.
pub fn run(spec: &BatchSpec, options: &PlanOptions, cancel: &Cancel) -> engine::Result<(Shown, Option<String>)> {
    let planned = session::plan_spec(spec, options)?;
    cancel.check()?;
    if planned.batch.requests().is_empty() {
        return Ok((Shown::new(planned, None, Duration::ZERO), None));
    }
    let start = Instant::now();
    let how = RunOptions { command: "window".to_owned(), repeats: 1, ..RunOptions::default() };
    match session::simulate(&planned, &how, cancel) {
        Ok(capture) => {
            let time = start.elapsed();
            Ok((Shown::new(planned, Some(capture), time), None))
        }
        Err(engine::Error::Cancelled) => Err(engine::Error::Cancelled),
        Err(error) => Ok((Shown::new(planned, None, Duration::ZERO), Some(error.to_string()))),
    }
}

/// Every strategy under the chosen scheduler, then every other scheduler under the chosen strategy.
pub fn ways(options: &PlanOptions) -> Vec<PlanOptions> {
    let strategies = Strategy::ALL.into_iter().map(|strategy| PlanOptions { strategy, ..options.clone() });
    let others = pack::schedulers().iter().filter(|scheduler| scheduler.name() != options.scheduler);
    let others = others.map(|scheduler| PlanOptions { scheduler: scheduler.name().to_owned(), ..options.clone() });
    strategies.chain(others).map(|way| PlanOptions { explain: false, ..way }).collect()
}

fn compare(job: &Job, tell: &dyn Fn(Event) -> bool) -> bool {
    let ways = ways(&job.options);
    for way in &ways {
        let name = format!("{} · {}", way.scheduler, way.strategy.name());
        let outcome = match run(&job.spec, way, &job.cancel) {
            Ok((shown, None)) => Ok(Arc::new(shown)),
            Ok((_, Some(problem))) => Err(problem),
            Err(engine::Error::Cancelled) => return tell(Event::Cancelled(job.generation)),
            Err(error) => Err(error.to_string()),
        };
        if !tell(Event::Compared(job.generation, Compared { name, outcome }, ways.len())) {
            return false;
        }
    }
    true
}
