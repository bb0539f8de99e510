//! Packs that are alike, whatever launches them: what of a plan's price is the same under each strategy.

use std::collections::VecDeque;
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::backend::sim::l2::kept;
use crate::backend::sim::segments::Segments;
use crate::backend::sim::sight::Sight;
use crate::hw::Device;
use crate::plan::{LaunchPlan, PlannedPack};
use crate::tile::Tile;
use crate::units::{NodeIdx, PackIdx, Tokens};
use crate::workload::PrefixTree;

/// Hits are told apart in so many steps.
const HITS: f64 = 16.0;
/// What is read over what there is, from which on it counts what L2 has forgotten: to find that takes a tenth of the
/// planning.
const READ_AGAIN: f64 = 1.0625;
/// CTAs of an SM, nearly always.
const WORKERS: u32 = 2;
/// Token counts are told apart by a 32nd.
const TOKEN_BITS: u32 = 5;

/// The packs of a plan by classes of like ones.
#[derive(Debug)]
pub struct Alike {
    /// The class of each pack.
    pub(super) of_pack: Vec<u32>,
    pub(super) classes: Vec<Class>,
    /// KV tokens of the batch, each once.
    pub(in crate::backend::sim) unique_tokens: Tokens,
}

/// Packs with the same tile, queries, tokens (as far as they are told apart), hits and bytes written.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend::sim) struct Class {
    /// The first of them, which stands for all.
    pub(super) first: PackIdx,
    /// Part of its tokens that comes from HBM.
    pub(in crate::backend::sim) unique: f64,
    /// No other pack reads them.
    pub(in crate::backend::sim) once: bool,
    /// Queries that have partials elsewhere.
    pub(super) merged: u32,
    /// What its rows see.
    pub(super) sight: Sight,
}

/// What tells classes apart: tile and heads, queries, tokens, hits, whether others read it, merged queries, what rows see.
type Key = (Tile, u32, u32, u64, (u32, bool), u32, (u32, u32));

impl Alike {
    /// Of a plan that has its launches.
    pub fn of(plan: &LaunchPlan, tree: &PrefixTree, device: &Device) -> Self {
        let readings = Readings::of(plan, tree, device);
        let mut known: FxHashMap<Key, u32> = FxHashMap::default();
        let (of_pack, unique_tokens) = (Vec::with_capacity(plan.packs.len()), tree.unique_tokens());
        let mut alike = Self { of_pack, classes: Vec::new(), unique_tokens };
        // Neighbours are alike more often than not.
        let mut last: Option<(Key, u32)> = None;
        for (at, pack) in plan.packs.iter().enumerate() {
            let (unique, once) = (readings.unique(pack), readings.once(pack));
            let merged = merged_queries(plan, pack);
            let sight = Sight::of(plan, tree, PackIdx::from(at));
            let rounded = (unique * HITS).ceil() as u32;
            let key =
                (pack.tile, pack.heads, pack.queries_len, coarse(pack.tokens.0), (rounded, once), merged, sight.key());
            let class = match last {
                Some((other, class)) if other == key => class,
                _ => *known.entry(key).or_insert_with(|| {
                    alike.classes.push(Class { first: PackIdx::from(at), unique, once, merged, sight });
                    alike.classes.len() as u32 - 1
                }),
            };
            last = Some((key, class));
            alike.of_pack.push(class);
        }
        alike
    }

    /// The class of a pack.
    pub(in crate::backend::sim) fn class(&self, pack: PackIdx) -> &Class {
        &self.classes[self.of_pack[pack.at()] as usize]
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

/// How many times the packs of a plan read each node, in the mean over its tokens, and where that is more than once and
/// more comes than L2 holds, how much of it comes from HBM again.
struct Readings<'a> {
    plan: &'a LaunchPlan,
    tree: &'a PrefixTree,
    of_node: Vec<f64>,
    missed: Option<(Segments, Vec<Missed>)>,
}

/// Readings of a segment.
#[derive(Clone, Copy)]
struct Missed {
    /// Tokens of all of them, and those that come from HBM.
    read: f64,
    from_hbm: f64,
    /// Bytes that had come from HBM at the last one.
    stamp: f64,
}

impl<'a> Readings<'a> {
    fn of(plan: &'a LaunchPlan, tree: &'a PrefixTree, device: &Device) -> Self {
        let mut of_node = vec![0.0; tree.nodes.len()];
        for (pack, times) in plan.packs.iter().zip(plan.reads_of_packs()) {
            for (node, tokens) in plan.reach(pack, tree) {
                of_node[node.at()] += times as f64 * (tokens.end - tokens.start) as f64;
            }
        }
        let unique: f64 = tree.nodes.iter().map(|node| node.tokens.as_f64()).sum();
        let read: f64 = of_node.iter().sum();
        for (read, node) in of_node.iter_mut().zip(&tree.nodes) {
            *read = (*read / node.tokens.as_f64().max(1.0)).max(1.0);
        }
        let mut readings = Self { plan, tree, of_node, missed: None };
        let useful = device.useful_l2_bytes();
        if read > READ_AGAIN * unique && unique * plan.shape.kv_bytes_per_token().as_f64() > useful {
            readings.miss(useful, WORKERS * device.sm_count);
        }
        readings
    }

    /// Follows L2 through the packs in the order in which they begin, `at_once` CTAs at a time.
    fn miss(&mut self, useful: f64, at_once: u32) {
        let (plan, token) = (self.plan, self.plan.shape.kv_bytes_per_token().as_f64());
        let segments = Segments::of(plan, self.tree);
        let none = Missed { read: 0.0, from_hbm: 0.0, stamp: f64::NEG_INFINITY };
        let mut missed = vec![none; segments.count() as usize];
        let mut came = 0.0;
        for launch in &plan.launches {
            let (mut running, mut ctas) = (VecDeque::new(), 0);
            for idx in plan.packs_of(launch) {
                let pack = plan.pack(*idx);
                let own = plan.heads_of(launch).div_ceil(plan.run_of_heads(launch, *idx));
                while ctas + own > at_once
                    && let Some((ended, bytes)) = running.pop_front()
                {
                    ctas -= ended;
                    came += bytes;
                }
                let mut bytes = 0.0;
                for (node, tokens) in plan.reach(pack, self.tree) {
                    let read = (tokens.end - tokens.start) as f64;
                    if self.is_read_once(node) {
                        bytes += read * token;
                        continue;
                    }
                    for (segment, tokens) in segments.within(node, tokens) {
                        let of = &mut missed[segment as usize];
                        let from_hbm = tokens as f64 * (1.0 - kept(came - of.stamp, useful));
                        of.read += tokens as f64;
                        of.from_hbm += from_hbm;
                        of.stamp = came;
                        bytes += from_hbm * token;
                    }
                }
                running.push_back((own, bytes));
                ctas += own;
            }
            came += running.iter().map(|(_, bytes)| bytes).sum::<f64>();
        }
        self.missed = Some((segments, missed));
    }

    /// Part of a pack's tokens that comes from HBM.
    fn unique(&self, pack: &PlannedPack) -> f64 {
        let once = |(node, tokens): (NodeIdx, Range<u64>)| {
            let own = (tokens.end - tokens.start) as f64;
            if self.is_read_once(node) {
                return own;
            }
            let missed = self.missed.as_ref().map_or(0.0, |(segments, missed)| {
                let of = |(segment, tokens): (u32, u64)| {
                    let of = &missed[segment as usize];
                    tokens as f64 * of.from_hbm / of.read.max(1.0)
                };
                segments.within(node, tokens).map(of).sum()
            });
            missed.max(own / self.of_node[node.at()])
        };
        let tokens: f64 = self.plan.reach(pack, self.tree).map(once).sum();
        (tokens / pack.tokens.as_f64().max(1.0)).min(1.0)
    }

    /// Whether no other pack reads what a pack does.
    fn once(&self, pack: &PlannedPack) -> bool {
        self.plan.reach(pack, self.tree).all(|(node, _)| self.is_read_once(node))
    }

    fn is_read_once(&self, node: NodeIdx) -> bool {
        self.of_node[node.at()] <= 1.0
    }
}
