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
