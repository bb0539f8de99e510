//! The cheapest packing in which every child leaves or stays as a whole: what every other system here
//! makes, solved exactly.
//!
//! At a node the queries below a child either all *split* off (the node's own packs take them, and the
//! child begins a run of its own) or all *merge* (the child's run goes on from the node's, which is
//! then read along with it). With `T` the KV of a node's run, which begins `up` nodes above it, and `R`
//! the queries that end there or split off,
//!
//! ```text
//! least(node, up) = min over sets of children that split:
//!     cd(R, M) · T  +  R · slot  +  Σ split: least(child, 0)  +  Σ merged: least(child, up + 1)
//! ```
//!
//! Children touch each other only in `cd(R, M)`, so they are taken one by one with `R mod M` as the
//! state. That is nodes × depth × M steps, without any list that could have to be cut.
//!
//! **What it is for.** `search` looks at more packings, but in a tree with many near ties it may drop the
//! best. What it finds is then compared with this, which no rule that decides child by child can
//! undercut, however it decides: `pat` and its kin and `fasttree` pick a set of children by some rule;
//! `naive`, `deft`, `flashforge`, `cascade` and `hydragen` split all; `relay` and `vllm-cascade-rule`
//! split those of the root; and all of them cut along queries and KV afterwards, which adds bytes.
//!
//! Worked number, M = 16, 32/8 heads, 256 tokens (1 MiB a reading) over children of 3, 4 and 16 queries.
//! The 16 merge: they fill a pack either way. The 3 and the 4 split and share a reading, 2 MiB and 7
//! slots of 41,216 B, 2.4 MB in all; all merged read three times, 3.1 MB.

use crate::decision::{self, Choice, Considered, Decision, RuleConstant, Subject};
use crate::pack::cut::{Parting, walk};
use crate::pack::min_traffic::search::Price;
use crate::pack::{PackInput, Packing, price};
use crate::units::NodeIdx;
use crate::workload::Node;

/// A run takes in at most this many nodes above its own, so that memory is linear in nodes whatever the
/// depth. Deeper than that, a run begins anew.
const MOST_UP: u32 = 64;

/// The cheapest such packing, with partials, where it costs less than `bound`.
pub(super) fn below(input: &PackInput<'_>, price: Price, bound: u64) -> Option<Packing> {
    let ways = Ways::new(input, price);
    let least: u64 = input.tree.roots.iter().map(|root| ways.least[ways.first[root.at()]]).sum();
    let pack = || walk(input, |parting| ways.splits(parting), |parting, split| explain(input, parting, price, split));
    (least < bound).then(pack)
}

/// The least price of each (node, nodes of its run above it), and what led there.
struct Ways<'a> {
    input: &'a PackInput<'a>,
    price: Price,
    /// First entry of each node.
    first: Vec<usize>,
    least: Vec<u64>,
    /// Whether the node splits off where its parent's run begins one node less above the parent.
    splits: Vec<bool>,
}

/// A child as its parent sees it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Child {
    queries: u32,
    /// Price of its subtree and of its slots in the parent's packs.
    split: u64,
    merged: Option<u64>,
}

impl<'a> Ways<'a> {
    fn new(input: &'a PackInput<'a>, price: Price) -> Self {
        let nodes = &input.tree.nodes;
        let mut first = Vec::with_capacity(nodes.len());
        let mut entries = 0;
        for node in nodes {
            first.push(entries);
            entries += node.depth.min(MOST_UP) as usize + 1;
        }
        let mut ways = Self { input, price, first, least: vec![0; entries], splits: vec![true; entries] };
        let mut knapsack = Knapsack::default();
        for node in (0..nodes.len()).rev().map(NodeIdx::from) {
            // Their parents find what leaves cost on their own.
            if nodes[node.at()].is_leaf() && nodes[node.at()].parent.is_some() {
                continue;
            }
            let mut above = Some(node);
            let mut tokens = 0;
            for up in 0..=nodes[node.at()].depth.min(MOST_UP) {
                let Some(begin) = above.map(|above| &nodes[above.at()]) else { break };
                tokens += begin.tokens.0;
                above = begin.parent;
                ways.solve(node, up, tokens * price.kv_token, &mut knapsack);
            }
        }
        ways
    }

    /// Settles a node whose run of `bytes` begins `up` nodes above it.
    fn solve(&mut self, node: NodeIdx, up: u32, bytes: u64, knapsack: &mut Knapsack) {
        let Price { slot, most, .. } = self.price;
        let of = self.input.tree.node(node);
        let (ending, slots) = (of.ending, u64::from(of.ending) * slot);
        let children = self.input.tree.children(node);
        let own = self.first[node.at()] + up as usize;
        let Some(first) = children.first().map(|child| self.child(*child, up, bytes)) else {
            self.least[own] = self.leaf(of, bytes);
            return;
        };
        if children[1..].iter().all(|child| self.child(*child, up, bytes) == first) {
            let (least, split) = alike(first, children.len() as u32, ending, most, bytes);
            self.least[own] = slots + least;
            for child in &children[split as usize..] {
                self.note(*child, up, false);
            }
            return;
        }
        knapsack.begin(most, ending % most, slots + u64::from(ending / most) * bytes);
        for child in children {
            knapsack.add(self.child(*child, up, bytes), bytes);
        }
        let (least, mut rest) = knapsack.least(bytes);
        self.least[own] = least;
        for (number, child) in children.iter().enumerate().rev() {
            let split = knapsack.splits[number * most as usize + rest as usize];
            if split {
                let queries = self.input.tree.node(*child).query_count() % most;
                rest = (rest + most - queries) % most;
            }
            self.note(*child, up, split);
        }
    }

    /// Notes whether a child splits off where its parent's run begins `up` nodes above the parent.
    fn note(&mut self, child: NodeIdx, up: u32, split: bool) {
        if up < MOST_UP {
            self.splits[self.first[child.at()] + up as usize + 1] = split;
        }
    }

    /// A child of a node whose run of `bytes` begins `up` nodes above it.
    fn child(&self, node: NodeIdx, up: u32, bytes: u64) -> Child {
        let of = self.input.tree.node(node);
        let own = of.tokens.0 * self.price.kv_token;
        let least = |up: u32, bytes: u64| {
            if of.is_leaf() { self.leaf(of, bytes) } else { self.least[self.first[node.at()] + up as usize] }
        };
        let queries = of.query_count();
        let split = least(0, own) + u64::from(queries) * self.price.slot;
        Child { queries, split, merged: (up < MOST_UP).then(|| least(up + 1, bytes + own)) }
    }

    /// The price of a leaf whose run has `bytes`.
    fn leaf(&self, of: &Node, bytes: u64) -> u64 {
        let Price { slot, most, .. } = self.price;
        u64::from(of.ending) * slot + u64::from(of.ending.div_ceil(most)) * bytes
    }

    fn splits(&self, parting: &Parting) -> bool {
        let nodes = &self.input.tree.nodes;
        let mut begin = &nodes[parting.node.at()];
        let mut up = 0;
        while begin.blocks.start > parting.blocks_begin {
            let Some(parent) = begin.parent else { break };
            begin = &nodes[parent.at()];
            up += 1;
        }
        up >= MOST_UP || self.splits[self.first[parting.child.at()] + up as usize + 1]
    }
}

/// The least price of children that are all the same, and how many of them split.
fn alike(child: Child, count: u32, ending: u32, most: u32, bytes: u64) -> (u64, u32) {
    let price = |split: u32| {
        let readings = u64::from((ending + split * child.queries).div_ceil(most)) * bytes;
        let merged = child.merged.map_or(u64::MAX, |merged| merged.saturating_mul(u64::from(count - split)));
        (readings + u64::from(split) * child.split).saturating_add(if split < count { merged } else { 0 })
    };
    (0..=count).map(|split| (price(split), split)).min().unwrap_or((u64::MAX, 0))
}

/// The least price of some children for each number of queries in the node's last pack.
#[derive(Default)]
struct Knapsack {
    most: u32,
    /// By queries modulo M; `u64::MAX` where no choice leaves so many.
    best: Vec<u64>,
    before: Vec<u64>,
    /// For each child and number of queries after it: whether it split off.
    splits: Vec<bool>,
}

impl Knapsack {
    fn begin(&mut self, most: u32, rest: u32, cost: u64) {
        self.most = most;
        self.best.clear();
        self.best.resize(most as usize, u64::MAX);
        self.best[rest as usize] = cost;
        self.splits.clear();
    }

    fn add(&mut self, child: Child, bytes: u64) {
        let full = u64::from(child.queries / self.most) * bytes;
        let queries = (child.queries % self.most) as usize;
        let most = self.most as usize;
        std::mem::swap(&mut self.best, &mut self.before);
        self.best.clear();
        for rest in 0..most {
            let merged = child.merged.map_or(u64::MAX, |merged| self.before[rest].saturating_add(merged));
            // As many were left before it split off; past M one more pack is full.
            let (from, filled) = if rest >= queries { (rest - queries, 0) } else { (rest + most - queries, bytes) };
            let split = self.before[from].saturating_add(child.split + full + filled);
            self.splits.push(split < merged);
            self.best.push(split.min(merged));
        }
    }

    /// The least price, with the readings of the last pack, and the queries in it.
    fn least(&self, bytes: u64) -> (u64, u32) {
        let price = |(rest, cost): (usize, &u64)| (cost.saturating_add(if rest > 0 { bytes } else { 0 }), rest as u32);
        self.best.iter().enumerate().map(price).min().unwrap_or((u64::MAX, 0))
    }
}

fn explain(input: &PackInput<'_>, parting: &Parting, at: Price, split: bool) -> Decision {
    let Parting { remaining, queries, tokens, .. } = *parting;
    let slots = f64::from(queries) * at.slot as f64;
    // Readings of its own, less those that it leaves over.
    let left = remaining.div_ceil(at.most) - (remaining - queries).div_ceil(at.most);
    let readings = f64::from(queries.div_ceil(at.most) - left);
    let reading = at.kv_token as f64 * tokens.as_f64();
    Decision {
        subject: Subject::Node(parting.node),
        other: Some(parting.child),
        choice: Choice::Sharing,
        considered: vec![
            Considered::new("split", slots, price::partials(input, queries)),
            Considered::new("merge", reading * readings, decision::Price::traffic(reading * readings)),
        ],
        chosen: usize::from(!split),
        unit: "bytes".into(),
        rule: "the fewest bytes of all packings that keep the queries of a child together; shown are those at this node, slots against its readings".into(),
        constant: Some(RuleConstant::new("KV tokens of the node's run", tokens.as_f64(), (readings > 0.0).then(|| slots / (at.kv_token as f64 * readings)))),
    }
}
