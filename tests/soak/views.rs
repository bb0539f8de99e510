//! Everything that takes a capture: figures, views of the window, tables, pictures, traces, JSON.

use engine::capture::{Capture, Loaded};
use engine::export::{csv_tables, plan_json, run_json, write_perfetto};
use engine::metrics::{self, Differences, MemoryFlow};
use engine::session::{Report, report_of};
use engine::units::Nanos;
use packscope::picture::timeline;
use packscope::runs::damage::Damage;
use packscope::runs::shown::Shown;
use packscope::timeline::lanes::Lanes;

use crate::checks::{Tried, Verdict, refused};

/// Pixels of a timeline, for the folding of its lanes.
const WIDTH: u64 = 1800;

/// Takes a capture through all of them. It must be shown, or refused in words.
pub(crate) fn look(loaded: &Loaded) -> Tried {
    let capture = &loaded.capture;
    let shown = match Shown::of_capture(loaded.clone()) {
        Ok(shown) => shown,
        Err(error) => return refused(&error),
    };
    let (batch, tree) = (&shown.planned.batch, &shown.planned.tree);
    let report = report_of(batch, tree, capture);
    adds_up(&report)?;
    figures(capture, &report)?;
    lanes(capture);
    pictures(capture, &Damage::of(loaded))?;
    tables(loaded)?;
    let plan = plan_json(batch, tree, &capture.plan, None);
    let run = run_json(plan, capture, &report.bubbles, &report.bandwidth, None);
    serde_json::to_string(&run).map_err(|error| format!("no JSON of a run: {error}"))?;
    Ok(Verdict::Taken)
}

/// Busy time and bubbles are slots × makespan.
fn adds_up(report: &Report) -> Result<(), String> {
    let bubbles = &report.bubbles;
    let idle: Nanos = bubbles.bubbles.iter().map(|bubble| bubble.slot_time).sum();
    let all = bubbles.slots * bubbles.makespan.0;
    if bubbles.total_slot.0 == all && (bubbles.busy_slot + idle).0 == all {
        return Ok(());
    }
    let (busy, idle) = (bubbles.busy_slot.0, idle.0);
    Err(format!("busy {busy} and idle {idle} ns of {} slots in {} ns", bubbles.slots, bubbles.makespan.0))
}

fn figures(capture: &Capture, report: &Report) -> Result<(), String> {
    let over_time = metrics::bandwidth_over_time(&capture.plan, capture, 100);
    let of_points = metrics::roofline(&report.traffic, capture).into_iter().map(|point| point.rate());
    if !over_time.values.into_iter().chain(of_points).all(f64::is_finite) {
        return Err("bandwidth over time or a roofline that is no number".to_owned());
    }
    MemoryFlow::of(&report.traffic, capture);
    Differences::of(capture, capture);
    for series in &capture.counters {
        metrics::bytes_within(series, Nanos::ZERO, Nanos(u64::MAX));
    }
    Ok(())
}

/// The lanes of the timeline at a few zooms.
fn lanes(capture: &Capture) {
    let lanes = Lanes::of(capture);
    for fold in [1, lanes.end / WIDTH + 1, lanes.end + 1] {
        for lane in &lanes.lanes {
            lanes.pieces(&capture.spans, lane, 0..lanes.end, fold, |_| ());
        }
    }
    lanes.within(&capture.spans, lanes.end / 3..lanes.end / 2 + 1);
}

fn pictures(capture: &Capture, damage: &Damage) -> Result<(), String> {
    for svg in [timeline::timeline_svg(capture, damage), timeline::compare_svg(std::slice::from_ref(capture))] {
        for wrong in ["\"NaN", "\"inf", "\"-inf"] {
            if svg.contains(wrong) {
                return Err(format!("a picture with the coordinate {wrong}"));
            }
        }
        if svg.chars().any(|letter| letter.is_control() && !"\n\t".contains(letter)) {
            return Err("a picture with control characters".to_owned());
        }
    }
    Ok(())
}

fn tables(loaded: &Loaded) -> Result<(), String> {
    for (name, text) in csv_tables(&loaded.capture) {
        if text.is_empty() {
            return Err(format!("{name} has no header"));
        }
    }
    write_perfetto(&mut std::io::sink(), loaded).map_err(|error| format!("no trace for Perfetto: {error}"))
}
