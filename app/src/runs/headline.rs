//! How long a run took, in the same words in the window, in pictures and in tables.
//!
//! A measured run has two lengths. Its *makespan* is the median of repeats without tracing. The lanes are those
//! of one more run that was traced, in which each CTA writes down when it ran: their last end is that of the
//! *traced run*, and it differs by the cost of tracing and by chance. Where both are in sight, both are named.
//! The simulator has one run, and one length.

use engine::capture::{Capture, Source, Spread};
use engine::units::Nanos;

use crate::runs::damage::{Damage, UNKNOWN};

/// Why the axis of the lanes does not end at the makespan.
pub const TRACED: &str = "The makespan is the median of the repeats, which ran without tracing. Lanes, time axis, busy \
                          share and bubbles are those of one more run, in which each CTA wrote down when it ran.";

/// `147.6 µs`, or that it is not known.
pub fn makespan(capture: &Capture) -> String {
    match capture.times.spread() {
        Spread { count: 0, .. } => UNKNOWN.to_owned(),
        times => times.median.to_string(),
    }
}

/// What stands over lanes in which a pause of the memory is seen.
pub fn pause(length: Nanos) -> String {
    format!("the HBM pauses for {length}")
}

/// `median of 20, 143.0 µs to 151.2 µs`.
pub fn spread(capture: &Capture) -> String {
    match capture.times.spread() {
        Spread { count: 0, .. } => "no repeat is in the file".to_owned(),
        Spread { count: 1, .. } => "one run".to_owned(),
        times => format!("median of {}, {} to {}", times.count, times.least, times.most),
    }
}

/// `lanes: the traced run, 145.4 µs (−1.5 %)`, where that is another run than the makespan is of.
pub fn lanes(capture: &Capture, damage: &Damage) -> Option<String> {
    traced(capture, damage).map(|run| format!("lanes: {run}"))
}

/// `the traced run, 145.4 µs (−1.5 %)`, where that is another run than the makespan is of.
pub fn traced(capture: &Capture, damage: &Damage) -> Option<String> {
    let (times, end) = (capture.times.spread(), capture.makespan());
    let another = capture.provenance.source == Source::Measured || times.median != end;
    if damage.of_spans().is_some() {
        return another.then(|| format!("the traced run, {UNKNOWN}"));
    }
    another.then(|| format!("the traced run, {end}{}", off(end, times.median)))
}

/// ` (−1.5 %)` of a length against another; nothing where there is none to compare with.
fn off(this: Nanos, that: Nanos) -> String {
    if that == Nanos::ZERO {
        return String::new();
    }
    let change = (this.as_f64() / that.as_f64() - 1.0) * 100.0;
    let sign = if change < 0.0 { '−' } else { '+' };
    format!(" ({sign}{:.1} %)", change.abs())
}

/// `147.6 µs measured (median of 20, 143.0 µs to 151.2 µs, cold L2)`, or `147.6 µs simulated (cold L2, nine of ten within
/// 10 % of measured)`.
pub fn sentence(capture: &Capture) -> String {
    let (source, l2) = (capture.provenance.source_words(), capture.times.l2.name());
    match capture.provenance.source {
        Source::Measured => format!("{} {source} ({}, {l2} L2)", makespan(capture), spread(capture)),
        Source::Simulated => {
            let expected = capture.provenance.expected_error.map(|error| format!(", {}", error.short()));
            format!("{} {source} ({l2} L2{})", makespan(capture), expected.unwrap_or_default())
        }
    }
}
