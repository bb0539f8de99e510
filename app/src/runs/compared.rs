//! Runs side by side: ways of one batch, and the two runs of one plan.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::metrics::{Differences, Traffic};

use super::run::Run;

/// One run of some plan, beside others.
#[derive(Clone, Debug)]
pub struct Way {
    /// The run.
    pub run: Arc<Run>,
    /// Bytes by kind, of its plan.
    pub traffic: Traffic,
}

/// What a row of the comparison is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Another way of the batch, simulated.
    Way,
    /// The chosen way on another device of the table, by its key, simulated.
    Device(String),
    /// A run on the GPU, of this or an earlier plan.
    Measured,
    /// A capture that was opened as a row.
    File(PathBuf),
}

/// One way of running the batch, beside others.
#[derive(Clone, Debug)]
pub struct Compared {
    /// What it is of.
    pub kind: Kind,
    /// Scheduler and strategy, and what else tells it from the others.
    pub name: String,
    /// Its run, or why there is none.
    pub outcome: Result<Way, String>,
}

/// Rows of the comparison that a person added.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// Keys of devices on which the chosen way is run too.
    pub devices: Vec<String>,
    /// Captures.
    pub captures: Vec<Compared>,
}

impl Rows {
    /// The files of the captures.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.captures.iter().filter_map(|row| if let Kind::File(path) = &row.kind { Some(&**path) } else { None })
    }
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
