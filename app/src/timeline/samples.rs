//! Sums and maxima of a counter row by blocks of samples, so that a view of millions of them costs what is on the screen.

use std::ops::Range;

use engine::capture::CounterSeries;
use engine::units::{Bytes, Nanos};

/// Samples of a block.
const BLOCK: usize = 256;

/// A row of a capture, summed up by blocks.
#[derive(Debug)]
pub struct Samples {
    /// Sum of the values before each block.
    sums: Vec<f64>,
    /// Largest value of each block.
    tops: Vec<f64>,
}

impl Samples {
    /// Sums a row up.
    pub fn of(series: &CounterSeries) -> Self {
        let mut sum = 0.0;
        let mut sums = vec![sum];
        sums.extend(series.values.chunks(BLOCK).map(|block| {
            sum += block.iter().sum::<f64>();
            sum
        }));
        Self { sums, tops: series.values.chunks(BLOCK).map(largest).collect() }
    }

    /// The largest value of all, and at least 0.
    pub fn largest(&self) -> f64 {
        largest(&self.tops)
    }

    /// The largest value of some samples, and at least 0.
    pub fn largest_of(&self, series: &CounterSeries, samples: Range<usize>) -> f64 {
        let (first, last) = (samples.start.div_ceil(BLOCK), samples.end / BLOCK);
        if first >= last {
            return largest(&series.values[samples]);
        }
        let ends = [samples.start..first * BLOCK, last * BLOCK..samples.end];
        ends.into_iter().map(|end| largest(&series.values[end])).fold(largest(&self.tops[first..last]), f64::max)
    }

    /// Mean value between two times, as [`engine::metrics::mean_within`] has it.
    pub fn mean(&self, series: &CounterSeries, from: Nanos, to: Nanos) -> Option<f64> {
        let begin = series.start.0;
        let end = begin + series.values.len() as u64 * series.step.0;
        let inside = to.0.min(end).saturating_sub(from.0.max(begin));
        (inside > 0).then(|| self.integral(series, from, to) / inside as f64)
    }

    /// Bytes of a row in B/s between two times, as [`engine::metrics::bytes_within`] has them.
    pub fn bytes(&self, series: &CounterSeries, from: Nanos, to: Nanos) -> Bytes {
        Bytes((self.integral(series, from, to) * 1e-9).max(0.0).round() as u64)
    }

    /// Value times nanoseconds between two times. Few samples are summed one by one, to the last bit.
    fn integral(&self, series: &CounterSeries, from: Nanos, to: Nanos) -> f64 {
        let step = series.step.0.max(1);
        let sample = |time: Nanos| ((time.0.saturating_sub(series.start.0) / step) as usize).min(series.values.len());
        let (first, last) = ((sample(from) + 1).div_ceil(BLOCK), sample(to) / BLOCK);
        let part = |samples: Range<usize>| {
            let mut sum = 0.0;
            for at in samples {
                let begin = series.start.0 + at as u64 * step;
                let inside = (begin + step).min(to.0).saturating_sub(begin.max(from.0));
                sum += series.values[at] * inside as f64;
            }
            sum
        };
        let after = (sample(to) + 1).min(series.values.len());
        if first >= last {
            return part(sample(from)..after);
        }
        let whole = (self.sums[last] - self.sums[first]) * step as f64;
        part(sample(from)..first * BLOCK) + whole + part(last * BLOCK..after)
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use engine::metrics;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn blocks_give_what_all_samples_give(
            values in proptest::collection::vec(0.0..5e12_f64, 0..1500),
            (start, step) in (0..500_u64, 1..40_u64),
            ends in (0..40_000_u64, 0..70_000_u64),
        ) {
            let (name, unit) = ("dram_read".to_owned(), "B/s".to_owned());
            let series = CounterSeries { name, unit, start: Nanos(start), step: Nanos(step), values };
            let samples = Samples::of(&series);
            let (from, to) = (Nanos(ends.0.min(ends.1)), Nanos(ends.0.max(ends.1)));
            let near = |own: f64, other: f64| (own - other).abs() <= other.abs() * 1e-9;
            let (own, other) = (samples.mean(&series, from, to), metrics::mean_within(&series, from, to));
            prop_assert_eq!(own.is_some(), other.is_some());
            prop_assert!(own.zip(other).is_none_or(|(own, other)| near(own, other)), "{own:?} {other:?}");
            let bytes = metrics::bytes_within(&series, from, to).0;
            prop_assert!(samples.bytes(&series, from, to).0.abs_diff(bytes) <= 1 + bytes / 1_000_000_000);
            let count = series.values.len();
            let (first, last) = (count.min(ends.0 as usize % 1500), count.min(ends.1 as usize % 1500));
            let range = first.min(last)..first.max(last);
            let most = samples.largest_of(&series, range.clone());
            prop_assert!((most - largest(&series.values[range])).abs() < f64::EPSILON);
            prop_assert!((samples.largest() - largest(&series.values)).abs() < f64::EPSILON);
        }
    }
}
