//! What goes on, as one enum for each thread. An answer is taken by the job that asked for it and by no other.

use std::sync::atomic::{AtomicU64, Ordering};

use engine::cancel::Cancel;

/// Number of a job; no two have the same, and later ones have larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u64);

impl JobId {
    /// A number that no job had before.
    pub fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// What the engine thread is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Work {
    /// Nothing.
    #[default]
    Idle,
    /// The plan of the document and its simulated run.
    Planning(JobId),
    /// The simulated run beside a measured one.
    Matching(JobId),
    /// All ways side by side.
    Comparing {
        /// The job.
        id: JobId,
        /// Ways that are there.
        done: usize,
        /// Ways in all.
        of: usize,
    },
}

impl Work {
    /// The job that goes on.
    pub fn id(self) -> Option<JobId> {
        match self {
            Self::Idle => None,
            Self::Planning(id) | Self::Matching(id) | Self::Comparing { id, .. } => Some(id),
        }
    }

    /// After one more way of a comparison: idle with the last one.
    pub(super) fn one_more(self) -> Self {
        match self {
            Self::Comparing { id, done, of } if done + 1 < of => Self::Comparing { id, done: done + 1, of },
            _ => Self::Idle,
        }
    }
}

/// What the GPU's thread is at.
#[derive(Clone, Debug, Default)]
pub enum Measuring {
    /// Nothing.
    #[default]
    Idle,
    /// A run is to begin when the plan is there that is being made.
    Wanted,
    /// A run goes on.
    Running {
        /// The job.
        id: JobId,
        /// What it is at.
        step: String,
        /// Stops it.
        cancel: Cancel,
    },
    /// A run was asked to stop; what the GPU is at in this moment it finishes.
    Cancelling(JobId),
}

impl Measuring {
    /// The job that goes on.
    pub fn id(&self) -> Option<JobId> {
        match self {
            Self::Idle | Self::Wanted => None,
            Self::Running { id, .. } | Self::Cancelling(id) => Some(*id),
        }
    }

    /// What is told of it.
    pub fn step(&self) -> Option<&str> {
        match self {
            Self::Idle | Self::Wanted => None,
            Self::Running { step, .. } => Some(step),
            Self::Cancelling(_) => Some("cancelling"),
        }
    }

    /// Asks the run to stop, or takes the wish for one back.
    pub(crate) fn stop(&mut self) {
        *self = match std::mem::take(self) {
            Self::Running { id, cancel, .. } => {
                cancel.cancel();
                Self::Cancelling(id)
            }
            Self::Wanted => Self::Idle,
            same => same,
        };
    }
}
