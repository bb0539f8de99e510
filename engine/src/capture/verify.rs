//! The invariants of a capture, the same for simulated and measured runs.
//!
//! | rule | says |
//! |---|---|
//! | `ids` | launches, CTAs and SMs exist in plan and device |
//! | `times` | begin < end, and the phases of a span lie between them in order |
//! | `lanes` | spans of one lane of an SM do not overlap, and lanes are no more than an SM holds |
//! | `once` | each CTA of the plan ran exactly once |
//! | `windows` | each span lies inside its kernel's window, and each launch has one |
//! | `plan` | the plan is the one that ran, by its digest |
//! | `source` | what only a GPU gives stands in measured captures alone |
//! | `figures` | makespans, counter series and counts are there and finite, shares at most 1 |

use std::collections::BTreeMap;

use crate::capture::{Capture, KernelWindow, Source, Span};
use crate::hw;
use crate::plan::{CtaRole, PlanDigest};

/// A rule that the capture breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the rule.
    pub rule: &'static str,
    /// What breaks it, in one sentence with the numbers.
    pub text: String,
}

/// Findings of one rule that are told one by one; the rest are counted.
const TOLD: usize = 5;

/// Checks a capture. Empty means that all rules hold.
pub fn verify(capture: &Capture) -> Vec<Finding> {
    let mut found = Findings::default();
    let ctas: Vec<u32> = capture.plan.launches.iter().map(|launch| capture.plan.cta_count(launch)).collect();
    spans(capture, &ctas, &mut found);
    once(capture, &mut found);
    windows(capture, &ctas, &mut found);
    plan(capture, &mut found);
    source(capture, &mut found);
    figures(capture, &mut found);
    found.finish()
}

#[derive(Default)]
struct Findings {
    told: Vec<Finding>,
    counts: BTreeMap<&'static str, usize>,
}

impl Findings {
    fn add(&mut self, rule: &'static str, text: impl FnOnce() -> String) {
        let count = self.counts.entry(rule).or_insert(0);
        *count += 1;
        if *count <= TOLD {
            self.told.push(Finding { rule, text: text() });
        }
    }

    fn finish(mut self) -> Vec<Finding> {
        for (&rule, &count) in &self.counts {
            if count > TOLD {
                self.told.push(Finding { rule, text: format!("and {} more of this kind", count - TOLD) });
            }
        }
        self.told
    }
}

/// Each span alone, and beside the one before it on its lane.
fn spans(capture: &Capture, ctas: &[u32], found: &mut Findings) {
    let lanes = hw::find(&capture.provenance.device).ok().map(|device| device.ctas_per_sm);
    let mut before: Option<Span> = None;
    for (position, span) in capture.spans.iter().enumerate() {
        if ctas.get(span.launch as usize).is_none_or(|&count| span.cta >= count) {
            found.add("ids", || {
                format!("span {position} is CTA {} of launch {}, which the plan has not", span.cta, span.launch)
            });
        }
        if span.sm >= capture.provenance.sm_count {
            let sms = capture.provenance.sm_count;
            found.add("ids", || format!("span {position} is on SM {}, but the device has {sms}", span.sm));
        }
        if span.begin >= span.end
            || span.first_tile < span.begin
            || span.loop_end < span.first_tile
            || span.end < span.loop_end
        {
            found.add("times", || {
                format!(
                    "span {position} has begin {}, first tile {}, loop end {}, end {} ns, which are out of order",
                    span.begin.0, span.first_tile.0, span.loop_end.0, span.end.0
                )
            });
        }
        if let Some(lanes) = lanes.filter(|&lanes| span.slot >= lanes) {
            found.add("lanes", || format!("span {position} is in lane {} of an SM that holds {lanes} CTAs", span.slot));
        }
        if let Some(last) = before {
            if (last.sm, last.slot) > (span.sm, span.slot) {
                found.add("lanes", || format!("span {position} is not in order of SM and lane"));
            } else if (last.sm, last.slot) == (span.sm, span.slot) && span.begin < last.end {
                found.add("lanes", || {
                    format!(
                        "span {position} begins at {} ns on SM {} lane {}, before {} ns where the span there ends",
                        span.begin.0, span.sm, span.slot, last.end.0
                    )
                });
            }
        }
        before = Some(span);
    }
}

/// Each CTA of an attention or merge launch, and each task of a persistent one, ran exactly once.
fn once(capture: &Capture, found: &mut Findings) {
    let plan = &capture.plan;
    let mut runs: Vec<Vec<u8>> = plan.launches.iter().map(|launch| vec![0; plan.cta_count(launch) as usize]).collect();
    for span in capture.spans.iter() {
        let Some(launch) = capture.plan.launches.get(span.launch as usize) else { continue };
        // A worker of a persistent launch may merge after its task; that is no second run of it.
        if span.role == CtaRole::Merge && !launch.kind.is_merge() {
            continue;
        }
        if let Some(count) = runs[span.launch as usize].get_mut(span.cta as usize) {
            *count = count.saturating_add(1);
        }
    }
    for (launch, counts) in runs.iter_mut().enumerate() {
        for cta in plan.ctas(&plan.launches[launch]) {
            let count = std::mem::take(&mut counts[cta as usize]);
            if count != 1 {
                found.add("once", || format!("CTA {cta} of launch {launch} ran {count} times"));
            }
        }
        // What is left ran without being a CTA: a head that another CTA computes.
        for (cta, &count) in counts.iter().enumerate().filter(|(_, count)| **count != 0) {
            found.add("once", || format!("CTA {cta} of launch {launch} ran {count} times, but is part of another"));
        }
    }
}

fn windows(capture: &Capture, ctas: &[u32], found: &mut Findings) {
    let mut by_launch: BTreeMap<u32, KernelWindow> = BTreeMap::new();
    for window in &capture.kernels {
        if window.begin < window.ready || window.end < window.begin {
            found.add("windows", || format!("the window of launch {} ends before it begins", window.launch));
        }
        if by_launch.insert(window.launch, *window).is_some() {
            found.add("windows", || format!("launch {} has two windows", window.launch));
        }
    }
    for (launch, _) in
        ctas.iter().enumerate().filter(|(launch, count)| **count > 0 && !by_launch.contains_key(&(*launch as u32)))
    {
        found.add("windows", || format!("launch {launch} has no window"));
    }
    for (position, span) in capture.spans.iter().enumerate() {
        let Some(window) = by_launch.get(&span.launch) else { continue };
        if span.begin < window.begin || span.end > window.end {
            found.add("windows", || {
                format!(
                    "span {position} runs {}..{} ns, outside its kernel's {}..{} ns",
                    span.begin.0, span.end.0, window.begin.0, window.end.0
                )
            });
        }
    }
}

fn plan(capture: &Capture, found: &mut Findings) {
    let PlanDigest { version, crc } = capture.provenance.plan;
    match capture.plan.digest_as(version) {
        None => found.add("plan", || format!("its digest has version {version}, which this build does not know")),
        Some(now) if now.crc != crc => found.add("plan", || {
            format!("the plan has the digest {:08x}, but {crc:08x} ran (digest version {version})", now.crc)
        }),
        Some(_) => {}
    }
}

fn source(capture: &Capture, found: &mut Findings) {
    let made = &capture.provenance;
    let of_a_gpu = [
        (capture.counted.is_some(), "counts of the hardware"),
        (capture.probe_overhead.is_some(), "a cost of tracing"),
        (made.sm_clock_khz.is_some(), "a clock"),
        (made.driver.is_some(), "a driver"),
        (made.backend != "sim", "a backend that measures"),
    ];
    if made.source == Source::Simulated {
        for (_, what) in of_a_gpu.iter().filter(|(there, _)| *there) {
            found.add("source", || format!("it is simulated, but has {what}"));
        }
    }
}

fn figures(capture: &Capture, found: &mut Findings) {
    if capture.times.makespans.is_empty() {
        found.add("figures", || "there is no makespan".to_owned());
    }
    for (position, series) in capture.counters.iter().enumerate() {
        if series.step.0 == 0 || series.values.iter().any(|value| !value.is_finite()) {
            found.add("figures", || {
                format!("counter series {position} has a step of zero or values that are no numbers")
            });
        }
    }
    let Some(counted) = &capture.counted else { return };
    for count in counted.launches.iter().map(|of| &of.counts).chain([&counted.plan]).flat_map(|counts| &counts.0) {
        let most = if count.counter.is_bytes() { f64::MAX } else { 1.0 };
        if !(0.0..=most).contains(&count.value) {
            found.add("figures", || format!("the hardware counted {} {}", count.value, count.counter.name()));
        }
    }
}
