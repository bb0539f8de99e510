//! What looks at many batches at once, on a thread of its own: a trace served under several ways, the rows of a sweep.
//!
//! ```text
//! begin ──► Study { id } ──► Replayed | Swept | Failed | Cancelled, of that id
//!              └─ steps that are done: a counter, which the window reads in each frame
//! ```
//!
//! One study goes on at a time; the next one cancels it. A replay has a pool of its own, so that a plan never waits for one.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};
use engine::cancel::Cancel;
use engine::import::{self, ImportOptions, Part, Progress, Watch};
use engine::units::counted;
use engine::{Error, Result, replay, sweep};
use rayon::ThreadPoolBuilder;

use crate::jobs::mishap;
use crate::jobs::state::JobId;
use crate::runs::replay::{Asked, Replay};
use crate::runs::sweep::Sweep;

/// What is asked for.
#[derive(Clone, Debug)]
pub enum Study {
    /// Serve a trace.
    Replay(Box<Asked>),
    /// Read the rows of a sweep.
    Sweep(PathBuf),
}

/// What came of it.
#[derive(Debug)]
pub enum Told {
    /// A trace as each way served it.
    Replayed(Replay),
    /// The rows of a sweep.
    Swept(Sweep),
    /// A sentence for the person.
    Failed(String),
    /// It was cancelled.
    Cancelled,
}

/// What the thread is at.
#[derive(Clone, Debug, Default)]
pub enum Studying {
    /// Nothing.
    #[default]
    Idle,
    /// A study goes on.
    Running {
        /// The job.
        id: JobId,
        /// Steps that are done, of all ways.
        done: Arc<AtomicU64>,
        /// Steps at the most; none where that is not known.
        of: Option<u64>,
        /// Stops it.
        cancel: Cancel,
    },
    /// A study was asked to stop.
    Cancelling(JobId),
}

impl Studying {
    fn id(&self) -> Option<JobId> {
        match self {
            Self::Idle => None,
            Self::Running { id, .. } | Self::Cancelling(id) => Some(*id),
        }
    }

    /// Steps that are done and, where that is known, how many there are at the most; none where nothing goes on.
    pub fn progress(&self) -> Option<(u64, Option<u64>)> {
        match self {
            Self::Running { done, of, .. } => Some((done.load(Ordering::Relaxed), *of)),
            Self::Idle | Self::Cancelling(_) => None,
        }
    }
}

#[derive(Debug)]
struct Job {
    id: JobId,
    study: Study,
    done: Arc<AtomicU64>,
    cancel: Cancel,
}

/// The thread, and what it is at.
#[derive(Debug)]
pub(crate) struct Studies {
    jobs: Sender<Job>,
    events: Receiver<(JobId, Told)>,
    state: Studying,
}

impl Studies {
    /// Starts the thread; `wake` is called for each answer.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub(crate) fn start(wake: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (jobs, inbox) = bounded::<Job>(16);
        let (outbox, events) = bounded(16);
        std::thread::Builder::new().name("studies".to_owned()).spawn(move || {
            while let Ok(job) = inbox.recv() {
                let told = mishap::catch(|| work(&job)).unwrap_or_else(|mishap| {
                    Told::Failed(format!("this failed by a fault of packscope, please report it: {mishap}"))
                });
                if outbox.send((job.id, told)).is_err() {
                    return;
                }
                wake();
            }
        })?;
        Ok(Self { jobs, events, state: Studying::Idle })
    }

    /// What goes on.
    pub(crate) fn state(&self) -> &Studying {
        &self.state
    }

    /// Begins a study, and gives up the one that goes on; false where the thread has no room for it.
    pub(crate) fn begin(&mut self, study: Study) -> bool {
        self.stop();
        let (id, done, cancel) = (JobId::next(), Arc::<AtomicU64>::default(), Cancel::default());
        let of = match &study {
            Study::Replay(asked) => Some(asked.options.max_steps.saturating_mul(asked.ways.len() as u64)),
            Study::Sweep(_) => None,
        };
        let sent = self.jobs.try_send(Job { id, study, done: Arc::clone(&done), cancel: cancel.clone() }).is_ok();
        if sent {
            self.state = Studying::Running { id, done, of, cancel };
        }
        sent
    }

    /// Asks what goes on to stop; false where nothing does.
    pub(crate) fn stop(&mut self) -> bool {
        let Studying::Running { id, cancel, .. } = &self.state else { return false };
        cancel.cancel();
        self.state = Studying::Cancelling(*id);
        true
    }

    /// What came of the study that goes on; answers of those before it are dropped.
    pub(crate) fn told(&mut self) -> Option<Told> {
        let told = self.events.try_iter().find_map(|(id, told)| (self.state.id() == Some(id)).then_some(told))?;
        self.state = Studying::Idle;
        Some(told)
    }
}

fn work(job: &Job) -> Told {
    let path = match &job.study {
        Study::Replay(asked) => &asked.path,
        Study::Sweep(path) => path,
    };
    let told = match &job.study {
        Study::Replay(asked) => served(asked, job).map(Told::Replayed),
        Study::Sweep(path) => sweep::read_parquet(path).map(|rows| Told::Swept(Sweep { path: path.clone(), rows })),
    };
    told.unwrap_or_else(|error| match error {
        Error::Cancelled => Told::Cancelled,
        // These name the file themselves.
        Error::Io { .. } | Error::Tensors { .. } => Told::Failed(error.to_string()),
        other => Told::Failed(format!("{}: {other}", path.display())),
    })
}

fn served(asked: &Asked, job: &Job) -> Result<Replay> {
    job.cancel.check()?;
    let part = asked.window.map(|(start, count)| Part::Window { start, count });
    let options = ImportOptions { part, ..ImportOptions::default() };
    let mut watch = Watch { cancel: &job.cancel, progress: Progress(&mut |_, _| ()) };
    let trace = import::find(asked.format)?.read_trace(&asked.path, &options, &mut watch)?;
    if let Some((start, count)) = asked.window.filter(|(_, count)| trace.requests.len() < *count) {
        let there = counted(trace.rows, "request");
        return Err(Error::Batch(format!(
            "the window {start}:{count} reaches past the trace, which has {there}, counted from 0"
        )));
    }
    let tell = || _ = job.done.fetch_add(1, Ordering::Relaxed);
    let free = std::thread::available_parallelism().map_or(1, |all| all.get().saturating_sub(1).max(1));
    let pool = ThreadPoolBuilder::new().num_threads(free).thread_name(|at| format!("replay {at}")).build();
    let failed = Error::io("starting the threads of a replay", &asked.path);
    let pool = pool.map_err(|error| failed(std::io::Error::other(error)))?;
    let ways = pool.install(|| replay::replay(&trace, &asked.ways, &asked.options, &job.cancel, &tell))?;
    Ok(Replay { asked: asked.clone(), trace, ways })
}
