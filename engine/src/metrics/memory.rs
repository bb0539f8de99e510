//! Where the bytes of a run came from: issued by the CTAs, served by L2, read from DRAM.
//!
//! ```text
//! CTAs ◄── issued reads ── L2 ◄── DRAM reads ── DRAM          absorbed = to the SMs − from DRAM
//! ```
//!
//! What a run measured comes from the hardware's counts, what it simulated from the model's series; what the
//! plan issues is derived from it. Modelled and measured bytes stand side by side with their difference.

use crate::capture::{Capture, Counter, CounterSeries, Source};
use crate::metrics::Traffic;
use crate::units::{Bytes, Nanos};

/// Bytes of a run on each level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFlow {
    /// Measured or simulated.
    pub source: Source,
    /// Brought from L2 to the SMs.
    pub to_sms: Option<Bytes>,
    /// Read from DRAM.
    pub dram_read: Option<Bytes>,
    /// Written to DRAM while the run went on; what is still in L2 at its end is not in it.
    pub dram_written: Option<Bytes>,
}

impl MemoryFlow {
    /// The flow of a run; none where it neither counted nor simulated any. In the model all issued reads pass L2.
    pub fn of(traffic: &Traffic, capture: &Capture) -> Option<Self> {
        let source = capture.provenance.source;
        if let Some(counted) = &capture.counted {
            let bytes = |counter| counted.plan.get(counter).map(|value: f64| Bytes(value.round() as u64));
            return Some(Self {
                source,
                to_sms: bytes(Counter::L2ToSm).or_else(|| bytes(Counter::L2Read)),
                dram_read: bytes(Counter::DramRead),
                dram_written: bytes(Counter::DramWrite),
            });
        }
        let sum = |name: &str| {
            let series = capture.counters.iter().find(|series| series.name == name)?;
            Some(bytes_within(series, Nanos::ZERO, Nanos(u64::MAX)))
        };
        Some(Self {
            source,
            to_sms: Some(issued_reads(traffic)),
            dram_read: Some(sum("dram_read")?),
            dram_written: sum("dram_write"),
        })
    }

    /// What L2 served without DRAM.
    pub fn absorbed(&self) -> Option<Bytes> {
        Some(self.to_sms?.saturating_sub(self.dram_read?))
    }

    /// That as a share of what went to the SMs, 0 to 1.
    pub fn absorbed_share(&self) -> Option<f64> {
        let to_sms = self.to_sms?.as_f64();
        (to_sms > 0.0).then_some(self.absorbed()?.as_f64() / to_sms)
    }
}

/// What the CTAs ask to read.
fn issued_reads(traffic: &Traffic) -> Bytes {
    traffic.kv_read + traffic.q_read + traffic.partial_read
}

/// The model of bytes that no simulation gave: no run can do with fewer.
pub const LEAST_POSSIBLE: &str = "least possible";

/// Bytes of one kind as modelled and as measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BytesBeside {
    /// The kind.
    pub kind: &'static str,
    /// What the modelled figure is.
    pub model: &'static str,
    /// By the model.
    pub modelled: Option<Bytes>,
    /// By the hardware.
    pub measured: Option<Bytes>,
}

impl BytesBeside {
    /// Modelled over measured, less 1; none where one of them is missing or nothing was measured.
    pub fn difference(&self) -> Option<f64> {
        let measured = self.measured?.as_f64();
        (measured > 0.0).then_some(self.modelled?.as_f64() / measured - 1.0)
    }
}

/// Each kind as modelled beside what was measured.
pub fn bytes_beside(
    traffic: &Traffic,
    simulated: Option<&MemoryFlow>,
    measured: Option<&MemoryFlow>,
) -> [BytesBeside; 4] {
    let reads = issued_reads(traffic);
    let model = |get: fn(&MemoryFlow) -> Option<Bytes>, least: Option<Bytes>| match simulated.and_then(get) {
        Some(bytes) => ("simulated", Some(bytes)),
        None => (LEAST_POSSIBLE, least),
    };
    let least_read = traffic.compulsory.saturating_sub(traffic.output_write);
    let row = |kind, (model, modelled), get: fn(&MemoryFlow) -> Option<Bytes>| BytesBeside {
        kind,
        model,
        modelled,
        measured: measured.and_then(get),
    };
    [
        row("L2 to SMs", ("issued", Some(reads)), |flow| flow.to_sms),
        row("read from DRAM", model(|flow| flow.dram_read, Some(least_read)), |flow| flow.dram_read),
        row("absorbed by L2", model(MemoryFlow::absorbed, None), MemoryFlow::absorbed),
        row("written to DRAM", model(|flow| flow.dram_written, None), |flow| flow.dram_written),
    ]
}

/// Mean value of a series between two times; `None` where it has nothing there.
pub fn mean_within(series: &CounterSeries, from: Nanos, to: Nanos) -> Option<f64> {
    let (mut sum, mut inside) = (0.0, 0);
    for (at, value) in series.values.iter().enumerate() {
        let begin = series.start.0 + at as u64 * series.step.0;
        let part = (begin + series.step.0).min(to.0).saturating_sub(begin.max(from.0));
        sum += value * part as f64;
        inside += part;
    }
    (inside > 0).then(|| sum / inside as f64)
}

/// Bytes of a series in B/s between two times.
pub fn bytes_within(series: &CounterSeries, from: Nanos, to: Nanos) -> Bytes {
    let mut begin = series.start.0;
    let mut sum = 0.0;
    for value in &series.values {
        let end = begin + series.step.0;
        let inside = end.min(to.0).saturating_sub(begin.max(from.0));
        sum += value * inside as f64 * 1e-9;
        begin = end;
    }
    Bytes(sum.max(0.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_mean_weighs_each_step_by_what_of_it_lies_inside() {
        let series = CounterSeries {
            name: "dram_read".to_owned(),
            unit: "B/s".to_owned(),
            start: Nanos(100),
            step: Nanos(10),
            values: vec![1e9, 4e9],
        };
        let mean = |from, to| mean_within(&series, Nanos(from), Nanos(to));
        assert_eq!([mean(0, 100), mean(120, 300)], [None, None]);
        assert_eq!([mean(0, 300), mean(105, 115), mean(109, 120)], [Some(2.5e9), Some(2.5e9), Some(41e9 / 11.0)]);
        assert_eq!(bytes_within(&series, Nanos(0), Nanos(300)).0, 50);
    }

    fn flow(source: Source, to_sms: u64, dram_read: u64) -> MemoryFlow {
        let mib = |count| Some(Bytes(count * MIB));
        MemoryFlow { source, to_sms: mib(to_sms), dram_read: mib(dram_read), dram_written: mib(0) }
    }

    #[test]
    fn what_l2_absorbs_is_what_dram_did_not_send() {
        let measured = flow(Source::Measured, 100, 75);
        assert_eq!(measured.absorbed(), Some(Bytes(25 * MIB)));
        assert_eq!(measured.absorbed_share(), Some(0.25));
        assert_eq!(flow(Source::Measured, 0, 0).absorbed_share(), None);
    }

    #[test]
    fn each_kind_says_what_its_model_is_and_how_far_it_is_off() {
        let traffic = Traffic { kv_read: Bytes(110 * MIB), compulsory: Bytes(60 * MIB), ..Traffic::default() };
        let (simulated, measured) = (flow(Source::Simulated, 110, 80), flow(Source::Measured, 100, 75));
        let rows = bytes_beside(&traffic, Some(&simulated), Some(&measured));
        assert_eq!((rows[0].model, rows[0].modelled), ("issued", Some(Bytes(110 * MIB))));
        assert!((rows[0].difference().unwrap() - 0.1).abs() < 1e-12);
        assert_eq!((rows[1].model, rows[1].modelled), ("simulated", Some(Bytes(80 * MIB))));
        assert_eq!((rows[2].modelled, rows[2].measured), (Some(Bytes(30 * MIB)), Some(Bytes(25 * MIB))));
        assert_eq!(rows[3].difference(), None, "nothing was written");
        let alone = bytes_beside(&traffic, None, Some(&measured));
        assert_eq!((alone[1].model, alone[1].modelled), ("least possible", Some(Bytes(60 * MIB))));
        assert_eq!(bytes_beside(&traffic, None, None)[1].difference(), None);
    }

    #[test]
    fn a_range_of_a_series_has_its_part_of_the_bytes() {
        let series = CounterSeries {
            name: "dram_read".to_owned(),
            unit: "B/s".to_owned(),
            start: Nanos(100),
            step: Nanos(100),
            values: vec![1e9, 2e9],
        };
        let within = |from, to| bytes_within(&series, Nanos(from), Nanos(to)).0;
        assert_eq!((within(0, u64::MAX), within(150, 250), within(0, 100)), (300, 150, 0));
    }
}
