//! A linear model of the simulator around one device: the logarithm of each run's time over what was measured, and
//! its slope over the logarithm of each constant. It costs nothing to ask, so coordinate search finds its least.

use super::knobs::{COUNT, Move};
use super::{LEAST_GAIN, loss};

/// The least step of a search of the model, as a logarithm.
const FINEST: f64 = 0.002;
/// Rounds over all constants at one step, at most.
const ROUNDS: u32 = 100;

/// ln(simulated / measured) of each run, and for each constant its slope in each run.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) errors: Vec<f64>,
    /// Empty where a constant cannot be moved.
    pub(super) slopes: Vec<Vec<f64>>,
}

impl Line {
    /// The move of least loss within `bounds`, lower and upper for each constant.
    pub(super) fn least(&self, bounds: &[(f64, f64); COUNT]) -> Move {
        let mut found = [0.0; COUNT];
        let mut errors = self.errors.clone();
        let mut best = loss(&errors);
        let mut step = bounds.iter().map(|(lower, upper)| upper.max(-lower)).fold(0.0, f64::max);
        while step >= FINEST {
            for _ in 0..ROUNDS {
                let start = best;
                for (knob, slopes) in self.slopes.iter().enumerate() {
                    for to in [found[knob] + step, found[knob] - step] {
                        let by = to.clamp(bounds[knob].0, bounds[knob].1) - found[knob];
                        if by == 0.0 || slopes.is_empty() {
                            continue;
                        }
                        let tried: Vec<f64> =
                            errors.iter().zip(slopes).map(|(error, slope)| error + slope * by).collect();
                        let loss = loss(&tried);
                        if loss < best {
                            (errors, best) = (tried, loss);
                            found[knob] += by;
                            break;
                        }
                    }
                }
                if best >= start * (1.0 - LEAST_GAIN) {
                    break;
                }
            }
            step /= 2.0;
        }
        found
    }

    /// Bends the slopes, as little as can be (Broyden's update), so that the model gives `errors` after a move.
    pub(super) fn learn(&mut self, went: &Move, errors: &[f64]) {
        let length: f64 = went.iter().map(|by| by * by).sum();
        if length == 0.0 {
            return;
        }
        for (run, error) in errors.iter().enumerate() {
            let moves = || self.slopes.iter().zip(went).filter(|(slopes, _)| !slopes.is_empty());
            let expected: f64 = self.errors[run] + moves().map(|(slopes, by)| slopes[run] * by).sum::<f64>();
            let off = (error - expected) / length;
            for (slopes, by) in self.slopes.iter_mut().zip(went).filter(|(slopes, _)| !slopes.is_empty()) {
                slopes[run] += off * by;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three runs and two constants, of which the move (0.2, −0.1) takes all errors away; the others do not move.
    fn line() -> Line {
        let mut slopes = vec![Vec::new(); COUNT];
        (slopes[1], slopes[4]) = (vec![1.0, 0.5, 0.0], vec![0.0, 0.5, 1.0]);
        Line { errors: vec![-0.2, -0.05, 0.1], slopes }
    }

    #[test]
    fn the_least_is_found_and_bounds_hold_it() {
        let found = line().least(&[(-0.5, 0.5); COUNT]);
        for (knob, by) in found.iter().enumerate() {
            let expected = [(1, 0.2), (4, -0.1)].iter().find(|(at, _)| *at == knob).map_or(0.0, |(_, by)| *by);
            assert!((by - expected).abs() < 0.01, "constant {knob} by {by} instead of {expected}");
        }
        let mut bounds = [(-0.5, 0.5); COUNT];
        // A fraction that is at one already.
        bounds[1] = (-0.5, 0.0);
        let found = line().least(&bounds);
        assert!(found[1] == 0.0 && found[4] < -0.02, "{found:?}");
    }

    #[test]
    fn what_was_learnt_is_known() {
        let mut line = line();
        let mut went = [0.0; COUNT];
        (went[1], went[4]) = (0.1, 0.3);
        let seen = [0.3, 0.1, -0.4];
        line.learn(&went, &seen);
        for (run, seen) in seen.iter().enumerate() {
            let told = line.errors[run] + line.slopes[1][run] * went[1] + line.slopes[4][run] * went[4];
            assert!((told - seen).abs() < 1e-12, "run {run}: {told} instead of {seen}");
        }
        let before = line.clone();
        line.learn(&[0.0; COUNT], &[1.0; 3]);
        assert_eq!(line.slopes, before.slopes, "no move tells nothing");
    }
}
