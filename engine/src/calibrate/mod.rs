//! The simulator's constants, fitted to measured runs of one GPU.
//!
//! What can be measured alone is measured alone: the bandwidth of a plain read, what L2 writes back during a cold
//! one, and the tensor rate come from [`Limits`]. The other constants are found together. The loss is the cubic mean of
//! |ln(simulated / measured)| over the runs, so that a run which is far off weighs more than its share, and a factor
//! of two counts alike in both directions. One that is far off because the model lacks what it shows would draw
//! every constant after it, so beyond a factor of two a run weighs no more.
//!
//! Simulating all runs takes half a minute of one core, so the search asks the simulator seldom, and for much at
//! once:
//!
//! ```text
//! slopes     one simulation of each run for each constant, moved a little: a linear model of ln(simulated)
//! least      of the loss over that model within a reach: a factor that no constant is moved by more than
//! trial      the simulator at the whole, the half and a quarter of that move
//! better     the best of them stays, else the reach is halved, until it is next to nothing
//! learn      either way the model is bent to what the best trial showed, which no simulation pays for
//! ```
//!
//! Once that leads no further, slopes are taken anew. Where there are many runs a part of them does both, at a fifth of
//! the cost, and then all of them a few rounds more: 86,000 simulations for 1,042 runs, as all of them 82 times.
//!
//! Everything is tried in one order, so the same runs give the same constants, on any number of cores.

mod knobs;
mod line;
mod part;
mod walk;

use rayon::prelude::*;

use self::walk::Walk;
use crate::cancel::Cancel;
use crate::capture::L2State;
use crate::error::{Error, Result};
use crate::hw::Device;
use crate::metrics::Limits;
use crate::session::{self, PlanOptions, Planned, RunOptions};
use crate::units::{Bytes, Nanos};

/// |ln(simulated / measured)| beyond which a run is as wrong as it can be: a factor of two.
const FAR_OFF: f64 = std::f64::consts::LN_2;
/// Largest factor for a constant in the first round, and rounds at most.
const REACH: f64 = 1.6;
const ROUNDS: u32 = 20;
/// The same with slopes from what the first rounds have found, and rounds over all runs.
const REACH_AFTER: f64 = 1.25;
const ROUNDS_AFTER: u32 = 10;
const ROUNDS_ALL: u32 = 6;
/// A step must be better by this part of the loss, or the search would follow rounding.
const LEAST_GAIN: f64 = 1e-3;

/// A plan and what it took on the GPU.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The plan.
    pub planned: Planned,
    /// Median time from first launch to last end, without tracing.
    pub measured: Nanos,
    /// State of L2 before each repeat.
    pub l2: L2State,
}

/// What a fit found.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The device with its new constants.
    pub device: Device,
    /// Simulated time of each run with the constants before.
    pub before: Vec<Nanos>,
    /// The same with the new ones.
    pub after: Vec<Nanos>,
}

/// Error of the simulated times: |simulated / measured − 1|, median and largest.
pub fn errors(runs: &[Observed], simulated: &[Nanos]) -> (f64, f64) {
    median_and_worst(runs.iter().zip(simulated).map(|(run, time)| (time.as_f64() / run.measured.as_f64() - 1.0).abs()))
}

fn median_and_worst(errors: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut errors: Vec<f64> = errors.collect();
    errors.sort_by(f64::total_cmp);
    (errors.get(errors.len() / 2).copied().unwrap_or(0.0), errors.last().copied().unwrap_or(0.0))
}

/// Fits the constants of `device` to runs of it; `limits`, where there are any, give bandwidth and tensor rate. Tells
/// before slopes are simulated, which takes longest, and after each round.
///
/// # Errors
/// [`Error::Device`] without runs or for a run of no time; [`Error::Cancelled`].
pub fn fit(
    device: &Device,
    limits: Option<&Limits>,
    runs: &[Observed],
    tell: &dyn Fn(&str),
    cancel: &Cancel,
) -> Result<Fit> {
    if runs.is_empty() || runs.iter().any(|run| run.measured == Nanos::ZERO) {
        return Err(Error::Device("a calibration needs measured runs, each longer than nothing".to_owned()));
    }
    let before = simulate_all(device, runs, cancel)?;
    let mut best = device.clone();
    if let Some(limits) = limits {
        take_limits(&mut best, limits);
    }
    let mut walk = Walk::new(runs.len(), tell, cancel);
    let part = part::first(runs);
    let mut found = walk.on(&part, best.clone(), REACH, ROUNDS)?;
    found = walk.on(&part, found, REACH_AFTER, ROUNDS_AFTER)?;
    if part.len() < runs.len() {
        let all: Vec<&Observed> = runs.iter().collect();
        // What is good for a part may be worse for all than what was there.
        found = walk.better(&all, best, found)?;
        found = walk.on(&all, found, REACH_AFTER, ROUNDS_ALL)?;
    }
    let after = simulate_all(&found, runs, cancel)?;
    Ok(Fit { device: found, before, after })
}

/// Bandwidth from the slope of the read curve at its end, what is written back for a byte from how much flatter it is than
/// its part within L2, and in all from where it falls farthest behind that bandwidth; tensor rate as it was measured.
fn take_limits(device: &mut Device, limits: &Limits) {
    if let [.., (less, short), (more, long)] = limits.read.as_slice()
        && long > short
    {
        let bytes_per_s = (more.as_f64() - less.as_f64()) / (long.as_f64() - short.as_f64()) * 1e9;
        device.sim.hbm_efficiency = (bytes_per_s / device.hbm_bytes_per_s as f64).min(1.0);
        let mut within = limits.read.iter().filter(|(bytes, _)| *bytes <= device.l2);
        let (first, last) = (within.clone().next(), within.next_back());
        if let (Some((less, short)), Some((more, long))) = (first, last)
            && long > short
        {
            let cold = (more.as_f64() - less.as_f64()) / (long.as_f64() - short.as_f64()) * 1e9;
            device.sim.cold_write_back = (bytes_per_s / cold - 1.0).max(0.0);
            let late = |(bytes, time): &(Bytes, Nanos)| {
                (time.as_f64() - short.as_f64()) * 1e-9 * bytes_per_s - (bytes.as_f64() - less.as_f64())
            };
            device.sim.cold_dirty = Some(Bytes(limits.read.iter().map(late).fold(0.0, f64::max).round() as u64));
        }
    }
    device.hybrid_limits = limits.hybrid.or(device.hybrid_limits);
    if limits.flops > 0.0 {
        device.sim.tensor_efficiency = (limits.flops / device.tensor_flops as f64).min(1.0);
    }
}

/// Simulated times, in the order of the runs.
///
/// # Errors
/// As [`session::simulate`].
pub fn simulate_all(device: &Device, runs: &[Observed], cancel: &Cancel) -> Result<Vec<Nanos>> {
    let runs: Vec<&Observed> = runs.iter().collect();
    Ok(simulate_each(&[device], &runs, cancel)?.pop().unwrap_or_default())
}

/// Simulated times of each device's runs, all side by side: runs take from a millisecond to a second, and no core is
/// to wait for the longest of each device.
fn simulate_each(devices: &[&Device], runs: &[&Observed], cancel: &Cancel) -> Result<Vec<Vec<Nanos>>> {
    let pairs: Vec<(&Device, &Observed)> =
        devices.iter().flat_map(|device| runs.iter().map(move |run| (*device, *run))).collect();
    // Stolen one by one, since neighbours may both be long.
    let times: Result<Vec<Nanos>> =
        pairs.par_iter().with_max_len(1).map(|(device, run)| simulate(device, run, cancel)).collect();
    Ok(times?.chunks(runs.len().max(1)).map(<[Nanos]>::to_vec).collect())
}

fn simulate(device: &Device, run: &Observed, cancel: &Cancel) -> Result<Nanos> {
    let options = PlanOptions { device: device.clone(), ..(*run.planned.options).clone() };
    let planned = Planned { options: options.into(), ..run.planned.clone() };
    let how = RunOptions { repeats: 1, l2: run.l2, ..RunOptions::default() };
    Ok(session::simulate(&planned, &how, cancel)?.makespan())
}

/// What is made small, of ln(simulated / measured) of each run.
fn loss(errors: &[f64]) -> f64 {
    let cubes: f64 = errors.iter().map(|error| error.abs().min(FAR_OFF).powi(3)).sum();
    (cubes / errors.len() as f64).cbrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw;
    use crate::plan::Strategy;
    use crate::workload::{AttentionShape, BatchSpec, NodeSpec};

    fn observed(device: &Device, scale: f64) -> Vec<Observed> {
        let trees = [(512, 16, 96), (2048, 4, 256), (64, 64, 32)];
        let ways = Strategy::ANY_BATCH.into_iter().flat_map(|strategy| trees.map(|tree| (strategy, tree)));
        ways.map(|(strategy, (root, leaves, tokens))| {
            let leaf = NodeSpec { repeat: leaves, ..NodeSpec::leaf(tokens) };
            let root = NodeSpec { children: vec![leaf], ..NodeSpec::leaf(root) };
            let spec = BatchSpec { roots: vec![root], ..BatchSpec::empty(AttentionShape::default()) };
            let options = PlanOptions { strategy, ..PlanOptions::new(device) };
            let planned = session::plan_spec(&spec, &options).unwrap();
            let time = session::simulate(&planned, &RunOptions::default(), &Cancel::default()).unwrap().makespan();
            Observed { planned, measured: Nanos((time.as_f64() * scale).round() as u64), l2: L2State::Cold }
        })
        .collect()
    }

    /// Constants that made the times are found again, well enough to give the times.
    #[test]
    fn a_fit_comes_back_to_the_constants_that_made_the_runs() {
        let device = hw::find("h200-sxm").unwrap();
        let runs = observed(device, 1.0);
        let mut off = device.clone();
        off.sim.cta_prologue = Nanos(off.sim.cta_prologue.0 * 3);
        off.sim.launch_latency = Nanos(off.sim.launch_latency.0 * 2);
        off.sim.sm_bytes_per_s /= 2;
        let told = std::cell::RefCell::new(Vec::new());
        let tell = |line: &str| told.borrow_mut().push(line.to_owned());
        let fit = fit(&off, None, &runs, &tell, &Cancel::default()).unwrap();
        let ((was, _), (median, worst)) = (errors(&runs, &fit.before), errors(&runs, &fit.after));
        assert!(was > 0.1 && median < 0.03 && worst < 0.1, "{was} → {median}, worst {worst}");
        assert_eq!(fit.after, simulate_all(&fit.device, &runs, &Cancel::default()).unwrap());
        let told = told.into_inner();
        let (slopes, rounds): (Vec<_>, Vec<_>) = told.iter().partition(|line| line.starts_with("slopes"));
        assert_eq!(slopes, ["slopes of 24 constants in 9 of 9 runs"; 2]);
        for (round, line) in (1..).zip(rounds) {
            assert!(line.starts_with(&format!("round {round}, 9 of 9 runs: median error ")), "{line}");
        }
        let last = told.last().unwrap();
        let errors = format!("median error {:.1} %, worst {:.1} %", 100.0 * median, 100.0 * worst);
        assert!(last.contains(&errors), "{last}");
    }

    /// A constant that cannot go up any further does not hold the others, nor stay where it is wrong.
    #[test]
    fn a_constant_at_its_cap_comes_down() {
        let mut device = hw::find("h200-sxm").unwrap().clone();
        // With marks so little goes back to HBM that other constants make up for this one.
        device.marked_reads = None;
        device.sim.tile_read_efficiency = 0.7;
        let runs = observed(&device, 1.0);
        device.sim.tile_read_efficiency = 1.0;
        device.sim.cta_prologue = Nanos(device.sim.cta_prologue.0 * 2);
        let fit = fit(&device, None, &runs, &|_| (), &Cancel::default()).unwrap();
        let ((_, was), (median, worst)) = (errors(&runs, &fit.before), errors(&runs, &fit.after));
        assert!(was > 0.05 && median < 0.03 && worst < 0.1, "{was} → {median}, worst {worst}");
        assert!(fit.device.sim.tile_read_efficiency < 0.95, "{}", fit.device.sim.tile_read_efficiency);
    }

    #[test]
    fn limits_give_bandwidth_and_tensor_rate_and_no_runs_are_refused() {
        let device = hw::find("h200-sxm").unwrap();
        let mib = |count: u64| crate::units::Bytes(count << 20);
        let limits = Limits {
            read: vec![
                (mib(1), Nanos(5_000)),
                (mib(21), Nanos(15_000)),
                (mib(100), Nanos(30_000)),
                (mib(200), Nanos(60_000)),
            ],
            read_spread: Vec::new(),
            flops: 5e14,
            hybrid: None,
        };
        let mut taken = device.clone();
        take_limits(&mut taken, &limits);
        let expected = mib(100).as_f64() / 30_000.0 * 1e9 / device.hbm_bytes_per_s as f64;
        assert!((taken.sim.hbm_efficiency - expected).abs() < 1e-9);
        // Within L2, 20 MiB take 10 µs, and would take 6 at the bandwidth: 2/3 of a byte comes back for each.
        assert!((taken.sim.cold_write_back - 2.0 / 3.0).abs() < 1e-9, "{}", taken.sim.cold_write_back);
        // These two thirds of 20 MiB are as far as the curve falls behind.
        let dirty = taken.sim.cold_dirty.unwrap();
        assert!((dirty.as_f64() - 40.0 / 3.0 * f64::from(1 << 20)).abs() < 1.0, "{dirty}");
        assert!((taken.sim.tensor_efficiency - 5e14 / device.tensor_flops as f64).abs() < 1e-9);
        assert!(fit(device, None, &[], &|_| (), &Cancel::default()).is_err());
    }
}
