//! How counters over time are told, in the window and in pictures.

use engine::capture::{Capture, CounterSeries, Source};

/// Bytes per second as terabytes.
pub fn rate(bytes_per_s: f64) -> String {
    format!("{:.2} TB/s", bytes_per_s / 1e12)
}

/// Whether a series is a share of something, rather than bytes per second.
pub fn is_share(series: &CounterSeries) -> bool {
    series.unit == "share"
}

/// Name of a series for people.
pub fn name(series: &CounterSeries) -> String {
    series.name.replace("_active", "").replace('_', " ")
}

/// How the series came about, in words.
pub fn caption(capture: &Capture) -> String {
    match capture.counted.as_ref().and_then(|counted| counted.sampled) {
        Some(how) => format!(
            "measured: mean of {} runs, sampled every {}, on the CTAs' axis to within {}",
            how.repeats, how.interval, how.alignment_error
        ),
        None => match capture.provenance.source {
            Source::Simulated => format!("{}: by the model, no hardware counters", capture.provenance.source_words()),
            Source::Measured => "measured: how the samples were taken is not in the file".to_owned(),
        },
    }
}
