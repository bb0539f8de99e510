//! A decode batch that changes from step to step, with its prefix tree kept up to date.
//!
//! ```text
//! token in the last block   the leaf is one token longer                        no table changes
//! new block                 the leaf is one block longer, or a new leaf begins
//! leave                     an empty leaf goes; a node left with one child joins it
//! join                      the row is led down the tree; where it parts, a node is cut
//! ```
//!
//! The tree is equal to the one that [`PrefixTree::of`] builds from the tables, which tests prove on
//! random sequences. Where a change is not understood as one of these (a token in a block that other
//! requests have as well), the tree is built anew and [`Extent::Anew`] says so.

use rustc_hash::FxHashMap;

use crate::error::{Error, Result};
use crate::units::{BlockIdx, NodeIdx, QueryIdx, Tokens};
use crate::workload::{Batch, BlockTables, Change, Extent, Limits, Node, PrefixTree, Request, RequestKind};

const NONE: u32 = u32::MAX;

/// A node that may change. Children are in any order.
#[derive(Clone, Debug)]
struct Loose {
    parent: u32,
    begin: u32,
    end: u32,
    tokens: u64,
    ending: Vec<QueryIdx>,
    children: Vec<u32>,
    /// First of its requests, those below included; brought up to date by the layout.
    first: u32,
    /// Where it stands in the tree.
    place: NodeIdx,
}

impl Loose {
    /// A node without requests and children.
    fn new(parent: u32, blocks: std::ops::Range<u32>, tokens: u64, first: u32) -> Self {
        let (begin, end) = (blocks.start, blocks.end);
        Self { parent, begin, end, tokens, ending: Vec::new(), children: Vec::new(), first, place: NodeIdx(0) }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct LiveBatch {
    batch: Batch,
    tree: PrefixTree,
    rows: Vec<Vec<BlockIdx>>,
    /// In how many rows a block stands.
    owners: FxHashMap<BlockIdx, u32>,
    nodes: Vec<Loose>,
    roots: Vec<u32>,
    /// Node where each request ends.
    ends: Vec<u32>,
    unused: Vec<u32>,
    tables_changed: bool,
}

impl LiveBatch {
    /// Takes a batch over.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where it has prefill chunks.
    pub fn new(batch: Batch) -> Result<Self> {
        batch.require_decode_only("lazy update")?;
        let rows: Vec<Vec<BlockIdx>> =
            (0..batch.requests().len()).map(|q| batch.tables().row(QueryIdx::from(q)).to_vec()).collect();
        let mut owners = FxHashMap::default();
        for block in rows.iter().flatten() {
            *owners.entry(*block).or_insert(0) += 1;
        }
        let mut live = Self {
            batch,
            tree: PrefixTree::default(),
            rows,
            owners,
            nodes: Vec::new(),
            roots: Vec::new(),
            ends: Vec::new(),
            unused: Vec::new(),
            tables_changed: false,
        };
        live.rebuild();
        Ok(live)
    }

    /// The batch as it stands.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Its prefix tree.
    pub fn tree(&self) -> &PrefixTree {
        &self.tree
    }

    /// Makes changes one after another, then writes tables and tree. Changes before a wrong one
    /// stand.
    ///
    /// # Errors
    /// [`Error::Batch`] naming the request and what is wrong with the change.
    pub fn apply(&mut self, changes: &[Change]) -> Result<Extent> {
        let extent = self.change(changes);
        self.write_tables();
        self.lay_out_for(extent.as_ref().copied().unwrap_or(Extent::Anew));
        extent
    }

    /// The changes, with tables and tree not yet written; see [`Self::apply`].
    pub(crate) fn change(&mut self, changes: &[Change]) -> Result<Extent> {
        let mut extent = Extent::Lengths;
        for change in changes {
            let reached = match change {
                Change::Append { query, block } => self.append(*query, *block)?,
                Change::Leave { query } => self.leave(*query)?,
                Change::Join { kv, row } => self.join(*kv, row)?,
            };
            // Once the tree is to be built anew, the loose nodes are not followed any more.
            extent = extent.max(reached);
        }
        Ok(extent)
    }

    /// Writes the tables of a changed batch.
    pub(crate) fn write_tables(&mut self) {
        if std::mem::take(&mut self.tables_changed) {
            let mut tables = BlockTables::new();
            for row in &self.rows {
                tables.push(row.iter().copied());
            }
            self.batch.set_tables(tables);
        }
    }

    /// Writes the tree as far as changes reached.
    pub(crate) fn lay_out_for(&mut self, extent: Extent) {
        match extent {
            Extent::Lengths => {}
            Extent::Tree => self.lay_out(),
            Extent::Anew => self.rebuild(),
        }
    }

    fn wrong<T>(query: QueryIdx, what: &str) -> Result<T> {
        Err(Error::Batch(format!("request {} {what}", query.0)))
    }

    fn block_size(&self) -> u64 {
        u64::from(self.batch.shape.block_size)
    }

    fn append(&mut self, query: QueryIdx, block: Option<BlockIdx>) -> Result<Extent> {
        let Some(request) = self.batch.requests().get(query.at()) else {
            return Self::wrong(query, "cannot get a token: there is no such request");
        };
        let full = request.kv.0.is_multiple_of(self.block_size());
        if full != block.is_some() {
            let what = if full { "needs a block for its token" } else { "has room in its last block" };
            return Self::wrong(query, what);
        }
        if request.kv.0 >= Limits::TOKENS {
            return Self::wrong(query, "has as many tokens as are supported");
        }
        if block.is_some_and(|block| self.rows[query.at()].contains(&block)) {
            return Self::wrong(query, "has the new block already");
        }
        self.batch.grow(query);
        let Some(block) = block else {
            let last = self.rows[query.at()].last().copied();
            let alone = last.is_some_and(|last| self.owners.get(&last) == Some(&1));
            return Ok(if alone { self.lengthen(query, 0) } else { Extent::Anew });
        };
        self.rows[query.at()].push(block);
        self.tables_changed = true;
        let owners = self.owners.entry(block).or_insert(0);
        *owners += 1;
        if *owners > 1 {
            return Ok(Extent::Anew);
        }
        let node = self.ends[query.at()];
        let of = &self.nodes[node as usize];
        if of.ending.len() == 1 && of.children.is_empty() {
            return Ok(self.lengthen(query, 1));
        }
        let end = of.end;
        self.nodes[node as usize].ending.retain(|q| *q != query);
        self.leaf(node, end..end + 1, 1, query);
        self.tidy(node);
        Ok(Extent::Tree)
    }

    /// One token more for a leaf of one request, with `blocks` blocks more.
    fn lengthen(&mut self, query: QueryIdx, blocks: u32) -> Extent {
        let node = &mut self.nodes[self.ends[query.at()] as usize];
        node.tokens += 1;
        node.end += blocks;
        if let Some(placed) = self.tree.nodes.get_mut(node.place.at()) {
            placed.tokens += Tokens(1);
            placed.blocks.end += blocks;
        }
        Extent::Lengths
    }

    fn leave(&mut self, query: QueryIdx) -> Result<Extent> {
        if query.at() >= self.rows.len() {
            return Self::wrong(query, "cannot leave: there is no such request");
        }
        for block in self.rows.remove(query.at()) {
            if let Some(count) = self.owners.get_mut(&block) {
                *count -= 1;
                if *count == 0 {
                    self.owners.remove(&block);
                }
            }
        }
        self.batch.remove(query);
        self.tables_changed = true;
        let node = self.ends.remove(query.at());
        self.nodes[node as usize].ending.retain(|q| *q != query);
        for other in self.nodes.iter_mut().flat_map(|node| &mut node.ending) {
            if *other > query {
                other.0 -= 1;
            }
        }
        for loose in &mut self.nodes {
            if loose.first != NONE && loose.first > query.0 {
                loose.first -= 1;
            }
        }
        let mut at = node;
        while at != NONE {
            let first = self.first_of(at);
            self.nodes[at as usize].first = first;
            at = self.nodes[at as usize].parent;
        }
        self.tidy(node);
        Ok(Extent::Tree)
    }

    /// Removes a node without requests, and joins one that ends nobody's row with an only child.
    fn tidy(&mut self, node: u32) {
        let of = &self.nodes[node as usize];
        if !of.ending.is_empty() {
            return;
        }
        let parent = of.parent;
        match of.children.as_slice() {
            [] => {
                self.siblings(parent).retain(|child| *child != node);
                self.unused.push(node);
                if parent != NONE {
                    self.tidy(parent);
                }
            }
            [child] => {
                let child = *child;
                let nothing = Loose::new(NONE, 0..0, 0, NONE);
                let below = std::mem::replace(&mut self.nodes[child as usize], nothing);
                self.unused.push(child);
                for query in &below.ending {
                    self.ends[query.at()] = node;
                }
                for grandchild in &below.children {
                    self.nodes[*grandchild as usize].parent = node;
                }
                let of = &mut self.nodes[node as usize];
                of.end = below.end;
                of.tokens += below.tokens;
                of.ending = below.ending;
                of.children = below.children;
            }
            _ => {}
        }
    }

    fn siblings(&mut self, parent: u32) -> &mut Vec<u32> {
        if parent == NONE { &mut self.roots } else { &mut self.nodes[parent as usize].children }
    }

    fn add(&mut self, node: Loose) -> u32 {
        if let Some(slot) = self.unused.pop() {
            self.nodes[slot as usize] = node;
            return slot;
        }
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    fn leaf(&mut self, parent: u32, blocks: std::ops::Range<u32>, tokens: u64, query: QueryIdx) {
        let leaf = Loose { ending: vec![query], ..Loose::new(parent, blocks, tokens, query.0) };
        let leaf = self.add(leaf);
        self.siblings(parent).push(leaf);
        self.ends[query.at()] = leaf;
    }

    fn join(&mut self, kv: Tokens, row: &[BlockIdx]) -> Result<Extent> {
        let query = QueryIdx::from(self.rows.len());
        self.batch.push(Request { kind: RequestKind::Decode, kv }, row)?;
        self.tables_changed = true;
        for block in row {
            *self.owners.entry(*block).or_insert(0) += 1;
        }
        self.rows.push(row.to_vec());
        self.ends.push(NONE);
        let block_size = self.block_size();
        let (whole, fill) = ((kv.0 / block_size) as u32, kv.0 % block_size);
        let (mut at, mut depth) = (NONE, 0);
        while let Some((child, shared)) = self.shared_child(at, row, depth, whole, fill) {
            depth += shared;
            if depth < self.nodes[child as usize].end {
                self.split(child, depth);
                at = self.nodes[child as usize].parent;
                break;
            }
            at = child;
        }
        if depth as usize == row.len() {
            self.nodes[at as usize].ending.push(query);
            self.ends[query.at()] = at;
        } else {
            let tokens = kv.0 - u64::from(depth) * block_size;
            self.leaf(at, depth..row.len() as u32, tokens, query);
        }
        Ok(Extent::Tree)
    }

    /// The child of a node that begins as `row` goes on from block `depth`, with the blocks shared.
    fn shared_child(&self, at: u32, row: &[BlockIdx], depth: u32, whole: u32, fill: u64) -> Option<(u32, u32)> {
        if depth as usize >= row.len() {
            return None;
        }
        let block_size = self.block_size();
        let children = if at == NONE { &self.roots } else { &self.nodes[at as usize].children };
        children.iter().find_map(|child| {
            let of = &self.nodes[*child as usize];
            let theirs = &self.rows[of.first as usize][of.begin as usize..of.end as usize];
            let their_fill = of.tokens % block_size;
            let their_whole = theirs.len() - usize::from(their_fill > 0);
            let ours = &row[depth as usize..whole as usize];
            let mut shared = ours.iter().zip(&theirs[..their_whole]).take_while(|(a, b)| a == b).count();
            let both_end = shared == ours.len() && shared == their_whole;
            if both_end && fill > 0 && fill == their_fill && row.last() == theirs.last() {
                shared += 1;
            }
            (shared > 0).then_some((*child, shared as u32))
        })
    }

    /// Cuts a node before block `at`; the node stays as the lower part.
    fn split(&mut self, lower: u32, at: u32) {
        let block_size = self.block_size();
        let (parent, begin, first) = {
            let of = &self.nodes[lower as usize];
            (of.parent, of.begin, of.first)
        };
        let tokens = u64::from(at - begin) * block_size;
        let upper = self.add(Loose { children: vec![lower], ..Loose::new(parent, begin..at, tokens, first) });
        for child in self.siblings(parent) {
            if *child == lower {
                *child = upper;
            }
        }
        let node = &mut self.nodes[lower as usize];
        node.begin = at;
        node.tokens -= tokens;
        node.parent = upper;
    }

    /// Builds tree and loose nodes from the tables.
    fn rebuild(&mut self) {
        self.tree = PrefixTree::of(&self.batch);
        self.unused.clear();
        self.ends = vec![NONE; self.rows.len()];
        self.roots = self.tree.roots.iter().map(|root| root.0).collect();
        self.nodes.clear();
        for (position, node) in self.tree.nodes.iter().enumerate() {
            let place = NodeIdx::from(position);
            let ending = self.tree.queries(place)[..node.ending as usize].to_vec();
            for query in &ending {
                self.ends[query.at()] = place.0;
            }
            self.nodes.push(Loose {
                parent: node.parent.map_or(NONE, |parent| parent.0),
                begin: node.blocks.start,
                end: node.blocks.end,
                tokens: node.tokens.0,
                ending,
                children: self.tree.children(place).iter().map(|child| child.0).collect(),
                first: self.tree.queries(place).iter().map(|query| query.0).min().unwrap_or(NONE),
                place,
            });
        }
    }

    /// Orders everything by first appearance, and numbers the nodes depth first.
    fn lay_out(&mut self) {
        let mut down = self.roots.clone();
        let mut at = 0;
        while at < down.len() {
            down.extend_from_slice(&self.nodes[down[at] as usize].children);
            at += 1;
        }
        for node in down.into_iter().rev() {
            self.order(node);
        }
        let mut roots = std::mem::take(&mut self.roots);
        roots.sort_unstable_by_key(|root| self.nodes[*root as usize].first);
        self.roots = roots;
        let mut tree = PrefixTree::default();
        // (loose node, parent, place in the parent's children, depth)
        let mut stack: Vec<(u32, Option<NodeIdx>, usize, u32)> =
            self.roots.iter().rev().map(|root| (*root, None, 0, 0)).collect();
        while let Some((at, parent, place_among, depth)) = stack.pop() {
            let place = NodeIdx::from(tree.nodes.len());
            match parent {
                None => tree.roots.push(place),
                Some(_) => tree.child_list[place_among] = place,
            }
            let of = &mut self.nodes[at as usize];
            of.place = place;
            let (first_child, first_query) = (tree.child_list.len(), tree.order.len() as u32);
            tree.child_list.resize(first_child + of.children.len(), NodeIdx(NONE));
            for (number, child) in of.children.iter().enumerate().rev() {
                stack.push((*child, Some(place), first_child + number, depth + 1));
            }
            tree.order.extend_from_slice(&of.ending);
            tree.nodes.push(Node {
                parent,
                blocks: of.begin..of.end,
                tokens: Tokens(of.tokens),
                queries: first_query..tree.order.len() as u32,
                ending: of.ending.len() as u32,
                children: first_child as u32..tree.child_list.len() as u32,
                depth,
            });
        }
        for node in (0..tree.nodes.len()).rev() {
            if let Some(parent) = tree.nodes[node].parent {
                let end = tree.nodes[node].queries.end;
                let above = &mut tree.nodes[parent.at()].queries;
                above.end = above.end.max(end);
            }
        }
        tree.find_places(self.rows.len());
        self.tree = tree;
    }

    /// Sorts the children of a node by their first request, and finds its own first.
    fn order(&mut self, node: u32) {
        let mut children = std::mem::take(&mut self.nodes[node as usize].children);
        children.sort_unstable_by_key(|child| self.nodes[*child as usize].first);
        let of = &mut self.nodes[node as usize];
        of.ending.sort_unstable();
        of.children = children;
        let first = self.first_of(node);
        self.nodes[node as usize].first = first;
    }

    /// First request at and below a node whose children know theirs.
    fn first_of(&self, node: u32) -> u32 {
        let of = &self.nodes[node as usize];
        let below = of.children.iter().map(|child| self.nodes[*child as usize].first);
        of.ending.iter().map(|query| query.0).chain(below).min().unwrap_or(NONE)
    }
}
