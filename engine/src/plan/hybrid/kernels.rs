//! FlashAttention's and POD's kernels that compute prefill: tiles, warps and shared memory of a CTA. Packscope's
//! own stand in the device table (`hw::PrefillKernels`), and take the place of those that they compute the same as.
//!
//! | kernel | prefill tile, warps | decode tile, warps | decodes a CTA | shared memory at d 128 |
//! |---|---|---|---|---|
//! | FlashAttention prefill | 128×64, 4 | – | – | 64 KiB |
//! | the same, KV split | 64×128, 4 | – | – | 80 KiB |
//! | CTA-parallel, of FlashAttention's | either, 4 | 64×128, 4 | 1 | the larger |
//! | HFuse, of FlashAttention's | either, 4 | 64×128, 4 | 1, beside the prefill | the sum |
//! | POD, 2 CTAs an SM | 128×64, 4 | 16×32, 1 | 4 | 80 KiB |
//! | POD, 4 CTAs an SM | 64×32, 2 | 16×32, 1 | 2 | 40 KiB |
//! | POD, the side that is split | 64×128, 4 | 64×128, 4 | 1 | 80 KiB |
//!
//! POD's decode tile has 16 rows, the least that the tensor cores take, so that padded rows take
//! little of them from prefill (section 4.2.1); as it needs a quarter of the shared memory, a CTA
//! hosts several virtual decode CTAs of one warp each (4.2.3). A thread may have as many registers as
//! the device allows: 255 of 128 threads are 32,640, twice into the 65,536 of an SM.

use crate::hw::Device;
use crate::plan::Strategy;
use crate::plan::hybrid::own;
use crate::tile::{self, CtaShape, Tile};
use crate::units::Bytes;
use crate::workload::AttentionShape;

/// FlashAttention's prefill tile, and with its KV split.
const PREFILL: Tile = Tile { m: 128, n: 64 };
const PREFILL_SPLIT: Tile = Tile { m: 64, n: 128 };
/// FlashAttention's decode tile.
const DECODE: Tile = Tile { m: 64, n: 128 };
/// POD's decode tile.
pub(super) const LEAN: Tile = Tile { m: 16, n: 32 };
/// POD's prefill tile at four CTAs an SM.
const PREFILL_SMALL: Tile = Tile { m: 64, n: 32 };
/// Warps of FlashAttention's kernels.
const WARPS: u32 = 4;

/// One hybrid kernel, or the prefill kernel alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kernel {
    pub(super) prefill_tile: Tile,
    pub(super) prefill_warps: u32,
    pub(super) decode_tile: Tile,
    /// KV heads of a pack that a decode CTA computes side by side.
    pub(super) decode_heads: u32,
    pub(super) decodes_per_cta: u32,
    pub(super) cta: CtaShape,
    /// How the CTAs of prefill alone get their work.
    pub(super) grid: Grid,
}

/// How CTAs of prefill alone get their work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grid {
    /// Each has a task for a query head.
    Each,
    /// They stay on their SMs and take such items from a queue.
    Queue,
    /// The same, of items that have the query heads of a KV head as rows.
    FoldedQueue,
}

/// What a CTA must have room for.
struct Parts<'a> {
    device: &'a Device,
    shape: &'a AttentionShape,
}

impl Parts<'_> {
    fn shared(&self, tile: Tile) -> Bytes {
        tile::one_buffer_bytes(tile, self.shape.head_dim, self.shape.dtype)
    }

    fn cta(&self, warps: u32, shared: Bytes) -> CtaShape {
        CtaShape { warps, registers: self.device.registers_per_thread, shared }
    }
}

fn flash_tile(split: bool) -> Tile {
    if split { PREFILL_SPLIT } else { PREFILL }
}

/// FlashAttention's prefill kernel.
pub(super) fn prefill(device: &Device, shape: &AttentionShape, split: bool) -> Kernel {
    let (parts, tile) = (Parts { device, shape }, flash_tile(split));
    Kernel {
        prefill_tile: tile,
        prefill_warps: WARPS,
        decode_tile: DECODE,
        decode_heads: 1,
        decodes_per_cta: 1,
        cta: parts.cta(WARPS, parts.shared(tile)),
        grid: Grid::Each,
    }
}

/// Packscope's own kernel whose CTAs compute prefill or decode, or both, where it is compiled for the device.
fn own(device: &Device, shape: &AttentionShape, strategy: Strategy) -> Option<Kernel> {
    let kernels = device.prefill_kernel.as_ref()?;
    let prefill = if strategy == Strategy::HFuse { kernels.both } else { kernels.either }?;
    let decode_tile = own::beside_tile(kernels, shape.group());
    let together = if decode_tile.m == kernels.lean_decode.m { kernels.lean_decode.heads } else { 1 };
    // A CTA takes heads of one pack.
    let heads = (1..=together).rev().find(|heads| shape.kv_heads.is_multiple_of(*heads)).unwrap_or(1);
    Some(Kernel {
        prefill_tile: prefill.tile(),
        prefill_warps: prefill.m / 16,
        decode_tile,
        decode_heads: 1,
        decodes_per_cta: heads,
        cta: prefill.cta(),
        grid: Grid::Each,
    })
}

/// Whether a strategy that puts prefill and decode into one launch is made of packscope's own kernel.
pub(super) fn is_own(device: &Device, shape: &AttentionShape, strategy: Strategy) -> bool {
    own(device, shape, strategy).is_some()
}

/// FlashAttention's two kernels as CTAs of one launch, or our own kernel.
pub(super) fn cta_parallel(device: &Device, shape: &AttentionShape, split: bool) -> Kernel {
    if let Some(own) = own(device, shape, Strategy::CtaParallel) {
        return own;
    }
    let parts = Parts { device, shape };
    let alone = prefill(device, shape, split);
    Kernel { cta: parts.cta(WARPS, alone.cta.shared.max(parts.shared(DECODE))), ..alone }
}

/// FlashAttention's two kernels as warps of one CTA: threads and shared memory add up. Or our own kernel.
pub(super) fn hfuse(device: &Device, shape: &AttentionShape, split: bool) -> Kernel {
    if let Some(own) = own(device, shape, Strategy::HFuse) {
        return own;
    }
    let parts = Parts { device, shape };
    let alone = prefill(device, shape, split);
    Kernel { cta: parts.cta(2 * WARPS, alone.cta.shared + parts.shared(DECODE)), ..alone }
}

/// POD's kernel at two or four CTAs an SM; a side that is split has FlashAttention's split tile. At two CTAs an SM our
/// own kernel, which has one tile.
pub(super) fn pod(device: &Device, shape: &AttentionShape, four: bool, split: (bool, bool)) -> Kernel {
    if let Some(own) = own(device, shape, Strategy::Fused).filter(|_| !four) {
        return own;
    }
    let parts = Parts { device, shape };
    let (small, warps) = if four { (PREFILL_SMALL, 2) } else { (PREFILL, WARPS) };
    let (prefill_split, decode_split) = split;
    let warps = if prefill_split || decode_split { WARPS } else { warps };
    let prefill_tile = if prefill_split { PREFILL_SPLIT } else { small };
    let (decode_tile, decodes_per_cta) = if decode_split { (DECODE, 1) } else { (LEAN, warps) };
    let decode = parts.shared(decode_tile) * u64::from(decodes_per_cta);
    let cta = parts.cta(warps, parts.shared(prefill_tile).max(decode));
    Kernel { prefill_tile, prefill_warps: warps, decode_tile, decode_heads: 1, decodes_per_cta, cta, grid: Grid::Each }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw;

    #[test]
    fn kernels_fit_as_often_as_pod_says() {
        let shape = AttentionShape::default();
        for key in ["a100-sxm-80gb", "h200-sxm"] {
            let device = &Device { prefill_kernel: None, ..hw::find(key).unwrap().clone() };
            let at = |kernel: Kernel| (kernel.cta.shared.0 >> 10, tile::resident(device, &kernel.cta));
            assert_eq!(at(pod(device, &shape, false, (false, false))), (80, 2), "{key}");
            assert_eq!(at(pod(device, &shape, true, (false, false))), (40, 4), "{key}");
            assert_eq!(at(pod(device, &shape, false, (false, true))), (80, 2), "{key}");
            assert_eq!(at(prefill(device, &shape, false)), (64, 2), "{key}");
            assert_eq!(at(hfuse(device, &shape, false)), (144, 1), "{key}");
        }
    }

    #[test]
    fn our_own_kernels_take_the_place_of_pods_at_two_ctas_per_sm() {
        let (device, shape) = (hw::find("h200-sxm").unwrap(), AttentionShape::default());
        let own = |kernel: Kernel| (kernel.prefill_tile.m, tile::resident(device, &kernel.cta), kernel.decodes_per_cta);
        for split in [false, true] {
            assert_eq!(own(pod(device, &shape, false, (split, split))), (64, 2, 4));
            assert_eq!(own(cta_parallel(device, &shape, split)), (64, 2, 4));
            assert_eq!(own(hfuse(device, &shape, split)), (128, 1, 4));
        }
        assert_eq!(pod(device, &shape, true, (false, false)).prefill_tile, PREFILL_SMALL, "ours has two");
        let odd = AttentionShape { query_heads: 30, kv_heads: 6, ..shape };
        assert_eq!(cta_parallel(device, &odd, false).decodes_per_cta, 3, "heads of one pack");
        let tall = AttentionShape { query_heads: 48, kv_heads: 4, ..shape };
        assert_eq!(cta_parallel(device, &tall, false).decodes_per_cta, 1, "12 rows need the tile of 16");
    }
}
