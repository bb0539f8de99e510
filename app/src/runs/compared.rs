//! Runs side by side: ways of one batch, and the two runs of one plan.

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

/// One way of running the batch, beside others.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Scheduler and strategy.
    pub name: String,
    /// Its run, or why there is none.
    pub outcome: Result<Way, String>,
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
