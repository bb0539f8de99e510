//! How many cycles pass in a nanosecond, over a run, on all SMs alike.
//!
//! The SMs' clock follows load and power, mostly together: on an H200 it went between 1.73 and 1.98 GHz within 25 µs, so
//! that a line through the readings of such a run was 700 ns off. An SM with two readings cannot show that, 132 of
//! them together can: the counter of SM s at t ns is `offset(s) + course(t)`, with one piecewise even course for all.
//!
//! The pieces hold as many readings each. Their slopes are the least squares over all readings, each SM around its own
//! mean, with the even course as one more thing known where readings are few.

use crate::backend::cuda::clock::{Reading, Sms};

/// Readings of a piece.
const PIECE: usize = 24;
/// Most places that may end a piece, of which [`SHORTEST`] leaves some out: finer pieces are the SM's own knots.
const MOST_PIECES: usize = 64;
/// How far the slope of a piece is from that of the run, as a part of it: standard deviation.
const WANDER: f64 = 0.1;
/// How far an SM leaves the common course by itself, as a part of the run: standard deviation. In a long run that is
/// far more than the timer's step, and short pieces would take it for their slope.
const APART: f64 = 0.002;
/// Most of a run's length over that of a piece.
const SHORTEST: f64 = 32.0;
/// Least slope, as a part of that of the run: the course rises.
const LEAST: f64 = 0.05;

/// Knots (ns, cycles), in order of time, two at least.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Course(Vec<(f64, f64)>);

impl Course {
    /// The course of these readings; `rate` is the mean one, ns a cycle.
    pub(super) fn of(sms: &Sms, rate: f64, step: f64) -> Self {
        Self::of_ends(&ends(sms, step), sms, rate, step)
    }

    /// The course in pieces between these times.
    pub(super) fn of_ends(ends: &[f64], sms: &Sms, rate: f64, step: f64) -> Self {
        let slope = 1.0 / rate;
        let more = solve(equations(ends, sms, slope, step));
        let mut knots = vec![(ends[0], ends[0] * slope)];
        for (pair, more) in ends.windows(2).zip(more) {
            let cycles = knots.last().map_or(0.0, |knot| knot.1);
            knots.push((pair[1], cycles + (pair[1] - pair[0]) * (slope + more).max(LEAST * slope)));
        }
        Self(knots)
    }

    /// Cycles at a time; beyond the ends the last piece goes on.
    pub(super) fn cycles(&self, ns: f64) -> f64 {
        between(&self.0, ns, |knot| *knot)
    }

    /// The time of so many cycles.
    pub(super) fn nanos(&self, cycles: f64) -> f64 {
        between(&self.0, cycles, |knot| (knot.1, knot.0))
    }
}

fn between(knots: &[(f64, f64)], x: f64, turn: impl Fn(&(f64, f64)) -> (f64, f64)) -> f64 {
    let upper = knots.partition_point(|knot| turn(knot).0 < x).clamp(1, knots.len() - 1);
    let ((x0, y0), (x1, y1)) = (turn(&knots[upper - 1]), turn(&knots[upper]));
    y0 + (y1 - y0) * (x - x0) / (x1 - x0)
}

/// Where pieces begin and end: with as many readings in each, and far longer than a step.
fn ends(sms: &Sms, step: f64) -> Vec<f64> {
    let mut times: Vec<f64> = sms.values().flat_map(|(_, readings)| readings).map(|reading| reading.ns).collect();
    times.sort_unstable_by(f64::total_cmp);
    let (first, last) = (times[0], times[times.len() - 1]);
    let least = (16.0 * step).max((last - first) / SHORTEST).max(1.0);
    let pieces = (times.len() / PIECE).clamp(1, MOST_PIECES);
    let mut ends = vec![first];
    for piece in 1..pieces {
        let at = times[piece * times.len() / pieces];
        if at - ends[ends.len() - 1] >= least && last - at >= least {
            ends.push(at);
        }
    }
    ends.push(last.max(first + least));
    ends
}

/// Normal equations of what each piece's slope has more than `slope`: symmetric rows, each with its right side last.
fn equations(ends: &[f64], sms: &Sms, slope: f64, step: f64) -> Vec<Vec<f64>> {
    let pieces = ends.len() - 1;
    // As well known as by one reading that is off by the timer's step and by what its SM goes apart.
    let apart = APART * (ends[pieces] - ends[0]);
    let known = (step.powi(2) / 12.0 + apart.powi(2) + 1e-6) / WANDER.powi(2);
    let mut rows = vec![vec![0.0; pieces + 1]; pieces];
    for (at, row) in rows.iter_mut().enumerate() {
        row[at] = known;
    }
    for (_, readings) in sms.values() {
        let terms: Vec<Vec<f64>> = readings.iter().map(|reading| terms(ends, reading, slope)).collect();
        let count = terms.len() as f64;
        let means: Vec<f64> = (0..=pieces).map(|at| terms.iter().map(|term| term[at]).sum::<f64>() / count).collect();
        for term in &terms {
            let off: Vec<f64> = term.iter().zip(&means).map(|(value, mean)| value - mean).collect();
            for (row, of_row) in rows.iter_mut().zip(&off) {
                row.iter_mut().zip(&off).for_each(|(sum, of_column)| *sum += of_row * of_column);
            }
        }
    }
    rows
}

/// How long each piece lies before a reading, ns, and last what its counter is ahead of the even course, cycles.
fn terms(ends: &[f64], reading: &Reading, slope: f64) -> Vec<f64> {
    let within = |pair: &[f64]| (reading.ns - pair[0]).clamp(0.0, pair[1] - pair[0]);
    let mut terms: Vec<f64> = ends.windows(2).map(within).collect();
    terms.push(reading.clock - reading.ns * slope);
    terms
}

/// Gauss's elimination; the equations are positive definite, so no pivot is zero.
fn solve(mut rows: Vec<Vec<f64>>) -> Vec<f64> {
    let count = rows.len();
    for at in 0..count {
        let (done, rest) = rows.split_at_mut(at + 1);
        let pivot = &done[at];
        for row in rest {
            let part = row[at] / pivot[at];
            row.iter_mut().zip(pivot).skip(at).for_each(|(value, of_pivot)| *value -= part * of_pivot);
        }
    }
    let mut found = vec![0.0; count];
    for at in (0..count).rev() {
        let later: f64 = (at + 1..count).map(|column| rows[at][column] * found[column]).sum();
        found[at] = (rows[at][count] - later) / rows[at][at];
    }
    found
}
