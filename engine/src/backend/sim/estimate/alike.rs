//! Packs that are alike, whatever launches them: what of a plan's price is the same under each strategy.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::plan::{LaunchPlan, PlannedPack};
use crate::tile::Tile;
use crate::units::{NodeIdx, PackIdx};
use crate::workload::PrefixTree;

/// Hits are told apart in so many steps.
const HITS: f64 = 16.0;
/// Token counts are told apart by a 32nd.
const TOKEN_BITS: u32 = 5;

/// The packs of a plan by classes of like ones.
#[derive(Debug)]
pub struct Alike {
    /// The class of each pack.
    pub(super) of_pack: Vec<u32>,
    pub(super) classes: Vec<Class>,
}

/// Packs with the same tile, queries, tokens (as far as they are told apart), hits and bytes written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    /// The first of them, which stands for all.
    pub(super) first: PackIdx,
    /// Part of its tokens that comes from HBM.
    pub(super) unique: f64,
    /// Queries that have partials elsewhere.
    pub(super) merged: u32,
}

/// What tells classes apart: tile and heads, queries, tokens, hits, merged queries.
type Key = (Tile, u32, u32, u64, u32, u32);

impl Alike {
    /// Of a plan that has its launches.
    pub fn of(plan: &LaunchPlan, tree: &PrefixTree) -> Self {
        let readings = Readings::of(plan, tree);
        let mut known: FxHashMap<Key, u32> = FxHashMap::default();
        let mut alike = Self { of_pack: Vec::with_capacity(plan.packs.len()), classes: Vec::new() };
        // Neighbours are alike more often than not.
        let mut last: Option<(Key, u32)> = None;
        for (at, pack) in plan.packs.iter().enumerate() {
            let unique = readings.unique(pack);
            let merged = merged_queries(plan, pack);
            let rounded = (unique * HITS).ceil() as u32;
            let key = (pack.tile, pack.heads, pack.queries_len, coarse(pack.tokens.0), rounded, merged);
            let class = match last {
                Some((other, class)) if other == key => class,
                _ => *known.entry(key).or_insert_with(|| {
                    alike.classes.push(Class { first: PackIdx::from(at), unique, merged });
                    alike.classes.len() as u32 - 1
                }),
            };
            last = Some((key, class));
            alike.of_pack.push(class);
        }
        alike
    }
}

/// Queries of a pack that have partials elsewhere.
fn merged_queries(plan: &LaunchPlan, pack: &PlannedPack) -> u32 {
    let queries = &plan.queries[pack.slots_begin as usize..(pack.slots_begin + pack.queries_len) as usize];
    queries.iter().filter(|query| plan.merge.of(**query).len() > 1).count() as u32
}

/// The leading bits of a token count.
fn coarse(tokens: u64) -> u64 {
    let below = (u64::BITS - tokens.leading_zeros()).saturating_sub(TOKEN_BITS + 1);
    (tokens + (1 << below >> 1)) >> below << below
}

/// How many times the packs of a plan read each node, in the mean over its tokens.
struct Readings<'a> {
    plan: &'a LaunchPlan,
    tree: &'a PrefixTree,
    of_node: Vec<f64>,
}

impl<'a> Readings<'a> {
    fn of(plan: &'a LaunchPlan, tree: &'a PrefixTree) -> Self {
        let mut of_node = vec![0.0; tree.nodes.len()];
        for (pack, times) in plan.packs.iter().zip(plan.reads_of_packs()) {
            for (node, tokens) in plan.reach(pack, tree) {
                of_node[node.at()] += times as f64 * (tokens.end - tokens.start) as f64;
            }
        }
        for (read, node) in of_node.iter_mut().zip(&tree.nodes) {
            *read = (*read / node.tokens.as_f64().max(1.0)).max(1.0);
        }
        Self { plan, tree, of_node }
    }

    /// Part of a pack's tokens that comes from HBM.
    fn unique(&self, pack: &PlannedPack) -> f64 {
        let once = |(node, tokens): (NodeIdx, Range<u64>)| (tokens.end - tokens.start) as f64 / self.of_node[node.at()];
        let tokens: f64 = self.plan.reach(pack, self.tree).map(once).sum();
        (tokens / pack.tokens.as_f64().max(1.0)).min(1.0)
    }
}
