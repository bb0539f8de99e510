//! The one thread that plans and simulates. Jobs carry a generation: a newer job of a kind drops
//! those before it, and the running one is cancelled. Runs on a GPU have a thread of their own, so
//! that an edit never waits for one; see [`super::gpu`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use engine::cancel::Cancel;
use engine::capture::{Capture, L2State, Loaded, Source, Spread};
use engine::metrics::{self, BubbleReport, Differences, NodeTraffic, Traffic, Twin};
use engine::pack;
use engine::plan::{PlanDigest, Strategy, hybrid};
use engine::session::{self, PlanOptions, Planned, RunOptions};
use engine::units::{Bytes, NodeIdx};
use engine::workload::BatchSpec;

use super::gaps::Gaps;
use super::lanes::Lanes;
use super::mishap::{self, Mishap};
use crate::damage::{self, Damage};

/// A capture and all that views draw of it.
#[derive(Debug)]
pub struct Run {
    /// The run itself.
    pub capture: Capture,
    /// Its lanes.
    pub lanes: Lanes,
    /// Bubbles in all.
    pub bubbles: BubbleReport,
    /// Each bubble with its cause, by SM, lane and begin.
    pub gaps: Gaps,
    /// Digest of its plan as this build makes it: runs of one plan know each other.
    pub plan_digest: PlanDigest,
    /// What its file had lost.
    pub damage: Damage,
    /// Wall time that the run took, preparation included; zero for one from a file.
    pub took: Duration,
}

impl Run {
    /// Derives everything that views need.
    pub fn of(capture: Capture, took: Duration) -> Self {
        Self::damaged(capture, Damage::default(), took)
    }

    /// The same of a capture whose file had lost something.
    pub fn damaged(capture: Capture, damage: Damage, took: Duration) -> Self {
        Self {
            damage,
            lanes: Lanes::of(&capture),
            bubbles: metrics::bubbles(&capture.plan, &capture),
            gaps: Gaps::new(metrics::gaps(&capture.plan, &capture)),
            plan_digest: capture.plan.digest(),
            capture,
            took,
        }
    }

    /// Simulated or measured.
    pub fn source(&self) -> Source {
        self.capture.provenance.source
    }

    /// What stands beside its figures.
    pub fn words(&self) -> &'static str {
        self.capture.provenance.source_words()
    }

    /// Count, median and range of the makespans; where measured, of runs without tracing.
    pub fn times(&self) -> Spread {
        self.capture.times.spread()
    }

    /// Share of slot time that is busy, with `digits`; or that it is not known.
    pub fn busy(&self, digits: usize) -> String {
        damage::busy(self.bubbles.busy_share(), digits, &self.damage)
    }
}

/// Which runs a view shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sources {
    /// All that are there.
    #[default]
    Both,
    /// That one, where it is there.
    Only(Source),
}

/// A plan and its runs; all that views draw.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Batch, tree and plan.
    pub planned: Planned,
    /// Digest of the plan; see [`Run::plan_digest`].
    pub plan_digest: PlanDigest,
    /// Its run on the simulator, if there is one.
    pub simulated: Option<Arc<Run>>,
    /// Its run on a GPU, if there is one.
    pub measured: Option<Arc<Run>>,
    /// Those two CTA by CTA, once compared.
    pub differences: Option<Arc<Differences>>,
    /// Bytes by kind.
    pub traffic: Traffic,
    /// Tokens read of each node.
    pub nodes: Vec<NodeTraffic>,
    /// Tree node of each pack.
    pub nodes_of_packs: Vec<NodeIdx>,
}

impl Shown {
    /// Derives everything that views need.
    pub fn new(planned: Planned, run: Option<Run>) -> Self {
        let (simulated, measured) = match run.map(Arc::new) {
            Some(run) if run.source() == Source::Measured => (None, Some(run)),
            run => (run, None),
        };
        Self {
            plan_digest: planned.plan.digest(),
            simulated,
            measured,
            differences: None,
            traffic: metrics::traffic(&planned.plan, &planned.batch, &planned.tree),
            nodes: metrics::node_traffic(&planned.plan, &planned.tree),
            nodes_of_packs: planned.plan.packs.iter().map(|pack| pack.node).collect(),
            planned,
        }
    }

    /// A capture from a file, with the plan that is in it.
    ///
    /// # Errors
    /// Whatever is wrong with the batch in the capture.
    pub fn of_capture(loaded: Loaded) -> engine::Result<Self> {
        let damage = Damage::of(&loaded);
        let capture = loaded.capture;
        let device =
            engine::hw::find(&capture.provenance.device).or_else(|error| engine::hw::builtin().first().ok_or(error))?;
        let planned = session::planned_of(&capture, device)?;
        Ok(Self::new(planned, Some(Run::damaged(capture, damage, Duration::ZERO))))
    }

    /// The run of a source.
    pub fn run(&self, source: Source) -> Option<&Arc<Run>> {
        match source {
            Source::Simulated => self.simulated.as_ref(),
            Source::Measured => self.measured.as_ref(),
        }
    }

    /// The runs to show, measured first; a source that is not there gives way to the other.
    pub fn runs(&self, sources: Sources) -> impl Iterator<Item = &Arc<Run>> {
        let wanted = move |run: &&Arc<Run>| match sources {
            Sources::Only(source) if self.run(source).is_some() => run.source() == source,
            _ => true,
        };
        self.measured.iter().chain(&self.simulated).filter(wanted)
    }

    /// End of the last span of the runs to show.
    pub fn end(&self, sources: Sources) -> u64 {
        self.runs(sources).map(|run| run.lanes.end).max().unwrap_or(0)
    }

    /// The run that figures of one run are taken from: the measured one where there is one.
    pub fn front(&self) -> Option<&Arc<Run>> {
        self.runs(Sources::Both).next()
    }

    /// The CTA of a span in both runs.
    pub fn twin(&self, source: Source, span: usize) -> Option<&Twin> {
        let differences = self.differences.as_ref()?;
        match source {
            Source::Measured => differences.of_measured(span),
            Source::Simulated => differences.of_simulated(span),
        }
    }
}

/// One run of some plan, beside others.
#[derive(Clone, Debug)]
pub struct Way {
    /// The run.
    pub run: Arc<Run>,
    /// Bytes that its CTAs issue.
    pub issued: Bytes,
}

/// One way of running the batch, beside others.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Scheduler and strategy.
    pub name: String,
    /// Its run, or why there is none.
    pub outcome: Result<Way, String>,
}

/// What a job is to do.
#[derive(Clone, Debug)]
pub enum Task {
    /// Plan and simulate.
    Plan,
    /// All ways side by side instead of the chosen one.
    Compare,
    /// Put the simulated run of a plan beside its measured one, simulating where that was not done.
    Match {
        /// The plan.
        planned: Box<Planned>,
        /// Its run on a GPU.
        measured: Arc<Run>,
        /// Its run on the simulator.
        simulated: Option<Arc<Run>>,
    },
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
    /// State of L2 at the start of a run.
    pub l2: L2State,
    /// What to do.
    pub task: Task,
    /// Stops it.
    pub cancel: Cancel,
}

/// A simulated run beside a measured one of the same plan.
#[derive(Clone, Debug)]
pub struct Matched {
    /// The plan's run on a GPU.
    pub measured: Arc<Run>,
    /// Its run on the simulator.
    pub simulated: Arc<Run>,
    /// Both CTA by CTA.
    pub differences: Arc<Differences>,
}

/// What the worker tells.
#[derive(Clone, Debug)]
pub enum Event {
    /// The plan is there, with its run if it could be simulated, and why not otherwise.
    Done(u64, Box<Shown>, Option<String>),
    /// There is no plan.
    Failed(u64, String),
    /// A job panicked; nothing more comes of it.
    Panicked(u64, String),
    /// It was cancelled.
    Cancelled(u64),
    /// One more way is ready; how many there will be.
    Compared(u64, Compared, usize),
    /// A measured run has its simulated one beside it, or the reason why not.
    Matched(u64, Result<Matched, String>),
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
                if !job.cancel.is_cancelled() && !serve(&job, &tell) {
                    return;
                }
            }
        })?;
        Ok(Self { jobs, events })
    }

    /// Hands over a job, or gives it back when the worker is behind.
    pub fn submit(&self, job: Job) -> Option<Job> {
        match self.jobs.try_send(job) {
            // The thread ends with the window alone: a job that panics does not end it.
            Ok(()) | Err(TrySendError::Disconnected(_)) => None,
            Err(TrySendError::Full(job)) => Some(job),
        }
    }
}

/// Does a job. One that panics is a fault of packscope: it is told, and the thread takes the next.
fn serve(job: &Job, tell: &dyn Fn(Event) -> bool) -> bool {
    mishap::catch(|| work(job, tell))
        .unwrap_or_else(|mishap| tell(Event::Panicked(job.generation, by_our_fault(&mishap))))
}

fn by_our_fault(mishap: &Mishap) -> String {
    format!("planning or simulating failed by a fault of packscope, please report it: {mishap}")
}

fn work(job: &Job, tell: &dyn Fn(Event) -> bool) -> bool {
    let done = match &job.task {
        Task::Compare => return compare(job, tell),
        Task::Plan => run(&job.spec, &job.options, job.l2, &job.cancel)
            .map(|(shown, problem)| Event::Done(job.generation, Box::new(shown), problem)),
        Task::Match { planned, measured, simulated } => beside(planned, measured, simulated.as_ref(), &job.cancel)
            .map(|matched| Event::Matched(job.generation, Ok(matched))),
    };
    tell(match (done, &job.task) {
        (Ok(event), _) => event,
        (Err(engine::Error::Cancelled), _) => Event::Cancelled(job.generation),
        (Err(error), Task::Match { .. }) => Event::Matched(job.generation, Err(error.to_string())),
        (Err(error), _) => Event::Failed(job.generation, error.to_string()),
    })
}

/// Plans and simulates; a plan that cannot be simulated comes with the reason.
///
/// # Errors
/// Where there is no plan, or it was cancelled.
pub fn run(
    spec: &BatchSpec,
    options: &PlanOptions,
    l2: L2State,
    cancel: &Cancel,
) -> engine::Result<(Shown, Option<String>)> {
    #[cfg(test)]
    super::tests::trip(spec, &options.scheduler);
    let planned = session::plan_spec(spec, options)?;
    cancel.check()?;
    if planned.batch.requests().is_empty() {
        return Ok((Shown::new(planned, None), None));
    }
    match simulated(&planned, l2, cancel) {
        Ok(run) => Ok((Shown::new(planned, Some(run)), None)),
        Err(engine::Error::Cancelled) => Err(engine::Error::Cancelled),
        Err(error) => Ok((Shown::new(planned, None), Some(error.to_string()))),
    }
}

fn simulated(planned: &Planned, l2: L2State, cancel: &Cancel) -> engine::Result<Run> {
    let start = Instant::now();
    let how = RunOptions { command: "window".to_owned(), repeats: 1, l2, ..RunOptions::default() };
    let capture = session::simulate(planned, &how, cancel)?;
    let took = start.elapsed();
    Ok(Run::of(capture, took))
}

/// The simulated run beside a measured one, from the same state of L2.
///
/// # Errors
/// Where the plan or its GPU cannot be simulated, or it was cancelled.
pub fn beside(
    planned: &Planned,
    measured: &Arc<Run>,
    simulated: Option<&Arc<Run>>,
    cancel: &Cancel,
) -> engine::Result<Matched> {
    let simulated = if let Some(run) = simulated {
        Arc::clone(run)
    } else {
        let made = &measured.capture.provenance;
        let device = &planned.options.device;
        if (&device.key, device.sm_count) != (&made.device, made.sm_count) {
            let (name, sms) = (&made.device_name, made.sm_count);
            return Err(engine::Error::Device(format!("'{name}' with {sms} SMs is not in the device table")));
        }
        Arc::new(self::simulated(planned, measured.capture.times.l2, cancel)?)
    };
    let differences = Arc::new(Differences::of(&measured.capture, &simulated.capture));
    Ok(Matched { measured: Arc::clone(measured), simulated, differences })
}

/// Every strategy that takes the batch under the chosen scheduler, then every other scheduler under the chosen strategy.
pub fn ways(spec: &BatchSpec, options: &PlanOptions) -> Vec<PlanOptions> {
    let strategies: &[Strategy] = if spec.is_hybrid() { &Strategy::ALL } else { &Strategy::ANY_BATCH };
    let made = |strategy: &&Strategy| hybrid::has_kernels(&options.device, **strategy);
    let strategies =
        strategies.iter().filter(made).map(|strategy| PlanOptions { strategy: *strategy, ..options.clone() });
    let others = pack::schedulers().iter().filter(|scheduler| scheduler.name() != options.scheduler);
    let others = others.map(|scheduler| PlanOptions { scheduler: scheduler.name().to_owned(), ..options.clone() });
    strategies.chain(others).map(|way| PlanOptions { explain: false, ..way }).collect()
}

fn compare(job: &Job, tell: &dyn Fn(Event) -> bool) -> bool {
    let ways = ways(&job.spec, &job.options);
    for way in &ways {
        let name = format!("{} · {}", way.scheduler, way.strategy.name());
        // A way that panics is one that there is no run of; the others have theirs.
        let outcome = match mishap::catch(|| run(&job.spec, way, job.l2, &job.cancel)) {
            Err(mishap) => Err(by_our_fault(&mishap)),
            Ok(Ok((_, Some(problem)))) => Err(problem),
            Ok(Ok((Shown { simulated: Some(run), traffic, .. }, None))) => Ok(Way { run, issued: traffic.issued() }),
            Ok(Ok(_)) => Err("the batch is empty".to_owned()),
            Ok(Err(engine::Error::Cancelled)) => return tell(Event::Cancelled(job.generation)),
            Ok(Err(error)) => Err(error.to_string()),
        };
        if !tell(Event::Compared(job.generation, Compared { name, outcome }, ways.len())) {
            return false;
        }
    }
    true
}
