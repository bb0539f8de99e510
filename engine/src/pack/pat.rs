//! PAT's pack scheduler as its paper gives it (section 5.1), with the long-KV split of section 6.
//!
//! ```text
//! pack(u, blocks):
//!     each child c:   4·s_c < len(blocks)  → split:  pack(c, blocks of c)
//!                     otherwise            → merge:  pack(c, blocks + blocks of c), c leaves u
//!     queries left at u: one pack over `blocks`
//! ```
//!
//! Why 4: merging a child re-reads the parent's `l` tokens once more; splitting it off costs each of
//! its `s_c` queries one more fp32 partial, written and read, which weighs four token loads. Worked
//! number: a child of 10 queries under 256 tokens, 4·10 = 40 < 256, is split; under 32 tokens it is
//! merged. With exact bytes the break-even is about `2.5·g·s_c`; the constant is open to the user.

use crate::decision::{Choice, Considered, Decision, RuleConstant, Subject};
use crate::error::Result;
use crate::pack::cut::{Parting, walk};
use crate::pack::splits::split_above_mean;
use crate::pack::{CtaOrder, Imposed, MergeShape, PackInput, Packing, Phase, Scheduler, price};
use crate::tile::{Tile, TileRule};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pat {
    /// What is left out, for the paper's ablation (section 8.5).
    pub(super) ablation: Ablation,
}

/// What an ablation leaves out of PAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ablation {
    /// Nothing.
    None,
    /// The choice of tiles: every pack has the large one.
    FixedTile,
    /// The streams: every launch stands on one, whatever the strategy.
    OneStream,
}

/// The one tile of `pat-fixed`.
const FIXED: Tile = Tile { m: 64, n: 128 };

impl Scheduler for Pat {
    fn name(&self) -> &'static str {
        match self.ablation {
            Ablation::None => "pat",
            Ablation::FixedTile => "pat-fixed",
            Ablation::OneStream => "pat-serial",
        }
    }

    fn about(&self) -> &'static str {
        match self.ablation {
            Ablation::None => {
                "PAT's tree heuristic as in the paper: merge a child where re-reading its parent is cheaper than one more partial; KV longer than the mean is split, so that a short request more can split what was whole."
            }
            Ablation::FixedTile => "PAT's ablation: pat with the tile 64×128 for every pack.",
            Ablation::OneStream => "PAT's ablation: pat with all launches on one stream, whatever the strategy.",
        }
    }

    fn tile_rule(&self) -> TileRule {
        if self.ablation == Ablation::FixedTile { TileRule::Fixed(FIXED) } else { TileRule::Fitting }
    }

    fn packs_as(&self) -> &'static str {
        "pat"
    }

    fn pack(&self, input: &PackInput<'_>) -> Result<Packing> {
        let constant = input.options.split_constant;
        let weight = |parting: &Parting| constant * f64::from(parting.queries);
        let mut packing = walk(
            input,
            |parting| weight(parting) < parting.tokens.as_f64(),
            |parting, split| explain(input, parting, split, constant),
        );
        split_above_mean(input, &mut packing);
        if self.ablation == Ablation::OneStream {
            let all = Phase { packs_end: packing.packs.len() as u32, tile: None, order: CtaOrder::PackFastest };
            packing.imposed = Some(Imposed { phases: vec![all], merge: MergeShape::Gather, one_stream: true });
        }
        Ok(packing)
    }
}

fn explain(input: &PackInput<'_>, parting: &Parting, split: bool, constant: f64) -> Decision {
    let weight = constant * f64::from(parting.queries);
    let tokens = parting.tokens.as_f64();
    Decision {
        subject: Subject::Node(parting.node),
        other: Some(parting.child),
        choice: Choice::Sharing,
        considered: vec![
            Considered::new("split", weight, price::partials(input, parting.queries)),
            Considered::new("merge", tokens, price::kv(input, parting.tokens)),
        ],
        chosen: usize::from(!split),
        unit: "KV token loads".into(),
        rule: "a child is split off when its partials cost less than re-reading the parent (PAT 5.1)".into(),
        constant: Some(RuleConstant::new("split_constant", constant, Some(tokens / f64::from(parting.queries.max(1))))),
    }
}
