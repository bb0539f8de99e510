//! `min-traffic`: the packs that move the fewest bytes, by exact search over the prefix tree.
//!
//! **What is searched.** Every packing whose packs read what all of their queries share: a pack is any set of at most M queries
//! (`M = max rows / g`) with any run of blocks that all of them share, and each (query, token) is in
//! one pack. Its bytes are those of `metrics::traffic`:
//!
//! ```text
//! Σ packs tokens · kv1  +  Σ packs queries · (q1 + 2·p1)  +  B · o1
//! ```
//!
//! and without `2·p1` where no query has two packs. That switch is one for the whole batch, so the
//! best packing without partials is made beside the best one with, and the cheaper is taken.
//!
//! **Why whole nodes are enough.** Where the packs of a node's queries change in the middle of the
//! node, one side of the change has no more packs than the other; that side's packs can take the
//! whole node. No query gets a pack more, and no token is read once more.
//!
//! **Why remainders are enough.** Packs over the same run can be filled up to M but one. A full pack
//! that begins at node c below p goes on through p for nothing: M of the queries that end in p's
//! own packs leave them, which saves exactly one pack there, and M slots. So full packs begin at the
//! root, and what remains to choose is where each *open* pack of `r < M` queries begins. One of them
//! ends at a node, or two: parts of r may fill up packs at different nodes above. That reads the node
//! once more and saves at most a slot for each query of the larger part, so only short nodes have
//! it. With s queries below a node and open packs of sizes X through it, `(s − ΣX)/M + |X|` packs
//! read it, so
//!
//! ```text
//! bytes = const + Σ nodes Σ x∈X  tokens · kv1 · (1 − x/M)  +  Σ open packs that begin below a root  x · (q1 + 2·p1)
//! ```
//!
//! The first sum is the part of a reading that an open pack wastes; the second is what its queries
//! pay for a further pack above. [`search`] minimises this form; [`emit`] makes the packs. Tests hold
//! it against brute force over all runs of nodes, and that against brute force over all partitions of
//! the queries of every block.
//!
//! **What is proven.** Where the search ends by itself, nothing moves fewer bytes. In trees with very many
//! near ties its lists would grow beyond what a decode step can wait for, and the search is cut short; the
//! decision says so. What is found then need not be the least, but two things still hold: it is no
//! more than the least of all packings that keep the queries of a child together, which
//! [`whole_children`] finds exactly, and so no more than any other scheduler here moves; and no more than
//! the packs of `min-time`, which come from the two same searches at other prices.
//!
//! Worked number, M = 16, 32/8 heads, 4 requests of one leaf each under a node of 256 tokens: kept
//! apart, they waste 4 · 15/16 readings of 1 MiB, 3.9 MB; pooled they waste 12/16, 0.8 MB, and pay
//! 4 slots of 41,216 B, 0.2 MB. So they are pooled.
//!
//! `min-time` searches the same packings at prices in time too, cuts what would be the last to end, and takes along what
//! is short below shared packs; see [`time`] and [`subtrees`].

#[cfg(test)]
mod brute;
mod doubled;
mod emit;
mod lanes;
mod narrow;
mod queue;
mod search;
mod sizes;
mod subtrees;
#[cfg(test)]
mod tests;
mod time;
mod whole_children;

pub(super) use time::MinTime;

use crate::decision::{self, Choice, Considered, Decision, Subject};
use crate::error::Result;
use crate::pack::cut::Emitter;
use crate::pack::min_traffic::search::{Price, Search};
use crate::pack::{Moved, PackInput, Packing, Scheduler};
use crate::units::NodeIdx;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinTraffic;

impl Scheduler for MinTraffic {
    fn name(&self) -> &'static str {
        "min-traffic"
    }

    fn about(&self) -> &'static str {
        "Ours: of all packs whose queries share every token the ones that move the fewest bytes, by exact search over the tree; no split for time."
    }

    /// A leaf is read the same number of times in all packings, so its length decides nothing.
    fn keeps_packs(&self) -> bool {
        true
    }

    fn pack(&self, input: &PackInput<'_>) -> Result<Packing> {
        let price = price(input);
        let (shared, cut) = searched(input, price, &[time::price(input)]);
        let whole = without_partials(input);
        let costs = [cost(input, &shared, price), cost(input, &whole, price)];
        let take_whole = costs[1] <= costs[0];
        let mut packing = if take_whole { whole } else { shared };
        if input.explain {
            packing.decisions.push(explain(costs, take_whole, cut));
        }
        Ok(packing)
    }
}

/// Prices of a batch in bytes.
fn price(input: &PackInput<'_>) -> Price {
    let shape = &input.batch.shape;
    Price {
        kv_token: shape.kv_bytes_per_token().0,
        slot: shape.query_bytes().0 + 2 * shape.partial_bytes().0,
        most: input.max_queries(),
    }
}

/// The cheapest packing with partials at a price, in the order of nodes, and whether the search was cut
/// short. There is no proof then, so the best packing of whole children and the packs found at `others`
/// prices are looked at too.
fn searched(input: &PackInput<'_>, price: Price, others: &[Price]) -> (Packing, bool) {
    let search = Search::new(input.tree, price, input.batch.shape.block_size);
    let mut best = emit::emit(input, &search, price);
    if search.cut {
        for other in others {
            let search = Search::new(input.tree, *other, input.batch.shape.block_size);
            let packing = emit::emit(input, &search, *other);
            if cost(input, &packing, price) < cost(input, &best, price) {
                best = packing;
            }
        }
        best = whole_children::below(input, price, cost(input, &best, price)).unwrap_or(best);
    }
    best.packs.sort_unstable_by_key(|pack| (pack.node, pack.blocks_begin, pack.queries_begin));
    (best, search.cut)
}

fn explain(costs: [u64; 2], take_whole: bool, cut: bool) -> Decision {
    let way = |what, cost: u64| Considered::new(what, cost as f64, decision::Price::traffic(cost as f64));
    Decision {
        subject: Subject::Plan,
        other: None,
        choice: Choice::Sharing,
        considered: vec![way("packs with partials", costs[0]), way("one pack a query, no partials", costs[1])],
        chosen: usize::from(take_whole),
        unit: "bytes".into(),
        rule: if cut {
            "the fewest bytes; the search was cut short, so that there may be fewer".into()
        } else {
            "the fewest bytes of all packings".into()
        },
        constant: None,
    }
}

/// Every query in one pack from the root to its end; queries that end together share.
fn without_partials(input: &PackInput<'_>) -> Packing {
    let mut emitter = Emitter::new(input);
    for (position, node) in input.tree.nodes.iter().enumerate() {
        if node.ending > 0 {
            let idx = NodeIdx::from(position);
            let first = emitter.packing.queries.len();
            emitter.add(&input.tree.queries(idx)[..node.ending as usize]);
            emitter.emit(idx, 0, first);
        }
    }
    emitter.packing
}

/// Price of a packing in full; the output, which is the same for all, is left out.
fn cost(input: &PackInput<'_>, packing: &Packing, price: Price) -> u64 {
    let Moved { tokens, slots } = packing.moved();
    let whole = slots == input.tree.order.len() as u64;
    let slot = if whole { input.batch.shape.query_bytes().0 } else { price.slot };
    tokens.0 * price.kv_token + slots * slot
}
