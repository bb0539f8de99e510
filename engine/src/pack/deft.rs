//! DeFT: the tree's KV in even chunks, each read once for up to 64 queries that a bit mask tells apart.
//!
//! Chunks are of 128 tokens, as PAT's comparison sets them, and every query of a chunk passes over
//! the KV that is in shared memory, so rows beyond the tile cost tensor time and no reading. A chunk
//! ends here where its node ends; DeFT fills it up from the next node and masks.

use crate::decision::{Choice, Considered, Decision, Price, RuleConstant, Subject};
use crate::error::Result;
use crate::pack::levels::{Phases, Run};
use crate::pack::{CtaOrder, MergeShape, PackInput, Packing, Scheduler, price};
use crate::tile::{Tile, TileRule};
use crate::units::{NodeIdx, Tokens};

/// The tile, as PAT's comparison sets it.
const TILE: Tile = Tile { m: 32, n: 16 };
/// Tokens of a chunk.
const CHUNK: u32 = 128;
/// Queries that a mask holds.
const MASK: u32 = 64;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deft;

impl Scheduler for Deft {
    fn name(&self) -> &'static str {
        "deft"
    }

    fn about(&self) -> &'static str {
        "DeFT: the tree's KV in even chunks of 128 tokens, each read once for up to 64 queries, one launch and one reduction."
    }

    fn tile_rule(&self) -> TileRule {
        TileRule::Fixed(TILE)
    }

    fn pack(&self, input: &PackInput<'_>) -> Result<Packing> {
        let blocks = (CHUNK / input.batch.shape.block_size).max(1);
        let mut phases = Phases::default();
        for position in 0..input.tree.nodes.len() {
            let node = NodeIdx::from(position);
            if input.explain {
                phases.packing.decisions.push(explain(input, node, blocks));
            }
            phases.push(input, Run::of_node(input, node), input.tree.queries(node), MASK, blocks);
        }
        phases.end(None, CtaOrder::PackFastest);
        Ok(phases.finish(MergeShape::Gather))
    }
}

fn explain(input: &PackInput<'_>, at: NodeIdx, chunk: u32) -> Decision {
    let node = input.tree.node(at);
    let queries = node.query_count();
    let partials = |pieces: u32| price::partials(input, queries * pieces).amount;
    let kv = |reads: u32| price::kv(input, Tokens(node.tokens.0 * u64::from(reads))).amount;
    let reads = queries.div_ceil(MASK);
    let pieces = (node.blocks.end - node.blocks.start).div_ceil(chunk);
    let way = |what, pieces: u32| {
        Considered::new(what, f64::from(pieces * reads), Price::traffic(kv(reads) + partials(pieces)))
    };
    Decision {
        subject: Subject::Node(at),
        other: None,
        choice: Choice::Split,
        considered: vec![way("even chunks", pieces), way("one piece", 1)],
        chosen: 0,
        unit: "CTAs a KV head".into(),
        rule: "KV is cut evenly, whatever the partials cost, and read once for as many queries as a mask holds (DeFT)"
            .into(),
        constant: Some(RuleConstant::new("tokens of a chunk", f64::from(CHUNK), Some(node.tokens.as_f64()))),
    }
}
