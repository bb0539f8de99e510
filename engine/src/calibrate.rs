//! The simulator's constants, fitted to measured runs of one GPU.
//!
//! What can be measured alone is measured alone: the bandwidth of a plain read, what L2 writes back during a cold
//! one, and the tensor rate come from [`Limits`]. The other constants are found together, by coordinate search: each
//! in turn is made larger and smaller by a factor, the better value stays, and the factor shrinks until nothing
//! moves. The loss is the cubic mean of |ln(simulated / measured)| over the runs, so that a run which is far off
//! weighs more than its share, and a factor of two counts alike in both directions. One that is far off because
//! the model lacks what it shows would draw every constant after it, so beyond a factor of two a run weighs no more.
//!
//! Everything is tried in one order, so the same runs give the same constants.

use rayon::prelude::*;

use crate::cancel::Cancel;
use crate::capture::L2State;
use crate::error::{Error, Result};
use crate::hw::{Device, SimConstants};
use crate::metrics::Limits;
use crate::session::{self, PlanOptions, Planned, RunOptions};
use crate::units::Nanos;

/// Factors by which a constant is moved, one round of the search each until it finds nothing better.
const FACTORS: [f64; 5] = [1.6, 1.25, 1.1, 1.05, 1.02];
/// |ln(simulated / measured)| beyond which a run is as wrong as it can be: a factor of two.
const FAR_OFF: f64 = std::f64::consts::LN_2;
/// Rounds at one factor, at most.
const ROUNDS: u32 = 6;
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
    let mut errors: Vec<f64> =
        runs.iter().zip(simulated).map(|(run, time)| (time.as_f64() / run.measured.as_f64() - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    (errors.get(errors.len() / 2).copied().unwrap_or(0.0), errors.last().copied().unwrap_or(0.0))
}

/// Fits the constants of `device` to runs of it; `limits`, where there are any, give bandwidth and tensor rate.
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
    let mut after = simulate_all(&best, runs, cancel)?;
    let mut loss = loss_of(runs, &after);
    // Which way each constant went last; that way is tried first.
    let mut smaller = vec![false; KNOBS.len()];
    for factor in FACTORS {
        for _ in 0..ROUNDS {
            let start = loss;
            for (knob, smaller) in KNOBS.iter().zip(&mut smaller) {
                for down in [*smaller, !*smaller] {
                    let by = if down { 1.0 / factor } else { factor };
                    let mut tried = best.clone();
                    (knob.scale)(&mut tried.sim, by);
                    if tried.sim == best.sim || tried.validate().is_err() {
                        continue;
                    }
                    let times = simulate_all(&tried, runs, cancel)?;
                    let found = loss_of(runs, &times);
                    if found < loss * (1.0 - LEAST_GAIN) {
                        (best, after, loss) = (tried, times, found);
                        *smaller = down;
                        break;
                    }
                }
            }
            let (median, worst) = errors(runs, &after);
            tell(&format!("steps of {factor}: median error {:.1} %, worst {:.1} %", 100.0 * median, 100.0 * worst));
            if loss >= start * (1.0 - LEAST_GAIN) {
                break;
            }
        }
    }
    Ok(Fit { device: best, before, after })
}

/// Bandwidth from the slope of the read curve at its end, what is written back from how much flatter it is than its
/// part within L2, tensor rate as it was measured.
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
        }
    }
    if limits.flops > 0.0 {
        device.sim.tensor_efficiency = (limits.flops / device.tensor_flops as f64).min(1.0);
    }
}

/// Simulated times, in the order of the runs.
///
/// # Errors
/// As [`session::simulate`].
pub fn simulate_all(device: &Device, runs: &[Observed], cancel: &Cancel) -> Result<Vec<Nanos>> {
    runs.par_iter()
        .map(|run| {
            let options = PlanOptions { device: device.clone(), ..(*run.planned.options).clone() };
            let planned = Planned { options: options.into(), ..run.planned.clone() };
            let how = RunOptions { repeats: 1, l2: run.l2, ..RunOptions::default() };
            Ok(session::simulate(&planned, &how, cancel)?.makespan())
        })
        .collect()
}

fn loss_of(runs: &[Observed], simulated: &[Nanos]) -> f64 {
    let cubes: f64 = runs
        .iter()
        .zip(simulated)
        .map(|(run, time)| (time.as_f64().max(1.0) / run.measured.as_f64()).ln().abs().min(FAR_OFF).powi(3))
        .sum();
    (cubes / runs.len() as f64).cbrt()
}

/// A constant that the search moves.
struct Knob {
    /// Makes it larger by a factor.
    scale: fn(&mut SimConstants, f64),
}

fn longer(time: &mut Nanos, by: f64) {
    *time = Nanos((time.as_f64() * by).round() as u64);
}

fn faster(rate: &mut u64, by: f64) {
    *rate = (*rate as f64 * by).round() as u64;
}

/// All constants but those that are measured alone.
const KNOBS: [Knob; 17] = [
    Knob { scale: |sim, by| sim.tile_read_efficiency = (sim.tile_read_efficiency * by).min(1.0) },
    Knob { scale: |sim, by| faster(&mut sim.sm_bytes_per_s, by) },
    Knob { scale: |sim, by| longer(&mut sim.cta_prologue, by) },
    Knob { scale: |sim, by| longer(&mut sim.cta_epilogue, by) },
    Knob { scale: |sim, by| longer(&mut sim.tile_step, by) },
    Knob { scale: |sim, by| longer(&mut sim.softmax_step, by) },
    Knob { scale: |sim, by| faster(&mut sim.store_bytes_per_s, by) },
    Knob { scale: |sim, by| longer(&mut sim.merge_trip, by) },
    Knob { scale: |sim, by| longer(&mut sim.l2_latency, by) },
    Knob { scale: |sim, by| faster(&mut sim.l2_bytes_per_s, by) },
    Knob { scale: |sim, by| sim.l2_useful_fraction = (sim.l2_useful_fraction * by).min(1.0) },
    Knob { scale: |sim, by| longer(&mut sim.launch_latency, by) },
    Knob { scale: |sim, by| longer(&mut sim.kernel_gap, by) },
    Knob { scale: |sim, by| longer(&mut sim.host_launch_interval, by) },
    Knob { scale: |sim, by| longer(&mut sim.queue_pop, by) },
    Knob { scale: |sim, by| longer(&mut sim.stream_join, by) },
    Knob { scale: |sim, by| longer(&mut sim.dispatch_interval, by) },
];

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
        off.sim.launch_latency = Nanos(off.sim.launch_latency.0 / 2);
        off.sim.sm_bytes_per_s /= 2;
        let fit = fit(&off, None, &runs, &|_| (), &Cancel::default()).unwrap();
        let ((was, _), (median, worst)) = (errors(&runs, &fit.before), errors(&runs, &fit.after));
        assert!(was > 0.1 && median < 0.03 && worst < 0.1, "{was} → {median}, worst {worst}");
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
            flops: 5e14,
        };
        let mut taken = device.clone();
        take_limits(&mut taken, &limits);
        let expected = mib(100).as_f64() / 30_000.0 * 1e9 / device.hbm_bytes_per_s as f64;
        assert!((taken.sim.hbm_efficiency - expected).abs() < 1e-9);
        // Within L2, 20 MiB take 10 µs, and would take 6 at the bandwidth: 2/3 of a byte comes back for each.
        assert!((taken.sim.cold_write_back - 2.0 / 3.0).abs() < 1e-9, "{}", taken.sim.cold_write_back);
        assert!((taken.sim.tensor_efficiency - 5e14 / device.tensor_flops as f64).abs() < 1e-9);
        assert!(fit(device, None, &[], &|_| (), &Cancel::default()).is_err());
    }
}
