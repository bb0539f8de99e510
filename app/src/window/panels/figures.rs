//! What a measured run says of itself, as pairs of name and value: the inspector and the timeline show the same.

use engine::units::Nanos;

use crate::runs::run::Run;

/// Repeats, spread, cost of tracing, clocks and the machine of a measured run.
pub fn of_measured(run: &Run) -> Vec<(String, String)> {
    let capture = &run.capture;
    let (made, times) = (&capture.provenance, capture.times.spread());
    let mut figures = Vec::new();
    let mut say = |name: &str, value: String| figures.push((name.to_owned(), value));
    say("repeats", format!("{}, {} L2 before each", times.count, capture.times.l2.name()));
    say("shortest · longest", format!("{} · {}", times.least, times.most));
    say("5th · 95th percentile", format!("{} · {}", times.low, times.high));
    if let Some(pauses) = engine::export::pauses_json(capture) {
        say("pauses of the HBM", pauses.rhythm());
        // A line of the inspector has no room for their percentiles.
        for group in &pauses.groups {
            say(&group.name(), Nanos(group.makespan_ns).to_string());
        }
        say("spread of the most alike", format!("{:.1} %", 100.0 * pauses.steady_spread));
    }
    if let Some(overhead) = capture.probe_overhead {
        let sign = if overhead < 0.0 { '−' } else { '+' };
        say("cost of tracing", format!("{sign}{:.1} %", (100.0 * overhead).abs()));
    }
    if let Some(share) = run.told.side_by_side {
        say("prefill and decode on one SM", format!("{:.1} % of SM time", 100.0 * share));
    }
    say("clock step", made.clock_step.to_string());
    if let Some(error) = made.clock_error_ns {
        say("clock error", format!("{error:.1} ns"));
    }
    say("GPU", made.device_name.clone());
    if let Some(khz) = made.sm_clock_khz {
        say("SM clock", format!("{:.0} MHz", f64::from(khz) / 1e3));
    }
    if let Some(driver) = &made.driver {
        say("driver", driver.clone());
    }
    figures
}
