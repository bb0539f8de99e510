//! The least that a plan can take: what its CTAs need of the SMs and of the memory, without their order.
//!
//! ```text
//! a launch   max(Σ CTAs' time alone / CTAs that run at once, Σ bytes / HBM, Σ bytes / ports, Σ tensor time / SMs, longest CTA)
//! a plan     max(the longest chain of launches that wait for each other, the same sums over all launches)
//! ```
//!
//! While what L2 held before goes back to HBM, that gives the less to reads, so the bytes of the whole plan have that on top.

use crate::backend::sim::estimate::Pricing;
use crate::backend::sim::estimate::kinds::Kind;
use crate::backend::sim::limits::{Limits, WriteBack};
use crate::backend::sim::run::order::{gap_before, launch_time, predecessors};
use crate::hw::Device;
use crate::plan::Strategy;
use crate::units::{Bytes, Nanos};

/// Sums over CTAs, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Of the whole GPU's places.
    places: f64,
    hbm: f64,
    /// Of all SMs' ports and tensor cores.
    ports: f64,
    tensor: f64,
    /// Bytes read from HBM.
    read: f64,
    longest: f64,
}

impl Sums {
    fn add(&mut self, kind: &Kind, share: f64, limits: &Limits, sms: f64) {
        self.places += kind.ctas * share * kind.alone();
        self.hbm += kind.ctas * kind.fabric / limits.hbm;
        self.ports += kind.ctas * kind.moved / (sms * limits.sm);
        self.tensor += kind.ctas * kind.tensor / sms;
        self.read += kind.ctas * kind.read;
        self.longest = self.longest.max(kind.alone());
    }

    /// Of the memory alone.
    fn memory(&self) -> f64 {
        self.hbm.max(self.ports)
    }

    fn time(&self) -> f64 {
        [self.places, self.hbm, self.ports, self.tensor, self.longest].into_iter().fold(0.0, f64::max)
    }
}

/// Times that a plan does not fall short of, whatever the order of its queue.
#[derive(Clone, Copy, Debug)]
pub struct Least {
    /// Under its own strategy.
    pub time: Nanos,
    /// Of the same packs under other strategies too. One kernel for all writes the fewest bytes, but others may have more
    /// CTAs on an SM; kernels in a row and kernels on streams have the same CTAs.
    pub of_others: Nanos,
}

impl Pricing<'_> {
    /// Times that [`Pricing::time`] does not fall short of.
    pub fn least(&self) -> Least {
        let (plan, device) = (self.plan, self.model.device);
        let sms = f64::from(device.sm_count);
        let mut all = Sums::default();
        let mut launches = vec![Sums::default(); plan.launches.len()];
        for kind in &self.kinds.all {
            let launch = kind.launch as usize;
            let share = self.kinds.orders[launch].share;
            launches[launch].add(kind, share, &self.kinds.limits, sms);
            all.add(kind, share, &self.kinds.limits, sms);
        }
        let mut ends: Vec<f64> = Vec::with_capacity(launches.len());
        for (at, launch) in launches.iter().enumerate() {
            let before = predecessors(plan, at);
            let last = before.iter().map(|(other, _)| ends[*other as usize]).fold(0.0, f64::max);
            let gap = if before.is_empty() { 0.0 } else { gap_before(plan, device, at, &before) };
            let ready = (last + gap).max(launch_time(plan, device, at)) + self.kinds.orders[at].lead;
            ends.push(ready + launch.time());
        }
        all.hbm += self.kinds.limits.back.by(all.read, device.dirty_bytes()) / self.kinds.limits.hbm;
        let launched = |time: f64| device.sim.launch_latency.as_f64() + time;
        let of_others = if plan.strategy == Strategy::Fused { all.memory() } else { all.time() };
        Least {
            time: Nanos(ends.into_iter().fold(launched(all.time()), f64::max) as u64),
            of_others: Nanos(launched(of_others) as u64),
        }
    }
}

/// The least time in which a device reads `unique` bytes from HBM and all others of `read` from L2, and writes `written`,
/// with the launch: a bound for packs that have no tiles yet.
pub fn least_of_reading(device: &Device, unique: Bytes, read: Bytes, written: Bytes) -> Nanos {
    let hbm = device.reachable_bytes_per_s() * device.sim.tile_read_efficiency * 1e-9;
    let (unique, again) = (unique.as_f64(), read.as_f64() - unique.as_f64());
    let all_marked = WriteBack::of(device, hbm, 1.0);
    let from_hbm = unique + written.as_f64() + all_marked.by(unique, device.dirty_bytes());
    let time = from_hbm / hbm + again.max(0.0) / (device.sim.l2_bytes_per_s as f64 * 1e-9);
    Nanos((device.sim.launch_latency.as_f64() + time) as u64)
}
