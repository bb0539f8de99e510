//! Which of the device's kernels a launch runs on, where that is not the one of its tile.

use crate::backend::sim::cost::CostModel;
use crate::hw::PrefillResources;
use crate::plan::{Launch, LaunchKind, LaunchPlan};
use crate::tile::{self, FEW_ROWS, Tile, TileKernel};
use crate::units::Bytes;

/// What computes the packs of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RunsOn {
    /// The decode kernel of the tile; a persistent one of several tiles holds 64 tokens for each m.
    Tiles {
        /// Where it has several, what each of its CTAs keeps outstanding: they have one ring for all of them.
        ring: Option<Bytes>,
        /// Whether its CTAs take several heads where their tile lets them.
        side_by_side: bool,
        /// Whether packs of these have few rows, so that [`FEW_ROWS`] is their kernel.
        few: bool,
    },
    /// The lean decode kernel that fits beside prefill.
    Lean,
    /// The prefill kernel, for packs with more rows than their tile.
    Prefill {
        /// That kernel.
        kernel: PrefillResources,
        /// What each CTA takes for its share of the rows that the first item of their pack does not hold, ns.
        further: f64,
    },
}

impl RunsOn {
    /// The prefill kernel, where it is that.
    pub(super) fn prefill(self) -> Option<PrefillResources> {
        match self {
            Self::Prefill { kernel, .. } => Some(kernel),
            Self::Tiles { .. } | Self::Lean => None,
        }
    }

    /// What its CTAs keep outstanding, where they have one ring for several tiles.
    pub(super) fn ring(self) -> Option<Bytes> {
        match self {
            Self::Tiles { ring, .. } => ring,
            Self::Lean | Self::Prefill { .. } => None,
        }
    }
}

/// Tokens of the tiles of a persistent kernel of several, of packscope's own.
const MIXED_TOKENS: u32 = 64;
/// The most stages of a ring.
const MOST_STAGES: u64 = 12;

impl CostModel<'_> {
    /// What computes the packs of a launch.
    pub(super) fn runs_on(&self, plan: &LaunchPlan, launch: &Launch) -> RunsOn {
        if plan.is_lean(launch) {
            return RunsOn::Lean;
        }
        let gathered = matches!(launch.kind, LaunchKind::Attention(_)) && plan.is_gathered(launch);
        if let Some(kernels) = self.device.prefill_kernel.filter(|_| gathered) {
            return RunsOn::Prefill { kernel: kernels.full, further: self.further_items(plan, launch, &kernels.full) };
        }
        let together = plan.packs_of(launch).iter().find(|pack| plan.run_of_heads(launch, **pack) > 1);
        let side_by_side = together.is_some();
        let few = together.is_some_and(|pack| self.takes_few_rows(plan, plan.pack(*pack).tile));
        let is_mixed = self.device.heads_side_by_side && plan.is_mixed(launch);
        let ring = is_mixed.then(|| self.ring_of(&self.tiles_of_several(plan, launch, few)));
        RunsOn::Tiles { ring, side_by_side, few }
    }

    /// The tiles of a persistent kernel of several, for the packs of a launch.
    fn tiles_of_several(&self, plan: &LaunchPlan, launch: &Launch, few: bool) -> Vec<Tile> {
        let mut tiles = Vec::new();
        for pack in plan.packs_of(launch) {
            let tile = self.compiled_with_others(plan.pack(*pack).tile, plan.run_of_heads(launch, *pack), few);
            if !tiles.contains(&tile) {
                tiles.push(tile);
            }
        }
        tiles
    }

    /// The ring of a persistent kernel of several tiles: stages of [`MIXED_TOKENS`], as many as fit in a CTA's share of the
    /// shared memory, less what the largest tile needs for other things. As many CTAs share an SM as of each tile's own kernel.
    ///
    /// Worked number, H200, 64×64 with the kernel of few rows at head dimension 128: 5 stages of 16 KiB, where the latter alone
    /// has 6. So CTAs of both draw alike from a full HBM.
    fn ring_of(&self, tiles: &[Tile]) -> Bytes {
        let (device, shape) = (self.device, self.shape);
        let (mut besides, mut ctas) = (0, u32::MAX);
        for kernel in tiles.iter().map(|tile| tile::kernel(device, *tile, shape.head_dim, shape.dtype)) {
            besides = besides.max(kernel.shared.0.saturating_sub(kernel.in_flight.0));
            ctas = ctas.min(tile::resident(device, &kernel.cta()));
        }
        let share = device.shared_per_sm.0 / u64::from(ctas.max(1));
        let share = share.saturating_sub(device.shared_reserved_per_cta.0).min(device.shared_per_cta.0);
        let stage = shape.head_bytes() * u64::from(MIXED_TOKENS);
        stage * (share.saturating_sub(besides) / stage.0.max(1)).clamp(1, MOST_STAGES)
    }

    /// Whether packs of a tile run on the kernel of few rows; the device may have none.
    fn takes_few_rows(&self, plan: &LaunchPlan, tile: Tile) -> bool {
        tile::has_kernel(self.device, FEW_ROWS, self.shape.head_dim)
            && tile.n == FEW_ROWS.n
            && plan.most_rows_of(tile) <= FEW_ROWS.m
    }

    /// The tile whose kernel computes packs of a tile that take `heads` heads a CTA.
    pub(super) fn compiled(&self, tile: Tile, heads: u32, on: RunsOn) -> Tile {
        match on {
            RunsOn::Tiles { ring: Some(_), few, .. } => self.compiled_with_others(tile, heads, few),
            RunsOn::Tiles { few: true, .. } if heads > 1 => FEW_ROWS,
            RunsOn::Tiles { .. } => {
                // A kernel that takes several heads side by side is not for one, which the next n takes, whose warps share
                // the tokens.
                let takes_several = tile::kernel(self.device, tile, self.shape.head_dim, self.shape.dtype).heads > 1;
                let tile = if heads == 1 && takes_several { Tile { n: 2 * tile.n, ..tile } } else { tile };
                tile::compiled(self.device, tile, self.shape.head_dim)
            }
            RunsOn::Lean | RunsOn::Prefill { .. } => tile,
        }
    }

    /// The same in a persistent kernel of several tiles.
    fn compiled_with_others(&self, tile: Tile, heads: u32, few: bool) -> Tile {
        match heads {
            1 => Tile { n: MIXED_TOKENS, ..tile },
            2.. if few => FEW_ROWS,
            _ => tile::compiled(self.device, tile, self.shape.head_dim),
        }
    }

    /// The tile of a launch whose CTAs hold every tile of its packs.
    pub(super) fn compiled_launch(&self, tile: Tile, on: RunsOn) -> Tile {
        let several = matches!(on, RunsOn::Tiles { side_by_side: true, .. }) && tile.n == 16;
        self.compiled(tile, if several { tile::SIDE_BY_SIDE } else { 1 }, on)
    }

    /// The decode kernel of a tile: the lean one that fits beside prefill, or the tile's own.
    pub(super) fn decode_kernel(&self, tile: Tile, on: RunsOn) -> TileKernel {
        let own = tile::kernel(self.device, tile, self.shape.head_dim, self.shape.dtype);
        let lean = self.device.prefill_kernel.filter(|_| on == RunsOn::Lean).map(|kernels| kernels.lean_decode);
        let Some(of) = lean else { return own };
        TileKernel {
            warps: of.warps,
            registers: of.registers,
            shared: of.shared.unwrap_or(own.shared),
            in_flight: of.in_flight.unwrap_or(own.in_flight),
            heads: of.heads,
            chain: of.chain,
            sm_step: None,
            ..own
        }
    }
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use kernels::{Arch, Dtype, KernelSpec};

    use super::*;
    use crate::workload::AttentionShape;

    #[test]
    fn the_ring_of_several_tiles_is_that_of_their_kernel() {
        let device = crate::hw::find("h200-sxm").unwrap();
        for head_dim in [64, 128] {
            let shape = AttentionShape { head_dim, ..AttentionShape::default() };
            let model = CostModel { device, shape: &shape };
            for tiles in [&[(64, 64), (8, 16)][..], &[(64, 64), (16, 16)], &[(16, 64), (8, 16)], &[(32, 64), (16, 16)]]
            {
                let of_kernel: Vec<kernels::Tile> = tiles.iter().map(|(m, n)| kernels::Tile { m: *m, n: *n }).collect();
                let spec = KernelSpec::new(&of_kernel, head_dim, Dtype::F16, true, false);
                let stages = u64::from(spec.stages_on(&Arch::SM_90A).unwrap());
                let tiles: Vec<Tile> = tiles.iter().map(|(m, n)| Tile { m: *m, n: *n }).collect();
                let stage = (shape.head_bytes() * u64::from(MIXED_TOKENS)).as_f64();
                let ring = stages as f64 * stage;
                let off = ring - model.ring_of(&tiles).as_f64();
                // Rows of Q may be those of one tile, and weights that pass through shared memory of another.
                assert!(
                    (-stage..=0.0).contains(&off),
                    "{tiles:?} at head dimension {head_dim}: {off} of {stages} stages"
                );
            }
        }
    }
}
