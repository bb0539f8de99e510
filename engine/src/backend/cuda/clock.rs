//! Each SM's cycle counter on the GPU's one nanosecond clock.
//!
//! `%globaltimer` is the same on all SMs but steps (32 ns on an H200); `%clock64` counts every cycle but
//! each SM has its own zero and its own rate, and the rate wanders within a run: a single line for each SM was
//! 400 ns off in a run of 800 µs. A record holds both clocks at its begin and at its end. The pairs of an SM are
//! taken by eights in the order of time; the means of each eight are a knot, and between knots the time runs
//! evenly. An SM with one knot takes the line that is best over its pairs; one with too few pairs for that takes
//! the rate that is best over all SMs.
//!
//! Worked number: readings step by 32 ns, so each pair is off by up to 32 ns, evenly: a standard deviation
//! of 32/√12 = 9.2 ns. Eight pairs place a knot to 9.2/√8 = 3.3 ns.

use std::collections::BTreeMap;

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) sm: u32,
    pub(super) clock: u64,
    pub(super) ns: u64,
}

/// Pairs of a knot.
const KNOT: usize = 8;
/// Pairs from which an SM has a rate of its own.
const OWN_RATE: usize = 4;

/// The clock of one SM: its first reading, from which clocks count, and its knots (clock, ns) in order of time,
/// two at least.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    first: u64,
    knots: Vec<(f64, f64)>,
}

impl Line {
    fn nanos(&self, clock: f64) -> f64 {
        // Beyond the ends the last stretch goes on.
        let upper = self.knots.partition_point(|knot| knot.0 < clock).clamp(1, self.knots.len() - 1);
        let ((c0, n0), (c1, n1)) = (self.knots[upper - 1], self.knots[upper]);
        n0 + (n1 - n0) * (clock - c0) / (c1 - c0)
    }
}

/// The fitted clocks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClockFit {
    /// Nanoseconds a cycle, over all SMs.
    pub(super) rate: f64,
    lines: BTreeMap<u32, Line>,
    /// Largest standard error of an SM's knots, ns.
    pub(super) error: f64,
}

impl ClockFit {
    /// Fits the pairs; times count from `origin`. `None` where no cycle passed between any two.
    pub(super) fn new(pairs: &[Pair], origin: u64) -> Option<Self> {
        let mut sorted = pairs.to_vec();
        sorted.sort_unstable_by_key(|pair| (pair.sm, pair.ns, pair.clock));
        let mut by_sm: BTreeMap<u32, (u64, Vec<(f64, f64)>)> = BTreeMap::new();
        for pair in sorted {
            let (first, pairs) = by_sm.entry(pair.sm).or_insert_with(|| (pair.clock, Vec::new()));
            let clock = pair.clock.wrapping_sub(*first).cast_signed() as f64;
            pairs.push((clock, pair.ns.wrapping_sub(origin).cast_signed() as f64));
        }
        let rate = common_rate(by_sm.values().map(|(_, pairs)| pairs.as_slice()))?;
        let mut error: f64 = 0.0;
        let lines = by_sm.into_iter().map(|(sm, (first, pairs))| {
            let line = Line { first, knots: knots(&pairs, rate) };
            let squares: f64 = pairs.iter().map(|(clock, ns)| (ns - line.nanos(*clock)).powi(2)).sum();
            let count = pairs.len() as f64;
            error = error.max((squares / count).sqrt() / count.min(KNOT as f64).sqrt());
            (sm, line)
        });
        let lines = lines.collect();
        Some(Self { rate, lines, error })
    }

    /// A clock reading of an SM in nanoseconds after the origin; readings of one SM keep their order.
    pub(super) fn nanos(&self, sm: u32, clock: u64) -> f64 {
        self.lines.get(&sm).map_or(0.0, |line| line.nanos(clock.wrapping_sub(line.first).cast_signed() as f64))
    }
}

/// Knots of an SM's pairs, which are in order of time; one stretch by least squares where they make a single knot.
fn knots(pairs: &[(f64, f64)], common: f64) -> Vec<(f64, f64)> {
    let parts = (pairs.len() / KNOT).max(1);
    let means: Vec<(f64, f64)> =
        (0..parts).map(|part| means(&pairs[part * pairs.len() / parts..(part + 1) * pairs.len() / parts])).collect();
    let rising = means.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1);
    if parts > 1 && rising {
        return means;
    }
    let own = (pairs.len() >= OWN_RATE).then(|| common_rate(std::iter::once(pairs))).flatten();
    let (clock, ns) = self::means(pairs);
    vec![(clock, ns), (clock + 1e3, ns + 1e3 * own.unwrap_or(common))]
}

/// Least squares over several SMs, each around its own mean.
fn common_rate<'a>(sms: impl Iterator<Item = &'a [(f64, f64)]>) -> Option<f64> {
    let (mut products, mut squares) = (0.0, 0.0);
    for pairs in sms {
        let (clock, ns) = means(pairs);
        for (c, n) in pairs {
            products += (c - clock) * (n - ns);
            squares += (c - clock).powi(2);
        }
    }
    (squares > 0.0 && products > 0.0).then(|| products / squares)
}

fn means(pairs: &[(f64, f64)]) -> (f64, f64) {
    let count = pairs.len().max(1) as f64;
    let sum = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    (sum.0 / count, sum.1 / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SMs with different zeros, rates around 1.98 GHz half a percent apart that wander by a percent, and a timer
    /// that steps by 32 ns.
    #[test]
    fn clocks_with_other_zeros_and_wandering_rates_come_out_on_one_axis_within_the_step() {
        let origin = 1_700_000_000_000_000_000_u64;
        let cycles = |sm: u64, at: u64| {
            let (at, rate) = (at as f64, 1.98 * (1.0 + 0.005 * (sm % 8) as f64 / 7.0));
            (rate * (at + 0.01 * at * at / 800_000.0)) as u64
        };
        let truth = |sm: u64, at: u64| (sm * 1_000_003 + cycles(sm, at), origin + at / 32 * 32);
        let mut pairs = Vec::new();
        for sm in 0..132 {
            for nth in 0..160_u64 {
                let (clock, ns) = truth(sm, 500 + nth * 4917 + sm * 13);
                pairs.push(Pair { sm: sm as u32, clock, ns });
            }
        }
        let fit = ClockFit::new(&pairs, origin).unwrap();
        assert!(fit.error < 6.0, "{}", fit.error);
        for sm in 0..132 {
            for at in [20_000, 400_000, 770_000].map(|at| at + sm * 7) {
                let error = fit.nanos(sm as u32, truth(sm, at).0) - at as f64;
                // A reading is early by half a step on average, alike on all SMs.
                assert!((error + 16.0).abs() < 16.0, "SM {sm} at {at}: {error}");
            }
        }
    }

    #[test]
    fn few_pairs_of_an_sm_take_the_rate_of_all() {
        let pair = |sm, clock, ns| Pair { sm, clock, ns };
        let fit = ClockFit::new(&[pair(0, 0, 0), pair(0, 2_000, 1_000), pair(1, 10, 500)], 0).unwrap();
        assert!((fit.nanos(1, 2_010) - 1_500.0).abs() < 1e-6);
        assert!((fit.nanos(0, 1_000) - 500.0).abs() < 1e-6);
    }

    #[test]
    fn without_any_passed_cycle_there_is_no_fit() {
        assert_eq!(ClockFit::new(&[Pair { sm: 0, clock: 7, ns: 9 }], 0), None);
        assert_eq!(ClockFit::new(&[], 0), None);
    }
}
