//! Each SM's cycle counter on the GPU's one nanosecond clock.
//!
//! `%globaltimer` is the same on all SMs but steps (32 ns on an H200); `%clock64` counts every cycle but
//! each SM has its own zero and its own rate, and the rate wanders within a run: a single line for each SM was
//! 400 ns off in a run of 800 µs. A record holds both clocks at its begin and at its end. The pairs of an SM are
//! taken by eights in the order of time; the means of each eight are a knot, and between knots the time runs
//! evenly. An SM with one knot takes the line that is best over its pairs; one with too few pairs for that takes
//! the rate that is best over all SMs.
//!
//! Reading the timer takes a while: at a begin the cycle counter is read after it, at an end before it. On an H200
//! the begins of all SMs lie 100 to 150 ns early on a line through both, and the ends as much late. That part is
//! found first, the same for the whole run, and taken out. Readings further apart than that, because the code
//! between them was still on its way to the SM, are left out.
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
    pub(super) side: Side,
}

/// Which clock was read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    /// The timer: its reading is early for that of the counter.
    Begin,
    /// The counter: the timer's reading is late for it.
    End,
}

/// A pair of one SM: cycles from its first, ns from the origin, and −1 at a begin or 1 at an end.
#[derive(Clone, Copy, Debug)]
struct Reading {
    clock: f64,
    ns: f64,
    side: f64,
}

/// Pairs of a knot.
const KNOT: usize = 8;
/// Pairs from which an SM has a rate of its own.
const OWN_RATE: usize = 4;
/// Pairs in a row that show how long a reading takes, and the fewest that do.
const APART: (usize, usize) = (32, 8);
/// How much of the sides must not be explained by the time, in one row of readings and over all SMs.
const OF_A_ROW: f64 = 0.5;
const OF_ALL: f64 = 0.05;

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
    /// Fits the pairs; times count from `origin`, and the timer moves in steps of `step` ns. `None` where no cycle
    /// passed between any two.
    pub(super) fn new(pairs: &[Pair], origin: u64, step: f64) -> Option<Self> {
        let mut by_sm = by_sm(pairs, origin);
        let late = reading_time(by_sm.values().map(|(_, readings)| readings.as_slice()));
        for reading in by_sm.values_mut().flat_map(|(_, readings)| readings) {
            reading.ns -= reading.side * late;
        }
        let rate = common_rate(by_sm.values().map(|(_, readings)| readings.as_slice()))?;
        let mut error: f64 = 0.0;
        let lines = by_sm.into_iter().map(|(sm, (first, readings))| {
            let readings = of_one_moment(&readings, rate, step);
            let line = Line { first, knots: knots(&readings, rate) };
            let squares: f64 = readings.iter().map(|reading| (reading.ns - line.nanos(reading.clock)).powi(2)).sum();
            let count = readings.len() as f64;
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

/// The readings of each SM in order of time, with the cycle count that they begin at.
fn by_sm(pairs: &[Pair], origin: u64) -> BTreeMap<u32, (u64, Vec<Reading>)> {
    let mut sorted = pairs.to_vec();
    sorted.sort_unstable_by_key(|pair| (pair.sm, pair.ns, pair.clock, pair.side));
    let mut by_sm: BTreeMap<u32, (u64, Vec<Reading>)> = BTreeMap::new();
    for pair in sorted {
        let (first, readings) = by_sm.entry(pair.sm).or_insert_with(|| (pair.clock, Vec::new()));
        readings.push(Reading {
            clock: pair.clock.wrapping_sub(*first).cast_signed() as f64,
            ns: pair.ns.wrapping_sub(origin).cast_signed() as f64,
            side: if pair.side == Side::Begin { -1.0 } else { 1.0 },
        });
    }
    by_sm
}

/// How late the timer's reading is at an end, and how early at a begin, ns: `d` of the best `ns = a + b · clock ± d`
/// over readings of an SM in a row, in the middle of all such rows. Where none is long enough, as in a short run, it is
/// the one `d` and rate of all SMs together; 0 where that shows nothing.
fn reading_time<'a>(sms: impl Iterator<Item = &'a [Reading]>) -> f64 {
    let sms: Vec<&[Reading]> = sms.collect();
    let rows = sms.iter().flat_map(|readings| readings.chunks(APART.0)).filter(|row| row.len() >= APART.1);
    let found: Vec<f64> = rows.filter_map(|row| side_of_line(&[row], OF_A_ROW)).collect();
    if found.is_empty() { side_of_line(&sms, OF_ALL).unwrap_or(0.0) } else { median(found) }
}

/// `d` by least squares, each row around its own mean; `None` where begins and ends do not take turns, so that the
/// rate could stand for it: less than `least` of the sides is not explained by the time.
fn side_of_line(rows: &[&[Reading]], least: f64) -> Option<f64> {
    let (mut cc, mut cs, mut ss, mut cn, mut sn) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for row in rows {
        let middle = means(row);
        for reading in *row {
            let (c, s, n) = (reading.clock - middle.clock, reading.side - middle.side, reading.ns - middle.ns);
            (cc, cs, ss) = (cc + c * c, cs + c * s, ss + s * s);
            (cn, sn) = (cn + c * n, sn + s * n);
        }
    }
    let independent = cc * ss - cs * cs;
    (independent > least * cc * ss).then(|| (sn * cc - cn * cs) / independent)
}

/// The readings of an SM, in order of time, without those that lie apart: of each eight, those that are off its
/// median by more than the timer's step, unless half of them are.
fn of_one_moment(readings: &[Reading], common: f64, step: f64) -> Vec<Reading> {
    let mut kept = Vec::with_capacity(readings.len());
    for eight in readings.chunks(KNOT) {
        let rate = if eight.len() < OWN_RATE { common } else { middle_slope(eight).unwrap_or(common) };
        let off = |reading: &Reading| reading.ns - rate * reading.clock;
        let middle = median(eight.iter().map(off).collect());
        let spread = median(eight.iter().map(|reading| (off(reading) - middle).abs()).collect());
        // A rate that wanders spreads all of them.
        let limit = (4.0 * spread).max(step);
        kept.extend(eight.iter().filter(|reading| (off(reading) - middle).abs() <= limit));
    }
    kept
}

/// The median of the slopes between any two readings, each as heavy as they are apart: one in four may be far off
/// and does not move it. `None` where no cycle passed.
fn middle_slope(readings: &[Reading]) -> Option<f64> {
    let mut slopes: Vec<(f64, f64)> = Vec::new();
    for (at, first) in readings.iter().enumerate() {
        let apart = readings[at + 1..].iter().map(|second| (second.clock - first.clock, second.ns - first.ns));
        slopes.extend(apart.filter(|(cycles, _)| *cycles > 0.0).map(|(cycles, ns)| (ns / cycles, cycles)));
    }
    slopes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut left = slopes.iter().map(|slope| slope.1).sum::<f64>() / 2.0;
    let middle = slopes.iter().find(|slope| {
        left -= slope.1;
        left <= 0.0
    });
    middle.map(|slope| slope.0)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn own_rate(readings: &[Reading]) -> Option<f64> {
    (readings.len() >= OWN_RATE).then(|| common_rate(std::iter::once(readings))).flatten()
}

/// Knots of an SM's readings, which are in order of time; one stretch by least squares where they make a single knot.
fn knots(readings: &[Reading], common: f64) -> Vec<(f64, f64)> {
    let parts = (readings.len() / KNOT).max(1);
    let part = |part: usize| &readings[part * readings.len() / parts..(part + 1) * readings.len() / parts];
    let means: Vec<Reading> = (0..parts).map(|at| means(part(at))).collect();
    let rising = means.windows(2).all(|pair| pair[0].clock < pair[1].clock && pair[0].ns < pair[1].ns);
    if parts > 1 && rising {
        return means.into_iter().map(|mean| (mean.clock, mean.ns)).collect();
    }
    let mean = self::means(readings);
    vec![(mean.clock, mean.ns), (mean.clock + 1e3, mean.ns + 1e3 * own_rate(readings).unwrap_or(common))]
}

/// Least squares over several SMs, each around its own mean.
fn common_rate<'a>(sms: impl Iterator<Item = &'a [Reading]>) -> Option<f64> {
    let (mut products, mut squares) = (0.0, 0.0);
    for readings in sms {
        let middle = means(readings);
        for reading in readings {
            products += (reading.clock - middle.clock) * (reading.ns - middle.ns);
            squares += (reading.clock - middle.clock).powi(2);
        }
    }
    (squares > 0.0 && products > 0.0).then(|| products / squares)
}

fn means(readings: &[Reading]) -> Reading {
    let count = readings.len().max(1) as f64;
    let mean = |of: fn(&Reading) -> f64| readings.iter().map(of).sum::<f64>() / count;
    Reading { clock: mean(|reading| reading.clock), ns: mean(|reading| reading.ns), side: mean(|reading| reading.side) }
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
                pairs.push(Pair { sm: sm as u32, clock, ns, side: Side::Begin });
            }
        }
        let fit = ClockFit::new(&pairs, origin, 32.0).unwrap();
        assert!(fit.error < 6.0, "{}", fit.error);
        for sm in 0..132 {
            for at in [20_000, 400_000, 770_000].map(|at| at + sm * 7) {
                let error = fit.nanos(sm as u32, truth(sm, at).0) - at as f64;
                // A reading is early by half a step on average, alike on all SMs.
                assert!((error + 16.0).abs() < 16.0, "SM {sm} at {at}: {error}");
            }
        }
    }

    /// `%globaltimer` when a short run begins.
    const ORIGIN: u64 = 5_000;

    /// The cycle counter of an SM at a moment, at 1.98 GHz.
    fn cycles(sm: u64, at: u64) -> u64 {
        sm * 77_777 + at * 198 / 100
    }

    /// Counter and timer read at these moments, the timer in steps of 32 ns.
    fn read(sm: u64, clock_at: u64, timer_at: u64, side: Side) -> Pair {
        Pair { sm: sm as u32, clock: cycles(sm, clock_at), ns: ORIGIN + timer_at / 32 * 32, side }
    }

    /// Both pairs of a task, with `gap` ns between the two readings of each.
    fn task(sm: u64, begin: u64, end: u64, gap: u64) -> [Pair; 2] {
        [read(sm, begin + gap, begin, Side::Begin), read(sm, end, end + gap, Side::End)]
    }

    /// A short run of two launches: a few pairs an SM, and at the begin of each launch the second reading waits for
    /// its code.
    #[test]
    fn readings_that_waited_for_their_code_do_not_count() {
        let mut pairs = Vec::new();
        for sm in 0..132_u64 {
            for nth in 0..7_u64 {
                let at = 640 + nth * 5_003 + sm * 37;
                let late = if nth % 4 == 0 { 250 + sm * 3 } else { 0 };
                pairs.push(read(sm, at + late, at, Side::Begin));
            }
        }
        let fit = ClockFit::new(&pairs, ORIGIN, 32.0).unwrap();
        assert!(fit.error < 8.0, "{}", fit.error);
        for sm in 0..132 {
            let error = fit.nanos(sm as u32, cycles(sm, 20_000)) - 20_000.0;
            assert!((error + 16.0).abs() < 16.0, "SM {sm}: {error}");
        }
        let all = ClockFit::new(&pairs, ORIGIN, f64::INFINITY).unwrap();
        assert!(all.error > 40.0, "with the late readings the clocks are off by {}", all.error);
    }

    /// As on an H200: tasks of four warps, whose records begin and end together, with 140 ns between the two readings.
    #[test]
    fn the_time_that_a_reading_takes_is_found_and_taken_out() {
        let mut pairs = Vec::new();
        for (sm, warp, nth) in (0..132_u64).flat_map(|sm| (0..40).map(move |at| (sm, at % 4, at / 4))) {
            let begin = 640 + nth * 5_003 + sm * 37 + warp * 3;
            let (end, gap) = (begin + 3_100 + (nth * 211 + warp * 17) % 700, 140 + (nth * 7 + warp) % 13);
            pairs.extend(task(sm, begin, end, gap));
        }
        let fit = ClockFit::new(&pairs, ORIGIN, 32.0).unwrap();
        assert!(fit.error < 8.0, "{}", fit.error);
        for sm in 0..132 {
            let error = fit.nanos(sm as u32, cycles(sm, 20_000)) - 20_000.0;
            assert!((error + 16.0).abs() < 20.0, "SM {sm}: {error}");
        }
        for pair in &mut pairs {
            pair.side = Side::Begin;
        }
        let apart = ClockFit::new(&pairs, ORIGIN, 32.0).unwrap();
        assert!(apart.error > 40.0, "with the readings apart the clocks are off by {}", apart.error);
    }

    /// One launch of two CTAs an SM: too few readings of any SM to show the time between the two of a pair.
    #[test]
    fn in_a_short_run_the_time_of_a_reading_is_found_over_all_sms() {
        let mut pairs = Vec::new();
        for (sm, cta) in (0..132_u64).flat_map(|sm| [(sm, 0), (sm, 1)]) {
            let (begin, gap) = (640 + cta * 9 + sm * 7, 140 + (sm + cta) % 13);
            let end = begin + 7_000 + (sm * 331 + cta * 4_001) % 9_000;
            pairs.extend(task(sm, begin, end, gap));
        }
        let fit = ClockFit::new(&pairs, ORIGIN, 32.0).unwrap();
        assert!(fit.error < 16.0, "{}", fit.error);
        for sm in 0..132 {
            let error = fit.nanos(sm as u32, cycles(sm, 5_000)) - 5_000.0;
            assert!((error + 16.0).abs() < 32.0, "SM {sm}: {error}");
        }
    }

    #[test]
    fn few_pairs_of_an_sm_take_the_rate_of_all() {
        let pair = |sm, clock, ns| Pair { sm, clock, ns, side: Side::Begin };
        let fit = ClockFit::new(&[pair(0, 0, 0), pair(0, 2_000, 1_000), pair(1, 10, 500)], 0, 32.0).unwrap();
        assert!((fit.nanos(1, 2_010) - 1_500.0).abs() < 1e-6);
        assert!((fit.nanos(0, 1_000) - 500.0).abs() < 1e-6);
    }

    #[test]
    fn without_any_passed_cycle_there_is_no_fit() {
        assert_eq!(ClockFit::new(&[Pair { sm: 0, clock: 7, ns: 9, side: Side::End }], 0, 32.0), None);
        assert_eq!(ClockFit::new(&[], 0, 32.0), None);
    }
}
