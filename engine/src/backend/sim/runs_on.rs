//! Which of the device's kernels a launch runs on, where that is not the one of its tile.

use crate::backend::sim::cost::CostModel;
use crate::hw::PrefillResources;
use crate::plan::{Launch, LaunchKind, LaunchPlan};
use crate::tile::{self, FEW_ROWS, Tile, TileKernel};

/// What computes the packs of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RunsOn {
    /// The decode kernel of the tile; a persistent one of several tiles holds 64 tokens for each m.
    Tiles {
        /// Whether it has several.
        mixed: bool,
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
}

/// Tokens of the tiles of a persistent kernel of several, of packscope's own.
const MIXED_TOKENS: u32 = 64;

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
        RunsOn::Tiles {
            mixed: self.device.heads_side_by_side && plan.is_mixed(launch),
            side_by_side: together.is_some(),
            few: together.is_some_and(|pack| self.takes_few_rows(plan, plan.pack(*pack).tile)),
        }
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
            RunsOn::Tiles { mixed: true, .. } if heads == 1 => Tile { n: MIXED_TOKENS, ..tile },
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
