//! What systems with prescribed launches share: writing packs phase by phase, the one common prefix,
//! and the rests behind it.

use crate::error::{Error, Result};
use crate::pack::query_centric::{SplitQuestion, leaf_of_each_request, piece_blocks, split_count};
use crate::pack::splits::push_pieces;
use crate::pack::{CtaOrder, Imposed, MergeShape, Pack, PackInput, Packing, Phase};
use crate::tile::Tile;
use crate::units::{NodeIdx, QueryIdx, Tokens};

/// Packs as they are written, phase by phase.
#[derive(Debug, Default)]
pub(super) struct Phases {
    pub(super) packing: Packing,
    phases: Vec<Phase>,
}

/// Blocks of a pack, from the path down to its node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) node: NodeIdx,
    pub(super) blocks_begin: u32,
    pub(super) blocks_end: u32,
    pub(super) tokens: Tokens,
}

impl Run {
    /// All of one node's own blocks.
    pub(super) fn of_node(input: &PackInput<'_>, node: NodeIdx) -> Self {
        let own = input.tree.node(node);
        Self { node, blocks_begin: own.blocks.start, blocks_end: own.blocks.end, tokens: own.tokens }
    }
}

impl Phases {
    /// Packs of at most `most` queries over a run of blocks, each in pieces of `piece_blocks` blocks.
    pub(super) fn push(&mut self, input: &PackInput<'_>, run: Run, queries: &[QueryIdx], most: u32, piece_blocks: u32) {
        for queries in queries.chunks(most.max(1) as usize) {
            let queries_begin = self.packing.queries.len() as u32;
            self.packing.queries.extend_from_slice(queries);
            let whole = Pack {
                node: run.node,
                queries_begin,
                queries_len: queries.len() as u32,
                blocks_begin: run.blocks_begin,
                blocks_end: run.blocks_end,
                tokens: run.tokens,
            };
            push_pieces(&mut self.packing.packs, whole, piece_blocks, input.batch.shape.block_size);
        }
    }

    /// Ends the phase that the packs since the last one make up.
    pub(super) fn end(&mut self, tile: Option<Tile>, order: CtaOrder) {
        self.phases.push(Phase { packs_end: self.packing.packs.len() as u32, tile, order });
    }

    /// The packing with its prescribed launches.
    pub(super) fn finish(mut self, merge: MergeShape) -> Packing {
        self.packing.imposed = Some(Imposed { phases: self.phases, merge, one_stream: false });
        self.packing
    }
}

/// Whole KV, uncut.
pub(super) const UNCUT: u32 = u32::MAX;

/// The node that every request of the batch begins with.
pub(super) fn common_prefix(input: &PackInput<'_>) -> Option<NodeIdx> {
    match input.tree.roots.as_slice() {
        [root] if input.tree.node(*root).query_count() > 1 => Some(*root),
        _ => None,
    }
}

/// As [`common_prefix`], refusing a batch without one.
pub(super) fn required_prefix(input: &PackInput<'_>, who: &str) -> Result<NodeIdx> {
    common_prefix(input).ok_or_else(|| {
        let limit = match input.tree.roots.len() {
            1 => "it needs a prefix that several requests share, and this batch is one request".to_owned(),
            roots => format!("it takes one system prefix that all requests share, and this batch has {roots} roots"),
        };
        Error::Unsupported { who: who.to_owned(), limit }
    })
}

/// What each request has behind its first `prefix_blocks` blocks, alone, split by FlashAttention's
/// heuristic over the rests. Gives the number of splits.
pub(super) fn push_rests(phases: &mut Phases, input: &PackInput<'_>, prefix_blocks: u32, prefix: Tokens) -> u32 {
    let rest = |kv: Tokens| kv.saturating_sub(prefix);
    let rests: Vec<(QueryIdx, Tokens)> =
        input.batch.decodes().map(|(query, request)| (query, rest(request.kv))).filter(|rest| rest.1.0 > 0).collect();
    let Some(longest) = rests.iter().map(|rest| rest.1).max() else { return 1 };
    let shape = &input.batch.shape;
    let question = SplitQuestion {
        requests: rests.len() as u32,
        kv_heads: shape.kv_heads,
        rows: shape.group(),
        longest_kv: longest.0,
        head_dim: shape.head_dim,
        sm_count: input.device.sm_count,
    };
    let splits = split_count(&question);
    let cut = piece_blocks(&question, splits, shape.block_size);
    let leaves = leaf_of_each_request(input);
    for (query, tokens) in rests {
        let blocks_end = input.batch.tables().row(query).len() as u32;
        let run = Run { node: leaves[query.at()], blocks_begin: prefix_blocks, blocks_end, tokens };
        phases.push(input, run, &[query], 1, cut);
    }
    splits
}
