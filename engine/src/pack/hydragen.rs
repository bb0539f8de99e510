//! Hydragen: one prefix call a tree level over all its groups, one suffix call, one combine.
//!
//! ```text
//! [level 0] ─► [level 1] ─► … ─► [suffixes] ─► [combine all parts]
//! ```
//!
//! A prefix call reshapes the queries of a group into the sequence dimension of an ordinary attention
//! call: 128-row tiles of single query heads, so each query head of a KV head reads the prefix. The
//! suffix kernel folds the group (16 rows, 64 KV tokens a step). Parts come back in the element type of
//! the output, with fp32 log-sum-exp. Left out: the split-K inside the suffix kernel, and the fp32
//! copies that its combine of three or more parts makes.
//!
//! The tree is declared by the user and uniform: at each level all groups have the same size.

use crate::decision::{Choice, Considered, Decision, RuleConstant, Subject};
use crate::error::{Error, Result};
use crate::pack::levels::{Phases, Run, UNCUT};
use crate::pack::{CtaOrder, MergeShape, PackInput, Packing, Scheduler, price};
use crate::tile::Tile;
use crate::units::{NodeIdx, Tokens};
use crate::workload::PartialForm;

/// Tile of the prefix calls: FlashAttention's forward at head dimension 128.
const PREFIX: Tile = Tile { m: 128, n: 64 };
/// Tile of the suffix kernel.
const SUFFIX: Tile = Tile { m: 16, n: 64 };

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hydragen;

impl Scheduler for Hydragen {
    fn name(&self) -> &'static str {
        "hydragen"
    }

    fn about(&self) -> &'static str {
        "Hydragen: a prefix call for each level of a uniform tree, then the suffixes, then one combine; query heads are not folded in prefixes."
    }

    fn pack(&self, input: &PackInput<'_>) -> Result<Packing> {
        let levels = uniform_levels(input)?;
        let mut phases = Phases::default();
        let (prefix, suffix) = (input.tile_or(PREFIX), input.tile_or(SUFFIX));
        for (depth, nodes) in levels.iter().enumerate() {
            let last = depth + 1 == levels.len();
            let most = if last { 1 } else { prefix.m };
            for node in nodes {
                phases.push(input, Run::of_node(input, *node), input.tree.queries(*node), most, UNCUT);
                if input.explain && !last {
                    phases.packing.decisions.push(explain(input, *node, prefix));
                }
            }
            let (tile, order) = if last { (suffix, CtaOrder::PackFastest) } else { (prefix, CtaOrder::QueryHeads) };
            phases.end(Some(tile), order);
        }
        Ok(phases.finish(MergeShape::GatherOf { form: PartialForm::Native, always: false }))
    }
}

/// Nodes by depth, where each level has groups of one size and every request reaches the last level.
fn uniform_levels(input: &PackInput<'_>) -> Result<Vec<Vec<NodeIdx>>> {
    let refuse = |limit: String| Err(Error::Unsupported { who: "hydragen".to_owned(), limit });
    let tree = input.tree;
    let mut levels = vec![Vec::new(); tree.depth() as usize];
    for (position, node) in tree.nodes.iter().enumerate() {
        levels[node.depth as usize].push(NodeIdx::from(position));
    }
    for (depth, nodes) in levels.iter().enumerate() {
        let sizes = || nodes.iter().map(|node| tree.node(*node).query_count());
        let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
        if least != most {
            return refuse(format!(
                "its groups are of one size at each level, and level {depth} of this tree has groups of {least} to {most} requests"
            ));
        }
    }
    let prefixes = levels.iter().take(levels.len().saturating_sub(1));
    let ends_early = |nodes: &Vec<NodeIdx>| nodes.iter().any(|node| tree.node(*node).ending > 0);
    if let Some(depth) = prefixes.clone().position(ends_early) {
        return refuse(format!("every request has a suffix below the last prefix, and some end at level {depth}"));
    }
    match levels.len() {
        0 | 1 => refuse("it needs a prefix that several requests share, and this batch has none".to_owned()),
        _ => Ok(levels),
    }
}

fn explain(input: &PackInput<'_>, at: NodeIdx, tile: Tile) -> Decision {
    let node = input.tree.node(at);
    let group = u64::from(input.batch.shape.group());
    let together = u64::from(node.query_count().div_ceil(tile.m)) * group;
    let way = |what, reads: u64| Considered::new(what, reads as f64, price::kv(input, Tokens(node.tokens.0 * reads)));
    Decision {
        subject: Subject::Node(at),
        other: None,
        choice: Choice::Sharing,
        considered: vec![
            way("one prefix call", together),
            way("one call with the group folded", (u64::from(node.query_count()) * group).div_ceil(u64::from(tile.m))),
            way("each request", u64::from(node.query_count())),
        ],
        chosen: 0,
        unit: "readings of the prefix a KV head".into(),
        rule: "every declared level is a prefix call, whatever its length; a reading a 128 queries and query head (Hydragen)".into(),
        constant: Some(RuleConstant::new("queries of a tile", f64::from(tile.m), None )),
    }
}
