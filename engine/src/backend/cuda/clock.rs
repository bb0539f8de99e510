//! Each SM's cycle counter on the GPU's one nanosecond clock.
//!
//! `%globaltimer` is the same on all SMs but steps (32 ns on an H200); `%clock64` counts every cycle but
//! each SM has its own zero, and its own rate as well: the SMs' clocks follow their local voltage, and
//! within one run two SMs were seen half a percent apart. A record holds both at its begin and at its end,
//! so the pairs of an SM give it a line ns = rate · clock + offset by least squares. An SM with too few pairs
//! for that takes the rate that is best over all of them.
//!
//! Worked number: readings step by 32 ns, so each pair is off by up to 32 ns, evenly: a standard deviation
//! of 32/√12 = 9.2 ns. Ten pairs on an SM place it to 9.2/√10 = 2.9 ns.

use std::collections::BTreeMap;

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) sm: u32,
    pub(super) clock: u64,
    pub(super) ns: u64,
}

/// Pairs from which an SM has a rate of its own.
const OWN_RATE: usize = 4;

/// The line of one SM, around the mean of its pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    /// Its first clock, from which `clock` counts.
    first: u64,
    clock: f64,
    ns: f64,
    rate: f64,
}

/// The fitted lines.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClockFit {
    /// Nanoseconds a cycle, over all SMs.
    pub(super) rate: f64,
    lines: BTreeMap<u32, Line>,
    /// Largest standard error of a line at its mean, ns.
    pub(super) error: f64,
}

impl ClockFit {
    /// Fits the pairs; times count from `origin`. `None` where no cycle passed between any two.
    pub(super) fn new(pairs: &[Pair], origin: u64) -> Option<Self> {
        let mut by_sm: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
        let mut first: BTreeMap<u32, u64> = BTreeMap::new();
        for pair in pairs {
            let zero = *first.entry(pair.sm).or_insert(pair.clock);
            let clock = pair.clock.wrapping_sub(zero).cast_signed() as f64;
            by_sm.entry(pair.sm).or_default().push((clock, pair.ns.wrapping_sub(origin).cast_signed() as f64));
        }
        let rate = common_rate(by_sm.values().map(Vec::as_slice))?;
        let mut error: f64 = 0.0;
        let lines = by_sm.iter().map(|(sm, pairs)| {
            let own = (pairs.len() >= OWN_RATE).then(|| common_rate(std::iter::once(pairs.as_slice()))).flatten();
            let rate = own.unwrap_or(rate);
            let (clock, ns) = means(pairs);
            let squares: f64 = pairs.iter().map(|(c, n)| (n - ns - rate * (c - clock)).powi(2)).sum();
            error = error.max((squares / pairs.len() as f64).sqrt() / (pairs.len() as f64).sqrt());
            (*sm, Line { first: first[sm], clock, ns, rate })
        });
        let lines = lines.collect();
        Some(Self { rate, lines, error })
    }

    /// A clock reading of an SM in nanoseconds after the origin; readings of one SM keep their order.
    pub(super) fn nanos(&self, sm: u32, clock: u64) -> f64 {
        self.lines.get(&sm).map_or(0.0, |line| {
            line.ns + line.rate * (clock.wrapping_sub(line.first).cast_signed() as f64 - line.clock)
        })
    }
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

    /// SMs with different zeros and rates around 1.98 GHz, half a percent apart, and a timer that steps by 32 ns.
    #[test]
    fn clocks_with_other_zeros_and_rates_come_out_on_one_axis_within_the_step() {
        let (origin, ghz) = (1_700_000_000_000_000_000_u64, 1.98);
        let ghz_of = |sm: u64| ghz * (1.0 + 0.005 * (sm % 8) as f64 / 7.0 - 0.0025);
        let truth = |sm: u64, at: u64| (sm * 1_000_003 + (at as f64 * ghz_of(sm)) as u64, origin + at / 32 * 32);
        let mut pairs = Vec::new();
        for sm in 0..132 {
            for nth in 0..12_u64 {
                let (clock, ns) = truth(sm, 500 + nth * 2917 + sm * 13);
                pairs.push(Pair { sm: sm as u32, clock, ns });
            }
        }
        let fit = ClockFit::new(&pairs, origin).unwrap();
        assert!((fit.rate * ghz - 1.0).abs() < 1e-3, "{}", fit.rate);
        assert!(fit.error < 6.0, "{}", fit.error);
        for sm in 0..132 {
            let at = 20_000 + sm * 7;
            let error = fit.nanos(sm as u32, truth(sm, at).0) - at as f64;
            // A reading is early by half a step on average, alike on all SMs.
            assert!((error + 16.0).abs() < 12.0, "SM {sm}: {error}");
        }
    }

    #[test]
    fn without_any_passed_cycle_there_is_no_fit() {
        assert_eq!(ClockFit::new(&[Pair { sm: 0, clock: 7, ns: 9 }], 0), None);
        assert_eq!(ClockFit::new(&[], 0), None);
    }
}
