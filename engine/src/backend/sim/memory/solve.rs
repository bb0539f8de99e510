//! The speeds of all SMs: φ, the limit that binds, and what follows from it.

use super::{Fluid, LANES, Rates, larger, smaller};
use crate::backend::sim::limits::Limits;

impl Fluid {
    /// Finds φ, and with it speeds, rates and the next completion.
    pub(super) fn solve(&mut self) {
        if self.computes > 0 {
            return self.solve_shared();
        }
        let totals = self.totals();
        let hbm = self.hbm();
        let phi = if totals.exposed && totals.fabric * totals.slowest > hbm {
            // Every SM could go faster than its share, so all go at φ.
            hbm / totals.fabric
        } else if totals.fabric > hbm {
            fill(&self.sms, hbm, |group, lane| (group.local_exposed[lane], group.fabric_exposed[lane]))
        } else {
            1.0
        };
        self.speed_up(phi);
    }

    /// As [`Self::solve`] while prefill runs.
    fn solve_shared(&mut self) {
        let limits = Limits { hbm: self.hbm(), ..self.limits };
        while let Some(sm) = self.changed.pop() {
            self.is_changed[sm] = false;
            let streams = self.sms[sm / LANES].class(sm % LANES);
            self.sharing.set(sm, [streams, self.computing[sm].class()], &limits);
        }
        let mut shortest = f64::INFINITY;
        let mut rates = Rates::default();
        for (sm, [streams, computes]) in self.sharing.speeds(&limits).iter().copied().enumerate() {
            let (group, lane) = (&mut self.sms[sm / LANES], sm % LANES);
            group.speed[lane] = streams;
            let prefill = &mut self.computing[sm];
            prefill.speed = computes;
            // Where nothing runs nothing ends, and most SMs run one of both.
            if group.next[lane] < f64::INFINITY {
                shortest = smaller(shortest, (group.next[lane] - group.clock[lane]) / streams);
            }
            if prefill.next < f64::INFINITY {
                shortest = smaller(shortest, (prefill.next - prefill.clock) / computes);
            }
            rates.dram_read += group.dram_read[lane] * streams + prefill.demand.dram_read * computes;
            rates.dram_write += group.dram_write[lane] * streams + prefill.demand.dram_write * computes;
            rates.moved += group.moved[lane] * streams + prefill.demand.moved * computes;
        }
        self.due_at = self.time + shortest.max(0.0);
        self.rates = rates;
    }

    fn totals(&self) -> Totals {
        let (mut fabric, mut inverse) = ([0.0; LANES], [1.0_f64; LANES]);
        for group in &self.sms {
            for lane in 0..LANES {
                fabric[lane] += group.fabric[lane];
                inverse[lane] = larger(inverse[lane], group.inverse_local[lane]);
            }
        }
        let slowest = 1.0 / inverse.into_iter().fold(1.0, f64::max);
        let exposed = self.sms.iter().flat_map(|group| group.exposure).all(|exposure| exposure >= 1.0);
        Totals { exposed, fabric: fabric.iter().sum(), slowest }
    }

    fn speed_up(&mut self, phi: f64) {
        let stretch = 1.0 / phi;
        let mut wait = [f64::INFINITY; LANES];
        let (mut read, mut write, mut moved) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        for group in &mut self.sms {
            for lane in 0..LANES {
                let inverse = larger(group.inverse_local[lane], group.exposure[lane] * stretch);
                let speed = 1.0 / inverse;
                group.speed[lane] = speed;
                wait[lane] = smaller(wait[lane], (group.next[lane] - group.clock[lane]) * inverse);
                read[lane] += group.dram_read[lane] * speed;
                write[lane] += group.dram_write[lane] * speed;
                moved[lane] += group.moved[lane] * speed;
            }
        }
        let shortest = wait.into_iter().fold(f64::INFINITY, f64::min);
        self.due_at = self.time + shortest.max(0.0);
        self.rates = Rates { dram_read: read.iter().sum(), dram_write: write.iter().sum(), moved: moved.iter().sum() };
    }
}

/// Sums over all SMs at full speed.
#[derive(Clone, Copy, Debug)]
struct Totals {
    /// Whether every SM waits for memory all its time.
    exposed: bool,
    fabric: f64,
    /// The least speed that an SM could have on its own.
    slowest: f64,
}

/// The largest φ ≤ 1 with Σ demand · min(local, φ) ≤ limit, where `of` gives local and demand of an SM. The sum is concave
/// and rises with φ, so Newton's steps from below never pass it and end after as many kinks as lie between.
fn fill<T>(groups: &[T], limit: f64, of: impl Fn(&T, usize) -> (f64, f64)) -> f64 {
    let mut phi = 0.0_f64;
    for _ in 0..64 {
        let (mut drawn, mut slope) = (0.0, 0.0);
        for group in groups {
            for lane in 0..LANES {
                let (local, demand) = of(group, lane);
                drawn += demand * smaller(local, phi);
                slope += if local > phi { demand } else { 0.0 };
            }
        }
        let room = limit - drawn;
        if slope <= 0.0 || room > slope * (1.0 - phi) {
            return 1.0;
        }
        if room <= limit * 1e-9 {
            break;
        }
        phi += room / slope;
    }
    phi.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_fill_meets_the_limit_exactly_where_it_binds() {
        let local = [1.0, 0.5, 1.0, 0.25];
        let demands = [4.0, 4.0, 2.0, 8.0];
        let fill =
            |limit| super::fill(&[(local, demands)], limit, |(local, demands), lane| (local[lane], demands[lane]));
        let phi = fill(6.0);
        let drawn: f64 = local.iter().zip(demands).map(|(l, d)| d * l.min(phi)).sum();
        assert!((drawn - 6.0).abs() < 1e-6, "{phi} draws {drawn}");
        assert!((fill(100.0) - 1.0).abs() < 1e-12);
    }
}
