//! What a pack takes a CTA of its tile, by a closed form: for comparing packs, cuts and orders while planning.
//!
//! ```text
//! begin ── first tile landed ── main loop ── end        begin + max(step, token · tokens) + end
//! ```
//!
//! A token takes what a traced step of the kernel takes by itself, or what the device table makes of its bytes
//! in flight, of its tensor work and of the least time of a step where nobody traced it; on a full SM no less than its share
//! of port, tensor cores and steps.
//!
//! Worked number, H200 at 32/8: 2,048 tokens in tiles of 64×64 are 32 steps of 1.28 µs, so a CTA takes
//! 1.15 + 41 + 1.5 = 43.6 µs; two were traced at once on each SM at 44.0. A leaf of 32 tokens takes 1.15 + 1.6 + 1.5 = 4.3 µs
//! for four of its KV heads.

use crate::hw::Device;
use crate::tile::{MERGE_IN_FLIGHT, Tile, WARPS_FOR_FULL_TENSOR_RATE, kernel, occupancy};
use crate::units::Nanos;
use crate::workload::AttentionShape;

/// Times of the CTAs of one tile, ns; `alone` and `shared` are those of one KV token.
#[derive(Clone, Copy, Debug)]
pub struct LaneTime {
    /// KV heads of a CTA.
    pub heads: u32,
    /// CTAs that an SM holds.
    pub per_sm: f64,
    /// Until its first tile has landed, and after its last.
    pub fixed: f64,
    /// The least that its main loop takes.
    least: f64,
    /// By itself: with its bytes in flight, or with its warps on the tensor cores.
    alone: f64,
    /// Through the port of the SM and through its tensor cores, whichever is longer: CTAs of an SM share them.
    shared: f64,
}

impl LaneTime {
    /// Of a tile on a device.
    pub fn of(device: &Device, tile: Tile, shape: &AttentionShape) -> Self {
        let kernel = kernel(device, tile, shape.head_dim, shape.dtype);
        let bytes = shape.kv_bytes_per_token_head().as_f64() * f64::from(kernel.heads);
        let flop = 4.0 * f64::from(tile.m * shape.head_dim * kernel.heads);
        let of_sm = device.tensor_flops as f64 * device.sim.tensor_efficiency * 1e-9 / f64::from(device.sm_count);
        let tensor = flop / of_sm;
        let warps = f64::from(tile.m.div_ceil(16) * kernel.heads).min(WARPS_FOR_FULL_TENSOR_RATE);
        let compute = tensor * WARPS_FOR_FULL_TENSOR_RATE / warps + device.sim.tile_step.as_f64() / f64::from(tile.n);
        let latency = device.tile_latency((shape.head_bytes() * u64::from(tile.n * kernel.heads)).as_f64());
        let flight = bytes * latency / kernel.in_flight.as_f64();
        let port = bytes / (device.sim.sm_bytes_per_s as f64 * 1e-9);
        let of_token = |step: Option<Nanos>| step.map_or(0.0, Nanos::as_f64) / f64::from(tile.n);
        let modelled = flight.max(compute).max(of_token(kernel.chain));
        let sim = &device.sim;
        Self {
            heads: kernel.heads,
            per_sm: f64::from(occupancy(device, tile, shape.head_dim, shape.dtype).max(1)),
            fixed: device.worker.map_or_else(
                || (sim.cta_prologue + sim.cta_epilogue).as_f64(),
                |worker| (worker.begin + worker.end).as_f64(),
            ),
            least: kernel.step.map_or(latency, Nanos::as_f64),
            alone: kernel.step.map_or(modelled, |step| step.as_f64() / f64::from(tile.n)),
            shared: if kernel.step.is_some() { tensor } else { port.max(tensor).max(of_token(kernel.sm_step)) },
        }
    }

    /// One KV token of a CTA that shares its SM with `ctas` CTAs in all.
    pub fn token(&self, ctas: f64) -> f64 {
        self.alone.max(self.shared * ctas)
    }

    /// A CTA that reads `tokens` KV tokens and shares its SM with `ctas` CTAs in all.
    pub fn cta(&self, tokens: f64, ctas: f64) -> f64 {
        self.fixed + (self.token(ctas) * tokens).max(self.least)
    }

    /// Time in which the last CTA to arrive reads and merges `bytes` of partials.
    pub fn merge(device: &Device, bytes: f64) -> f64 {
        match device.worker {
            Some(worker) => bytes / (worker.merge_bytes_per_s as f64 * 1e-9),
            None => (bytes / MERGE_IN_FLIGHT).ceil() * device.sim.l2_latency.as_f64(),
        }
    }
}
