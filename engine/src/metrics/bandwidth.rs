//! Bandwidth: what a run moved in its time, against what the memory could.
//!
//! Two figures are kept apart. *Effective* bandwidth is what the CTAs asked for (KV, Q, partials and
//! output, re-reads counted) over the makespan; L2 can carry it past the HBM peak. *DRAM* bandwidth
//! is what came from HBM. Utilization is the DRAM figure over the data sheet's peak where the
//! capture has it, else the compulsory bytes over time and peak, which is a lower bound.

use serde::{Deserialize, Serialize};

use crate::capture::{Capture, CounterSeries, SpanKind};
use crate::metrics::Traffic;
use crate::plan::{LaunchKind, LaunchPlan};
use crate::units::{Bytes, Nanos};

/// Bandwidth of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Issued bytes over the makespan, bytes per second.
    pub achieved_bytes_per_s: u64,
    /// Bytes read from HBM, where the capture has a series of them.
    pub dram_read: Option<Bytes>,
    /// HBM peak of the device by its data sheet, bytes per second.
    pub peak_bytes_per_s: u64,
    /// HBM bytes over makespan and peak, 0 to 1.
    pub utilization: f64,
}

/// Bandwidth of a capture whose plan has the given traffic.
pub fn bandwidth(traffic: &Traffic, capture: &Capture) -> Bandwidth {
    let peak = capture.provenance.peak_bytes_per_s;
    let seconds = capture.makespan().as_f64() * 1e-9;
    let rate = |bytes: f64| if seconds > 0.0 { bytes / seconds } else { 0.0 };
    let dram_read = series(capture, "dram_read").map(total);
    let from_hbm = dram_read.unwrap_or(traffic.compulsory).as_f64();
    Bandwidth {
        achieved_bytes_per_s: rate(traffic.issued().as_f64()) as u64,
        dram_read,
        peak_bytes_per_s: peak,
        utilization: if peak == 0 { 0.0 } else { rate(from_hbm) / peak as f64 },
    }
}

/// Bandwidth over time in `bins` equal steps: the capture's DRAM series where it has one, else the
/// KV of each CTA spread evenly over its main loop.
pub fn bandwidth_over_time(plan: &LaunchPlan, capture: &Capture, bins: usize) -> CounterSeries {
    if let Some(dram) = series(capture, "dram_read") {
        return dram.clone();
    }
    let bins = bins.max(1);
    let width = capture.makespan().0.div_ceil(bins as u64).max(1);
    let mut bytes = vec![0.0; bins];
    for span in capture.spans.iter().filter(|span| span.kind == SpanKind::Attention) {
        let Some(launch) = plan.launches.get(span.launch as usize) else { continue };
        if launch.kind == LaunchKind::Merge || span.cta >= plan.cta_count(launch) {
            continue;
        }
        let (pack, _) = plan.cta_work(launch, span.cta);
        let loaded = plan.shape.kv_bytes_per_token_head().as_f64() * plan.pack(pack).tokens.as_f64();
        spread(&mut bytes, width, (span.begin.0, span.loop_end.0), loaded);
    }
    CounterSeries {
        name: "kv_issued".to_owned(),
        unit: "B/s".to_owned(),
        start: Nanos::ZERO,
        step: Nanos(width),
        values: bytes.into_iter().map(|bytes| bytes / width as f64 * 1e9).collect(),
    }
}

/// Adds `amount` evenly over `begin..end`.
fn spread(bins: &mut [f64], width: u64, (begin, end): (u64, u64), amount: f64) {
    if end <= begin {
        return;
    }
    let rate = amount / (end - begin) as f64;
    let mut from = begin;
    while from < end {
        let bin = (from / width) as usize;
        let to = end.min((bin as u64 + 1) * width);
        if let Some(value) = bins.get_mut(bin) {
            *value += rate * (to - from) as f64;
        }
        from = to;
    }
}

fn series<'a>(capture: &'a Capture, name: &str) -> Option<&'a CounterSeries> {
    capture.counters.iter().find(|series| series.name == name)
}

/// The integral of a series of rates.
fn total(series: &CounterSeries) -> Bytes {
    let sum: f64 = series.values.iter().sum();
    Bytes((sum * series.step.as_f64() * 1e-9).round() as u64)
}
