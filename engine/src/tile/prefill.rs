//! The device table's prefill kernels as tiles and CTAs.

use crate::hw::{PrefillKernels, PrefillResources};
use crate::tile::{CtaShape, Tile};

impl PrefillResources {
    /// Its tile.
    pub fn tile(&self) -> Tile {
        Tile { m: self.m, n: self.n }
    }

    /// What a CTA takes of an SM.
    pub fn cta(&self) -> CtaShape {
        CtaShape { warps: self.warps, registers: self.registers, shared: self.shared }
    }
}

impl PrefillKernels {
    /// The kernel of a tile; tiles of other kernels have none.
    pub fn of_tile(&self, tile: Tile) -> Option<&PrefillResources> {
        [Some(&self.full), Some(&self.slim), self.either.as_ref(), self.both.as_ref()]
            .into_iter()
            .flatten()
            .find(|kernel| kernel.tile() == tile)
    }
}

#[cfg(test)]
mod tests {
    use crate::hw;
    use crate::tile::resident;

    #[test]
    fn slim_prefill_and_lean_decode_fill_an_sm_and_fit() {
        for key in ["h200-sxm", "h100-sxm"] {
            let device = hw::find(key).unwrap();
            let kernels = device.prefill_kernel.unwrap();
            let (slim, lean) = (kernels.slim, kernels.lean_decode);
            let registers = |warps: u32, of_thread: u32| {
                warps * (of_thread * 32).next_multiple_of(device.register_granule_per_warp)
            };
            let all = registers(slim.warps, slim.registers) + registers(lean.warps, lean.registers);
            assert_eq!((all, device.registers_per_sm), (64_512, 65_536), "{key}");
            let shared = slim.shared + lean.shared.unwrap() + device.shared_reserved_per_cta * 2;
            assert!(shared <= device.shared_per_sm, "{key}: {shared}");
            for prefill in [kernels.full, slim] {
                assert_eq!(resident(device, &prefill.cta()), 1, "{key}");
            }
        }
    }
}
