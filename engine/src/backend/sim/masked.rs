//! What subtree packs take on the tile of 64×64, whose warps compute all tokens for all rows and then hide what a row does
//! not see (`kernels/cuda/masks.cuh`).
//!
//! ```text
//! steps = tiles that all see · 1.05 (1.27 at head dimension 64) + tiles that few see · 1.2 + tiles with gaps · 1.0
//! ```
//!
//! What a row sees is asked for each tile, which counts for more where its products take less. Gaps are tokens behind the end of
//! a request in its last block: rows of V that may hold anything and are cleared, for which all warps wait for each other.
//!
//! Worked number, H200 at 8/1, 8 queries over 768 tokens that they share and 94 of their own in blocks of 64: 12 tiles that
//! all see, 16 that few do, of which 8 have gaps, are 12 · 1.05 + 16 · 1.2 + 8 = 39.8 steps of 619 ns. The figures are from
//! such packs, from 32 packs of 8 queries over 4,096 and 8,192 tokens at 64/8, head dimensions 64 and 128, and from PAT's
//! configurations 2, 5, 9, 16 and 18 at 32/32, on an H200; gaps at 128 alone. A CTA that has its SM to itself takes more for
//! what few see, up to 1.5. Kernels since then have what is seen of 8 tiles in one word, and take less: PAT's configurations 5,
//! 9, 12 to 16 and 18 at 32/8 last 1 to 9 % longer here than on an H200, at 32/32 1 % less to 4 % longer.

use crate::plan::LaunchPlan;
use crate::units::{NodeIdx, PackIdx};
use crate::workload::PrefixTree;

/// In times of a step without masks: a tile that all rows see, one that few do, and gaps in it.
const WHOLE: f64 = 1.05;
const WHOLE_AT_64: f64 = 1.27;
const FEW: f64 = 1.2;
const GAPS: f64 = 1.0;

/// What some rows of a pack do not see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Masked {
    /// Tiles that not all rows see.
    few: u32,
    /// Those with tokens that no row sees, at most.
    gaps: u32,
    /// A step of a tile that all see.
    whole: f64,
}

impl Masked {
    /// Of a subtree pack of a plan.
    pub(super) fn of(plan: &LaunchPlan, tree: &PrefixTree, at: PackIdx) -> Self {
        let (pack, shape) = (plan.pack(at), &plan.shape);
        let shared = u64::from(pack.blocks_end - pack.blocks_begin) * u64::from(shape.block_size);
        let has_gap = |node: &NodeIdx| tree.node(*node).ends_within_a_block(shape.block_size);
        let gaps = tree.below(pack.node, plan.queries_of(at)).into_iter().filter(has_gap).count() as u32;
        let n = u64::from(pack.tile.n);
        let few = (pack.tokens.0.div_ceil(n) - shared / n) as u32;
        let whole = if shape.head_dim <= 64 { WHOLE_AT_64 } else { WHOLE };
        Self { few, gaps: gaps.min(few), whole }
    }

    /// Steps of so many tiles, in those without masks.
    pub(super) fn steps(&self, tiles: f64) -> f64 {
        let few = f64::from(self.few).min(tiles);
        (tiles - few) * self.whole + few * FEW + f64::from(self.gaps) * GAPS
    }

    /// What tells it from others.
    pub(super) fn key(&self) -> (u32, u32) {
        (self.few, self.gaps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::sim::sight::testing::subtree_plan;
    use crate::pack::SubtreeLayout;
    use crate::workload::AttentionShape;

    /// Of the first subtree pack on the tile of 64 rows among those that `min-time` prices.
    fn masked(tree: &str, head_dim: u32) -> Masked {
        let shape =
            AttentionShape { query_heads: 8, kv_heads: 1, block_size: 64, head_dim, ..AttentionShape::default() };
        let (plan, tree) = subtree_plan(SubtreeLayout::TILE, tree, shape);
        Masked::of(&plan, &tree, PackIdx(0))
    }

    #[test]
    fn tiles_that_few_see_and_gaps_take_longer() {
        let of = masked("36,576_768,94", 128);
        assert_eq!(of, Masked { few: 16, gaps: 8, whole: WHOLE });
        assert!((of.steps(28.0) - 39.8).abs() < 1e-9, "the worked number: {}", of.steps(28.0));
        assert_eq!(masked("36,576_768,128", 128), Masked { gaps: 0, ..of }, "full blocks");
        assert_eq!(masked("36,576_768,30", 64), Masked { few: 8, gaps: 8, whole: WHOLE_AT_64 });
    }
}
