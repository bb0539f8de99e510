//! A run with all that views draw of it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use engine::capture::{Capture, CounterSeries, Pauses, Source, Spread};
use engine::metrics::{self, BubbleReport, MemoryFlow, Traffic};
use engine::plan::PlanDigest;
use engine::units::Nanos;

use super::damage::{self, Damage};
use super::headline;
use crate::timeline::colour::Levels;
use crate::timeline::folds::Gpcs;
use crate::timeline::gaps::Gaps;
use crate::timeline::lanes::{Entity, Lanes};
use crate::timeline::samples::Samples;

/// A capture and all that views draw of it.
#[derive(Debug)]
pub struct Run {
    /// The run itself.
    pub capture: Capture,
    /// Its lanes.
    pub lanes: Lanes,
    /// Its SMs by their GPCs, where those are known.
    pub gpcs: Option<Arc<Gpcs>>,
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
    /// What is told of all its spans, since views tell it in each frame.
    pub told: Told,
    /// The counter rows summed up, in their order.
    samples: Vec<Samples>,
    flow: OnceLock<Option<MemoryFlow>>,
    levels: OnceLock<Levels>,
}

/// Sums over all spans of a run, taken once.
#[derive(Clone, Debug)]
pub struct Told {
    /// How many CTAs it has, in words ([`damage::ctas`]).
    pub ctas: String,
    /// See [`engine::plan::LaunchPlan::attention_ctas`].
    pub attention_ctas: u64,
    /// Spans by what they stand for: prefill, decode, both, merge.
    pub roles: [u64; 4],
    /// Residency lanes of an SM.
    pub slots_per_sm: u32,
    /// The run that the lanes are of, where that is another than the makespan is of ([`headline::traced`]).
    pub traced: Option<String>,
    /// Share of the SM time in which prefill and decode ran side by side ([`metrics::side_by_side`]).
    pub side_by_side: Option<f64>,
}

impl Told {
    fn of(capture: &Capture, damage: &Damage, lanes: &Lanes) -> Self {
        let mut roles = [0; 4];
        for entity in &lanes.entities {
            let role = match entity {
                Entity::Prefill => 0,
                Entity::Pack(_) => 1,
                Entity::Both => 2,
                Entity::Merge => 3,
                Entity::Unknown => continue,
            };
            roles[role] += 1;
        }
        // Without both there is nothing side by side, and the search for it is long.
        let both = roles[2] > 0 || (roles[0] > 0 && roles[1] > 0);
        let sms = capture.provenance.sm_count;
        Self {
            ctas: damage::ctas(capture, damage),
            attention_ctas: capture.plan.attention_ctas(),
            roles,
            slots_per_sm: capture.slots_per_sm(),
            traced: headline::traced(capture, damage),
            side_by_side: both.then(|| metrics::side_by_side(&capture.spans, sms)).flatten(),
        }
    }
}

impl Run {
    /// Derives everything that views need.
    pub fn of(capture: Capture, took: Duration) -> Self {
        Self::damaged(capture, Damage::default(), took)
    }

    /// The same of a capture whose file had lost something.
    pub fn damaged(capture: Capture, damage: Damage, took: Duration) -> Self {
        let idle = || {
            let mut gaps = Gaps::default();
            let bubbles = metrics::bubbles_and(&capture.plan, &capture, |gap| gaps.push(gap));
            gaps.index();
            (bubbles, gaps)
        };
        let (lanes, (bubbles, gaps)) = rayon::join(|| Lanes::of(&capture), idle);
        Self {
            told: Told::of(&capture, &damage, &lanes),
            samples: capture.counters.iter().map(Samples::of).collect(),
            flow: OnceLock::new(),
            levels: OnceLock::new(),
            gpcs: Gpcs::of(&capture.provenance.gpcs, capture.provenance.sm_count as usize).map(Arc::new),
            damage,
            lanes,
            bubbles,
            gaps,
            plan_digest: capture.plan.digest(),
            capture,
            took,
        }
    }

    /// The counter rows, each with its sums.
    pub fn counters(&self) -> impl Iterator<Item = (&CounterSeries, &Samples)> {
        self.capture.counters.iter().zip(&self.samples)
    }

    /// Begin and end of each pause of the memory in the run whose spans these are.
    pub fn pauses(&self) -> impl Iterator<Item = (Nanos, Nanos)> {
        self.capture.pauses.iter().flat_map(Pauses::stretches)
    }

    /// What it moved through L2 and from DRAM, where that is known; `traffic` is that of its plan.
    pub fn flow(&self, traffic: &Traffic) -> Option<&MemoryFlow> {
        self.flow.get_or_init(|| MemoryFlow::of(traffic, &self.capture)).as_ref()
    }

    /// Levels of the nodes that its packs read, for a view of runs of several batches.
    pub fn levels(&self) -> &Levels {
        self.levels.get_or_init(|| Levels::of_batch(&self.capture.batch))
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

    /// `lanes: the traced run, 145.4 µs (−1.5 %)`, where that is another run than the makespan is of.
    pub fn lanes_are_of(&self) -> Option<String> {
        self.told.traced.as_ref().map(|run| format!("lanes: {run}"))
    }

    /// Share of slot time that is busy, with `digits`; or that it is not known.
    pub fn busy(&self, digits: usize) -> String {
        damage::busy(self.bubbles.busy_share(), digits, &self.damage)
    }
}
