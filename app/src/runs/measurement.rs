//! Runs on a GPU that are kept beside what is shown.

use std::path::{Path, PathBuf};

use engine::capture::L2State;
use engine::session::Planned;

use super::compared::{Compared, Kind, Matched, Way};
use super::shown::Shown;

/// Measured runs that are kept; the oldest goes first, and the log says so.
pub const KEPT: usize = 24;

/// Where a measured run is on disk, so that it outlives the window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Filed {
    /// Nowhere.
    #[default]
    No,
    /// It is being written to this file.
    Asked(PathBuf),
    /// In this file.
    At(PathBuf),
    /// Nowhere, since it could not be written; it is tried again with the next run.
    Refused,
}

/// A measured run; with a session, it is kept beyond the window.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Batch, scheduler and strategy.
    pub name: String,
    /// The run.
    pub way: Way,
    /// The simulated run of the same plan beside it, once there.
    pub matched: Option<Matched>,
    /// Where it is on disk.
    pub filed: Filed,
}

impl Measurement {
    /// The run of a plan.
    pub fn of(planned: &Planned, way: Way, filed: Filed) -> Self {
        let plan = &planned.plan;
        let name = format!("{} · {} · {}", planned.batch.name, plan.scheduler, plan.strategy.name());
        Self { name, way, matched: None, filed }
    }

    /// The file that it is in or will be.
    pub fn file(&self) -> Option<&Path> {
        if let Filed::Asked(path) | Filed::At(path) = &self.filed { Some(path) } else { None }
    }

    /// Whether it is a run of the shown plan, from this state of L2.
    pub fn is_of(&self, shown: &Shown, l2: L2State) -> bool {
        (self.way.run.plan_digest, self.way.run.capture.times.l2) == (shown.plan_digest, l2)
    }

    /// As a row of the compare list.
    pub fn row(&self) -> Compared {
        Compared { kind: Kind::Measured, name: self.name.clone(), outcome: Ok(self.way.clone()) }
    }
}
