//! Walking the tree and writing packs: which children leave a node, and the queries that stay, cut to
//! the tallest tile.

use crate::decision::{BY_HAND, Decision};
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

/// A node and one of its children, when it is to be decided whether they part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parting {
    /// The node.
    pub node: NodeIdx,
    /// The child.
    pub child: NodeIdx,
    /// First block of the node's pack, as a position in the row; it may be inherited.
    pub blocks_begin: u32,
    /// KV tokens of the node's pack, inherited ones included.
    pub tokens: Tokens,
    /// Queries still at the node: all below it, less those of children merged so far.
    pub remaining: u32,
    /// Queries at and below the child.
    pub queries: u32,
}

/// Walks the tree from the roots. A child that is split off leaves its queries at the node too and
/// starts anew with its own blocks; one that is merged takes its queries along and reads the node's
/// blocks in front of its own. What stays at a node becomes packs. Split children come first.
pub(super) fn walk(
    input: &PackInput<'_>,
    splits: impl Fn(&Parting) -> bool,
    explain: impl Fn(&Parting, bool) -> Decision,
) -> Packing {
    let tree = input.tree;
    let mut emitter = Emitter::new(input);
    // (node, first block of what it inherits); children wait behind their parent.
    let mut stack: Vec<(NodeIdx, u32)> =
        tree.roots.iter().rev().map(|root| (*root, tree.node(*root).blocks.start)).collect();
    let mut merged = Vec::new();
    while let Some((node, blocks_begin)) = stack.pop() {
        let tokens = emitter.tokens_from(node, blocks_begin);
        let first = emitter.packing.queries.len();
        let own = tree.node(node);
        let mut remaining = own.query_count();
        emitter.add(&tree.queries(node)[..own.ending as usize]);
        let split_from = stack.len();
        for child in tree.children(node) {
            let queries = tree.node(*child).query_count();
            let parting = Parting { node, child: *child, blocks_begin, tokens, remaining, queries };
            let forced = input.options.forced_split(*child);
            let split = forced.unwrap_or_else(|| splits(&parting));
            if input.explain {
                let mut decision = explain(&parting, split);
                if forced.is_some() {
                    decision.rule = format!("{BY_HAND}; by the rule {}", decision.rule).into();
                }
                emitter.packing.decisions.push(decision);
            }
            if split {
                emitter.add(tree.queries(*child));
                stack.push((*child, tree.node(*child).blocks.start));
            } else {
                remaining -= queries;
                merged.push((*child, blocks_begin));
            }
        }
        emitter.emit(node, blocks_begin, first);
        // Split children come first, in order; so they lie on the stack last, reversed.
        stack[split_from..].reverse();
        stack.splice(split_from..split_from, merged.drain(..).rev());
    }
    emitter.packing
}
