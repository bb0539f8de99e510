//! Shared bandwidth as a fluid, over time that each SM lives through at its own speed.
//!
//! By Little's law a loaded memory system stretches every latency alike, so all CTAs slow down by
//! one factor. Each SM has a clock that runs at `speed ≤ 1`; a main loop is a stretch of that clock.
//!
//! ```text
//! speed of an SM = min(1, SM bandwidth / its demand, tensor rate / its demand, φ)
//! φ: the largest at which all SMs together draw no more than HBM and L2 give
//! ```

/// Demands of the main loops resident on one SM, at full speed.
#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    /// Bytes per ns read from HBM.
    dram_read: f64,
    /// Bytes per ns written to HBM.
    dram_write: f64,
    /// Bytes per ns between the SM and L2.
    moved: f64,
    /// Fraction of the SM's tensor cores.
    tensor: f64,
}

/// Limits in bytes per ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) hbm: f64,
    pub(super) l2: f64,
    pub(super) sm: f64,
}

/// A main loop on an SM.
#[derive(Clone, Copy, Debug)]
struct Running {
    /// The SM's clock at which it is done.
    done: f64,
    cta: u32,
    demand: Demand,
}

/// What the memory system carries, bytes per ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    pub(super) dram_read: f64,
    pub(super) dram_write: f64,
    pub(super) moved: f64,
}

/// All SMs.
#[derive(Debug)]
pub(super) struct Fluid {
    limits: Limits,
    demands: Vec<Demand>,
    running: Vec<Vec<Running>>,
    clocks: Vec<f64>,
    /// Speed that an SM could have on its own.
    local: Vec<f64>,
    speeds: Vec<f64>,
    /// The SM's clock at its next completion.
    next: Vec<f64>,
    stale: bool,
    phi: f64,
}

impl Fluid {
    pub(super) fn new(sms: usize, limits: Limits) -> Self {
        Self {
            limits,
            demands: vec![Demand::default(); sms],
            running: vec![Vec::new(); sms],
            clocks: vec![0.0; sms],
            local: vec![1.0; sms],
            speeds: vec![1.0; sms],
            next: vec![f64::INFINITY; sms],
            stale: false,
            phi: 1.0,
        }
    }

    /// Starts the main loop of `cta`.
    pub(super) fn start(&mut self, sm: usize, cta: u32, work: &super::cost::MainLoop) {
        let time = work.time.max(1e-3);
        let entry = Running {
            done: self.clocks[sm] + time,
            cta,
            demand: Demand {
                dram_read: work.dram_read / time,
                dram_write: work.dram_write / time,
                moved: work.moved / time,
                tensor: work.tensor / time,
            },
        };
        self.running[sm].push(entry);
        self.refresh(sm);
    }

    /// Takes the main loops that are done on `sm` by its clock.
    pub(super) fn finish(&mut self, sm: usize, done: &mut Vec<u32>) {
        let clock = self.clocks[sm] + 1e-6;
        self.running[sm].retain(|entry| {
            let over = entry.done <= clock;
            if over {
                done.push(entry.cta);
            }
            !over
        });
        self.refresh(sm);
    }

    fn refresh(&mut self, sm: usize) {
        let mut demand = Demand::default();
        let mut next = f64::INFINITY;
        for entry in &self.running[sm] {
            demand.dram_read += entry.demand.dram_read;
            demand.dram_write += entry.demand.dram_write;
            demand.moved += entry.demand.moved;
            demand.tensor += entry.demand.tensor;
            next = next.min(entry.done);
        }
        let by_sm = if demand.moved > self.limits.sm { self.limits.sm / demand.moved } else { 1.0 };
        let by_tensor = if demand.tensor > 1.0 { 1.0 / demand.tensor } else { 1.0 };
        self.local[sm] = by_sm.min(by_tensor);
        self.demands[sm] = demand;
        self.next[sm] = next;
        self.stale = true;
    }

    /// Finds φ and the speeds again after demands have changed.
    fn solve(&mut self) {
        if !self.stale {
            return;
        }
        self.stale = false;
        let by_hbm = fill(&self.local, self.demands.iter().map(|d| d.dram_read + d.dram_write), self.limits.hbm);
        let by_l2 = fill(&self.local, self.demands.iter().map(|d| d.moved), self.limits.l2);
        self.phi = by_hbm.min(by_l2);
        for (speed, local) in self.speeds.iter_mut().zip(&self.local) {
            *speed = local.min(self.phi);
        }
    }

    /// Time until the next main loop is done, and what the memory system carries until then.
    pub(super) fn outlook(&mut self) -> (f64, Rates) {
        self.solve();
        let mut wait = f64::INFINITY;
        let mut rates = Rates::default();
        for sm in 0..self.clocks.len() {
            let (demand, speed) = (&self.demands[sm], self.speeds[sm]);
            wait = wait.min((self.next[sm] - self.clocks[sm]) / speed);
            rates.dram_read += demand.dram_read * speed;
            rates.dram_write += demand.dram_write * speed;
            rates.moved += demand.moved * speed;
        }
        (wait.max(0.0), rates)
    }

    /// Lets `time` ns go by.
    pub(super) fn advance(&mut self, time: f64) {
        for (clock, speed) in self.clocks.iter_mut().zip(&self.speeds) {
            *clock += time * speed;
        }
    }

    /// SMs on which a main loop is done now.
    pub(super) fn due(&self, due: &mut Vec<usize>) {
        due.clear();
        due.extend((0..self.clocks.len()).filter(|sm| self.next[*sm] <= self.clocks[*sm] + 1e-6));
    }
}

/// The largest φ ≤ 1 with Σ demand · min(local, φ) ≤ limit. The sum is concave and rises with φ, so
/// Newton's steps from below never pass it and end after as many kinks as lie between.
fn fill(local: &[f64], demands: impl Iterator<Item = f64> + Clone, limit: f64) -> f64 {
    let mut phi = 0.0_f64;
    for _ in 0..64 {
        let (mut sum, mut slope) = (0.0, 0.0);
        for (local, demand) in local.iter().zip(demands.clone()) {
            sum += demand * local.min(phi);
            if *local > phi {
                slope += demand;
            }
        }
        let room = limit - sum;
        if slope <= 0.0 || room > slope * (1.0 - phi) {
            return 1.0;
        }
        if room <= limit * 1e-9 {
            break;
        }
        phi += room / slope;
    }
    phi.max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fill_meets_the_limit_exactly_where_it_binds() {
        let local = [1.0, 0.5, 1.0, 0.25];
        let demands = [4.0, 4.0, 2.0, 8.0];
        let phi = fill(&local, demands.into_iter(), 6.0);
        let drawn: f64 = local.iter().zip(demands).map(|(l, d)| d * l.min(phi)).sum();
        assert!((drawn - 6.0).abs() < 1e-6, "{phi} draws {drawn}");
        assert!((fill(&local, demands.into_iter(), 100.0) - 1.0).abs() < 1e-12);
    }
}
