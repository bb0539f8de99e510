//! From the steps of the search to packs.

use smallvec::{SmallVec, smallvec};

use crate::decision::{self, Choice, Considered, Decision, RuleConstant, Subject};
use crate::pack::min_traffic::search::{Price, Search, Steps};
use crate::pack::{Pack, PackInput, Packing, price};
use crate::units::{NodeIdx, Tokens};

/// A pack that covers the node at hand and is not full; where it begins is not known yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Where it ends.
    node: NodeIdx,
    queries_begin: u32,
    queries_len: u32,
}

struct Emission<'a> {
    input: &'a PackInput<'a>,
    most: u32,
    packing: Packing,
    /// Open packs of each node that is done and whose parent is not.
    open: Vec<OpenPacks>,
    /// Packs of the children of the node at hand that are pooled there, and those that are kept, where one explains.
    pooled: Vec<(NodeIdx, Open)>,
    kept: Vec<(NodeIdx, Open)>,
}

/// Few as a rule, and those of a leaf are one or two.
type OpenPacks = SmallVec<[Open; 2]>;

/// Makes the packs of the cheapest state of every root.
pub(super) fn emit(input: &PackInput<'_>, search: &Search<'_>, price: Price) -> Packing {
    let tree = input.tree;
    let states = states(input, search);
    let mut packing = Packing::default();
    packing.packs.reserve(tree.nodes.len());
    packing.queries.reserve(2 * tree.order.len());
    let open = vec![smallvec![]; tree.nodes.len()];
    let mut emission = Emission { input, most: price.most, packing, open, pooled: Vec::new(), kept: Vec::new() };
    for node in (0..tree.nodes.len()).rev().map(NodeIdx::from) {
        emission.node(node, search, states[node.at()], price);
        if tree.node(node).parent.is_none() {
            for open in std::mem::take(&mut emission.open[node.at()]) {
                emission.push(open, 0);
            }
        }
    }
    // Decisions were written from the leaves up; a person reads from the root down.
    emission.packing.decisions.records.reverse();
    emission.packing
}

/// The state of each node: the cheapest of a root, and below it those that led there.
fn states(input: &PackInput<'_>, search: &Search<'_>) -> Vec<u32> {
    let mut states = vec![0; input.tree.nodes.len()];
    for node in (0..states.len()).map(NodeIdx::from) {
        if input.tree.node(node).is_leaf() {
            continue;
        }
        let mut children = search.children(node).iter();
        for step in search.steps(node, states[node.at()]) {
            for child in children.by_ref().take(step.children as usize) {
                states[child.at()] = step.state;
            }
        }
    }
    states
}

impl Emission<'_> {
    /// Keeps and pools the open packs of a node's children, and ends the node's own packs.
    fn node(&mut self, node: NodeIdx, search: &Search<'_>, state: u32, price: Price) {
        let tree = self.input.tree;
        let of = tree.node(node);
        let mut kept_here = OpenPacks::new();
        let (mut pooled, mut kept) = (std::mem::take(&mut self.pooled), std::mem::take(&mut self.kept));
        pooled.clear();
        kept.clear();
        let mut children = search.children(node).iter();
        let steps = if of.is_leaf() { Steps::new() } else { search.steps(node, state) };
        for step in steps {
            let mut keep: SmallVec<[(u32, u32); 4]> = step.kept.pairs().into();
            for child in children.by_ref().take(step.children as usize) {
                for open in std::mem::take(&mut self.open[child.at()]) {
                    let left = keep.iter_mut().find(|entry| entry.0 == open.queries_len && entry.1 > 0);
                    if let Some(left) = left {
                        left.1 -= 1;
                        kept_here.push(open);
                        if self.input.explain {
                            kept.push((*child, open));
                        }
                    } else {
                        pooled.push((*child, open));
                    }
                }
            }
        }
        pooled.sort_unstable_by_key(|(child, open)| (*child, open.node, open.queries_begin));
        let first = self.packing.queries.len();
        self.packing.queries.extend_from_slice(&tree.queries(node)[..of.ending as usize]);
        for (child, open) in &pooled {
            let run = open.queries_begin as usize..(open.queries_begin + open.queries_len) as usize;
            self.packing.queries.extend_from_within(run);
            self.push(*open, tree.node(*child).blocks.start);
        }
        let pool = (self.packing.queries.len() - first) as u32;
        if self.input.explain {
            self.explain(node, &pooled, pool, price, true);
            self.explain(node, &kept, pool, price, false);
        }
        (self.pooled, self.kept) = (pooled, kept);
        let own = search.own_open(node, state);
        let mut done = 0;
        while done < pool - own.iter().sum::<u32>() {
            self.push(Open { node, queries_begin: first as u32 + done, queries_len: self.most }, 0);
            done += self.most;
        }
        for queries_len in own {
            kept_here.push(Open { node, queries_begin: first as u32 + done, queries_len });
            done += queries_len;
        }
        self.open[node.at()] = kept_here;
    }

    /// An open pack begins at block `blocks_begin`.
    fn push(&mut self, open: Open, blocks_begin: u32) {
        let node = self.input.tree.node(open.node);
        let block = u64::from(self.input.batch.shape.block_size);
        self.packing.packs.push(Pack {
            node: open.node,
            queries_begin: open.queries_begin,
            queries_len: open.queries_len,
            blocks_begin,
            blocks_end: node.blocks.end,
            tokens: Tokens(u64::from(node.blocks.start - blocks_begin) * block) + node.tokens,
        });
    }

    /// One record for the packs of each child: what their slots cost, and what their readings of
    /// the node cost, with the `pool` as it came out.
    fn explain(&mut self, node: NodeIdx, packs: &[(NodeIdx, Open)], pool: u32, price: Price, split: bool) {
        let tokens = self.input.tree.node(node).tokens.as_f64();
        let mut packs: Vec<(NodeIdx, u32)> = packs.iter().map(|(child, open)| (*child, open.queries_len)).collect();
        packs.sort_unstable();
        for of_child in packs.chunk_by(|a, b| a.0 == b.0).rev() {
            let queries: u32 = of_child.iter().map(|(_, queries)| queries).sum();
            let (with, without) = if split { (pool, pool - queries) } else { (pool + queries, pool) };
            let saved = with.div_ceil(self.most) - without.div_ceil(self.most);
            let readings = f64::from(of_child.len() as u32) - f64::from(saved);
            let slots = price.slot as f64 * f64::from(queries);
            let reading = price.kv_token as f64 * tokens;
            self.packing.decisions.push(Decision {
                subject: Subject::Node(node),
                other: Some(of_child[0].0),
                choice: Choice::Sharing,
                considered: vec![
                    Considered::new("split", slots, price::partials(self.input, queries)),
                    Considered::new("merge", reading * readings, decision::Price::traffic(reading * readings)),
                ],
                chosen: usize::from(!split),
                unit: "bytes".into(),
                rule: "the fewest bytes over the whole path; shown are those at this node, slots against its readings"
                    .into(),
                constant: Some(RuleConstant::new(
                    "KV tokens of the node",
                    tokens,
                    (readings > 0.0).then(|| slots / (price.kv_token as f64 * readings)),
                )),
            });
        }
    }
}
