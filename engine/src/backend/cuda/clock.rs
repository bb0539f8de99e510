//! Each SM's cycle counter on the GPU's one nanosecond clock.
//!
//! `%globaltimer` is the same on all SMs but steps (32 ns on an H200); `%clock64` counts every cycle but each SM has
//! its own zero, and its clock follows load and power within microseconds: mostly all SMs together (`course`), but not
//! only. A record holds both clocks at its begin and at its end. The pairs of an SM that lie within a microsecond, eight
//! at most, are a knot at their mean; between knots the time runs as the common course. So a begin or an end lies where
//! the timer itself puts it, and what lies between a task's begin and end is never far from a knot.
//!
//! ```text
//! counter, timer, counter ─► middle of the bracket and the timer ─► wide brackets out ─► common course ─► knots
//! ```
//!
//! Reading the timer takes 100 ns and more, and up to 1 µs where the code for it is still on its way to the SM. So
//! the counter is read before and after it, and the pair is the middle of that bracket. Where in the narrowest
//! bracket the timer is read is not known, but it is the same everywhere and moves all spans alike; what a bracket
//! has more than that may lie on either side. Brackets much wider than is usual in the run are left out.
//!
//! Worked number: readings step by 32 ns, so each pair is off by up to 32 ns, evenly: a standard deviation
//! of 32/√12 = 9.2 ns. A bracket 64 ns wider than the narrowest, the most that is let in where the narrowest is the
//! usual one, makes that √(32² + 64²)/√12 = 20.7 ns. No error below that of a single reading is claimed, as readings
//! of warps that begin together share a step of the timer.

use std::collections::BTreeMap;

use kernels::{ClockReading, TraceRecord};

use crate::backend::cuda::course::Course;

/// One reading of both clocks, on an SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) sm: u32,
    pub(super) reading: ClockReading,
}

/// A pair of one SM: the middle of its bracket in cycles from the SM's first, ns from the origin, and the width of
/// the bracket in cycles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) clock: f64,
    pub(super) ns: f64,
    width: f64,
}

/// Of each SM, the cycle count from which its clocks count, and its readings in order of time.
pub(super) type Sms = BTreeMap<u32, (u64, Vec<Reading>)>;

/// Most pairs of a knot, and how far apart they lie at most, ns.
const KNOT: usize = 8;
const TOGETHER: f64 = 1_000.0;
/// How many steps of the timer a bracket may be wider than the usual one.
const WIDER: f64 = 2.0;

/// The clock of one SM: its first reading, from which clocks count, how far it is ahead of the common course, and its
/// knots (ns by that course, ns) in order of time, one at least.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    first: u64,
    ahead: f64,
    knots: Vec<(f64, f64)>,
}

impl Line {
    fn nanos(&self, by_course: f64) -> f64 {
        let upper = self.knots.partition_point(|knot| knot.0 < by_course);
        let at = |nth: usize| self.knots.get(nth).copied();
        match (upper.checked_sub(1).and_then(at), at(upper)) {
            (Some((c0, n0)), Some((c1, n1))) => n0 + (n1 - n0) * (by_course - c0) / (c1 - c0),
            // Beyond the ends the course goes on.
            (Some((c, n)), None) | (None, Some((c, n))) => n + by_course - c,
            (None, None) => by_course,
        }
    }

    /// Standard error of a knot, from what the readings are off the line.
    fn error(&self, readings: &[Reading]) -> f64 {
        let squares: f64 = readings.iter().map(|reading| (reading.ns - self.nanos(reading.clock)).powi(2)).sum();
        let free = readings.len().saturating_sub(1).max(1);
        (squares / free as f64).sqrt() / (readings.len().clamp(1, KNOT) as f64).sqrt()
    }
}

/// The fitted clocks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClockFit {
    /// Nanoseconds a cycle, over all SMs.
    pub(super) rate: f64,
    course: Course,
    lines: BTreeMap<u32, Line>,
    /// Largest standard error of an SM's knots, ns; not below that of a single reading.
    pub(super) error: f64,
}

impl ClockFit {
    /// Fits the pairs; times count from `origin`, and the timer moves in steps of `step` ns. `None` where no cycle
    /// passed between any two.
    pub(super) fn new(pairs: &[Pair], origin: u64, step: f64) -> Option<Self> {
        let mut sms = by_sm(pairs, origin);
        let rate = common_rate(&sms)?;
        leave_out_wide(&mut sms, WIDER * step / rate);
        Some(Self::of_narrow(sms, rate, step))
    }

    /// Fits these readings; `rate` is for where no cycle passed between any two of them.
    fn of_narrow(sms: Sms, rate: f64, step: f64) -> Self {
        let rate = common_rate(&sms).unwrap_or(rate);
        let course = Course::of(&sms, rate, step);
        Self::along(course, sms, rate, step)
    }

    /// Fits these readings, whose clocks run along `course`.
    fn along(course: Course, sms: Sms, rate: f64, step: f64) -> Self {
        let narrowest = narrowest(&sms);
        let mut error: f64 = 0.0;
        let lines = sms.into_iter().map(|(sm, (first, mut readings))| {
            let single = single_error(&readings, narrowest, rate, step);
            let ahead: f64 = readings.iter().map(|reading| reading.clock - course.cycles(reading.ns)).sum();
            let ahead = ahead / readings.len().max(1) as f64;
            for reading in &mut readings {
                reading.clock = course.nanos(reading.clock - ahead);
            }
            let line = Line { first, ahead, knots: knots(&readings, step) };
            error = error.max(line.error(&readings)).max(single);
            (sm, line)
        });
        let lines = lines.collect();
        Self { rate, course, lines, error }
    }

    /// A clock reading of an SM in nanoseconds after the origin; readings of one SM keep their order.
    pub(super) fn nanos(&self, sm: u32, clock: u64) -> f64 {
        let along = |line: &Line| clock.wrapping_sub(line.first).cast_signed() as f64 - line.ahead;
        self.lines.get(&sm).map_or(0.0, |line| line.nanos(self.course.nanos(along(line))))
    }
}

fn by_sm(pairs: &[Pair], origin: u64) -> Sms {
    let mut sorted = pairs.to_vec();
    sorted.sort_unstable_by_key(|pair| (pair.sm, pair.reading.ns, pair.reading.clock, pair.reading.width));
    let mut sms = Sms::new();
    for Pair { sm, reading } in sorted {
        let (first, readings) = sms.entry(sm).or_insert_with(|| (reading.clock, Vec::new()));
        let width = f64::from(reading.width);
        readings.push(Reading {
            clock: reading.clock.wrapping_sub(*first).cast_signed() as f64 + width / 2.0,
            ns: reading.ns.wrapping_sub(origin).cast_signed() as f64,
            width,
        });
    }
    sms
}

/// Leaves out the readings whose bracket is wider by more than `wider` cycles than the usual one, of which a quarter
/// are narrower: in a short run, half of the readings or more may have waited for their code. An SM whose readings
/// are all wide keeps its narrowest.
fn leave_out_wide(sms: &mut Sms, wider: f64) {
    let mut widths: Vec<f64> = sms.values().flat_map(|(_, readings)| readings).map(|reading| reading.width).collect();
    widths.sort_unstable_by(f64::total_cmp);
    let usual = widths.get(widths.len() / 4).copied().unwrap_or(0.0);
    for (_, readings) in sms.values_mut() {
        let least = readings.iter().map(|reading| reading.width).fold(f64::INFINITY, f64::min);
        readings.retain(|reading| reading.width <= least.max(usual + wider));
    }
}

/// The narrowest bracket of the run, cycles; 0 where none shows its width.
fn narrowest(sms: &Sms) -> f64 {
    let widths = sms.values().flat_map(|(_, readings)| readings).map(|reading| reading.width);
    let known = widths.filter(|width| *width < f64::from(TraceRecord::MOST_WIDTH));
    known.min_by(f64::total_cmp).unwrap_or(0.0)
}

/// Standard error of a single one of these readings, ns: the timer may be anywhere in its step, and anywhere in what
/// the bracket has more than the narrowest.
fn single_error(readings: &[Reading], narrowest: f64, rate: f64, step: f64) -> f64 {
    let squares: f64 = readings.iter().map(|reading| ((reading.width - narrowest) * rate).powi(2)).sum();
    ((step.powi(2) + squares / readings.len().max(1) as f64) / 12.0).sqrt()
}

/// Knots of an SM's readings, which are in order of time.
fn knots(readings: &[Reading], step: f64) -> Vec<(f64, f64)> {
    let mut knots: Vec<(f64, f64)> = Vec::new();
    let mut rest = readings;
    while let Some(first) = rest.first() {
        let near = rest.iter().take(KNOT).take_while(|reading| reading.ns - first.ns < TOGETHER).count();
        let (knot, later) = rest.split_at(near.max(1));
        knots.push(mean(knot));
        rest = later;
    }
    // What the timer's step turned round, as where a ninth reading begins a knot of its own, is no stretch.
    knots.dedup_by(|later, knot| later.0 <= knot.0 + step || later.1 <= knot.1 + step);
    knots
}

/// Least squares over several SMs, each around its own mean.
fn common_rate(sms: &Sms) -> Option<f64> {
    let slopes = sms.values().map(|(_, readings)| slope(readings));
    let (products, squares) = slopes.fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    (squares > 0.0 && products > 0.0).then(|| products / squares)
}

/// Sums around the mean: cycles times ns, and squares of cycles.
fn slope(readings: &[Reading]) -> (f64, f64) {
    let (clock, ns) = mean(readings);
    let products = readings.iter().map(|reading| (reading.clock - clock) * (reading.ns - ns)).sum();
    (products, readings.iter().map(|reading| (reading.clock - clock).powi(2)).sum())
}

/// Mean clock and ns.
fn mean(readings: &[Reading]) -> (f64, f64) {
    let count = readings.len().max(1) as f64;
    let mean = |of: fn(&Reading) -> f64| readings.iter().map(of).sum::<f64>() / count;
    (mean(|reading| reading.clock), mean(|reading| reading.ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `%globaltimer` when a run begins.
    const ORIGIN: u64 = 1_700_000_000_000_000_000;

    /// What a trace keeps of both clocks read from cycle `clock` to cycle `after`, while the timer stood at `at` ns.
    fn pair(sm: u64, clock: u64, after: u64, at: u64) -> Pair {
        let width = ((after - clock) as u32).min(TraceRecord::MOST_WIDTH) / 16 * 16;
        Pair { sm: sm as u32, reading: ClockReading { clock, ns: ORIGIN + at / 32 * 32, width } }
    }

    /// SMs with different zeros, rates around 1.98 GHz half a percent apart that wander by a percent, and a timer
    /// that steps by 32 ns.
    #[test]
    fn clocks_with_other_zeros_and_wandering_rates_come_out_on_one_axis_within_the_step() {
        let cycles = |sm: u64, at: u64| {
            let (at, rate) = (at as f64, 1.98 * (1.0 + 0.005 * (sm % 8) as f64 / 7.0));
            sm * 1_000_003 + (rate * (at + 0.01 * at * at / 800_000.0)) as u64
        };
        let moments = (0..132_u64).flat_map(|sm| (0..160_u64).map(move |nth| (sm, 500 + nth * 4917 + sm * 13)));
        let pairs: Vec<Pair> =
            moments.map(|(sm, at)| pair(sm, cycles(sm, at), cycles(sm, at + 140), at + 70)).collect();
        let fit = ClockFit::new(&pairs, ORIGIN, 32.0).unwrap();
        assert!(fit.error < 16.0, "{}", fit.error);
        for sm in 0..132 {
            for at in [20_000, 400_000, 770_000].map(|at| at + sm * 7) {
                let error = fit.nanos(sm as u32, cycles(sm, at)) - at as f64;
                // A reading is early by half a step on average, alike on all SMs.
                assert!((error + 16.0).abs() < 24.0, "SM {sm} at {at}: {error}");
            }
        }
    }

    /// The cycle counter of an SM at a moment, at 1.98 GHz.
    fn cycles(sm: u64, at: u64) -> u64 {
        sm * 77_777 + at * 198 / 100
    }

    /// Both clocks at a moment, with `wait` ns before the timer's reading or after it.
    fn read(sm: u64, at: u64, wait: u64, before: bool) -> Pair {
        let (waited, taken) = (if before { wait } else { 0 }, 140 + (sm + at) % 13);
        pair(sm, cycles(sm, at), cycles(sm, at + taken + wait), at + waited + taken / 2)
    }

    /// A short run: from 2 to 8 readings an SM, of which every second waited for its code.
    fn short_run() -> Vec<Pair> {
        let nths = (0..132_u64).flat_map(|sm| (0..2 + sm % 7).map(move |nth| (sm, nth)));
        let late = |sm: u64, nth: u64| if nth.is_multiple_of(2) { 250 + (sm * 41 + nth * 97) % 751 } else { 0 };
        nths.map(|(sm, nth)| read(sm, 640 + nth * 5_003 + sm * 37, late(sm, nth), sm % 3 > 0)).collect()
    }

    /// Of all SMs, how far a moment of the short run is from its place, at most, ns.
    fn worst(fit: &ClockFit) -> f64 {
        let off = (0..132).map(|sm| fit.nanos(sm as u32, cycles(sm, 10_000)) - 10_000.0);
        off.map(|off| (off + 16.0).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn readings_that_waited_for_their_code_do_not_count() {
        let fit = ClockFit::new(&short_run(), ORIGIN, 32.0).unwrap();
        assert!(fit.error < 16.0, "{}", fit.error);
        assert!(worst(&fit) < 32.0, "{}", worst(&fit));

        let sms = by_sm(&short_run(), ORIGIN);
        let rate = common_rate(&sms).unwrap();
        let all = ClockFit::of_narrow(sms, rate, 32.0);
        assert!(all.error > 100.0, "with the wide brackets the error is {}", all.error);
        assert!(worst(&all) > 100.0, "with the wide brackets the clocks are off by {}", worst(&all));
    }

    /// A run of 25 µs on SMs with 2 to 12 readings each, whose clocks slow together, for a while and then for good.
    #[test]
    fn a_clock_that_slows_on_all_sms_is_followed_where_each_has_few_readings() {
        let cycles = |sm: u64, at: u64| {
            let slow = at.saturating_sub(14_000).min(1_000) as f64;
            sm * 77_777 + (1.98 * at as f64 - 0.6 * slow - 0.2 * at.saturating_sub(15_000) as f64) as u64
        };
        let times = |sm: u64| (0..2 + sm % 11).map(move |nth| 500 + sm * 13 + (nth * 9_973 + sm * 331) % 23_000);
        let moments = (0..132_u64).flat_map(|sm| times(sm).map(move |at| (sm, at)));
        let pairs: Vec<Pair> =
            moments.map(|(sm, at)| pair(sm, cycles(sm, at), cycles(sm, at + 140), at + 70)).collect();
        let worst = |fit: &ClockFit| {
            let places = (0..132).flat_map(|sm| [2_000, 12_000, 20_000].map(|at| (sm, at)));
            let off = places.map(|(sm, at)| fit.nanos(sm as u32, cycles(sm, at)) - at as f64 + 16.0);
            off.fold(0.0, |most: f64, off| most.max(off.abs()))
        };
        let fit = ClockFit::new(&pairs, ORIGIN, 32.0).unwrap();
        assert!(fit.error < 32.0, "{}", fit.error);
        assert!(worst(&fit) < 64.0, "{}", worst(&fit));

        let sms = by_sm(&pairs, ORIGIN);
        let rate = common_rate(&sms).unwrap();
        let even = ClockFit::along(Course::of_ends(&[0.0, 25_000.0], &sms, rate, 32.0), sms, rate, 32.0);
        assert!(worst(&even) > 150.0, "along an even course clocks are off by {}", worst(&even));
    }

    /// One SM has no narrow reading: its narrowest stands, the error says so, and the other SMs stay where they are.
    #[test]
    fn where_all_readings_of_an_sm_waited_the_error_says_so() {
        let mut pairs = short_run();
        pairs.retain(|pair| pair.sm != 5);
        pairs.extend([read(5, 640, 900, true), read(5, 9_000, 600, true)]);
        let fit = ClockFit::new(&pairs, ORIGIN, 32.0).unwrap();
        assert!((150.0..200.0).contains(&fit.error), "600/√12 = 173, not {}", fit.error);
        let off = fit.nanos(5, cycles(5, 10_000)) - 10_000.0;
        assert!((off - 284.0).abs() < 32.0, "half of 600 less half a step, not {off}");
        let without = ClockFit::new(&short_run(), ORIGIN, 32.0).unwrap();
        assert!((fit.nanos(6, cycles(6, 10_000)) - without.nanos(6, cycles(6, 10_000))).abs() < 8.0);
    }

    /// Brackets too wide to be told apart: nothing is known better than that.
    #[test]
    fn where_no_bracket_shows_its_width_the_error_is_that_of_the_widest() {
        let pairs = [0, 5_000, 10_000].map(|at| read(0, at, 3_000, true));
        let fit = ClockFit::new(&pairs, ORIGIN, 32.0).unwrap();
        assert!(fit.error > 4_080.0 / 1.98 / 12.0_f64.sqrt(), "{}", fit.error);
    }

    /// Readings of four warps at one moment show a place but no rate.
    #[test]
    fn few_pairs_of_an_sm_take_the_rate_of_all() {
        let at = |sm, clock, ns| Pair { sm, reading: ClockReading { clock, ns, width: 0 } };
        let mut pairs = vec![at(0, 0, 0), at(0, 200_000, 100_000), at(1, 10, 500)];
        pairs.extend([at(2, 0, 0), at(2, 20, 0), at(2, 40, 32), at(2, 60, 32)]);
        let fit = ClockFit::new(&pairs, 0, 32.0).unwrap();
        assert!((fit.nanos(1, 2_010) - 1_500.0).abs() < 0.1);
        assert!((fit.nanos(0, 1_000) - 500.0).abs() < 0.1);
        assert!((fit.nanos(2, 20_030) - 10_016.0).abs() < 8.0, "{}", fit.nanos(2, 20_030));
    }

    #[test]
    fn without_any_passed_cycle_there_is_no_fit() {
        let one = Pair { sm: 0, reading: ClockReading { clock: 7, ns: 9, width: 16 } };
        assert_eq!(ClockFit::new(&[one], 0, 32.0), None);
        assert_eq!(ClockFit::new(&[], 0, 32.0), None);
    }
}
