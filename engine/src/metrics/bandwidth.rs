//! Bandwidth of a run, against the data sheet's peak and over time.
//!
//! Two figures are kept apart. *Achieved* is the effective bandwidth of the traffic model: issued
//! bytes (KV, Q, partials, output) over the makespan; L2 serves part of them, so it can pass the
//! peak of HBM. *Utilisation* is of HBM: the bytes that came from DRAM by the capture's `dram_read`
//! series over what the data sheet's bandwidth moves in the makespan, or as the hardware counted them; a
//! capture without either counts compulsory bytes, the least that can have come.

use crate::capture::{Capture, Counter, CounterSeries};
use crate::metrics::Traffic;
use crate::plan::LaunchPlan;
use crate::units::{Bytes, Nanos};

/// Name of the series of bytes read from DRAM, in B/s.
const DRAM_READ: &str = "dram_read";

/// Bandwidth over the makespan.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bandwidth {
    /// Issued bytes over the makespan, bytes per second.
    pub achieved_bytes_per_s: u64,
    /// HBM bandwidth by the data sheet, bytes per second.
    pub peak_bytes_per_s: u64,
    /// Bytes read from DRAM, where the hardware counted them or the capture has that series.
    pub dram_read: Option<Bytes>,
    /// Part of the peak that HBM delivered, 0 to 1: DRAM bytes where known, compulsory ones if not.
    pub utilization: f64,
}

/// Bandwidth of a run.
pub fn bandwidth(traffic: &Traffic, capture: &Capture) -> Bandwidth {
    // Of the runs without tracing, as every makespan that is told.
    let seconds = capture.time().as_f64() * 1e-9;
    let peak = capture.provenance.peak_bytes_per_s;
    let counted = capture.counted.as_ref().and_then(|counted| counted.plan.get(Counter::DramRead));
    let read = counted.or_else(|| series(capture).map(bytes_of));
    let dram_read = read.map(|bytes| Bytes(bytes.round() as u64));
    let from_hbm = dram_read.unwrap_or(traffic.compulsory);
    let per_second = |bytes: Bytes| if seconds > 0.0 { bytes.as_f64() / seconds } else { 0.0 };
    Bandwidth {
        achieved_bytes_per_s: per_second(traffic.issued()).round() as u64,
        peak_bytes_per_s: peak,
        dram_read,
        utilization: if peak == 0 { 0.0 } else { per_second(from_hbm) / peak as f64 },
    }
}

fn series(capture: &Capture) -> Option<&CounterSeries> {
    capture.counters.iter().find(|series| series.name == DRAM_READ && series.step > Nanos::ZERO)
}

fn bytes_of(series: &CounterSeries) -> f64 {
    series.values.iter().sum::<f64>() * series.step.as_f64() * 1e-9
}

/// Bandwidth over time in at most `bins` steps, in B/s: the `dram_read` series where the capture has
/// it, or else the KV bytes of each CTA spread evenly over its main loop, named `issued_read`.
pub fn bandwidth_over_time(plan: &LaunchPlan, capture: &Capture, bins: usize) -> CounterSeries {
    let makespan = capture.makespan().0;
    let step = makespan.div_ceil(bins.max(1) as u64).max(1);
    let mut sums = vec![0.0; makespan.div_ceil(step) as usize];
    let name = if let Some(series) = series(capture) {
        let mut begin = series.start.as_f64();
        for value in &series.values {
            let end = begin + series.step.as_f64();
            spread(&mut sums, step as f64, (begin, end), value * (end - begin) * 1e-9);
            begin = end;
        }
        DRAM_READ
    } else {
        let numbers = plan.all_numbers();
        for span in capture.spans.iter().filter(|span| span.role.computes()) {
            let work = numbers.get(span.launch as usize).and_then(|launch| launch.work(span.cta));
            let Some(work) = work.filter(|work| work.role().computes()) else { continue };
            let bytes = plan.shape.kv_bytes_per_token_head() * work.kv_tokens().0;
            spread(&mut sums, step as f64, (span.begin.as_f64(), span.loop_end.as_f64()), bytes.as_f64());
        }
        "issued_read"
    };
    let per_second = 1e9 / step as f64;
    CounterSeries {
        name: name.to_owned(),
        unit: "B/s".to_owned(),
        start: Nanos::ZERO,
        step: Nanos(step),
        values: sums.into_iter().map(|bytes| bytes * per_second).collect(),
    }
}

/// Adds `bytes` evenly over `begin..end` to bins of width `step`; what lies past the last bin goes
/// into it, so that the sum is kept.
fn spread(sums: &mut [f64], step: f64, (begin, end): (f64, f64), bytes: f64) {
    let Some(last) = sums.len().checked_sub(1) else { return };
    let bin = |time: f64| ((time / step) as usize).min(last);
    let (first, past) = (bin(begin), bin(end));
    if first == past || end <= begin {
        sums[first] += bytes;
        return;
    }
    let rate = bytes / (end - begin);
    for (at, sum) in sums.iter_mut().enumerate().take(past + 1).skip(first) {
        let from = begin.max(at as f64 * step);
        let to = if at == last { end } else { end.min((at + 1) as f64 * step) };
        *sum += rate * (to - from).max(0.0);
    }
}
