//! Builds the prefix tree from block tables, in time linear in their entries.
//!
//! Requests are inserted one after another. The run that a request shares with the one before it
//! is compared first, so a batch in tree order costs one comparison of memory a request; other
//! orders find their place through a hash of (parent, first block).

use rustc_hash::FxHashMap;

use crate::units::{BlockIdx, NodeIdx, QueryIdx, Tokens};
use crate::workload::{Batch, Node, PrefixTree};

const NONE: u32 = u32::MAX;

/// A node while the tree grows.
#[derive(Clone, Copy)]
struct Draft {
    parent: u32,
    /// A request whose row holds the blocks of this node.
    row: QueryIdx,
    begin: u32,
    end: u32,
    /// Tokens in the last block when all requests here end in it partly filled; else 0.
    partial_fill: u32,
    first_child: u32,
    last_child: u32,
    previous_sibling: u32,
    next_sibling: u32,
    /// Requests that end here, as a linked list over requests.
    first_ending: u32,
    last_ending: u32,
    ending: u32,
}

struct Growing<'a> {
    batch: &'a Batch,
    drafts: Vec<Draft>,
    /// (parent + 1, first block, partial fill) to node.
    children: FxHashMap<(u32, u32, u32), u32>,
    first_root: u32,
    last_root: u32,
    next_ending: Vec<u32>,
}

/// Builds the tree of the decode requests of `batch`.
pub(super) fn build(batch: &Batch) -> PrefixTree {
    let requests = batch.requests().len();
    let mut growing = Growing {
        batch,
        drafts: Vec::with_capacity(2 * requests),
        children: FxHashMap::with_capacity_and_hasher(2 * requests, rustc_hash::FxBuildHasher),
        first_root: NONE,
        last_root: NONE,
        next_ending: vec![NONE; requests],
    };
    let mut previous: Option<(QueryIdx, u32)> = None;
    for (query, _) in batch.decodes() {
        let leaf = growing.insert(query, previous);
        previous = Some((query, leaf));
    }
    growing.finish()
}

impl Growing<'_> {
    /// Whole blocks of a request, and the fill of a partly filled last one (0 if none).
    fn extent(&self, query: QueryIdx) -> (u32, u32) {
        let block_size = u64::from(self.batch.shape.block_size);
        let tokens = self.batch.request(query).kv.0;
        ((tokens / block_size) as u32, (tokens % block_size) as u32)
    }

    /// Puts a request in its place and returns the node where it ends.
    fn insert(&mut self, query: QueryIdx, previous: Option<(QueryIdx, u32)>) -> u32 {
        let row = self.batch.tables().row(query);
        let (whole, fill) = self.extent(query);
        let (mut at, mut depth) = self.resume(query, whole, previous);
        while depth < whole {
            let Some(&child) = self.children.get(&(at.wrapping_add(1), row[depth as usize].0, 0)) else {
                at = self.add(at, query, depth..whole, 0);
                depth = whole;
                break;
            };
            let draft = self.drafts[child as usize];
            let theirs = &self.batch.tables().row(draft.row)[draft.begin as usize..draft.end as usize];
            let shared = common_run(&row[depth as usize..whole as usize], theirs);
            at = if shared < draft.end - draft.begin { self.split(child, draft.begin + shared) } else { child };
            depth += shared;
        }
        if fill > 0 {
            let key = (at.wrapping_add(1), row[depth as usize].0, fill);
            at = match self.children.get(&key) {
                Some(&child) => child,
                None => self.add(at, query, depth..depth + 1, fill),
            };
        }
        self.end_at(at, query);
        at
    }

    /// Where to go on, given where the request before ended: the node that holds the last shared
    /// block, split there if the shared run stops inside it, and the blocks shared.
    fn resume(&mut self, query: QueryIdx, whole: u32, previous: Option<(QueryIdx, u32)>) -> (u32, u32) {
        let Some((before, leaf)) = previous else { return (NONE, 0) };
        let (whole_before, _) = self.extent(before);
        let tables = self.batch.tables();
        let shared = common_run(&tables.row(query)[..whole as usize], &tables.row(before)[..whole_before as usize]);
        let mut at = leaf;
        while at != NONE && self.drafts[at as usize].begin >= shared {
            at = self.drafts[at as usize].parent;
        }
        if at == NONE {
            return (NONE, 0);
        }
        if shared < self.drafts[at as usize].end {
            at = self.split(at, shared);
        }
        (at, shared)
    }

    fn add(&mut self, parent: u32, row: QueryIdx, blocks: std::ops::Range<u32>, partial_fill: u32) -> u32 {
        let node = self.drafts.len() as u32;
        let first = self.batch.tables().row(row)[blocks.start as usize].0;
        self.drafts.push(Draft {
            parent,
            row,
            begin: blocks.start,
            end: blocks.end,
            partial_fill,
            first_child: NONE,
            last_child: NONE,
            previous_sibling: NONE,
            next_sibling: NONE,
            first_ending: NONE,
            last_ending: NONE,
            ending: 0,
        });
        self.children.insert((parent.wrapping_add(1), first, partial_fill), node);
        let (head, tail) = self.ends(parent);
        let before = std::mem::replace(tail, node);
        if before == NONE {
            *head = node;
        } else {
            self.drafts[before as usize].next_sibling = node;
            self.drafts[node as usize].previous_sibling = before;
        }
        node
    }

    /// Cuts a node before block `at`. The lower part keeps its entry, so that what hangs below it
    /// stays found; the upper part is new and takes its place among the siblings.
    fn split(&mut self, lower: u32, at: u32) -> u32 {
        let upper = self.drafts.len() as u32;
        let old = self.drafts[lower as usize];
        self.drafts.push(Draft {
            end: at,
            first_child: lower,
            last_child: lower,
            first_ending: NONE,
            last_ending: NONE,
            ending: 0,
            ..old
        });
        self.replace_sibling(&old, upper);
        let row = self.batch.tables().row(old.row);
        self.children.insert((old.parent.wrapping_add(1), row[old.begin as usize].0, 0), upper);
        self.children.insert((upper + 1, row[at as usize].0, 0), lower);
        let draft = &mut self.drafts[lower as usize];
        draft.begin = at;
        draft.parent = upper;
        draft.previous_sibling = NONE;
        draft.next_sibling = NONE;
        upper
    }

    /// Points everything that named `old` in its list of siblings to `new`.
    fn replace_sibling(&mut self, old: &Draft, new: u32) {
        let (head, tail) = self.ends(old.parent);
        if old.previous_sibling == NONE {
            *head = new;
        }
        if old.next_sibling == NONE {
            *tail = new;
        }
        if old.previous_sibling != NONE {
            self.drafts[old.previous_sibling as usize].next_sibling = new;
        }
        if old.next_sibling != NONE {
            self.drafts[old.next_sibling as usize].previous_sibling = new;
        }
    }

    /// First and last child of a node, or of the forest.
    fn ends(&mut self, parent: u32) -> (&mut u32, &mut u32) {
        if parent == NONE {
            (&mut self.first_root, &mut self.last_root)
        } else {
            let above = &mut self.drafts[parent as usize];
            (&mut above.first_child, &mut above.last_child)
        }
    }

    fn end_at(&mut self, node: u32, query: QueryIdx) {
        let draft = &mut self.drafts[node as usize];
        draft.ending += 1;
        let before = std::mem::replace(&mut draft.last_ending, query.0);
        if before == NONE {
            draft.first_ending = query.0;
        } else {
            self.next_ending[before as usize] = query.0;
        }
    }

    /// Numbers the nodes depth first and lays out requests and children in that order.
    fn finish(self) -> PrefixTree {
        let mut tree = PrefixTree {
            nodes: Vec::with_capacity(self.drafts.len()),
            roots: Vec::new(),
            order: Vec::with_capacity(self.batch.requests().len()),
            places: Vec::new(),
            child_list: Vec::with_capacity(self.drafts.len()),
        };
        // (draft, parent node or NONE, position in the parent's child list)
        let mut stack: Vec<(u32, u32, u32)> = Vec::with_capacity(64);
        push_siblings(&self.drafts, self.first_root, NONE, 0, &mut stack);
        while let Some((draft_idx, parent, place)) = stack.pop() {
            let draft = &self.with_partial_block(draft_idx);
            let node = NodeIdx::from(tree.nodes.len());
            if parent == NONE {
                tree.roots.push(node);
            } else {
                tree.child_list[place as usize] = node;
            }
            let first_child = tree.child_list.len() as u32;
            let children = push_siblings(&self.drafts, draft.first_child, node.0, first_child, &mut stack);
            tree.child_list.resize(tree.child_list.len() + children as usize, NodeIdx(NONE));
            let first_query = tree.order.len() as u32;
            self.push_ending(draft, &mut tree.order);
            tree.nodes.push(Node {
                parent: (parent != NONE).then_some(NodeIdx(parent)),
                blocks: draft.begin..draft.end,
                tokens: self.tokens(draft),
                // Its own requests for now; those below are added once they are known.
                queries: first_query..first_query + draft.ending,
                ending: draft.ending,
                children: first_child..first_child + children,
                depth: if parent == NONE { 0 } else { tree.nodes[parent as usize].depth + 1 },
            });
        }
        for node in (0..tree.nodes.len()).rev() {
            if let Some(parent) = tree.nodes[node].parent {
                let end = tree.nodes[node].queries.end;
                let above = &mut tree.nodes[parent.at()].queries;
                above.end = above.end.max(end);
            }
        }
        tree.find_places(self.batch.requests().len());
        tree
    }

    /// A node, with a partly filled last block that nothing else parts from it: such a block is kept
    /// apart while requests come in, since a later one may go on from the whole blocks before it.
    fn with_partial_block(&self, node: u32) -> Draft {
        let draft = self.drafts[node as usize];
        let only_child = draft.first_child != NONE && draft.first_child == draft.last_child;
        if !only_child || draft.ending > 0 {
            return draft;
        }
        let child = self.drafts[draft.first_child as usize];
        if child.partial_fill == 0 {
            return draft;
        }
        Draft { row: child.row, begin: draft.begin, ..child }
    }

    fn push_ending(&self, draft: &Draft, order: &mut Vec<QueryIdx>) {
        let mut query = draft.first_ending;
        while query != NONE {
            order.push(QueryIdx(query));
            query = self.next_ending[query as usize];
        }
    }

    fn tokens(&self, draft: &Draft) -> Tokens {
        let blocks = u64::from(draft.end - draft.begin);
        let block_size = u64::from(self.batch.shape.block_size);
        match u64::from(draft.partial_fill) {
            0 => Tokens(blocks * block_size),
            fill => Tokens((blocks - 1) * block_size + fill),
        }
    }
}

/// Pushes a list of siblings so that the first is popped first; returns how many there are.
fn push_siblings(drafts: &[Draft], first: u32, parent: u32, place: u32, stack: &mut Vec<(u32, u32, u32)>) -> u32 {
    let base = stack.len();
    let mut child = first;
    while child != NONE {
        stack.push((child, parent, place + (stack.len() - base) as u32));
        child = drafts[child as usize].next_sibling;
    }
    stack[base..].reverse();
    (stack.len() - base) as u32
}

/// Length of the common beginning of two runs of blocks.
fn common_run(a: &[BlockIdx], b: &[BlockIdx]) -> u32 {
    const STEP: usize = 16;
    let length = a.len().min(b.len());
    let mut at = 0;
    while at + STEP <= length && a[at..at + STEP] == b[at..at + STEP] {
        at += STEP;
    }
    while at < length && a[at] == b[at] {
        at += 1;
    }
    at as u32
}
