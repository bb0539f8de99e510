//! What a capture's file had lost when it was read, and which figures that makes untrue.
//!
//! | lost | not known any more |
//! |---|---|
//! | spans of CTAs | slots busy, bubbles, slots per SM, end of the traced run, achieved FLOP per second |
//! | kernel windows | which bubble has which cause |
//! | counter series | throughputs over time, and the simulator's bytes by level |
//! | counts | bytes and shares that the hardware counted |
//! | decisions | why the plan is as it is |
//!
//! What is not known stands as [`UNKNOWN`] with the reason, in the window and in pictures; what is left is shown.

use engine::capture::{Capture, Loaded, Losses};
use engine::plan::CtaRole;
use engine::units::grouped;

/// In the place of a figure that is not known.
pub const UNKNOWN: &str = "—";

/// What was lost; nothing for a run that is not from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    missing: Vec<String>,
    losses: Losses,
    spans_left: u64,
}

impl Damage {
    /// Of a capture as it was read.
    pub fn of(loaded: &Loaded) -> Self {
        Self { missing: loaded.missing.clone(), losses: loaded.losses, spans_left: loaded.capture.spans.len() as u64 }
    }

    /// A capture with what its file had lost, as it was read.
    pub fn loaded(&self, capture: &Capture) -> Loaded {
        Loaded { capture: capture.clone(), missing: self.missing.clone(), losses: self.losses }
    }

    /// One sentence for each loss, as `verify` tells them.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Why figures that are summed over all CTAs are not known.
    pub fn of_spans(&self) -> Option<String> {
        let (lost, all) = (self.losses.spans, self.losses.spans + self.spans_left);
        (lost > 0).then(|| format!("{} of {} spans are lost from the file", grouped(lost), grouped(all)))
    }

    /// Why idle time cannot be told by its causes.
    pub fn of_causes(&self) -> Option<String> {
        let kernels = || "the kernels' windows are lost from the file".to_owned();
        self.of_spans().or_else(|| self.losses.kernels.then(kernels))
    }

    /// Why decisions are not all there.
    pub fn of_decisions(&self) -> Option<String> {
        let lost = self.losses.decisions;
        (lost > 0).then(|| format!("{} lost from the file", engine::units::counted(lost, "decision")))
    }

    /// Why there are no bytes by level.
    pub fn of_bytes(&self) -> Option<&'static str> {
        match (self.losses.counts, self.losses.series > 0) {
            (true, _) => Some("what the hardware counted is lost from the file"),
            (false, true) => Some("counter series are lost from the file"),
            (false, false) => None,
        }
    }
}

/// Busy part of all slot time as a percentage with `digits`, or that it is not known.
pub fn busy(share: f64, digits: usize, damage: &Damage) -> String {
    match damage.of_spans() {
        Some(_) => UNKNOWN.to_owned(),
        None => format!("{:.digits$} %", share * 100.0),
    }
}

/// How many CTAs a run has by its spans, merges named apart; of a damaged one, how many are left.
pub fn ctas(capture: &Capture, damage: &Damage) -> String {
    let merges = capture.spans.role.iter().filter(|role| **role == CtaRole::Merge).count() as u64;
    let all = capture.spans.len() as u64;
    let left = if damage.of_spans().is_some() { " left" } else { "" };
    match merges {
        0 => format!("{}{left}", engine::units::counted(all, "CTA")),
        _ => format!("{}{left}, {} of them merging", engine::units::counted(all, "CTA"), grouped(merges)),
    }
}
