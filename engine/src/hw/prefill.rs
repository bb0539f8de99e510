//! The kernels that put prefill beside decode, as a device file describes them.
//!
//! ```text
//! full     alone on its SM: serial, streams, spatial, batched
//! slim     one CTA per SM that leaves room for a lean decode CTA: co-resident
//! either   two CTAs per SM, each of which computes prefill or decode: fused, cta-parallel
//! both     one CTA per SM with warps for prefill and others for decode: hfuse
//! ```
//!
//! Worked number, the full kernel of the H200 at d 128: a step of 128×128 takes 4·128·128·128 = 8.39 MFLOP,
//! 1.45 µs at 0.771 of 989 TFLOP/s over 132 SMs, and 0.08 µs more in blocks of 32 tokens, which are three copies more. Twelve thousand tokens in front of 128 rows are 96 steps
//! and 2.5 µs for the item's beginning and end, 150 µs.

use serde::{Deserialize, Serialize};

use crate::hw::{Device, KernelResources};
use crate::units::{Bytes, Nanos};
use crate::workload::AttentionShape;

/// The prefill kernels of a device, and the decode kernel that fits beside one of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefillKernels {
    /// The kernel that has its SM to itself.
    pub full: PrefillResources,
    /// The kernel that leaves room for lean decode.
    pub slim: PrefillResources,
    /// The kernel whose CTAs compute prefill or decode; without it those strategies have the shapes of others' kernels.
    #[serde(default)]
    pub either: Option<PrefillResources>,
    /// The kernel whose CTAs compute both.
    #[serde(default)]
    pub both: Option<PrefillResources>,
    /// The decode kernel that fits beside the slim one, and the decode half of those two.
    pub lean_decode: KernelResources,
    /// What the slim kernel and lean decode reach at once on the same SMs.
    #[serde(default, alias = "co_run")]
    pub pair: Option<PairRates>,
}

/// Tokens of the least block that comes by bulk copies.
const BULK_BLOCK: u32 = 8;

/// One prefill kernel: a persistent grid, whose CTAs take (task, query head) items.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefillResources {
    /// Query rows of the tile.
    pub m: u32,
    /// KV tokens of the tile.
    pub n: u32,
    /// Warps of the CTA.
    pub warps: u32,
    /// Registers of one thread at entry.
    pub registers: u32,
    /// Dynamic shared memory of the CTA.
    pub shared: Bytes,
    /// Bytes that a CTA keeps outstanding.
    pub in_flight: Bytes,
    /// Tensor rate that its main loop reaches at head dimension 128, softmax included, as a fraction of the data sheet's.
    pub efficiency: f64,
    /// Likewise at head dimension 64, where half the products have as many exponentials beside them.
    pub efficiency_d64: f64,
    /// What a step at head dimension 128 takes more for each copy of K and V beyond the fewest: a tile comes in as many as
    /// it has KV blocks.
    #[serde(default)]
    pub copy: Nanos,
    /// What it takes more where K and V come token by token, as in blocks of fewer than 8 tokens; at other head dimensions
    /// by as much as a token is longer. Without it as many copies as in blocks of 8.
    #[serde(default)]
    pub by_token: Option<Nanos>,
    /// From the last tile of one item to the first of the next.
    pub item: Nanos,
}

/// What slim prefill and lean decode reach at once, per SM. Where both are, tensor instructions of prefill come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairRates {
    /// Useful products of prefill with decode beside it, FLOP per second.
    pub tensor_flops_per_sm: u64,
    /// What decode reads beside prefill, bytes per second.
    pub read_beside_per_sm: u64,
    /// What decode reads on an SM without prefill, bytes per second.
    pub read_alone_per_sm: u64,
}

impl PairRates {
    /// Bytes per second that decode reads where it shares so many SMs with prefill and has so many for itself.
    pub fn read_bytes_per_s(&self, shared: f64, alone: f64) -> f64 {
        self.read_beside_per_sm as f64 * shared + self.read_alone_per_sm as f64 * alone
    }
}

/// What [`PrefillResources::item`] is where no tile has a mask: 27,544 packs of 124 tokens over a head, which are a step of
/// 1.45 µs each, took an SM of an H200 2.65 µs apiece.
const ITEM_WITHOUT_MASK: Nanos = Nanos(1200);

impl PrefillResources {
    /// From the last tile of a decode pack to the first of the next.
    pub fn item_of_pack(&self) -> Nanos {
        self.item.min(ITEM_WITHOUT_MASK)
    }

    /// Time of one step of `n` KV tokens on an SM of its own, ns.
    pub fn step_ns(&self, device: &Device, shape: &AttentionShape) -> f64 {
        let flop = 4.0 * f64::from(self.m) * f64::from(self.n) * f64::from(shape.head_dim);
        let narrow = shape.head_dim <= 64;
        let efficiency = if narrow { self.efficiency_d64 } else { self.efficiency };
        let of_sm = device.tensor_flops as f64 * efficiency * 1e-9 / f64::from(device.sm_count);
        // The exponential units of an SM run beside its tensor cores.
        let exponentials = f64::from(self.m * self.n) / (device.sim.exp_per_sm_per_s as f64 * 1e-9);
        (flop / of_sm).max(exponentials) + self.copies_ns(shape)
    }

    /// What a step takes more for how K and V come, ns.
    fn copies_ns(&self, shape: &AttentionShape) -> f64 {
        match self.by_token.filter(|_| shape.block_size < BULK_BLOCK) {
            Some(time) => time.as_f64() * f64::from(shape.head_dim) / 128.0,
            None if shape.head_dim <= 64 => 0.0,
            None => f64::from(self.more_copies(shape.block_size)) * self.copy.as_f64(),
        }
    }

    /// Copies of a K tile beyond the fewest that it can come in: each takes the largest power of two of tokens that
    /// divides both the tile and the block. Smaller blocks than 8 tokens come token by token, 16 bytes a lane, which
    /// takes the full kernel as long as copies of 8 tokens: 2,048 rows at 4,096 tokens of 32/8 heads 207 µs in blocks of 1 and
    /// 211 of 8, where it is 181 of 16 (H200).
    fn more_copies(&self, block_size: u32) -> u32 {
        let most = 1 << self.n.trailing_zeros();
        self.n / block_size.clamp(BULK_BLOCK, most) - self.n / most
    }

    /// Time of one item that reads `tokens` KV tokens, ns.
    pub fn item_ns(&self, device: &Device, shape: &AttentionShape, tokens: u64) -> f64 {
        tokens.div_ceil(u64::from(self.n)) as f64 * self.step_ns(device, shape) + self.item.as_f64()
    }
}

impl Device {
    /// Tensor rate of the fastest prefill kernel, as a fraction of the data sheet's.
    pub fn best_prefill_efficiency(&self) -> f64 {
        self.prefill_kernel.map_or(self.sim.prefill_efficiency, |kernels| {
            kernels.full.efficiency.max(kernels.slim.efficiency).max(self.sim.prefill_efficiency)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::hw;
    use crate::workload::AttentionShape;

    #[test]
    fn the_worked_number_holds() {
        let device = hw::find("h200-sxm").unwrap();
        let full = device.prefill_kernel.unwrap().full;
        let shape = AttentionShape { block_size: 32, ..AttentionShape::default() };
        assert!((full.step_ns(device, &shape) - 1536.0).abs() < 2.0, "{}", full.step_ns(device, &shape));
        let item = full.item_ns(device, &shape, 12_288);
        assert!((item - 149_950.0).abs() < 500.0, "{item}");
    }
}
