//! The one thread that plans and simulates. Jobs carry a number, and so does all that is told of them; see
//! `jobs::engine` for who asks and who is answered. Runs on a GPU have a thread of their own, so
//! that an edit never waits for one; see [`super::machine`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use engine::cancel::Cancel;
use engine::capture::L2State;
use engine::hw::Device;
use engine::metrics::Differences;
use engine::pack;
use engine::plan::{Strategy, hybrid};
use engine::session::{self, Auto, PlanOptions, Planned, RunOptions};
use engine::workload::BatchSpec;

use crate::document::Document;
use crate::jobs::mishap;
use crate::jobs::mishap::Mishap;
use crate::jobs::state::JobId;
use crate::runs::compared::{Compared, Kind, Matched, Way};
use crate::runs::run::Run;
use crate::runs::shown::Shown;

/// What a job is to do.
#[derive(Clone, Debug)]
pub enum Task {
    /// Plan and simulate.
    Plan,
    /// All ways side by side instead of the chosen one, and that one on these devices.
    Compare(Vec<Device>),
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
    /// Its number.
    pub id: JobId,
    /// The document as it was then.
    pub document: Document,
    /// What to do.
    pub task: Task,
    /// Stops it.
    pub cancel: Cancel,
}

/// What the worker tells of a job.
#[derive(Clone, Debug)]
pub struct Event {
    /// The job.
    pub id: JobId,
    /// What is told.
    pub told: Told,
    /// Since the worker took the job up.
    pub took: Duration,
}

/// What came of a job, or of a part of it.
#[derive(Clone, Debug)]
pub enum Told {
    /// The plan is there, with its run if it could be simulated, and why not otherwise.
    Done(Box<Shown>, Option<String>),
    /// There is no plan.
    Failed(String),
    /// The job panicked; nothing more comes of it.
    Panicked(String),
    /// It was cancelled.
    Cancelled,
    /// One more way is ready.
    Compared(Compared),
    /// A measured run has its simulated one beside it, or the reason why not.
    Matched(Result<Matched, String>),
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
                let begun = Instant::now();
                let tell = |told| {
                    let sent = outbox.send(Event { id: job.id, told, took: begun.elapsed() }).is_ok();
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
fn serve(job: &Job, tell: &dyn Fn(Told) -> bool) -> bool {
    mishap::catch(|| work(job, tell)).unwrap_or_else(|mishap| tell(Told::Panicked(by_our_fault(&mishap))))
}

fn by_our_fault(mishap: &Mishap) -> String {
    format!("planning or simulating failed by a fault of packscope, please report it: {mishap}")
}

fn work(job: &Job, tell: &dyn Fn(Told) -> bool) -> bool {
    let done = match &job.task {
        Task::Compare(devices) => return compare(job, devices, tell),
        Task::Plan => run(&job.document.spec, &job.document.options, job.document.l2, &job.cancel)
            .map(|(shown, problem)| Told::Done(Box::new(shown), problem)),
        Task::Match { planned, measured, simulated } => {
            beside(planned, measured, simulated.as_ref(), &job.cancel).map(|matched| Told::Matched(Ok(matched)))
        }
    };
    tell(match (done, &job.task) {
        (Ok(told), _) => told,
        (Err(engine::Error::Cancelled), _) => Told::Cancelled,
        (Err(error), Task::Match { .. }) => Told::Matched(Err(error.to_string())),
        (Err(error), _) => Told::Failed(error.to_string()),
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
    crate::jobs::mishap::trip(spec, &options.scheduler);
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

/// Every strategy that takes the batch under the chosen scheduler, then every other scheduler under the chosen strategy,
/// then what is chosen on each of `devices`.
pub fn ways(spec: &BatchSpec, options: &PlanOptions, devices: &[Device]) -> Vec<PlanOptions> {
    let strategies: &[Strategy] = if spec.is_hybrid() { &Strategy::ALL } else { &Strategy::ANY_BATCH };
    let made = |strategy: &&Strategy| hybrid::has_kernels(&options.device, **strategy);
    let strategies =
        strategies.iter().filter(made).map(|strategy| PlanOptions { strategy: *strategy, ..options.clone() });
    let others = pack::schedulers().iter().filter(|scheduler| scheduler.name() != options.scheduler);
    let others = others.map(|scheduler| PlanOptions { scheduler: scheduler.name().to_owned(), ..options.clone() });
    let elsewhere = devices.iter().map(|device| PlanOptions { device: device.clone(), ..options.clone() });
    // Each is the way that it names, whatever else would be faster.
    let all = strategies.chain(others).chain(elsewhere);
    all.map(|way| PlanOptions { explain: false, auto: Auto::default(), ..way }).collect()
}

fn compare(job: &Job, devices: &[Device], tell: &dyn Fn(Told) -> bool) -> bool {
    let document = &job.document;
    let ways = ways(&document.spec, &document.options, devices);
    for way in &ways {
        let name = format!("{} · {}", way.scheduler, way.strategy.name());
        let elsewhere = way.device.key != document.options.device.key;
        let (name, kind) = if elsewhere {
            (format!("{name} on {}", way.device.name), Kind::Device(way.device.key.clone()))
        } else {
            (name, Kind::Way)
        };
        // A way that panics is one that there is no run of; the others have theirs.
        let outcome = match mishap::catch(|| run(&document.spec, way, document.l2, &job.cancel)) {
            Err(mishap) => Err(by_our_fault(&mishap)),
            Ok(Ok((_, Some(problem)))) => Err(problem),
            Ok(Ok((Shown { simulated: Some(run), traffic, .. }, None))) => Ok(Way { run, traffic }),
            Ok(Ok(_)) => Err("the batch is empty".to_owned()),
            Ok(Err(engine::Error::Cancelled)) => return tell(Told::Cancelled),
            Ok(Err(error)) => Err(error.to_string()),
        };
        if !tell(Told::Compared(Compared { kind, name, outcome })) {
            return false;
        }
    }
    true
}
