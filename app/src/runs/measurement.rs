//! Runs on a GPU that are kept beside what is shown.

use engine::capture::L2State;

use super::compared::{Compared, Kind, Matched, Way};
use super::shown::Shown;

/// A measured run, kept for as long as the window is open.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Batch, scheduler and strategy.
    pub name: String,
    /// The run.
    pub way: Way,
    /// The simulated run of the same plan beside it, once there.
    pub matched: Option<Matched>,
}

impl Measurement {
    /// Whether it is a run of the shown plan, from this state of L2.
    pub fn is_of(&self, shown: &Shown, l2: L2State) -> bool {
        (self.way.run.plan_digest, self.way.run.capture.times.l2) == (shown.plan_digest, l2)
    }

    /// As a row of the compare list.
    pub fn row(&self) -> Compared {
        Compared { kind: Kind::Measured, name: self.name.clone(), outcome: Ok(self.way.clone()) }
    }
}
