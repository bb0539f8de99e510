//! The one thread that owns the GPU. It looks for one when it starts, opens it at the first run, and keeps it
//! open for the next; after a failure it drops it and opens anew. The window only ever sends and receives.
//!
//! ```text
//! look ──► Found (name, or why there is none)
//! job ──► open, once ──► run ──► Measured | Cancelled | Failed, with Tells on the way
//! ```

use std::path::PathBuf;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use engine::cancel::Cancel;
use engine::capture::{Capture, L2State};
use engine::hw::Device;
use engine::session::{Planned, RunOptions, Runner, Tell};
use engine::{Error, Result};

use crate::jobs::mishap;
use crate::jobs::state::JobId;
use crate::runs::run::Run;

/// What a run needs of an open GPU. [`Runner`] is one; tests stand in others.
pub trait RunsPlans {
    /// The GPU as a device.
    fn device(&self) -> Option<&Device>;

    /// Runs a plan.
    ///
    /// # Errors
    /// As [`Runner::run`].
    fn run(&mut self, planned: &Planned, how: &RunOptions, cancel: &Cancel) -> Result<Capture>;
}

impl RunsPlans for Runner {
    fn device(&self) -> Option<&Device> {
        Runner::device(self)
    }

    fn run(&mut self, planned: &Planned, how: &RunOptions, cancel: &Cancel) -> Result<Capture> {
        Runner::run(self, planned, how, cancel)
    }
}

/// A machine that may have a GPU. Used on the GPU's thread only.
pub trait Machine: Send {
    /// What the GPU is, found without taking anything of it.
    ///
    /// # Errors
    /// [`Error::Hardware`] where there is none, with the remedy.
    fn find(&self) -> Result<Found>;

    /// Opens it.
    ///
    /// # Errors
    /// As [`Runner::gpu`].
    fn open(&self, tell: Tell, cancel: &Cancel) -> Result<Box<dyn RunsPlans>>;
}

/// The machine that this program runs on.
#[derive(Debug)]
pub struct ThisMachine {
    /// Folder for compiled kernels.
    pub cache: Option<PathBuf>,
}

impl Machine for ThisMachine {
    fn find(&self) -> Result<Found> {
        let (name, device) = Runner::find_gpu()?;
        Ok(Found { name, device: device.cloned() })
    }

    fn open(&self, tell: Tell, cancel: &Cancel) -> Result<Box<dyn RunsPlans>> {
        Ok(Box::new(Runner::gpu(self.cache.clone(), tell, cancel)?))
    }
}

/// A GPU that is there.
#[derive(Clone, Debug)]
pub struct Found {
    /// Name, as the driver gives it.
    pub name: String,
    /// Its device; `None` until it is open, where the table has none for it.
    pub device: Option<Device>,
}

/// A run to make.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// The plan.
    pub planned: Planned,
    /// Runs to take the median of.
    pub repeats: u32,
    /// State of L2 before each.
    pub l2: L2State,
    /// Stops it.
    pub cancel: Cancel,
}

/// What the thread tells.
#[derive(Debug)]
pub enum Event {
    /// The GPU, or why there is none.
    Found(Box<Result<Found, String>>),
    /// What a run is at.
    Tells(JobId, String),
    /// What came of a run.
    Ended(JobId, Outcome),
}

/// What came of a run.
#[derive(Debug)]
pub enum Outcome {
    /// The run of a plan.
    Measured(Box<Planned>, Box<Run>),
    /// It failed.
    Failed(String),
    /// It was cancelled.
    Cancelled,
}

/// The thread and its channels.
#[derive(Debug)]
pub struct Gpu {
    jobs: Sender<Job>,
    /// What it tells.
    pub events: Receiver<Event>,
}

impl Gpu {
    /// Starts the thread; `wake` is called for each event.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub fn start(machine: Box<dyn Machine>, wake: impl Fn() + Clone + Send + 'static) -> std::io::Result<Self> {
        let (jobs, inbox) = bounded::<Job>(1);
        let (outbox, events) = bounded(256);
        std::thread::Builder::new().name("gpu".to_owned()).spawn(move || {
            let tell = Teller { outbox, wake };
            let found = mishap::catch(|| machine.find()).unwrap_or_else(|mishap| Err(panicked(&mishap)));
            tell.event(Event::Found(Box::new(found.map_err(|error| error.to_string()))));
            let mut open = None;
            while let Ok(job) = inbox.recv() {
                let outcome = serve(&*machine, &mut open, &job, &tell);
                tell.event(Event::Ended(job.id, outcome));
            }
        })?;
        Ok(Self { jobs, events })
    }

    /// Hands over a job; false when one is waiting already or the thread is gone.
    pub fn submit(&self, job: Job) -> bool {
        !matches!(self.jobs.try_send(job), Err(TrySendError::Full(_) | TrySendError::Disconnected(_)))
    }
}

#[derive(Clone)]
struct Teller<W> {
    outbox: Sender<Event>,
    wake: W,
}

impl<W: Fn() + Clone + 'static> Teller<W> {
    fn event(&self, event: Event) {
        // A window that has gone away needs no answer.
        let _ = self.outbox.send(event);
        (self.wake)();
    }

    /// A line of progress, which a run never waits for: one too many is left out.
    fn line(&self, id: JobId, line: &str) {
        let _ = self.outbox.try_send(Event::Tells(id, line.to_owned()));
        (self.wake)();
    }
}

/// Runs a job; the GPU stays open unless it failed.
fn serve<W: Fn() + Clone + 'static>(
    machine: &dyn Machine,
    open: &mut Option<Box<dyn RunsPlans>>,
    job: &Job,
    tell: &Teller<W>,
) -> Outcome {
    let start = Instant::now();
    // A driver call that panics must not take the thread with it.
    let outcome = mishap::catch(|| measure(machine, open, job, tell).map(|capture| Run::of(capture, start.elapsed())));
    match outcome.unwrap_or_else(|mishap| Err(panicked(&mishap))) {
        Ok(run) => Outcome::Measured(Box::new(job.planned.clone()), Box::new(run)),
        Err(Error::Cancelled) => Outcome::Cancelled,
        Err(error) => {
            if matches!(error, Error::Gpu(_)) {
                // A fault leaves the context unusable; the next run opens the GPU anew. Closing a lost device may
                // fail again, of which there is nothing more to say.
                let broken = open.take();
                let _ = mishap::catch(|| drop(broken));
            }
            Outcome::Failed(error.to_string())
        }
    }
}

fn panicked(mishap: &mishap::Mishap) -> Error {
    Error::Gpu(format!("the driver library or packscope panicked: {mishap}"))
}

fn measure<W: Fn() + Clone + 'static>(
    machine: &dyn Machine,
    open: &mut Option<Box<dyn RunsPlans>>,
    job: &Job,
    tell: &Teller<W>,
) -> Result<Capture> {
    job.cancel.check()?;
    if open.is_none() {
        tell.line(job.id, "opening the GPU");
        let (lines, id) = (tell.clone(), job.id);
        *open = Some(machine.open(Box::new(move |line| lines.line(id, line)), &job.cancel)?);
    }
    let Some(gpu) = open else { return Err(Error::Gpu("it did not open".to_owned())) };
    job.cancel.check()?;
    if let Some(device) = gpu.device() {
        let found = Found { name: device.name.clone(), device: Some(device.clone()) };
        tell.event(Event::Found(Box::new(Ok(found))));
        let wanted = &job.planned.options.device;
        if (&device.key, device.sm_count) != (&wanted.key, wanted.sm_count) {
            let (here, wanted) = (&device.name, &wanted.name);
            let text = format!("the plan is for {wanted}, but the GPU here is {here}; choose it as the device");
            return Err(Error::Device(text));
        }
    }
    tell.line(job.id, &format!("{} repeats, L2 {}", job.repeats, job.l2.name()));
    // Counting takes a second after the timed runs; where it is refused, the run says so and all else stands.
    let command = "window".to_owned();
    let how = RunOptions { repeats: job.repeats, l2: job.l2, graph: false, counters: true, command };
    gpu.run(&job.planned, &how, &job.cancel)
}
