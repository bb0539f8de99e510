//! Who says how long the attention of a step takes: the simulator, or a GPU for all steps or some of them.

use crate::cancel::Cancel;
use crate::capture::L2State;
use crate::error::Result;
use crate::metrics::{self, BubbleCause};
use crate::session::{self, Planned, RunOptions, Runner};
use crate::units::{Bytes, Nanos};

/// The attention of one layer in one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// What counts: measured where it was, else simulated.
    pub time: Nanos,
    /// What the simulator says.
    pub simulated: Nanos,
    /// Whether `time` was measured.
    pub measured: bool,
    /// Bytes that the CTAs issue.
    pub issued: Bytes,
    /// The least that any plan moves.
    pub compulsory: Bytes,
    /// Busy slot time, and idle by cause, of the simulated run.
    pub busy_slot: Nanos,
    /// Idle slot time by cause, without causes of which there is none.
    pub bubbles: Vec<(BubbleCause, Nanos)>,
}

/// Measures plans.
pub trait Measure {
    /// The median time of a plan with cold L2, as a layer finds it after the layers before.
    ///
    /// # Errors
    /// Whatever the GPU meets.
    fn measure(&mut self, planned: &Planned, cancel: &Cancel) -> Result<Nanos>;
}

impl Measure for Runner {
    fn measure(&mut self, planned: &Planned, cancel: &Cancel) -> Result<Nanos> {
        let how = RunOptions { repeats: 5, l2: L2State::Cold, command: "replay".to_owned(), ..RunOptions::default() };
        self.run(planned, &how, cancel).map(|capture| capture.time())
    }
}

/// Which steps are measured.
pub struct Sampled<'a> {
    /// Who measures.
    pub by: &'a mut dyn Measure,
    /// Every step whose number is a multiple of this.
    pub every: u64,
}

impl std::fmt::Debug for Sampled<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampled").field("every", &self.every).finish_non_exhaustive()
    }
}

/// Times the attention of a step.
pub(super) fn time(
    number: u64,
    planned: &Planned,
    sampled: Option<&mut Sampled<'_>>,
    cancel: &Cancel,
) -> Result<Timed> {
    let Planned { plan, tree, .. } = planned;
    let run = RunOptions { l2: L2State::Cold, command: "replay".to_owned(), ..RunOptions::default() };
    let capture = session::simulate(planned, &run, cancel)?;
    let simulated = capture.makespan();
    let measured = match sampled {
        Some(sampled) if number.is_multiple_of(sampled.every.max(1)) => Some(sampled.by.measure(planned, cancel)?),
        _ => None,
    };
    let traffic = metrics::traffic(plan, &planned.batch, tree);
    let report = metrics::bubbles(plan, &capture);
    let idle = report.bubbles.iter().filter(|bubble| bubble.slot_time > Nanos::ZERO);
    Ok(Timed {
        time: measured.unwrap_or(simulated),
        simulated,
        measured: measured.is_some(),
        issued: traffic.issued(),
        compulsory: traffic.compulsory,
        busy_slot: report.busy_slot,
        bubbles: idle.map(|bubble| (bubble.cause, bubble.slot_time)).collect(),
    })
}
