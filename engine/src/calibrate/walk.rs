//! The search: slopes by one simulation for each constant and run, the least of the linear model that they give
//! within a reach, and the simulator asked along the way there.

use super::knobs::{self, COUNT, Move};
use super::line::Line;
use super::{LEAST_GAIN, Observed, loss, median_and_worst, simulate_each};
use crate::cancel::Cancel;
use crate::error::Result;
use crate::hw::Device;
use crate::units::Nanos;

/// Factors by which a constant is moved to find its slopes: the first that changes it. Small ones find the
/// simulator's rounding, large ones its bends, and only larger ones change a time of few nanoseconds.
const STEPS: [f64; 4] = [1.1, 1.25, 1.6, 2.0];
/// Parts of the model's move at which the simulator is asked.
const PARTS: [f64; 3] = [1.0, 0.5, 0.25];
/// The factor that ends a search: the model promises nothing further away that the simulator keeps.
const LEAST_REACH: f64 = 1.02;

/// A search, and what it tells.
pub(super) struct Walk<'a> {
    /// How many runs there are in all.
    runs: usize,
    tell: &'a dyn Fn(&str),
    cancel: &'a Cancel,
    round: u32,
    simulated: usize,
}

/// A device, and ln(simulated / measured) of each run there.
struct At {
    device: Device,
    errors: Vec<f64>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(runs: usize, tell: &'a dyn Fn(&str), cancel: &'a Cancel) -> Self {
        Self { runs, tell, cancel, round: 0, simulated: 0 }
    }

    /// Follows the model from a device until it leads nowhere, at most `rounds` times, by the errors of `runs`;
    /// `reach` is the largest factor for a constant in one round.
    pub(super) fn on(&mut self, runs: &[&Observed], start: Device, reach: f64, rounds: u32) -> Result<Device> {
        let mut reach = reach.ln();
        let (mut here, mut line) = self.line(runs, start)?;
        for _ in 0..rounds {
            let go = line.least(&bounds(&here, reach));
            let Some((went, best)) = self.best_on_the_way(runs, &here, &go)? else { break };
            let before = loss(&line.errors);
            line.learn(&went, &best.errors);
            if loss(&best.errors) < before * (1.0 - LEAST_GAIN) {
                (here, line.errors) = (best.device, best.errors);
            } else {
                reach /= 2.0;
            }
            self.tell_of(&line.errors);
            if reach < LEAST_REACH.ln() {
                break;
            }
        }
        Ok(here)
    }

    /// The one of two devices that loses less over `runs`.
    pub(super) fn better(&mut self, runs: &[&Observed], one: Device, other: Device) -> Result<Device> {
        let errors = self.errors(runs, &[&one, &other])?;
        Ok(if loss(&errors[1]) < loss(&errors[0]) { other } else { one })
    }

    fn tell_of(&mut self, errors: &[f64]) {
        self.round += 1;
        let (median, worst) = median_and_worst(errors.iter().map(|error| error.exp_m1().abs()));
        (self.tell)(&format!(
            "round {}, {} of {} runs: median error {:.1} %, worst {:.1} %, {} simulations so far",
            self.round,
            errors.len(),
            self.runs,
            100.0 * median,
            100.0 * worst,
            self.simulated,
        ));
    }

    /// The model at a device.
    fn line(&mut self, runs: &[&Observed], device: Device) -> Result<(Device, Line)> {
        let prefill = runs.iter().any(|run| !run.planned.plan.prefill.tasks.is_empty());
        let moved: Vec<Option<(Device, f64)>> =
            (0..COUNT).map(|knob| nudged(&device, knob).filter(|_| prefill || !knobs::is_of_prefill(knob))).collect();
        let mut devices = vec![&device];
        devices.extend(moved.iter().flatten().map(|(device, _)| device));
        (self.tell)(&format!("slopes of {} constants in {} of {} runs", devices.len() - 1, runs.len(), self.runs));
        let mut errors = self.errors(runs, &devices)?.into_iter();
        let here = errors.next().unwrap_or_default();
        let slopes = moved.iter().map(|moved| {
            let there = moved.as_ref().and_then(|(_, went)| Some((*went, errors.next()?)));
            let of = |(went, there): (f64, Vec<f64>)| there.iter().zip(&here).map(|(t, h)| (t - h) / went).collect();
            there.map_or_else(Vec::new, of)
        });
        let slopes = slopes.collect();
        Ok((device, Line { errors: here, slopes }))
    }

    /// The best device on the way of a move, and how far it is; `None` where the move leads nowhere.
    fn best_on_the_way(&mut self, runs: &[&Observed], from: &Device, go: &Move) -> Result<Option<(Move, At)>> {
        let mut tried: Vec<(Device, Move)> = PARTS.map(|part| knobs::with_all(from, &go.map(|by| by * part))).into();
        tried.retain(|(device, _)| device.sim != from.sim && device.validate().is_ok());
        let errors = self.errors(runs, &tried.iter().map(|(device, _)| device).collect::<Vec<_>>())?;
        let all = tried.into_iter().zip(errors).map(|((device, went), errors)| (went, At { device, errors }));
        Ok(all.min_by(|(_, a), (_, b)| loss(&a.errors).total_cmp(&loss(&b.errors))))
    }

    /// ln(simulated / measured) of each run, for each device.
    fn errors(&mut self, runs: &[&Observed], devices: &[&Device]) -> Result<Vec<Vec<f64>>> {
        self.simulated += devices.len() * runs.len();
        let times = simulate_each(devices, runs, self.cancel)?;
        let error = |(run, time): (&&Observed, &Nanos)| (time.as_f64().max(1.0) / run.measured.as_f64()).ln();
        Ok(times.iter().map(|times| runs.iter().zip(times).map(error).collect()).collect())
    }
}

/// The device with one constant moved a little, up where it can be, and how far; `None` where it cannot be moved.
fn nudged(device: &Device, knob: usize) -> Option<(Device, f64)> {
    let ways = STEPS.into_iter().flat_map(|step| [step.ln(), -step.ln()]);
    let mut tried = ways.map(|by| (by, knobs::with_one(device, knob, by)));
    // A fraction near one would go up by next to nothing.
    let far_enough = |by: f64, (device, went): &(Device, f64)| went.abs() > by.abs() / 2.0 && device.validate().is_ok();
    tried.find(|(by, moved)| far_enough(*by, moved)).map(|(_, moved)| moved)
}

/// How far each constant can be moved within a reach.
fn bounds(device: &Device, reach: f64) -> [(f64, f64); COUNT] {
    let far = |by: f64| knobs::with_all(device, &[by; COUNT]).1;
    let (lower, upper) = (far(-reach), far(reach));
    std::array::from_fn(|knob| (lower[knob], upper[knob]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw;
    use crate::units::Nanos;

    #[test]
    fn a_constant_at_its_cap_is_nudged_down_a_small_one_further_and_zero_not_at_all() {
        let mut device = hw::find("h200-sxm").unwrap().clone();
        let sim = &mut device.sim;
        (sim.tile_read_efficiency, sim.l2_useful_fraction) = (1.0, 0.98);
        (sim.dispatch_interval, sim.stream_join, sim.kernel_gap) = (Nanos(3), Nanos(2), Nanos::ZERO);
        let nudged: Vec<(Device, f64)> = (0..COUNT).filter_map(|knob| nudged(&device, knob)).collect();
        assert_eq!(nudged.len(), COUNT - 1, "all but the gap");
        let least = |of: fn(&Device) -> f64| nudged.iter().map(|(device, _)| of(device)).fold(f64::INFINITY, f64::min);
        let most = |of: fn(&Device) -> f64| nudged.iter().map(|(device, _)| of(device)).fold(0.0, f64::max);
        assert!((least(|device| device.sim.tile_read_efficiency) - 1.0 / 1.1).abs() < 1e-9);
        assert!((least(|device| device.sim.l2_useful_fraction) - 0.98 / 1.1).abs() < 1e-9);
        assert!(most(|device| device.sim.l2_useful_fraction) < 0.99);
        assert_eq!(most(|device| device.sim.dispatch_interval.as_f64()) as u64, 4);
        assert_eq!(most(|device| device.sim.stream_join.as_f64()) as u64, 3);
        for (moved, went) in &nudged {
            assert!(moved.validate().is_ok() && went.abs() > 0.05, "{went}");
        }
        let bounds = bounds(&device, 0.4);
        assert!(bounds.iter().all(|(lower, upper)| *lower <= 0.0 && *upper >= 0.0));
        assert_eq!(bounds.iter().filter(|(_, upper)| *upper == 0.0).count(), 2, "the efficiency, and the gap of zero");
    }
}
