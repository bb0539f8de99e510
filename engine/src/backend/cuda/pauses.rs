//! When the memory pauses: every so often it gives nothing to any SM, by a clock of its own that goes on while no one reads.
//!
//! ```text
//! moments at which data came, of each SM ─► silences ─► period, once a process ─► where in the period a run lay
//! ```
//!
//! Worked number: on an H200 silences of 0.8 µs are 100.148 µs apart. Four reads of 512 MiB take 0.6 ms and have five; a begin is
//! right to 64 ns, so the period to 64 / 4 = 16 ns, and after 45 ms, which are 450 periods, to 0.14 ns. Between two sightings, one
//! before the repeats of a run and one behind them, no more is needed than which of the pauses the second one is.

use std::thread;
use std::time::Duration;

use kernels::{Arrivals, Compiler, DeviceBuffer, Gpu, KernelError, Stream, Timing};

use crate::capture::{Pauses, RunTimes, Spread};
use crate::units::Nanos;

/// Reads of the buffer for one look at the memory.
const PASSES: u32 = 4;
/// The shortest silence that is a pause, ns. While an H200's memory works something comes every 50 ns.
const LEAST: u64 = 500;
/// What is left out of a look while the reads begin, ns.
const BEGINNING: u64 = 10_000;
/// By what part of a period a pause may be off its time.
const OFF: f64 = 0.02;
/// Waits between the looks that find the period.
const WAITS: [Duration; 2] = [Duration::from_millis(4), Duration::from_millis(40)];
/// From the end of a call to the stamp behind it, ns: of runs of 18 to 60 µs on an H200 those take longer into which a pause fell that
/// began after their first microsecond and before their last four, in which hardly anything is read.
const TO_THE_STAMP: u64 = 1_000;

/// A pause that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    begin: u64,
    length: Nanos,
}

/// Looks at the memory of one GPU.
#[derive(Debug)]
pub(super) struct Lookout {
    arrivals: Arrivals,
}

impl Lookout {
    pub(super) fn new(gpu: &Gpu, compiler: &Compiler, source: &DeviceBuffer) -> Result<Self, KernelError> {
        Ok(Self { arrivals: Arrivals::new(gpu, compiler, source.bytes(), PASSES)? })
    }

    /// The silences during reads of `source`.
    fn look(&self, source: &DeviceBuffer, stream: &Stream) -> Result<Vec<Seen>, KernelError> {
        self.arrivals.read(source, stream)?;
        stream.synchronize()?;
        Ok(silences(&self.arrivals.moments()?))
    }

    /// The period of the pauses, ns; `None` where the memory has none that come at equal times.
    pub(super) fn period(&self, source: &DeviceBuffer, stream: &Stream) -> Result<Option<f64>, KernelError> {
        let seen = self.look(source, stream)?;
        let (Some(first), Some(mut period)) = (seen.first(), even(&seen)) else { return Ok(None) };
        for wait in WAITS {
            thread::sleep(wait);
            let Some(later) = on_time(&self.look(source, stream)?, period) else { return Ok(None) };
            let Some(better) = period_between(*first, later, period) else { return Ok(None) };
            period = better;
        }
        Ok(Some(period))
    }

    /// A pause of now, of those that come every `period` ns.
    pub(super) fn sight(
        &self,
        source: &DeviceBuffer,
        stream: &Stream,
        period: f64,
    ) -> Result<Option<Seen>, KernelError> {
        Ok(on_time(&self.look(source, stream)?, period))
    }
}

/// The pauses around two that were seen, which both are among them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Schedule {
    pub(super) period: f64,
    pub(super) length: Nanos,
    from: u64,
}

impl Schedule {
    /// The pauses that come every `period` ns, by the one that was seen last.
    pub(super) fn of(seen: Seen, period: f64) -> Self {
        Self { period, length: seen.length, from: seen.begin }
    }

    /// The pauses from one to the other; `None` where the second is off its time, as on a GPU that stopped meanwhile.
    pub(super) fn between(before: Seen, after: Seen, period: f64) -> Option<Self> {
        let period = period_between(before, after, period)?;
        Some(Self { period, length: after.length, from: before.begin })
    }

    /// Begins of the pauses that have a part in `begin..end`, ns from `begin`; below zero where one began before.
    pub(super) fn within(&self, begin: u64, end: u64) -> Vec<f64> {
        let (long, to) = (self.length.as_f64(), end.saturating_sub(begin) as f64);
        // The clock counts from 1970: as one number of 53 bits a moment would be off by 256 ns.
        let from = self.from.wrapping_sub(begin).cast_signed() as f64;
        let ahead = (from + long).rem_euclid(self.period) - long;
        let nth = |nth: u32| ahead + f64::from(nth) * self.period;
        let count = ((to - ahead) / self.period).ceil().max(0.0) as u32;
        (0..count).map(nth).collect()
    }

    /// How many pauses fell into each run: its time, µs, and the stamp behind it.
    pub(super) fn of_runs(&self, micros: &[f64], stamps: &[u64]) -> Vec<u32> {
        let of_run = |(micros, stamp): (&f64, &u64)| {
            let end = stamp.saturating_sub(TO_THE_STAMP);
            self.within(end.saturating_sub((micros * 1e3) as u64), end).len() as u32
        };
        micros.iter().zip(stamps).map(of_run).collect()
    }
}

/// A pause that was seen, and how often they come, ns.
pub(super) type Sight = Option<(Seen, f64)>;

/// What the repeats took.
pub(super) fn times(timing: &Timing) -> RunTimes {
    let makespans = timing.micros.iter().map(|us| Nanos((us * 1e3).round() as u64)).collect();
    RunTimes { makespans, ..RunTimes::default() }
}

/// The pauses that fell into repeats between two sightings; `None` where one of them saw none, or they do not go together.
pub(super) fn of_timing(timing: &Timing, before: Sight, after: Sight) -> Option<Pauses> {
    let ((before, period), (after, _)) = before.zip(after)?;
    let schedule = Schedule::between(before, after, period)?;
    Some(Pauses {
        period_ns: schedule.period,
        length: schedule.length,
        of_repeats: schedule.of_runs(&timing.micros, &timing.stamps),
        begins: Vec::new(),
    })
}

/// Stretches in which nothing came to any SM, from when all have begun until the first has ended.
fn silences(by_cta: &[Vec<u64>]) -> Vec<Seen> {
    let begin = by_cta.iter().filter_map(|cta| cta.first()).max().copied().unwrap_or(0) + BEGINNING;
    let end = by_cta.iter().filter_map(|cta| cta.last()).min().copied().unwrap_or(0);
    let mut moments: Vec<u64> = by_cta.iter().flatten().copied().filter(|at| (begin..end).contains(at)).collect();
    moments.sort_unstable();
    let silent = moments.windows(2).filter(|pair| pair[1] - pair[0] >= LEAST);
    silent.map(|pair| Seen { begin: pair[0], length: Nanos(pair[1] - pair[0]) }).collect()
}

/// The time from one to the next where it is the same for all; needs two such times at least.
fn even(seen: &[Seen]) -> Option<f64> {
    let between: Vec<f64> = seen.windows(2).map(|pair| (pair[1].begin - pair[0].begin) as f64).collect();
    let mean = between.iter().sum::<f64>() / between.len().max(1) as f64;
    let is_even = between.len() >= 2 && between.iter().all(|time| (time - mean).abs() < OFF * mean);
    is_even.then_some(mean)
}

/// Of what was seen the last that most others are a whole number of periods away from, which one at least has to be.
fn on_time(seen: &[Seen], period: f64) -> Option<Seen> {
    let partners = |one: &Seen| {
        let off = |other: &&Seen| {
            let apart = other.begin.abs_diff(one.begin) as f64 / period;
            (apart - apart.round()).abs() < OFF
        };
        seen.iter().filter(off).count()
    };
    let found = seen.iter().max_by_key(|one| partners(one)).filter(|one| partners(one) > 1)?;
    let length = Spread::of(seen.iter().map(|seen| seen.length).collect()).median;
    Some(Seen { begin: found.begin, length })
}

/// The mean period between two pauses, of which it is known but for what it is off in so many.
fn period_between(first: Seen, second: Seen, period: f64) -> Option<f64> {
    const OFF_TIME: f64 = 0.1;
    let apart = second.begin.checked_sub(first.begin)? as f64;
    let periods = (apart / period).round();
    let is_on_time = periods >= 1.0 && (apart / period - periods).abs() < OFF_TIME;
    is_on_time.then(|| apart / periods)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: f64 = 100_148.1;

    fn seen(begins: &[u64]) -> Vec<Seen> {
        begins.iter().map(|begin| Seen { begin: *begin, length: Nanos(1200) }).collect()
    }

    /// Moments of CTAs that get data every µs but in the pauses, each at another time.
    fn moments(ctas: u64, from: u64, pauses: &[(u64, u64)]) -> Vec<Vec<u64>> {
        let of = |cta: u64| {
            let all = (0..300).map(move |k| from + k * 1000 + cta * 13 % 1000);
            all.map(|at| pauses.iter().find(|p| (p.0..p.1).contains(&at)).map_or(at, |p| p.1 + cta)).collect()
        };
        (0..ctas).map(of).collect()
    }

    #[test]
    fn what_comes_to_no_sm_is_a_silence() {
        let found = silences(&moments(132, 7_000_000, &[(7_040_000, 7_041_200), (7_140_100, 7_141_400)]));
        let near = |seen: &Seen, begin: u64, length: u64| {
            seen.begin.abs_diff(begin) < 64 && seen.length.0.abs_diff(length) < 64
        };
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(near(&found[0], 7_040_000, 1200) && near(&found[1], 7_140_100, 1300), "{found:?}");
        // While the first CTAs begin there is nothing to see, and one that goes on alone after all others is no silence.
        assert!(silences(&moments(132, 0, &[(4_000, 6_000)])).is_empty());
        let mut late = moments(132, 0, &[]);
        late[5].extend([310_000, 320_000]);
        assert!(silences(&late).is_empty() && silences(&[]).is_empty() && silences(&[Vec::new()]).is_empty());
    }

    #[test]
    fn a_period_is_of_three_at_equal_times() {
        assert!((even(&seen(&[500, 100_600, 200_800])).unwrap() - 100_150.0).abs() < 1e-9);
        assert_eq!(even(&seen(&[500, 100_600])), None);
        assert_eq!(even(&seen(&[500, 100_600, 130_000])), None);
        assert_eq!(even(&[]), None);
    }

    #[test]
    fn a_silence_out_of_turn_is_no_pause() {
        let with_another = seen(&[40_000, 50_000, 140_148, 240_300]);
        assert_eq!(on_time(&with_another, PERIOD).map(|seen| seen.begin), Some(240_300));
        assert_eq!(on_time(&seen(&[50_000]), PERIOD), None);
        assert_eq!(on_time(&seen(&[50_000, 90_000]), PERIOD), None);
    }

    #[test]
    fn moments_since_1970_are_as_exact_as_small_ones() {
        let origin = 1_764_547_200_000_000_000;
        let all = seen(&[origin + 77, origin + 77 + 100_149]);
        let schedule = Schedule::between(all[0], all[1], PERIOD).unwrap();
        for begin in [77 + 50_149, 77 + 50_150, 77 + 1_051_639_u32] {
            let expected = 100_149.0 - f64::from((begin - 77) % 100_149);
            let begin = origin + u64::from(begin);
            let within = schedule.within(begin, begin + 60_000);
            assert!(within.len() == 1 && (within[0] - expected).abs() < 1e-6, "{within:?}, not {expected}");
        }
    }

    #[test]
    fn pauses_are_counted_between_the_two_that_were_seen() {
        let all = seen(&[1_000_000, 1_000_000 + 1_001_490, 1_000_000 + 1_050_000]);
        // Ten periods and 9 ns: the mean of what was between them holds.
        let schedule = Schedule::between(all[0], all[1], PERIOD).unwrap();
        assert!((schedule.period - 100_149.0).abs() < 1e-9);
        // Half a period off, or before the first, it is not one of them.
        assert_eq!(Schedule::between(all[0], all[2], PERIOD), None);
        assert_eq!(Schedule::between(all[1], all[0], PERIOD), None);
        let within = |begin: u64, end: u64| -> Vec<i64> {
            schedule.within(begin, end).iter().map(|at| at.round() as i64).collect()
        };
        assert_eq!(within(1_100_000, 1_110_000), [149]);
        assert_eq!(within(1_101_348, 1_110_000), [-1199], "the end of one");
        assert_eq!(within(1_101_350, 1_110_000), [] as [i64; 0]);
        assert_eq!(within(1_090_000, 1_100_149), [] as [i64; 0]);
        assert_eq!(within(1_090_000, 1_100_150), [10_149]);
        assert_eq!(within(1_050_000, 1_350_000), [50_149, 150_298, 250_447]);
        // Before the first that was seen too.
        assert_eq!(within(890_000, 910_000), [9_851]);
        assert_eq!(schedule.of_runs(&[10.0, 10.0, 250.0], &[1_105_000, 1_095_000, 1_301_000]), [1, 0, 2]);
    }
}
