//! Writing packs: the queries at a node, cut to the tallest tile.

use crate::pack::{Pack, PackInput, Packing};
use crate::units::{NodeIdx, QueryIdx, Tokens};

/// Collects packs and cuts those wider than the tallest tile. Each piece reads the KV again, which
/// is what a wide pack costs.
pub(super) struct Emitter<'a> {
    input: &'a PackInput<'a>,
    /// Most queries of one pack: `max(1, floor(tallest m / g))`.
    pub max_queries: u32,
    pub packing: Packing,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(input: &'a PackInput<'a>) -> Self {
        let mut packing = Packing::default();
        packing.packs.reserve(input.tree.nodes.len());
        packing.queries.reserve(2 * input.tree.order.len());
        Self { input, max_queries: input.max_queries(), packing }
    }

    /// Emits the packs of the queries added since `first`, over the blocks from `blocks_begin` down
    /// to the end of `node`.
    pub(super) fn emit(&mut self, node: NodeIdx, blocks_begin: u32, first: usize) {
        let tokens = self.tokens_from(node, blocks_begin);
        let blocks_end = self.input.tree.node(node).blocks.end;
        let total = (self.packing.queries.len() - first) as u32;
        let mut done = 0;
        while done < total {
            let count = (total - done).min(self.max_queries);
            self.packing.packs.push(Pack {
                node,
                queries_begin: first as u32 + done,
                queries_len: count,
                blocks_begin,
                blocks_end,
                tokens,
            });
            done += count;
        }
    }

    /// KV tokens from block `blocks_begin` of the path to the end of `node`.
    pub(super) fn tokens_from(&self, node: NodeIdx, blocks_begin: u32) -> Tokens {
        let node = self.input.tree.node(node);
        let block = u64::from(self.input.batch.shape.block_size);
        Tokens(u64::from(node.blocks.start - blocks_begin) * block) + node.tokens
    }

    /// Emits all queries of a node.
    pub(super) fn emit_all(&mut self, node: NodeIdx, blocks_begin: u32) {
        let first = self.packing.queries.len();
        self.packing.queries.extend_from_slice(self.input.tree.queries(node));
        self.emit(node, blocks_begin, first);
    }

    /// Adds queries for a coming [`Self::emit`].
    pub(super) fn add(&mut self, queries: &[QueryIdx]) {
        self.packing.queries.extend_from_slice(queries);
    }
}
