//! A run with all that views draw of it.

use std::time::Duration;

use engine::capture::{Capture, Source, Spread};
use engine::metrics::{self, BubbleReport};
use engine::plan::PlanDigest;

use super::damage::{self, Damage};
use crate::timeline::gaps::Gaps;
use crate::timeline::lanes::Lanes;

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
