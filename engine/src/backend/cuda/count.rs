//! The counting passes: what the hardware counted over a plan, over each of its launches, and over time.
//!
//! ```text
//! traced build ─► PM sampling: pulses, runs, pulses ─► one clock ─► folded series beside the spans
//! plain build  ─► range profiler, launches replayed ─► counts of the plan
//!              └► … one launch after another ───────► counts of each launch
//! ```
//!
//! They come after timing and tracing, and the session that they need is opened for them alone, so that no
//! time is one of a counted run. Refusal is a normal state: it leaves a warning, and all else stands.
//!
//! Sampled runs come from where the traced ones came, straight from the write that empties L2, since their series
//! stand beside the spans of those. After a read of as much, configuration 6 of PAT ends 5 µs earlier on an H200: the run
//! need not write back what the write left in L2. What is counted follows such a read, or those lines would count as the
//! plan's writes.

use std::time::{Duration, Instant};

use cupti::clock::{self, Mark};
use cupti::{CuptiError, GpuTime, Quantity, Sampling, Series, Session};
use kernels::{Call, Compiler, DeviceBuffer, Gpu, KernelError, Pulses, Stamps, Stream, Sweep, Turns};

use crate::backend::cuda::fold::{Kind, Stretch, fold, within};
use crate::cancel::Cancel;
use crate::capture::{Count, Counted, Counter, CounterSeries, Counts, LaunchCounts, Sampled, Warning};
use crate::error::{Error, Result};
use crate::units::Nanos;

/// Pulses before the sampled runs, and as many after.
const PULSES: usize = 8;
/// Sampled time of runs that makes a series meaningful, µs; shorter runs are repeated.
const ENOUGH_MICROS: f64 = 400.0;
/// Fewest and most sampled runs.
const REPEATS: (u32, u32) = (3, 8);
/// Most samples that are kept, and the part of them that is planned for.
const SAMPLES: (usize, f64) = (1 << 13, 0.65);
/// Intervals to choose from, µs; below the first the hardware does not keep pace.
const INTERVALS: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
/// Emptying L2 and waiting for the GPU around a run, µs.
const AROUND_RUN: f64 = 250.0;
/// Pulses, and the samples from before the first and after the last, µs.
const AROUND_ALL: f64 = 3000.0;
/// What an alignment may be off by before it is told.
const GOOD_ALIGNMENT: Nanos = Nanos(1000);

/// What the passes gave.
#[derive(Debug, Default)]
pub(super) struct Counting {
    pub(super) counted: Option<Counted>,
    pub(super) series: Vec<CounterSeries>,
    pub(super) warnings: Vec<Warning>,
}

/// What the passes need of the GPU.
#[derive(Debug)]
pub(super) struct Rig<'a> {
    pub(super) gpu: &'a Gpu,
    pub(super) compiler: &'a Compiler,
    pub(super) stream: &'a Stream,
    /// Read or written before each run where L2 is to be cold.
    pub(super) flush: Option<&'a DeviceBuffer>,
    /// Step of the GPU's timer.
    pub(super) clock_step: Nanos,
}

impl Rig<'_> {
    /// All passes. `traced` is sampled; `build` makes what is counted.
    pub(super) fn run(
        &self,
        traced: Call,
        micros: f64,
        build: impl FnOnce() -> Result<Call>,
        cancel: &Cancel,
    ) -> Result<Counting> {
        let mut all = Counting::default();
        let mut session = match Session::open() {
            Ok(session) => session,
            Err(refused) => {
                all.warnings.push(told("the hardware counters were not read", refused)?);
                return Ok(all);
            }
        };
        let asked = cancel.clone();
        session.stop_when(move || asked.is_cancelled());
        let mut sampled = None;
        match self.sample(&mut session, &traced, micros) {
            Ok(Some((series, how))) => {
                if how.alignment_error > GOOD_ALIGNMENT {
                    let text = format!("the sampled series may be off the CTAs by {}", how.alignment_error);
                    all.warnings.push(Warning { text });
                }
                (all.series, sampled) = (series, Some(how));
            }
            Ok(None) => all.warnings.push(Warning {
                text: "there is no series over time: its clock could not be put on the kernels'".to_owned(),
            }),
            Err(refused) => all.warnings.push(told("there is no series over time", refused)?),
        }
        drop(traced);
        cancel.check()?;
        match self.count(&mut session, &build()?, cancel) {
            Ok(counted) => all.counted = Some(Counted { sampled, ..counted }),
            Err(Failed::Refused(refused)) => all.warnings.push(told("the hardware counters were not read", refused)?),
            Err(Failed::Other(error)) => return Err(error),
        }
        Ok(all)
    }

    /// Queues a run like the traced ones, between its stamps. The GPU idles for two intervals before it, so that no sample
    /// of the run holds anything of what emptied L2.
    fn sampled_run(
        &self,
        (turns, stamps, pulses): (&Turns, &Stamps, &Pulses),
        (run, interval): (usize, Duration),
        call: &Call,
    ) -> std::result::Result<(), KernelError> {
        call.launch(self.stream)?;
        // The write, the wait and the stamp come between.
        turns.align(u32::from(self.flush.is_some()) + 2, self.stream)?;
        if let Some(buffer) = self.flush {
            buffer.fill(run as u8, self.stream)?;
        }
        pulses.wait(2 * PULSES, 2 * interval.as_nanos() as u64, self.stream)?;
        stamps.stamp(2 * run, self.stream)?;
        call.launch(self.stream)?;
        stamps.stamp(2 * run + 1, self.stream)?;
        self.stream.synchronize()
    }

    /// Brings L2 into the state to count from: without the inputs, or as a run leaves it.
    fn before(&self, sweep: &Sweep, call: &Call) -> std::result::Result<(), KernelError> {
        match self.flush {
            Some(buffer) => sweep.read(buffer, self.stream)?,
            None => call.launch(self.stream)?,
        }
        self.stream.synchronize()
    }

    /// Waits for what was launched: the session's own wait cannot be stopped.
    fn until_done(&self, launched: std::result::Result<(), KernelError>) -> std::result::Result<(), KernelError> {
        launched.and_then(|()| self.stream.synchronize())
    }

    fn count(&self, session: &mut Session, call: &Call, cancel: &Cancel) -> std::result::Result<Counted, Failed> {
        let sweep = Sweep::new(self.gpu, self.compiler).map_err(super::translate)?;
        let before = || self.before(&sweep, call);
        let whole = session.count(&Quantity::COUNTED, before, || self.until_done(call.launch(self.stream)))?;
        let mut counted = Counted {
            chip: session.chip().to_owned(),
            plan: counts(|quantity| whole.get(quantity)),
            passes: whole.passes as u32,
            launches: Vec::new(),
            sampled: None,
        };
        if call.parts() < 2 {
            return Ok(counted);
        }
        for part in 0..call.parts() {
            cancel.check()?;
            let before = || {
                self.before(&sweep, call)?;
                (0..part).try_for_each(|earlier| call.launch_part(earlier, self.stream))?;
                self.stream.synchronize()
            };
            let launch = || self.until_done(call.launch_part(part, self.stream));
            let of = session.count(&Quantity::COUNTED, before, launch)?;
            let counts = counts(|quantity| of.get(quantity));
            counted.launches.push(LaunchCounts { launch: part as u32, counts });
        }
        Ok(counted)
    }

    /// Samples runs of `micros` each; an overflow is met by wider intervals. None where the clocks did not
    /// come together.
    fn sample(
        &self,
        session: &mut Session,
        call: &Call,
        micros: f64,
    ) -> std::result::Result<Option<(Vec<CounterSeries>, Sampled)>, CuptiError> {
        let (mut interval, repeats) = pace(micros);
        loop {
            match self.sample_at(session, call, interval, repeats) {
                Err(CuptiError::BufferOverflow { .. }) if interval < INTERVALS[INTERVALS.len() - 1] => interval *= 4,
                other => return other,
            }
        }
    }

    fn sample_at(
        &self,
        session: &mut Session,
        call: &Call,
        interval: u64,
        repeats: u32,
    ) -> std::result::Result<Option<(Vec<CounterSeries>, Sampled)>, CuptiError> {
        let interval = Duration::from_micros(interval);
        let launch = |e: KernelError| CuptiError::Launch(e.into());
        let turns = Turns::new(self.gpu).map_err(launch)?;
        // The one place more is for the waits before runs.
        let pulses = Pulses::new(self.gpu, self.compiler, 2 * PULSES + 1).map_err(launch)?;
        let stamps = Stamps::new(self.gpu, self.compiler, 2 * repeats as usize).map_err(launch)?;
        let sampling = Sampling { interval, max_samples: SAMPLES.0, ..Sampling::default() };
        let series = session.sample(&Quantity::SAMPLED, &sampling, || {
            self.pulse(&pulses, 0, interval)?;
            for run in 0..repeats as usize {
                pause(interval);
                self.sampled_run((&turns, &stamps, &pulses), (run, interval), call)?;
                pause(interval);
            }
            self.pulse(&pulses, PULSES, interval)
        })?;
        let marks: Vec<Mark> = pulses
            .read()
            .map_err(launch)?
            .into_iter()
            .take(2 * PULSES)
            .map(|(start, end)| Mark { start: GpuTime(start), end: GpuTime(end) })
            .collect();
        let runs: Vec<(u64, u64)> =
            stamps.read().map_err(launch)?.chunks_exact(2).map(|stamps| (stamps[0], stamps[1])).collect();
        Ok(self.aligned(&series, &marks, &runs, interval))
    }

    /// Short kernels apart from each other that both clocks see.
    fn pulse(&self, pulses: &Pulses, first: usize, interval: Duration) -> std::result::Result<(), KernelError> {
        let nanos = (interval * 10).max(Duration::from_micros(20)).as_nanos() as u64;
        for at in first..first + PULSES {
            pause(interval);
            pulses.pulse(at, nanos, self.stream)?;
            self.stream.synchronize()?;
            pause(interval);
        }
        Ok(())
    }

    fn aligned(
        &self,
        series: &Series,
        marks: &[Mark],
        runs: &[(u64, u64)],
        interval: Duration,
    ) -> Option<(Vec<CounterSeries>, Sampled)> {
        let (before, after) = marks.split_at_checked(PULSES)?;
        let active = series.quantities().iter().position(|quantity| *quantity == Quantity::SmActive)?;
        let clock = clock::of_samples(before, after, &series.samples, active)?;
        let step = interval.as_nanos() as u64;
        let mut all = Vec::new();
        let (mut samples, mut none) = (0, 0);
        for quantity in series.quantities() {
            let times = series.samples.starts.iter().zip(&series.samples.ends);
            let valued = times.zip(series.values(*quantity)).filter_map(|((start, end), value)| {
                let (begin, end) = (clock.on_gpu(start.0).0, clock.on_gpu(end.0).0);
                Some(Stretch { begin, end, value: value? })
            });
            let stretches: Vec<Stretch> = valued.collect();
            none += series.len() - stretches.len();
            samples = samples.max(runs.iter().map(|run| within(&stretches, *run).count()).sum());
            let kind = if quantity.is_amount() { Kind::Amount } else { Kind::Share };
            all.push(CounterSeries {
                name: series_name(*quantity).to_owned(),
                unit: if quantity.is_amount() { "B/s" } else { "share" }.to_owned(),
                start: Nanos::ZERO,
                step: Nanos(step),
                values: fold(&stretches, runs, step, kind),
            });
        }
        let how = Sampled {
            interval: Nanos(step),
            repeats: runs.len() as u32,
            samples: samples as u32,
            rejected: (series.samples.rejected + none) as u32,
            alignment_error: Nanos(clock.error) + self.clock_step,
        };
        Some((all, how))
    }
}

/// Interval in µs and number of runs: enough samples of a run, no more in all than there is room for.
///
/// Worked: runs of 50 µs are sampled eight times, each behind one that is not, 8 · 350 + 3,000 = 5,800 µs, and
/// 8,192 · 0.65 = 5,324 samples are planned for, so the interval is 2 µs. Runs of 150 µs: three, 4,650 µs, 1 µs.
fn pace(micros: f64) -> (u64, u32) {
    let repeats = ((ENOUGH_MICROS / micros.max(1.0)).ceil() as u32).clamp(REPEATS.0, REPEATS.1);
    let all = f64::from(repeats) * (2.0 * micros + AROUND_RUN) + AROUND_ALL;
    let room = SAMPLES.0 as f64 * SAMPLES.1;
    let fits = INTERVALS.into_iter().find(|interval| all / *interval as f64 <= room);
    (fits.unwrap_or(INTERVALS[INTERVALS.len() - 1]), repeats)
}

/// Lets the GPU idle for some samples; sleeping would take longer.
fn pause(interval: Duration) {
    let began = Instant::now();
    while began.elapsed() < interval * 4 {
        std::hint::spin_loop();
    }
}

fn counts(get: impl Fn(Quantity) -> Option<f64>) -> Counts {
    let count = |quantity: &Quantity| Some(Count { counter: counter(*quantity), value: get(*quantity)? });
    Counts(Quantity::COUNTED.iter().filter_map(count).collect())
}

fn counter(quantity: Quantity) -> Counter {
    match quantity {
        Quantity::DramReadBytes => Counter::DramRead,
        Quantity::DramWriteBytes => Counter::DramWrite,
        Quantity::L2ReadBytes => Counter::L2Read,
        Quantity::L2HitRate => Counter::L2HitRate,
        Quantity::L2ToSmBytes => Counter::L2ToSm,
        Quantity::TensorActive => Counter::TensorActive,
        Quantity::SmActive => Counter::SmActive,
        Quantity::WarpsActive => Counter::WarpsActive,
    }
}

/// Throughputs are named as the simulator's.
fn series_name(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::DramReadBytes => "dram_read",
        Quantity::DramWriteBytes => "dram_write",
        other => other.name(),
    }
}

/// Why counting stopped.
enum Failed {
    Refused(CuptiError),
    Other(Error),
}

impl From<CuptiError> for Failed {
    fn from(error: CuptiError) -> Self {
        Self::Refused(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// A refusal as a warning; a fault of the GPU stays one.
fn told(what: &str, error: CuptiError) -> Result<Warning> {
    match error {
        CuptiError::Stopped => Err(Error::Cancelled),
        CuptiError::Launch(error) => Err(match error.downcast::<KernelError>() {
            Ok(error) => super::translate(*error),
            Err(error) => Error::Gpu(error.to_string()),
        }),
        CuptiError::Gpu { .. } => Err(Error::Gpu(error.to_string())),
        refused => Ok(Warning { text: format!("{what}: {refused}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_of_the_worked_numbers() {
        assert_eq!(pace(50.0), (2, 8));
        assert_eq!(pace(150.0), (1, 3));
        assert_eq!(pace(0.0).1, 8);
        // A whole second is sampled three times at the widest interval.
        assert_eq!(pace(1e6), (1000, 3));
    }

    #[test]
    fn a_refusal_is_a_warning_and_a_fault_of_the_gpu_is_not() {
        let warning = told("no counters", CuptiError::PermissionDenied { call: "cuptiPmSamplingEnable" }).unwrap();
        assert!(warning.text.starts_with("no counters: reading hardware counters was refused"), "{}", warning.text);
        assert!(matches!(told("no counters", CuptiError::Gpu { code: 700 }), Err(Error::Gpu(_))));
        let full = CuptiError::Launch(KernelError::OutOfMemory { wanted: 7, free: 3 }.into());
        assert!(matches!(told("no counters", full), Err(Error::Gpu(text)) if text.starts_with("7 bytes were asked")));
    }

    #[test]
    fn who_stops_a_counting_pass_cancels_the_run() {
        for stopped in [CuptiError::Stopped, CuptiError::Launch(KernelError::Stopped.into())] {
            assert!(matches!(told("no counters", stopped), Err(Error::Cancelled)));
        }
    }

    #[test]
    fn each_quantity_has_the_counter_of_its_name() {
        for quantity in Quantity::COUNTED {
            assert_eq!(counter(quantity).name(), quantity.name());
            assert_eq!(counter(quantity).is_bytes(), quantity.is_amount());
        }
    }
}
