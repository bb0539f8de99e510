//! What a measured run says of itself, as pairs of name and value: the inspector and the timeline show the same.

use crate::runs::run::Run;

/// Repeats, spread, cost of tracing, clocks and the machine of a measured run.
pub fn of_measured(run: &Run) -> Vec<(&'static str, String)> {
    let capture = &run.capture;
    let (made, times) = (&capture.provenance, capture.times.spread());
    let mut figures = vec![
        ("repeats", format!("{}, {} L2 before each", times.count, capture.times.l2.name())),
        ("shortest · longest", format!("{} · {}", times.least, times.most)),
        ("5th · 95th percentile", format!("{} · {}", times.low, times.high)),
    ];
    if let Some(pauses) = engine::export::pauses_json(capture) {
        figures.push(("pauses of the HBM", pauses.rhythm()));
        figures.extend(pauses.of_groups().into_iter().map(|group| ("", group)));
    }
    if let Some(overhead) = capture.probe_overhead {
        let sign = if overhead < 0.0 { '−' } else { '+' };
        figures.push(("cost of tracing", format!("{sign}{:.1} %", (100.0 * overhead).abs())));
    }
    if let Some(share) = run.told.side_by_side {
        figures.push(("prefill and decode on one SM", format!("{:.1} % of SM time", 100.0 * share)));
    }
    figures.push(("clock step", made.clock_step.to_string()));
    if let Some(error) = made.clock_error_ns {
        figures.push(("clock error", format!("{error:.1} ns")));
    }
    figures.push(("GPU", made.device_name.clone()));
    if let Some(khz) = made.sm_clock_khz {
        figures.push(("SM clock", format!("{:.0} MHz", f64::from(khz) / 1e3)));
    }
    if let Some(driver) = &made.driver {
        figures.push(("driver", driver.clone()));
    }
    figures
}
