//! What the memory system, a pair of kernels on one SM, and the power let a GPU do.

use crate::backend::sim::cost::CostModel;
use crate::hw::{Device, HybridLimits, at_power_limit};
use crate::pack::SubtreeLayout;
use crate::plan::{LaunchKind, LaunchPlan, Strategy};

/// Lean decode CTAs that an SM holds without prefill; beside it there is one.
const LEAN_CTAS: f64 = 2.0;

/// Limits in bytes per ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) hbm: f64,
    /// At which hits in L2 take time of HBM.
    pub(super) l2: f64,
    /// Of all bytes between L2 and the SMs.
    pub(super) l2_peak: f64,
    pub(super) sm: f64,
    /// How sharply demand meets that of HBM.
    pub(super) sharpness: i32,
    /// What a cold run has to share HBM with.
    pub(super) back: WriteBack,
    /// What is reached where prefill and decode share SMs, where that was measured.
    pub(super) pair: Option<PairLimits>,
    /// What the power leaves of the clock, where that was measured.
    pub(super) power: Option<PowerLimit>,
}

/// How prefill and reads slow the SMs' clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct PowerLimit {
    pub(super) limits: HybridLimits,
    /// How much of it shows in this run, of 1.
    pub(super) shown: f64,
    /// Part of the tensor cores that prefill keeps busy where the limits hold.
    pub(super) tensor: f64,
    /// Part of them that was busy where reads ran beside them.
    beside: f64,
}

impl PowerLimit {
    /// Where the device has its own prefill kernels, and its limits are known.
    fn of(device: &Device, plan: &LaunchPlan) -> Option<Self> {
        let (kernels, limits) = (device.prefill_kernel?, device.hybrid_limits?);
        let flop_per_pair = 4.0 * f64::from(plan.shape.head_dim) * f64::from(plan.shape.query_heads);
        let rate = kernels.full.efficiency * device.tensor_flops as f64 * 1e-9;
        let prefill_ns = plan.prefill.attended() as f64 * flop_per_pair / rate;
        let beside = limits.flops as f64 / device.tensor_flops as f64;
        Some(Self { limits, shown: at_power_limit(prefill_ns), tensor: kernels.full.efficiency, beside })
    }

    /// The clock over the highest, where prefill takes `tensor` of the tensor cores of `sms` SMs together, and HBM gives
    /// `dram` bytes per ns.
    pub(super) fn clock(&self, tensor: f64, sms: f64, dram: f64) -> f64 {
        let slowed = self.limits.clock_at_limit(tensor / (self.tensor * sms), dram);
        1.0 - self.shown * (1.0 - slowed)
    }

    /// What is left of the reads where prefill takes `tensor` of the tensor cores of `sms` SMs together, of 1.
    pub(super) fn reads(&self, tensor: f64, sms: f64) -> f64 {
        let taken = (tensor / (self.beside * sms)).min(1.0);
        1.0 - taken * (1.0 - self.limits.bytes_per_s as f64 / self.limits.bytes_per_s_alone as f64).max(0.0)
    }
}

/// What prefill and decode on one SM leave each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct PairLimits {
    /// Speed of decode there, over that of the same CTA with no prefill on its SM.
    pub(super) decode: f64,
    /// Fraction of the SM's tensor cores that prefill gets.
    pub(super) tensor: f64,
}

/// How sharply a memory goes over from giving what is asked for to giving what it can. Of 4, 6 and none, 6 fits 1,200 runs
/// of 99 random batches on an H200 best.
pub(super) const SHARPNESS: i32 = 6;
/// On the tall tile, whose ring is as long as an SM has memory for: there packs that compute for as long as HBM brings them
/// took as long as HBM, within 6 % (H100).
const TALL_SHARPNESS: i32 = 24;
/// Demand over the limit below which nothing is held up.
const LIGHT: f64 = 0.4;

/// What a memory of `limit` bytes per ns gives to those who would draw `demand` were it idle. As much as it can give takes
/// more than that to be asked for, since requests come unevenly: where 117 CTAs of long KV ask for 1.2 times what HBM has,
/// it stays 7 % below.
fn given(demand: f64, limit: f64, sharpness: i32) -> f64 {
    let load = demand / limit;
    if load < LIGHT {
        return demand;
    }
    demand / (1.0 + load.powi(sharpness)).powf(1.0 / f64::from(sharpness))
}

/// How much longer HBM takes for the part by which the fullest SM has more workers than the mean. SMs share it about alike, so
/// that those with more to read end later. Of requests of one length an H200 reads 8 to 11 % slower with 144 and 160 workers
/// on its 132 SMs than with 120 to 132, 5 to 9 % with 192, 3 % with 240 and 1 % with 256.
const UNEVEN: f64 = 0.14;

/// How unevenly the SMs share the KV of a plan: by what part the fullest has more workers than the mean, where they all read as
/// much. Nothing where the shortest, which begin last, read less than half of the mean.
fn unevenness(model: &CostModel<'_>, plan: &LaunchPlan) -> f64 {
    let [launch] = &plan.launches[..] else { return 0.0 };
    let sms = model.device.sm_count;
    let at_once = model.ctas_per_sm(launch.kind, model.runs_on(plan, launch)) * sms;
    let (mut workers, mut read, mut least) = (0, 0, u64::MAX);
    for pack in plan.packs_of(launch).iter().map(|pack| plan.pack(*pack)) {
        workers += plan.shape.kv_heads.div_ceil(pack.heads);
        read += pack.tokens.0 * u64::from(plan.shape.kv_heads);
        least = least.min(pack.tokens.0 * u64::from(pack.heads));
    }
    let decodes = matches!(launch.kind, LaunchKind::Attention(_) | LaunchKind::Persistent(_));
    if !decodes || workers <= sms || workers >= at_once {
        return 0.0;
    }
    let read_by_one = read as f64 / f64::from(workers);
    let mean = f64::from(workers) / f64::from(sms);
    (mean.ceil() / mean - 1.0) * (2.0 * least as f64 / read_by_one - 1.0).clamp(0.0, 1.0)
}

/// Load of HBM from which on nothing of it is idle.
const BUSY: f64 = 0.9;

/// How what L2 held before a cold run goes back to HBM.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteBack {
    /// Bytes with each byte that is read.
    pub(super) per_read: f64,
    /// Bytes per ns that an idle HBM takes back besides. The second kernel of a plan reads as if L2 had been clean, where the
    /// first one reads little; 0 on devices that are calibrated without.
    pub(super) idle: f64,
}

impl WriteBack {
    /// Where so large a part of what is read is marked.
    pub(super) fn of(device: &Device, hbm: f64, marked: f64) -> Self {
        let left = device.marked_reads.map_or(1.0, |marks| 1.0 - marked * (1.0 - marks.written_back));
        let idle = if device.sim.cold_dirty.is_some() { hbm } else { 0.0 };
        Self { per_read: device.sim.cold_write_back * left, idle }
    }

    /// Bytes of `dirty` that go back while `read` come.
    pub(super) fn by(&self, read: f64, dirty: f64) -> f64 {
        (read * self.per_read).min(dirty)
    }

    /// What is left for reads of `hbm` bytes per ns.
    pub(super) fn leaves(&self, hbm: f64) -> f64 {
        hbm / (1.0 + self.per_read)
    }

    /// Bytes per ns that go back while `read` of `hbm` come and `written` go.
    pub(super) fn rate(&self, hbm: f64, read: f64, written: f64) -> f64 {
        let back = read * self.per_read;
        let load = (read + written + back) / hbm;
        back + self.idle * (1.0 - load / BUSY).max(0.0)
    }
}

impl Limits {
    /// Those of a device in the run of a plan of which so large a part of the KV is marked.
    pub(super) fn of(model: &CostModel<'_>, plan: &LaunchPlan, marked: f64) -> Self {
        let device = model.device;
        // The rates are those of the pair of kernels that share SMs; where decodes alone do, nothing of them holds.
        let kernels = device.prefill_kernel.filter(|_| plan.strategy == Strategy::CoResident);
        let even = device.reachable_bytes_per_s() * device.sim.tile_read_efficiency * 1e-9;
        let hbm = even / (1.0 + UNEVEN * unevenness(model, plan));
        // No others stand beside them.
        let tall = plan.packs.first().is_some_and(|pack| pack.tile == SubtreeLayout::TALL);
        Self {
            hbm,
            sharpness: if tall { TALL_SHARPNESS } else { SHARPNESS },
            back: WriteBack::of(device, hbm, marked),
            l2: device.sim.l2_bytes_per_s as f64 * 1e-9,
            l2_peak: device.l2_peak() * 1e-9,
            sm: device.sim.sm_bytes_per_s as f64 * 1e-9,
            pair: kernels.and_then(|kernels| kernels.pair).map(|both| PairLimits {
                decode: LEAN_CTAS * both.read_beside_per_sm as f64 / both.read_alone_per_sm as f64,
                tensor: both.tensor_flops_per_sm as f64 * f64::from(device.sm_count) / device.tensor_flops as f64,
            }),
            power: PowerLimit::of(device, plan),
        }
    }

    /// What HBM gives of `demand` bytes per ns where it has `hbm`.
    pub(super) fn given(&self, demand: f64, hbm: f64) -> f64 {
        given(demand, hbm, self.sharpness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_back_to_hbm_leaves_reads_their_share_and_takes_what_is_idle() {
        const HBM: f64 = 3_000.0;
        for idle in [0.0, HBM] {
            let back = WriteBack { per_read: 0.25, idle };
            assert!((back.rate(HBM, 0.0, 0.0) - idle).abs() < 1e-9, "an idle HBM takes {idle}");
            // Reads that get all that is left wait for what goes back with them, and nothing more does.
            let most = back.leaves(HBM);
            assert!((back.rate(HBM, most, 0.0) - 0.25 * most).abs() < 1e-9);
            for step in 0..=100 {
                let read = most * f64::from(step) / 100.0;
                let all = read + back.rate(HBM, read, 0.0);
                assert!(all <= HBM * (1.0 + 1e-12), "{all} of {HBM} at {read}");
            }
        }
    }

    #[test]
    fn a_memory_gives_more_the_more_is_asked_for_and_never_more_than_it_has() {
        const LIMIT: f64 = 4_600.0;
        let mut before = 0.0;
        for step in 1..=1_000 {
            let demand = LIMIT * f64::from(step) / 100.0;
            let now = given(demand, LIMIT, SHARPNESS);
            assert!(now > before && now <= demand.min(LIMIT), "{now} of {demand} after {before}");
            before = now;
        }
        assert!(before > 0.999 * LIMIT, "ten times the limit gives {before}");
        // Light loads are served whole, and what follows them begins there.
        let light = LIGHT * LIMIT;
        assert!((given(light, LIMIT, SHARPNESS) / light - 1.0).abs() < 1e-3);
        // At the limit, where a hard one would give all.
        let at_limit = given(LIMIT, LIMIT, SHARPNESS) / LIMIT;
        assert!((at_limit - 0.5_f64.powf(1.0 / 6.0)).abs() < 1e-12, "{at_limit}");
    }
}
