//! Captures of so many slices: a simulated run again and again, as a trace of the layers of a model is.

use std::ops::Range;

use engine::cancel::Cancel;
use engine::capture::{Capture, KernelWindow, Spans};
use engine::plan::LaunchPlan;
use engine::session::{PlanOptions, RunOptions, plan_spec, simulate};
use engine::units::Nanos;
use engine::workload::BatchSpec;

/// Time between two layers.
const BETWEEN: u64 = 2_000;

/// A capture of at least `slices` slices.
///
/// # Errors
/// Where the run cannot be planned or simulated.
pub(crate) fn of(spec: &BatchSpec, options: &PlanOptions, slices: usize) -> engine::Result<Capture> {
    let planned = plan_spec(spec, options)?;
    let one = simulate(&planned, &RunOptions::default(), &Cancel::default())?;
    let layers = slices.div_ceil(one.spans.len().max(1)) as u64;
    let (step, launches) = (one.makespan().0 + BETWEEN, one.plan.launches.len() as u32);
    let at = |layer: u64, time: Nanos| Nanos(time.0 + layer * step);
    let windows = (0..layers).flat_map(|layer| {
        one.kernels.iter().map(move |window| KernelWindow {
            launch: window.launch + layer as u32 * launches,
            ready: at(layer, window.ready),
            begin: at(layer, window.begin),
            end: at(layer, window.end),
        })
    });
    let kernels = windows.collect();
    let plan = repeated(&one.plan, layers as u32);
    let mut capture = Capture { spans: Spans::default(), kernels, plan, ..one.clone() };
    capture.provenance.plan = capture.plan.digest();
    capture.times.makespans = vec![Nanos(layers * step - BETWEEN)];
    capture.counters.clear();
    for lane in lanes(&one.spans) {
        for layer in 0..layers {
            push(&mut capture.spans, &one.spans, lane.clone(), (layer * step, layer as u32 * launches));
        }
    }
    Ok(capture)
}

/// The launches of a plan, layer after layer on the same streams.
fn repeated(plan: &LaunchPlan, layers: u32) -> LaunchPlan {
    let count = plan.launches.len() as u32;
    let launches = (0..layers).flat_map(|layer| {
        plan.launches.iter().cloned().map(move |mut launch| {
            launch.after.iter_mut().for_each(|other| *other += layer * count);
            launch
        })
    });
    LaunchPlan { launches: launches.collect(), ..plan.clone() }
}

/// The spans of each lane.
fn lanes(spans: &Spans) -> Vec<Range<usize>> {
    let mut lanes: Vec<Range<usize>> = Vec::new();
    for at in 0..spans.len() {
        match lanes.last_mut() {
            Some(lane) if (spans.sm[lane.start], spans.slot[lane.start]) == (spans.sm[at], spans.slot[at]) => {
                lane.end = at + 1;
            }
            _ => lanes.push(at..at + 1),
        }
    }
    lanes
}

fn push(all: &mut Spans, one: &Spans, lane: Range<usize>, (later, launches): (u64, u32)) {
    all.role.extend_from_slice(&one.role[lane.clone()]);
    all.launch.extend(one.launch[lane.clone()].iter().map(|launch| launch + launches));
    all.cta.extend_from_slice(&one.cta[lane.clone()]);
    all.sm.extend_from_slice(&one.sm[lane.clone()]);
    all.slot.extend_from_slice(&one.slot[lane.clone()]);
    for (to, from) in [
        (&mut all.begin, &one.begin),
        (&mut all.first_tile, &one.first_tile),
        (&mut all.loop_end, &one.loop_end),
        (&mut all.end, &one.end),
    ] {
        to.extend(from[lane.clone()].iter().map(|time| time + later));
    }
}
