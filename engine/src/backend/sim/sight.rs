//! What the rows of a pack see of its tokens, and how many steps it takes for that.

use crate::backend::sim::masked::Masked;
use crate::backend::sim::tall::Few;
use crate::pack::SubtreeLayout;
use crate::plan::LaunchPlan;
use crate::units::PackIdx;
use crate::workload::PrefixTree;

/// What the rows of a pack see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sight {
    /// All of it.
    Whole,
    /// Of a subtree pack on the tile of 64×64.
    Masked(Masked),
    /// Of one on the tall tile.
    Tall(Few),
}

impl Sight {
    /// Of a pack of a plan.
    pub(super) fn of(plan: &LaunchPlan, tree: &PrefixTree, at: PackIdx) -> Self {
        let pack = plan.pack(at);
        match pack.tile {
            _ if !pack.is_subtree(plan.shape.block_size) => Self::Whole,
            SubtreeLayout::TALL => Self::Tall(Few::of(plan, tree, at)),
            _ => Self::Masked(Masked::of(plan, tree, at)),
        }
    }

    /// Steps of so many tiles of `n` tokens, in those of tiles that all rows see, where HBM gives so many bytes per s.
    pub(super) fn steps(&self, tiles: f64, n: u32, hbm: f64) -> f64 {
        match self {
            Self::Whole => tiles,
            Self::Masked(masked) => masked.steps(tiles),
            Self::Tall(few) => few.steps(tiles, n, hbm),
        }
    }

    /// What tells it from others on the same tile.
    pub(super) fn key(&self) -> (u32, u32) {
        match self {
            Self::Whole => (0, 0),
            Self::Masked(masked) => masked.key(),
            Self::Tall(few) => few.key(),
        }
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use crate::pack;
    use crate::pack::testing::with_input;
    use crate::plan::{PlanChoice, Strategy, build};
    use crate::tile::Tile;
    use crate::workload::{AttentionShape, parse_tree};

    /// Of the plans that `min-time` prices on an H200 the first whose first pack is a subtree pack on `tile`.
    pub(in crate::backend::sim) fn subtree_plan(
        tile: Tile,
        tree: &str,
        shape: AttentionShape,
    ) -> (LaunchPlan, PrefixTree) {
        let batch = parse_tree(tree, shape).unwrap().build().unwrap();
        let scheduler = pack::find("min-time").unwrap();
        let (strategy, rule) = (Strategy::Fused, scheduler.tile_rule());
        let choice = PlanChoice { scheduler: scheduler.name(), strategy, rule, explain: false };
        let tree = PrefixTree::of(&batch);
        let plan = with_input(&batch, &tree, ("h200-sxm", None), |input| {
            let mut plans =
                scheduler.packings(input).unwrap().into_iter().map(|packing| build(input, &packing, &choice).unwrap());
            plans.find(|plan| plan.packs[0].tile == tile && plan.packs[0].is_subtree(shape.block_size)).unwrap()
        });
        (plan, tree)
    }
}
