//! What a tile makes of a pack's time, for telling shapes apart: a full SM, every CTA alike.

use crate::hw::Device;
use crate::tile::{Tile, occupancy};
use crate::units::Tokens;
use crate::workload::Dtype;

/// Warps that keep the tensor cores of an SM busy: one on each of its four quarters.
pub const WARPS_FOR_FULL_TENSOR_RATE: f64 = 4.0;
/// Bytes that a CTA of the merge kernel keeps outstanding: 16 bytes a thread, four loads deep.
pub const MERGE_IN_FLIGHT: f64 = 128.0 * 16.0 * 4.0;

/// Time in which one CTA reads `tokens` of one KV head while its SM is full of its kind, ns.
///
/// By Little's law a CTA with one K or V tile outstanding draws `n·d·b` bytes a latency, and no more
/// than its share of the SM's share of HBM. Worked number, (64, 128) on the H200 at d 128 in f16: two
/// CTAs an SM share 4.8 TB/s / 132 = 36.4 GB/s (before efficiency), so 4,096 tokens of 512 B take 115 µs.
pub fn pack_time(device: &Device, tile: Tile, head_dim: u32, dtype: Dtype, tokens: Tokens) -> f64 {
    let row = f64::from(head_dim) * dtype.bytes() as f64;
    let ctas = f64::from(occupancy(device, tile, head_dim, dtype).max(1));
    let by_latency = f64::from(tile.n) * row / device.loaded_latency.as_f64().max(1.0);
    let by_share = device.reachable_bytes_per_s() * 1e-9 / f64::from(device.sm_count) / ctas;
    let steps = tokens.0.div_ceil(u64::from(tile.n)) as f64;
    let memory = 2.0 * row * tokens.as_f64() / by_latency.min(by_share);
    memory.max(steps * device.sim.tile_step.as_f64()).max(device.loaded_latency.as_f64())
}
