//! The speeds of all SMs: φ, the limit that binds, and what follows from it.

use super::{Fluid, Group, LANES, Rates, larger, smaller};
use crate::backend::sim::limits::Limits;

impl Fluid {
    /// Finds φ, and with it speeds, rates and the next completion.
    pub(super) fn solve(&mut self) {
        if self.computes > 0 {
            return self.solve_shared();
        }
        let totals = self.totals();
        let hbm = self.limits.given(totals.alone, self.hbm());
        let phi = if totals.exposed && totals.fabric * totals.slowest > hbm {
            // Every SM could go faster than its share, so all go at φ.
            hbm / totals.fabric
        } else if totals.fabric > hbm {
            let of = |group: &Group, lane: usize| (group.local_exposed[lane], group.fabric_exposed[lane]);
            fill(&self.sms, hbm, (totals.fabric_exposed, totals.lowest), of)
        } else {
            1.0
        };
        self.speed_up(phi);
        if self.rates.moved > self.limits.l2_peak {
            self.slow_to_l2();
        }
    }

    /// Finds the φ at which all SMs together move no more than L2 gives.
    fn slow_to_l2(&mut self) {
        let of = |group: &Group, lane: usize| (group.local_exposed[lane], group.moved[lane] / group.exposure[lane]);
        let lanes = self.sms.iter().flat_map(|group| (0..LANES).map(move |lane| of(group, lane)));
        let totals = lanes.fold((0.0, f64::INFINITY), |all, (local, moved)| (all.0 + moved, smaller(all.1, local)));
        let phi = fill(&self.sms, self.limits.l2_peak, totals, of);
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

    /// Sums over all SMs. Few change between two solutions, so those before the first that did stand as they are.
    fn totals(&mut self) -> Totals {
        let mut scan = self.scans[self.scanned];
        for (group, before) in self.sms.iter().zip(&mut self.scans).skip(self.scanned) {
            *before = scan;
            scan.add(group);
        }
        self.scanned = self.sms.len();
        self.scans[self.scanned] = scan;
        scan.totals()
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

/// Sums over some groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    fabric: [f64; LANES],
    alone: [f64; LANES],
    inverse: [f64; LANES],
    lowest: [f64; LANES],
    fabric_exposed: f64,
    exposed: bool,
}

impl Scan {
    pub(super) const NONE: Self = Self {
        fabric: [0.0; LANES],
        alone: [0.0; LANES],
        inverse: [1.0; LANES],
        lowest: [f64::INFINITY; LANES],
        fabric_exposed: 0.0,
        exposed: true,
    };

    fn add(&mut self, group: &Group) {
        for lane in 0..LANES {
            self.fabric[lane] += group.fabric[lane];
            self.alone[lane] += group.fabric[lane] * group.local[lane];
            self.inverse[lane] = larger(self.inverse[lane], group.inverse_local[lane]);
            self.lowest[lane] = smaller(self.lowest[lane], group.local_exposed[lane]);
            // In the order in which `fill` adds them up.
            self.fabric_exposed += group.fabric_exposed[lane];
            self.exposed &= group.exposure[lane] >= 1.0;
        }
    }

    fn totals(&self) -> Totals {
        Totals {
            exposed: self.exposed,
            fabric: self.fabric.iter().sum(),
            alone: self.alone.iter().sum(),
            fabric_exposed: self.fabric_exposed,
            lowest: self.lowest.into_iter().fold(f64::INFINITY, smaller),
            slowest: 1.0 / self.inverse.into_iter().fold(1.0, f64::max),
        }
    }
}

/// Sums over all SMs at full speed.
#[derive(Clone, Copy, Debug)]
struct Totals {
    /// Whether every SM waits for memory all its time.
    exposed: bool,
    fabric: f64,
    /// The same were each SM by itself.
    alone: f64,
    /// What draws on the fabric at φ, by φ, where all are slower than they could be.
    fabric_exposed: f64,
    /// The least φ from which on some SM is no faster.
    lowest: f64,
    /// The least speed that an SM could have on its own.
    slowest: f64,
}

/// What is drawn above or below the limit by rounding alone, as a share of it.
const EXACT: f64 = 1e-9;

/// The largest φ ≤ 1 with Σ demand · min(local, φ) ≤ limit, where `of` gives local, above 0, and demand of an SM; `all` is
/// the sum of demands, and `lowest` the least local. The sum is concave and rises with φ, so Newton's steps from below never
/// pass it and end after as many kinks as lie between. The first is from 0, where nothing is drawn and all rise, and one
/// that comes to no kink ends where the limit is met: the sum is a line there, and there is nothing to look at again.
fn fill<T>(groups: &[T], limit: f64, (all, lowest): (f64, f64), of: impl Fn(&T, usize) -> (f64, f64)) -> f64 {
    if all <= 0.0 || limit > all {
        return 1.0;
    }
    let (mut phi, mut slope, mut kink) = (limit / all, all, lowest);
    for _ in 1..64 {
        if phi < kink && slope * (1.0 - phi) > limit * EXACT {
            break;
        }
        let mut drawn = 0.0;
        (slope, kink) = (0.0, f64::INFINITY);
        for group in groups {
            for lane in 0..LANES {
                let (local, demand) = of(group, lane);
                drawn += demand * smaller(local, phi);
                slope += if local > phi { demand } else { 0.0 };
                kink = smaller(kink, if local > phi { local } else { f64::INFINITY });
            }
        }
        let room = limit - drawn;
        if slope <= 0.0 || room > slope * (1.0 - phi) {
            return 1.0;
        }
        if room <= limit * EXACT {
            break;
        }
        phi += room / slope;
    }
    phi.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use crate::backend::sim::cost::{MainLoop, Waits};
    use crate::backend::sim::limits::{Limits, SHARPNESS, WriteBack};
    use crate::backend::sim::memory::{Fluid, Pace};

    #[test]
    fn hits_of_all_sms_take_no_more_than_l2_gives() {
        let work = MainLoop {
            time: 100.0,
            unchained: 100.0,
            first_tile: 0.0,
            dram_read: 10.0,
            dram_write: 0.0,
            moved: 1_000.0,
            tensor: 0.0,
            wgmma: 0.0,
            warps: 4.0,
            waits: Waits { l2: 0.0, hbm: 80.0 },
        };
        let end = |l2_peak: f64| {
            let back = WriteBack { per_read: 0.0, idle: 0.0 };
            let mut fluid = Fluid::new(
                8,
                Limits { hbm: 1e3, l2: 1e9, l2_peak, sm: 1e9, sharpness: SHARPNESS, back, pair: None, power: None },
            );
            (0..2).for_each(|sm| fluid.start(sm, sm as u32, &work, Pace::Streams));
            fluid.due_at()
        };
        // Two of them move 20 bytes per ns.
        for (peak, expected) in [(1e9, 100.0), (20.0, 100.0), (10.0, 200.0), (5.0, 400.0)] {
            assert!((end(peak) - expected).abs() < 1e-3, "{} at {peak}", end(peak));
        }
    }

    #[test]
    fn the_fill_meets_the_limit_exactly_where_it_binds() {
        let local = [1.0, 0.5, 1.0, 0.25];
        let demands = [4.0, 4.0, 2.0, 8.0];
        let all = (demands.iter().sum(), 0.25);
        let of = |(local, demands): &([f64; 4], [f64; 4]), lane: usize| (local[lane], demands[lane]);
        let fill = |limit| super::fill(&[(local, demands)], limit, all, of);
        let phi = fill(6.0);
        let drawn: f64 = local.iter().zip(demands).map(|(l, d)| d * l.min(phi)).sum();
        assert!((drawn - 6.0).abs() < 1e-6, "{phi} draws {drawn}");
        assert!((fill(100.0) - 1.0).abs() < 1e-12);
    }
}
