//! Bytes over time in a fixed number of steps, whatever the length of the run: when a run outgrows
//! the steps, neighbours are joined and each step is twice as wide.

use crate::capture::CounterSeries;
use crate::units::Nanos;

const STEPS: usize = 1024;

/// A histogram of bytes over time.
#[derive(Debug)]
pub(super) struct Series {
    width: f64,
    bytes: Vec<f64>,
}

impl Series {
    pub(super) fn new() -> Self {
        Self { width: 16.0, bytes: vec![0.0; STEPS] }
    }

    /// Adds `rate` bytes per ns over `begin..end`.
    pub(super) fn add(&mut self, begin: f64, end: f64, rate: f64) {
        if rate <= 0.0 || end <= begin {
            return;
        }
        while end > self.width * STEPS as f64 {
            for at in 0..STEPS / 2 {
                self.bytes[at] = self.bytes[2 * at] + self.bytes[2 * at + 1];
            }
            self.bytes[STEPS / 2..].fill(0.0);
            self.width *= 2.0;
        }
        let mut from = begin;
        while from < end {
            let step = (from / self.width) as usize;
            let to = end.min((step + 1) as f64 * self.width);
            let to = if to <= from { end } else { to };
            if let Some(bytes) = self.bytes.get_mut(step) {
                *bytes += rate * (to - from);
            }
            from = to;
        }
    }

    /// The series as bytes per second up to `end`.
    pub(super) fn finish(self, name: &str, end: f64) -> CounterSeries {
        let used = ((end / self.width).ceil() as usize).clamp(1, STEPS);
        CounterSeries {
            name: name.to_owned(),
            unit: "B/s".to_owned(),
            start: Nanos::ZERO,
            step: Nanos(self.width as u64),
            values: self.bytes[..used].iter().map(|bytes| bytes / self.width * 1e9).collect(),
        }
    }
}
