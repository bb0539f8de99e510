//! Brute force in three sizes, for tests.
//!
//! [`literal`] tries, at every block of every path, every way to part the queries there into packs.
//! [`by_runs`] tries every way to cut each query's path at nodes into runs, counts the queries of
//! each run and fills packs; it knows nothing of open or full packs, of wastes or of dominance.
//! [`by_children`] tries every set of children that split off, at every node.

use std::collections::HashMap;

use crate::pack::min_traffic::search::Price;
use crate::units::NodeIdx;
use crate::workload::PrefixTree;

/// Packs of queries at one block, each a bit mask.
type Parted = Vec<u32>;

/// The cheapest packing of a tree of few queries, with partials.
pub(super) fn literal(tree: &PrefixTree, price: Price, block_size: u64) -> u64 {
    let mut literal = Literal { tree, price, block_size, known: HashMap::new() };
    tree.roots.iter().map(|root| literal.best(*root, 0, &Vec::new())).sum()
}

struct Literal<'a> {
    tree: &'a PrefixTree,
    price: Price,
    block_size: u64,
    known: HashMap<(u32, u64, Parted), u64>,
}

impl Literal<'_> {
    /// Block `block` of a node and all behind it, with the packs of the block before.
    fn best(&mut self, node: NodeIdx, block: u64, before: &Parted) -> u64 {
        let key = (node.0, block, before.clone());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let of = self.tree.node(node);
        let blocks = of.tokens.0.div_ceil(self.block_size);
        let tokens = (of.tokens.0 - block * self.block_size).min(self.block_size);
        let mut least = u64::MAX;
        for parted in partitions(of.queries.clone().collect(), self.price.most) {
            let begun: u32 = parted.iter().filter(|pack| !before.contains(pack)).map(|pack| pack.count_ones()).sum();
            let here = tokens * self.price.kv_token * parted.len() as u64 + u64::from(begun) * self.price.slot;
            let behind = if block + 1 < blocks {
                self.best(node, block + 1, &parted)
            } else {
                self.tree.children(node).iter().map(|child| self.best(*child, 0, &parted)).sum()
            };
            least = least.min(here + behind);
        }
        self.known.insert(key, least);
        least
    }
}

/// All ways to part `queries` into sets of at most `most`.
fn partitions(mut queries: Vec<u32>, most: u32) -> Vec<Parted> {
    let Some(query) = queries.pop() else { return vec![Vec::new()] };
    let mut all = Vec::new();
    for parted in partitions(queries, most) {
        for at in 0..parted.len() {
            if parted[at].count_ones() < most {
                let mut joined = parted.clone();
                joined[at] |= 1 << query;
                all.push(joined);
            }
        }
        let mut alone = parted;
        alone.push(1 << query);
        all.push(alone);
    }
    all
}

/// The cheapest packing with partials, over all runs of nodes.
pub(super) fn by_runs(tree: &PrefixTree, price: Price) -> u64 {
    let mut runs = Runs { tree, price, known: HashMap::new() };
    tree.roots.iter().map(|root| runs.best(*root, 0, &[tree.node(*root).query_count() as u8])).sum()
}

struct Runs<'a> {
    tree: &'a PrefixTree,
    price: Price,
    known: HashMap<(u32, usize, u64), u64>,
}

impl Runs<'_> {
    /// Children from number `child` on, when `open[k]` queries at `node` are in a run that began at
    /// the k-th node of its path and were not led on into a child before.
    fn best(&mut self, node: NodeIdx, child: usize, open: &[u8]) -> u64 {
        let Some(&below) = self.tree.children(node).get(child) else { return self.close(node, open) };
        let code = open.iter().fold(1_u64, |code, count| code << 7 | u64::from(*count));
        if let Some(known) = self.known.get(&(node.0, child, code)) {
            return *known;
        }
        let queries = self.tree.node(below).query_count() as u8;
        let mut least = u64::MAX;
        let mut on = vec![0; open.len()];
        loop {
            let led: u8 = on.iter().sum();
            if led <= queries {
                let mut there = on.clone();
                there.push(queries - led);
                let rest: Vec<u8> = open.iter().zip(&on).map(|(all, led)| all - led).collect();
                least = least.min(self.best(below, 0, &there) + self.best(node, child + 1, &rest));
            }
            // The next vector below `open`.
            let Some(at) = (0..on.len()).find(|at| on[*at] < open[*at] && on[*at] < queries) else { break };
            on[..at].fill(0);
            on[at] += 1;
        }
        self.known.insert((node.0, child, code), least);
        least
    }

    /// Ends at `node` the runs of the queries that are left.
    fn close(&self, node: NodeIdx, open: &[u8]) -> u64 {
        let mut tokens = 0;
        let mut at = Some(node);
        let mut total = 0;
        for count in open.iter().rev() {
            let Some(of) = at.map(|at| self.tree.node(at)) else { break };
            tokens += of.tokens.0;
            let packs = u64::from(u32::from(*count).div_ceil(self.price.most));
            total += packs * tokens * self.price.kv_token + u64::from(*count) * self.price.slot;
            at = of.parent;
        }
        total
    }
}

/// The cheapest packing that keeps the queries of a child together, with partials.
pub(super) fn by_children(tree: &PrefixTree, price: Price) -> u64 {
    tree.roots.iter().map(|root| best_children(tree, price, *root, 0)).sum()
}

/// A node whose run takes in `above` tokens of the nodes above it.
fn best_children(tree: &PrefixTree, price: Price, node: NodeIdx, above: u64) -> u64 {
    let of = tree.node(node);
    let run = above + of.tokens.0;
    let children = tree.children(node);
    let with = |split: u32| {
        let mut queries = of.ending;
        let mut below = 0;
        for (number, child) in children.iter().enumerate() {
            let splits = split >> number & 1 == 1;
            queries += if splits { tree.node(*child).query_count() } else { 0 };
            below += best_children(tree, price, *child, if splits { 0 } else { run });
        }
        let read = u64::from(queries.div_ceil(price.most)) * run * price.kv_token;
        read + u64::from(queries) * price.slot + below
    };
    (0..1 << children.len()).map(with).min().unwrap_or(0)
}
