//! RelayAttention: the system prefix of all requests is read once for all of them, the rest by each
//! request for itself, and the two results are fused.
//!
//! ```text
//! [prefix: B queries, a CTA a query head] ─► [rests, FlashDecoding] ─► [fuse two by weight]
//! ```
//!
//! The prefix is one ordinary attention call with B query tokens: 64-row tiles, the group not folded,
//! so each query head reads the prefix for itself. `relay` keeps a private contiguous copy of the
//! prefix; `relay-plus-plus` (PAT's name) reads the shared blocks. Both move the same bytes here; the
//! copy only costs memory.

use crate::decision::{Choice, Considered, Decision, Price, RuleConstant, Subject};
use crate::error::Result;
use crate::pack::levels::{Phases, Run, push_rests, required_prefix};
use crate::pack::query_centric::{SplitQuestion, piece_blocks, split_constant, split_count};
use crate::pack::{CtaOrder, MergeShape, PackInput, Packing, Scheduler, price};
use crate::tile::Tile;
use crate::units::{NodeIdx, Tokens};

/// FlashAttention's tile where KV may be split.
const TILE: Tile = Tile { m: 64, n: 128 };

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relay {
    /// Whether the prefix is read from the shared blocks.
    pub(super) shared_blocks: bool,
}

impl Scheduler for Relay {
    fn name(&self) -> &'static str {
        if self.shared_blocks { "relay-plus-plus" } else { "relay" }
    }

    fn about(&self) -> &'static str {
        if self.shared_blocks {
            "RelayAttention on the shared blocks: as relay, without a copy of the system prefix."
        } else {
            "RelayAttention: one system prefix for all requests, read from a private copy, then each request's rest, then a fuse."
        }
    }

    fn pack(&self, input: &PackInput<'_>) -> Result<Packing> {
        let root = required_prefix(input, self.name())?;
        let prefix = input.tree.node(root);
        let tile = input.tile_or(TILE);
        let mut phases = Phases::default();
        let question = SplitQuestion {
            requests: 1,
            kv_heads: input.batch.shape.query_heads,
            rows: prefix.query_count(),
            longest_kv: prefix.tokens.0,
            head_dim: input.batch.shape.head_dim,
            sm_count: input.device.sm_count,
        };
        let splits = split_count(&question);
        let cut = piece_blocks(&question, splits, input.batch.shape.block_size);
        phases.push(input, Run::of_node(input, root), input.tree.queries(root), tile.m, cut);
        phases.end(Some(tile), CtaOrder::QueryHeads);
        let rest_splits = push_rests(&mut phases, input, prefix.blocks.end, prefix.tokens);
        phases.end(Some(tile), CtaOrder::PackFastest);
        if input.explain {
            let log = &mut phases.packing.decisions;
            log.push(explain_prefix(input, root, tile));
            log.push(explain_splits(input, &question, splits, rest_splits));
        }
        Ok(phases.finish(MergeShape::Pairwise))
    }
}

/// What reading the prefix once for all costs against each request reading it.
fn explain_prefix(input: &PackInput<'_>, root: NodeIdx, tile: Tile) -> Decision {
    let node = input.tree.node(root);
    let reads = u64::from(node.query_count().div_ceil(tile.m)) * u64::from(input.batch.shape.group());
    let each = u64::from(node.query_count());
    let way = |what, reads: u64| Considered::new(what, reads as f64, price::kv(input, Tokens(node.tokens.0 * reads)));
    Decision {
        subject: Subject::Node(root),
        other: None,
        choice: Choice::Sharing,
        considered: vec![way("one call for all", reads), way("each request", each)],
        chosen: 0,
        unit: "readings of the prefix a KV head".into(),
        rule: "the system prefix is always read once for all; its cost is a reading a 64 queries and query head (RelayAttention)".into(),
        constant: Some(RuleConstant::new("queries of a tile", f64::from(tile.m), None )),
    }
}

fn explain_splits(input: &PackInput<'_>, question: &SplitQuestion, splits: u32, rest_splits: u32) -> Decision {
    let lanes = f64::from(2 * question.sm_count);
    let base = f64::from(question.kv_heads * question.rows.div_ceil(64));
    let kv = input.batch.shape.kv_bytes_per_token_head().as_f64() * question.longest_kv as f64;
    let rate = input.device.reachable_bytes_per_s() * 1e-9 / lanes;
    let way = |count: u32| {
        let waves = (base * f64::from(count) / lanes).ceil() / f64::from(count);
        Considered::new(format!("{count} prefix splits"), waves, Price::one_kernel(waves * kv / rate))
    };
    let mut considered = vec![way(splits)];
    considered.extend([1, 2, 4, 8].iter().filter(|count| **count != splits).map(|count| way(*count)));
    Decision {
        subject: Subject::Plan,
        other: None,
        choice: Choice::Split,
        considered,
        chosen: 0,
        unit: "waves of unsplit CTAs".into(),
        rule: format!("FlashAttention's wave heuristic for the prefix; the rests get {rest_splits} splits by the same")
            .into(),
        constant: Some(split_constant(question)),
    }
}
