//! What every case must end with: something that is sound, or a refusal that a person can read.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use engine::cancel::Cancel;
use engine::capture::{self, Capture, L2State, Loaded};
use engine::pack;
use engine::plan::Strategy;
use engine::session::{self, PlanOptions, RunOptions};
use engine::workload::BatchSpec;
use engine::{Error, hw};
use serde::{Deserialize, Serialize};

use crate::draw::Draw;
use crate::views;

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Verdict {
    /// It was taken, and all that came of it held.
    Taken,
    /// It was refused in words.
    Refused,
    /// It took too long to simulate and was cancelled, as a person would.
    Cancelled,
}

/// How a case ended, or what it broke.
pub(crate) type Tried = Result<Verdict, String>;

/// A simulation is cancelled after this; it must then end by itself.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longest message; one that shows a list of names is near it.
const LONGEST_MESSAGE: usize = 700;

/// Whether an error is one that a person can read. A fault of packscope is none.
pub(crate) fn refused(error: &Error) -> Tried {
    let text = error.to_string();
    if matches!(error, Error::Cancelled) {
        return Ok(Verdict::Cancelled);
    }
    if matches!(error, Error::Plan(_)) {
        return Err(format!("a fault of packscope: {text}"));
    }
    readable(&text).map(|()| Verdict::Refused)
}

/// Whether a message is one readable sentence.
pub(crate) fn readable(text: &str) -> Result<(), String> {
    let shown = || text.chars().take(200).collect::<String>().escape_debug().to_string();
    if text.trim().is_empty() {
        return Err("a message without words".to_owned());
    }
    if text.len() > LONGEST_MESSAGE {
        return Err(format!("a message of {} bytes: {}", text.len(), shown()));
    }
    if text.chars().any(char::is_control) {
        return Err(format!("a message with control characters: {}", shown()));
    }
    Ok(())
}

/// What a person chooses beside the batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Choice {
    pub(crate) scheduler: String,
    pub(crate) strategy: Strategy,
    pub(crate) device: String,
    pub(crate) l2: L2State,
    pub(crate) explain: bool,
}

impl Choice {
    pub(crate) fn draw(draw: &mut Draw) -> Self {
        Self {
            scheduler: draw.of(pack::schedulers()).name().to_owned(),
            strategy: if draw.one_in(3) { draw.pick(Strategy::ALL) } else { draw.pick(Strategy::ANY_BATCH) },
            device: draw.of(&hw::names()).to_owned().to_owned(),
            l2: draw.pick([L2State::Cold, L2State::Warm]),
            explain: draw.one_in(3),
        }
    }

    /// The options of planning.
    pub(crate) fn options(&self) -> engine::Result<PlanOptions> {
        let base = PlanOptions::new(hw::find(&self.device)?);
        Ok(PlanOptions { scheduler: self.scheduler.clone(), strategy: self.strategy, explain: self.explain, ..base })
    }
}

/// Plans a batch, runs it on the simulator and looks at it from everywhere.
pub(crate) fn plan_and_run(spec: &BatchSpec, options: &PlanOptions, l2: L2State) -> Tried {
    let planned = match session::plan_spec(spec, options) {
        Ok(planned) => planned,
        Err(error) => return refused(&error),
    };
    if planned.batch.requests().is_empty() {
        return Ok(Verdict::Taken);
    }
    let how = RunOptions { repeats: 1, l2, command: "soak".to_owned(), ..RunOptions::default() };
    match with_patience(|cancel| session::simulate(&planned, &how, cancel))? {
        Ok(capture) => sound(&capture).map(|()| Verdict::Taken),
        Err(error) => refused(&error),
    }
}

/// Runs with a flag that is set when [`PATIENCE`] is at its end.
pub(crate) fn with_patience<T>(run: impl FnOnce(&Cancel) -> T) -> Result<T, String> {
    let cancel = Cancel::default();
    let (done, waiting) = sync_channel::<()>(0);
    let flag = cancel.clone();
    let watch = std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
        if waiting.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            flag.cancel();
        }
    });
    let watch = watch.map_err(|error| format!("no thread: {error}"))?;
    let result = run(&cancel);
    drop(done);
    watch.join().map_err(|_| "the watching thread panicked".to_owned())?;
    Ok(result)
}

/// Whether a simulated run holds: its invariants, its way through a file, and every view of it.
pub(crate) fn sound(capture: &Capture) -> Result<(), String> {
    let findings = capture::verify(capture);
    if let Some(finding) = findings.first() {
        return Err(format!("a simulated run that verify calls unsound: {}: {}", finding.rule, finding.text));
    }
    match views::look(&whole(capture)?)? {
        Verdict::Taken => Ok(()),
        _ => Err("a simulated run that the window refuses".to_owned()),
    }
}

/// A capture read back, as it was written.
pub(crate) fn whole(capture: &Capture) -> Result<Loaded, String> {
    let bytes = capture::to_bytes(capture).map_err(|error| format!("a capture that cannot be written: {error}"))?;
    let loaded =
        capture::from_bytes(&bytes).map_err(|error| format!("a written capture that cannot be read: {error}"))?;
    if let Some(missing) = loaded.missing.first() {
        return Err(format!("a written capture that misses {missing}"));
    }
    if *capture == loaded.capture { Ok(loaded) } else { Err("a capture that reads back other than written".to_owned()) }
}
