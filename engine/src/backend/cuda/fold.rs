//! Samples of several runs of one plan as one series on the runs' own axis.
//!
//! Samples do not begin where a run does, and each run falls differently between them, so the runs are laid
//! over one another: what a sample holds goes evenly over the time that it shares with its run, into steps
//! that count from the run's start. The GPU idles around a run, so a sample that reaches past an end of it
//! holds nothing of the outside, and the sum over a series is what the mean run did.
//!
//! Worked: samples of 100 ns, runs of 150 ns at 1,000 and at 2,030. The sample 980..1,080 with 80 B goes into
//! step 0 of the first run; 2,080..2,180 with 100 B goes half into step 0 and half into step 1 of the second.

/// A value over a stretch of time on the runs' clock, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) value: f64,
}

/// What a value stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An amount that came within the stretch; becomes amounts per second.
    Amount,
    /// A share of the stretch, 0 to 1.
    Share,
}

/// The mean over `runs` (begin, end), in steps of `step` nanoseconds from a run's begin.
pub(super) fn fold(stretches: &[Stretch], runs: &[(u64, u64)], step: u64, kind: Kind) -> Vec<f64> {
    let step = step.max(1);
    let longest = runs.iter().map(|run| run.1.saturating_sub(run.0)).max().unwrap_or(0);
    let mut sums = vec![0.0; longest.div_ceil(step) as usize];
    for run in runs {
        for stretch in within(stretches, *run) {
            let amount = match kind {
                Kind::Amount => stretch.value,
                Kind::Share => stretch.value * (stretch.end - stretch.begin) as f64,
            };
            let (begin, end) = (stretch.begin.max(run.0) - run.0, stretch.end.min(run.1) - run.0);
            spread(&mut sums, step, (begin, end), amount);
        }
    }
    let whole = runs.len().max(1) as f64 * step as f64;
    let mean = |sum: f64| match kind {
        Kind::Amount => sum / whole * 1e9,
        Kind::Share => (sum / whole).min(1.0),
    };
    sums.into_iter().map(mean).collect()
}

/// The stretches that share time with a run.
pub(super) fn within(stretches: &[Stretch], run: (u64, u64)) -> impl Iterator<Item = &Stretch> {
    stretches.iter().filter(move |stretch| stretch.begin < run.1 && stretch.end > run.0)
}

fn spread(sums: &mut [f64], step: u64, (begin, end): (u64, u64), amount: f64) {
    let length = end.saturating_sub(begin).max(1) as f64;
    let (first, last) = ((begin / step) as usize, (end.saturating_sub(1) / step) as usize);
    for (at, sum) in sums.iter_mut().enumerate().take(last + 1).skip(first) {
        let (from, to) = (begin.max(at as u64 * step), end.min((at as u64 + 1) * step));
        *sum += amount * (to.saturating_sub(from).max(u64::from(begin == end))) as f64 / length;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_worked_numbers() {
        let stretch = |begin, value| Stretch { begin, end: begin + 100, value };
        let runs = [(1000, 1150), (2030, 2180)];
        let series = fold(&[stretch(980, 80.0), stretch(2080, 100.0)], &runs, 100, Kind::Amount);
        // Two runs of 100 ns: 200 ns stand behind each step.
        assert_eq!(series, [(80.0 + 50.0) / 200.0 * 1e9, 50.0 / 200.0 * 1e9]);
        assert_eq!(fold(&[stretch(1000, 0.5), stretch(2030, 0.5)], &runs, 100, Kind::Share), [0.5, 0.0]);
        assert!(fold(&[], &[], 100, Kind::Share).is_empty());
    }

    proptest! {
        #[test]
        fn the_sum_of_a_series_is_the_mean_amount_of_a_run(
            lengths in prop::collection::vec(500_u64..5_000, 1..6), interval in 200_u64..1_500, phase in 0_u64..1_000,
        ) {
            let mut at = 10_000;
            let mut runs = Vec::new();
            for length in lengths {
                runs.push((at, at + length));
                at += length + 10_000;
            }
            let samples: Vec<Stretch> = (0..at / interval)
                .map(|nth| Stretch { begin: phase + nth * interval, end: phase + (nth + 1) * interval, value: 1.0 + nth as f64 })
                .collect();
            let total: f64 = runs.iter().flat_map(|run| within(&samples, *run)).map(|sample| sample.value).sum();
            let series = fold(&samples, &runs, interval, Kind::Amount);
            let sum = series.iter().sum::<f64>() * interval as f64 * 1e-9;
            prop_assert!((sum - total / runs.len() as f64).abs() < 1e-6 * total, "{sum} of {total}");
            prop_assert!(fold(&samples, &runs, interval, Kind::Share).iter().all(|share| (0.0..=1.0).contains(share)));
        }
    }
}
