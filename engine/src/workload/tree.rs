//! The radix tree over block ids: which requests read which KV blocks together.

use std::ops::Range;

use crate::units::{NodeIdx, QueryIdx, Tokens};
use crate::workload::Batch;

/// One node: a run of blocks that the same requests share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The node above; `None` for a root of the forest.
    pub parent: Option<NodeIdx>,
    /// Position of its blocks in the table rows of its requests.
    pub blocks: Range<u32>,
    /// KV tokens of this node alone. Only a node at which all its requests end is partly filled.
    pub tokens: Tokens,
    /// Its requests, those below included, as a range of [`PrefixTree::order`]; never empty.
    /// Requests that end here come first.
    pub queries: Range<u32>,
    /// How many of its requests end here.
    pub ending: u32,
    /// Children in order of first appearance, as a range of [`PrefixTree::child_list`].
    pub children: Range<u32>,
    /// Nodes above it.
    pub depth: u32,
}

impl Node {
    /// Number of requests at and below this node, `s_u`.
    pub fn query_count(&self) -> u32 {
        self.queries.len() as u32
    }

    /// Whether nothing continues from here.
    pub fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }

    /// Whether its last block has room for more tokens.
    pub fn ends_within_a_block(&self, block_size: u32) -> bool {
        self.tokens.0 < self.blocks.len() as u64 * u64::from(block_size)
    }
}

/// A forest over the decode requests of a batch. Nodes stand in depth-first order, so a node's
/// subtree is contiguous and a parent comes before its children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixTree {
    /// All nodes.
    pub nodes: Vec<Node>,
    /// Nodes without a parent, in order of first appearance.
    pub roots: Vec<NodeIdx>,
    /// Requests in depth-first order.
    pub order: Vec<QueryIdx>,
    /// Place of each request of the batch in [`Self::order`]; past its end for one that does not decode.
    pub places: Vec<u32>,
    /// Children of all nodes, one node after another.
    pub child_list: Vec<NodeIdx>,
}

impl PrefixTree {
    /// A node.
    pub fn node(&self, node: NodeIdx) -> &Node {
        &self.nodes[node.at()]
    }

    /// Requests at and below a node.
    pub fn queries(&self, node: NodeIdx) -> &[QueryIdx] {
        let range = &self.nodes[node.at()].queries;
        &self.order[range.start as usize..range.end as usize]
    }

    /// Children of a node.
    pub fn children(&self, node: NodeIdx) -> &[NodeIdx] {
        let range = &self.nodes[node.at()].children;
        &self.child_list[range.start as usize..range.end as usize]
    }

    /// Finds the places of so many requests.
    pub(super) fn find_places(&mut self, requests: usize) {
        self.places = vec![u32::MAX; requests];
        for (place, query) in (0..).zip(&self.order) {
            self.places[query.at()] = place;
        }
    }

    /// The child of a node that the request at a place of [`Self::order`] goes through, unless it ends at the node.
    fn child_at(&self, node: NodeIdx, place: u32) -> Option<NodeIdx> {
        let of = self.node(node);
        if place < of.queries.start + of.ending || place >= of.queries.end {
            return None;
        }
        let children = self.children(node);
        let after = children.partition_point(|child| self.node(*child).queries.start <= place);
        children.get(after.checked_sub(1)?).copied()
    }

    /// The nodes below a node that some of its requests go through, depth first.
    pub fn below(&self, node: NodeIdx, queries: &[QueryIdx]) -> Vec<NodeIdx> {
        let mut places: Vec<u32> = queries.iter().filter_map(|query| self.places.get(query.at())).copied().collect();
        places.sort_unstable();
        let mut below: Vec<NodeIdx> = Vec::new();
        for place in places {
            let mut at = node;
            while let Some(child) = self.child_at(at, place) {
                // Depth first, so what was not met yet has a larger number.
                if below.last().is_none_or(|last| *last < child) {
                    below.push(child);
                }
                at = child;
            }
        }
        below
    }

    /// KV tokens of all nodes, each counted once: the least that any plan reads.
    pub fn unique_tokens(&self) -> Tokens {
        self.nodes.iter().map(|node| node.tokens).sum()
    }

    /// Largest number of nodes on a path.
    pub fn depth(&self) -> u32 {
        self.nodes.iter().map(|node| node.depth + 1).max().unwrap_or(0)
    }

    /// Builds the tree of the decode requests of a batch.
    ///
    /// Sharing is by whole blocks. A partly filled last block is shared only by requests that end
    /// in it with the same fill, since another request would read more of it.
    pub fn of(batch: &Batch) -> Self {
        super::tree_build::build(batch)
    }
}
