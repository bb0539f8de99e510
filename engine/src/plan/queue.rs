//! The order of the tasks of a persistent launch.
//!
//! Longest first, so that what starts last is short. That puts packs of many queries, which wait for L2 and the
//! tensor cores while HBM idles, before the leaves, which wait for HBM. So where a plan has both, some of
//! the second kind are put between those of the first. For a pack, `h` is the time in which HBM moves what it is the
//! first to read and the results that it writes, and `l` the time of its CTAs on all lanes ([`LaneTime`]):
//!
//! ```text
//! shared   packs that do not end requests, h ≤ 1.5 · l        streams: the others
//! mixed    where HBM idles during the shared ones, Σ h < Σ l, and there are streams
//! share    x · H = L + x · l(streams)   →   x = L / (H − l(streams)), at most a fifth
//! order    each kind along the tree, leaves last; the shared ones end where x of the streams has been taken
//! ```
//!
//! with `L` the lanes' time of all shared packs and `H` HBM's of all streams: until the shared ones are done, x of the
//! streams keeps HBM busy, and takes lanes too. More would let leaves arrive before the packs above them, and the last
//! to arrive merges: a pack of 64 rows does one after another what leaves do side by side.
//!
//! Along the tree, depth first, a leaf comes soon after the packs above it: it finds their partials complete, joins
//! them to its own rows, and L2 holds them still. That is worth 4 % to configurations 12 to 15 of PAT and 2 % to 11
//! (H200). What is long still comes early: leaves of twice the tokens, and long shared packs that would end after all else.
//!
//! In a short queue, one of fewer tasks a worker than those that look for partials as they begin, no leaf finds any, and what
//! comes last has nobody beside it. There each kind is longest first: with groups of 7 and of 16 that makes configurations 9
//! and 16 under `pat` 16 to 27 % shorter (H200), where packs of 256 tokens came behind pieces of 32.
//!
//! Joined packs have an order of their own, beside that of all others ([`joined`]).
//!
//! Worked number, H200 at 32/8, configuration 11 of PAT: 64 packs of 608 tokens and 256 of 32 take the lanes 37 µs;
//! 1,024 leaves move 1.1 GB in 242 µs and take the lanes 120, so 30 % of them would balance, and a fifth is taken.

mod joined;

use std::cmp::Reverse;

use crate::decision::{Choice, Considered, Decision, Price, RuleConstant, Subject};
use crate::pack::PackInput;
use crate::plan::PlannedPack;
use crate::tile::{LaneTime, Tile};
use crate::units::{NodeIdx, PackIdx};
use crate::workload::PartialForm;

/// A pack streams where HBM needs more than so many times its lanes' time: the packs of 32 tokens that a few leaves of
/// configurations 12 to 15 share have up to 1.4 and gain as shared ones, those of 128 tokens of configuration 17
/// have 1.8 and gain as streams (H200).
const STREAMS: f64 = 1.5;
/// Largest share of the streams that goes between the shared packs. On an H200 0.15 to 0.25 are alike over PAT's 20
/// configurations at 32/8. 27 random trees of 103 to 1,562 MB at nine head setups take 0.6 % more in the mean with 0.3, one of
/// them 15 % and one 7 %, and 1.3 % more with 0.4.
const MOST: f64 = 0.2;

/// A shared pack is long whose CTAs take so many times those of a usual one: order helps no pack that all others are like.
const LONG: f64 = 1.5;

/// Times of one pack over the whole device, ns.
#[derive(Clone, Copy, Debug)]
struct Load {
    hbm: f64,
    lanes: f64,
    /// Of one of its CTAs.
    cta: f64,
    streams: bool,
}

impl Load {
    const NONE: Self = Self { hbm: 0.0, lanes: 0.0, cta: 0.0, streams: true };
}

/// The packs in the order of the queue, with the reason where one is asked for.
pub(super) fn order(input: &PackInput<'_>, packs: &[PlannedPack], merges: bool) -> (Vec<PackIdx>, Option<Decision>) {
    let loads = loads(input, packs, merges);
    if packs.iter().any(PlannedPack::is_joined) {
        return joined::order(input, packs, &loads);
    }
    let mix = Mix::of(&loads);
    let order = if mix.share > 0.0 {
        mixed(&along_tree(input, packs, &loads, &mix), &loads, &mix)
    } else {
        longest_first(packs)
    };
    (order, input.explain.then(|| mix.explain()))
}

/// The packs, longest first.
pub(super) fn longest_first(packs: &[PlannedPack]) -> Vec<PackIdx> {
    let mut order: Vec<PackIdx> = (0..packs.len()).map(PackIdx::from).collect();
    order.sort_by_key(|pack| Reverse(packs[pack.at()].tokens));
    order
}

/// The packs depth first, leaves last; leaves of more tokens before those of half as many, and before all others the
/// long shared packs that would end after the plan does, longest first. In a short queue both kinds longest first.
fn along_tree(input: &PackInput<'_>, packs: &[PlannedPack], loads: &[Load], mix: &Mix) -> Vec<PackIdx> {
    let short = is_short(input, loads);
    let place = |(pack, load): (&PlannedPack, &Load)| {
        let length = match (short, load.streams) {
            (true, _) => pack.tokens.0,
            (false, true) => u64::from(pack.tokens.0.max(1).ilog2()),
            (false, false) => 0,
        };
        (ends_requests(input, pack), Reverse(length), input.tree.node(pack.node).queries.start, Reverse(pack.tokens))
    };
    let mut places: Vec<_> = packs.iter().zip(loads).map(place).zip((0..).map(PackIdx)).collect();
    // Most schedulers give packs along the tree, or in a few runs of that: what a stable sort finds it keeps.
    places.sort_by_key(|(place, _)| *place);
    let mut order: Vec<PackIdx> = places.into_iter().map(|(_, pack)| pack).collect();
    let late = late(&order, loads, mix);
    if late.contains(&true) {
        // Stable: all that are not late stay as they are.
        order.sort_by_cached_key(|pack| Reverse(late[pack.at()].then_some(packs[pack.at()].tokens)));
    }
    order
}

/// Whether workers have so few tasks each that none looks for partials as it begins.
fn is_short(input: &PackInput<'_>, loads: &[Load]) -> bool {
    let least = input.device.merge_kernel.and_then(|kernel| kernel.fold_tasks).unwrap_or(0);
    let tasks: f64 = loads.iter().filter(|load| load.cta > 0.0).map(|load| load.lanes / load.cta).sum();
    tasks < f64::from(least)
}

/// For each pack whether it is a long shared one that, begun at its place in `order`, would end after the plan does.
fn late(order: &[PackIdx], loads: &[Load], mix: &Mix) -> Vec<bool> {
    let (end, shared_end) = (mix.together(), mix.shared.lanes + mix.share * mix.streams.lanes);
    let shared = loads.iter().filter(|load| !load.streams);
    let usual = shared.map(|load| load.lanes * load.cta).sum::<f64>() / mix.shared.lanes;
    let mut before = 0.0;
    let mut late = vec![false; loads.len()];
    for pack in order.iter().filter(|pack| !loads[pack.at()].streams) {
        let load = loads[pack.at()];
        let begin = before / mix.shared.lanes * shared_end;
        late[pack.at()] = load.cta > LONG * usual && begin + load.cta > end;
        before += load.lanes;
    }
    late
}

fn ends_requests(input: &PackInput<'_>, pack: &PlannedPack) -> bool {
    input.tree.node(pack.node).is_leaf()
}

/// Times of all packs of one kind, ns.
#[derive(Clone, Copy, Debug)]
struct Sum {
    hbm: f64,
    lanes: f64,
}

/// What decides how the two kinds are mixed.
#[derive(Clone, Copy, Debug)]
struct Mix {
    shared: Sum,
    streams: Sum,
    /// What would keep HBM and lanes busy alike; 0 where nothing can.
    balance: f64,
    /// What is taken.
    share: f64,
}

impl Mix {
    fn of(loads: &[Load]) -> Self {
        let sum = |streams: bool| {
            let of_kind = loads.iter().filter(|load| load.streams == streams);
            let (hbm, lanes) = of_kind.fold((0.0, 0.0), |sum, load| (sum.0 + load.hbm, sum.1 + load.lanes));
            Sum { hbm, lanes }
        };
        let (shared, streams) = (sum(false), sum(true));
        let left = streams.hbm - streams.lanes;
        let balance = if streams.hbm == 0.0 || shared.hbm >= shared.lanes {
            0.0
        } else if left > shared.lanes {
            shared.lanes / left
        } else {
            1.0
        };
        Self { shared, streams, balance, share: balance.min(MOST) }
    }

    /// Time of both kinds at once.
    fn together(&self) -> f64 {
        (self.shared.hbm + self.streams.hbm).max(self.shared.lanes + self.streams.lanes)
    }

    /// One kind after the other against both at once.
    fn explain(&self) -> Decision {
        let ways = [
            ("queue longest first", 0.0),
            ("queue with streams between shared packs", if self.share > 0.0 { self.share } else { MOST }),
        ];
        let rule = "as many packs that stream from HBM as keep HBM and the lanes busy alike, but so few that leaves arrive last";
        Decision {
            chosen: usize::from(self.share > 0.0),
            constant: Some(RuleConstant::new(
                "largest share",
                MOST,
                (self.balance > 0.0 && self.balance < 1.0).then_some(self.balance),
            )),
            ..self.choice(ways, "% of the streams run beside shared packs", rule)
        }
    }

    /// A choice of the second of two ways, that of both kinds at once, with the part of either that has the `unit`.
    fn choice(&self, ways: [(&'static str, f64); 2], unit: &'static str, rule: &str) -> Decision {
        let apart = self.shared.hbm.max(self.shared.lanes) + self.streams.hbm.max(self.streams.lanes);
        let priced = ways.into_iter().zip([apart, self.together()]);
        let way = |((what, part), time)| Considered::new(what, 100.0 * part, Price::one_kernel(time));
        Decision {
            subject: Subject::Plan,
            other: None,
            choice: Choice::Launch,
            considered: priced.map(way).collect(),
            chosen: 1,
            unit: unit.into(),
            rule: format!(
                "{rule}; the price is that of one kind after the other, and of both at once, by HBM and the lanes alone"
            )
            .into(),
            constant: None,
        }
    }
}

/// Puts both kinds together by how far their own work has come.
fn mixed(order: &[PackIdx], loads: &[Load], mix: &Mix) -> Vec<PackIdx> {
    let scale = [mix.share / mix.shared.lanes, 1.0 / mix.streams.hbm];
    let of_kind = |streams: bool| {
        let mut done = 0.0;
        order.iter().filter(move |pack| loads[pack.at()].streams == streams).map(move |pack| {
            let (load, before) = (loads[pack.at()], done);
            done += if streams { load.hbm } else { load.lanes };
            (before * scale[usize::from(streams)], *pack)
        })
    };
    let (mut shared, mut streams) = (of_kind(false).peekable(), of_kind(true).peekable());
    let mut placed = Vec::with_capacity(order.len());
    while let Some((done, _)) = shared.peek().copied() {
        placed.extend(std::iter::from_fn(|| streams.next_if(|other| other.0 < done)).map(|(_, pack)| pack));
        placed.extend(shared.next().map(|(_, pack)| pack));
    }
    placed.extend(streams.map(|(_, pack)| pack));
    placed
}

/// What each pack takes of HBM and of the lanes.
fn loads(input: &PackInput<'_>, packs: &[PlannedPack], merges: bool) -> Vec<Load> {
    let shape = &input.batch.shape;
    let device = input.device;
    // Of the blocks that a pack reads of a node, the part that it is the first to read.
    let readers = readers(input, packs).into_iter().zip(&input.tree.nodes);
    let unread: Vec<f64> = readers.map(|(read, node)| node.blocks.len() as f64 / read.max(1) as f64).collect();
    let block = shape.kv_bytes_per_token().as_f64() * f64::from(shape.block_size);
    let slot = if merges { shape.partial_bytes_as(PartialForm::Native) } else { shape.query_bytes() }.as_f64();
    let hbm = device.reachable_bytes_per_s() * 1e-9;
    let times = lane_times(input, packs);
    // Workers hold every tile of the plan.
    let per_sm = times.iter().map(|(_, time)| time.per_sm).fold(f64::INFINITY, f64::min);
    let load = |pack: &PlannedPack| {
        let shared: f64 = nodes_of(input, pack).map(|(node, blocks)| f64::from(blocks) * unread[node.at()]).sum();
        let first = shared + blocks_below(input, pack);
        let bytes = first * block + f64::from(pack.queries_len) * slot;
        let (cta, ctas) = times.iter().find(|(tile, _)| *tile == pack.tile).map_or((0.0, 0), |(_, time)| {
            (time.cta(pack.tokens.as_f64(), per_sm), shape.kv_heads.div_ceil(time.heads))
        });
        let (hbm, lanes) = (bytes / hbm, f64::from(ctas) * cta / (f64::from(device.sm_count) * per_sm));
        Load { hbm, lanes, cta, streams: ends_requests(input, pack) || hbm > STREAMS * lanes }
    };
    packs.iter().map(load).collect()
}

/// The times of the tiles of a plan.
fn lane_times(input: &PackInput<'_>, packs: &[PlannedPack]) -> Vec<(Tile, LaneTime)> {
    let mut times: Vec<(Tile, LaneTime)> = Vec::new();
    for pack in packs {
        if !times.iter().any(|(tile, _)| *tile == pack.tile) {
            times.push((pack.tile, LaneTime::of(input.device, pack.tile, &input.batch.shape)));
        }
    }
    times
}

/// Blocks of each node that packs read, each counted once a reading.
fn readers(input: &PackInput<'_>, packs: &[PlannedPack]) -> Vec<u64> {
    let mut readers = vec![0_u64; input.tree.nodes.len()];
    for pack in packs {
        for (node, blocks) in nodes_of(input, pack) {
            readers[node.at()] += u64::from(blocks);
        }
    }
    readers
}

/// The blocks of a subtree pack below its node, which no other pack reads.
fn blocks_below(input: &PackInput<'_>, pack: &PlannedPack) -> f64 {
    let block_size = input.batch.shape.block_size;
    let shared = f64::from(pack.blocks_end - pack.blocks_begin);
    if pack.is_subtree(block_size) { pack.tokens.as_f64() / f64::from(block_size) - shared } else { 0.0 }
}

/// The nodes that a pack covers, from its last one up, with how many blocks of each.
fn nodes_of<'a>(input: &PackInput<'a>, pack: &PlannedPack) -> impl Iterator<Item = (NodeIdx, u32)> + use<'a> {
    let (tree, begin, end) = (input.tree, pack.blocks_begin, pack.blocks_end);
    let up = move |node: &NodeIdx| tree.node(*node).parent;
    std::iter::successors(Some(pack.node), up).map_while(move |node| {
        let blocks = &tree.node(node).blocks;
        (blocks.end > begin).then(|| (node, blocks.end.min(end).saturating_sub(blocks.start.max(begin))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::LaunchPlan;
    use crate::plan::testing::with_fused_plan;
    use crate::workload::{AttentionShape, BatchSpec, NodeSpec, parse_tree};

    /// The fused plan of a tree with so many nodes on each level, of so many tokens each, at 32/8 on an H200.
    fn planned<T>(levels: &[(u32, u64)], name: &str, run: impl FnOnce(&PackInput<'_>, &LaunchPlan) -> T) -> T {
        let mut children = Vec::new();
        for (at, (nodes, tokens)) in levels.iter().enumerate().rev() {
            let repeat = nodes / if at == 0 { 1 } else { levels[at - 1].0 };
            children = vec![NodeSpec { tokens: *tokens, repeat, requests: None, children }];
        }
        let shape = AttentionShape { query_heads: 32, kv_heads: 8, ..Default::default() };
        with_fused_plan(&BatchSpec { roots: children, ..BatchSpec::empty(shape) }, (name, "h200-sxm"), run)
    }

    const SHARED_THEN_LEAVES: [(u32, u64); 3] = [(1, 512), (8, 512), (512, 256)];

    #[test]
    fn streams_go_between_shared_packs_and_each_kind_follows_the_tree() {
        for scheduler in ["pat", "min-time", "min-traffic"] {
            planned(&SHARED_THEN_LEAVES, scheduler, |input, plan| {
                let kinds: Vec<bool> = plan.order.iter().map(|pack| plan.pack(*pack).queries_len > 1).collect();
                let last_shared = kinds.iter().rposition(|shared| *shared).unwrap();
                let before = kinds[..last_shared].iter().filter(|shared| !**shared).count() as f64;
                let leaves = kinds.iter().filter(|shared| !**shared).count() as f64;
                assert!(before > 0.1 * leaves && before < 0.21 * leaves, "{scheduler}: {before} of {leaves}");
                for shared in [true, false] {
                    let of_kind = plan.order.iter().map(|pack| plan.pack(*pack));
                    let of_kind = of_kind.filter(|pack| (pack.queries_len > 1) == shared);
                    let first_query = |pack: &PlannedPack| input.tree.node(pack.node).queries.start;
                    assert!(of_kind.map(first_query).is_sorted(), "{scheduler}");
                }
                let mut all = plan.order.clone();
                all.sort_unstable();
                assert!(all.iter().enumerate().all(|(at, pack)| pack.at() == at));
                let told =
                    plan.decisions.iter().any(|decision| decision.considered[decision.chosen].what.contains("streams"));
                assert!(told, "{scheduler} does not say that it mixes");
            });
        }
    }

    /// Each leaf of deep trees is far enough behind the packs above it that their partials are there when it ends.
    #[test]
    fn a_leaf_comes_after_the_packs_above_it_wherever_there_are_waves_of_them() {
        let levels = [(1, 256), (16, 128), (32, 64), (64, 32), (256, 32), (1024, 32)];
        planned(&levels, "min-time", |input, plan| {
            let ends = |pack: &PlannedPack| ends_requests(input, pack);
            let at: Vec<usize> =
                (0..plan.packs.len()).map(|pack| plan.order.iter().position(|p| p.at() == pack).unwrap()).collect();
            let early = (0..plan.packs.len()).filter(|leaf| {
                let pack = &plan.packs[*leaf];
                let query = plan.queries_of(PackIdx::from(*leaf))[0];
                let above = (0..plan.packs.len()).filter(|other| {
                    !ends(&plan.packs[*other]) && plan.queries_of(PackIdx::from(*other)).contains(&query)
                });
                ends(pack) && above.map(|other| at[other]).max().is_some_and(|last| last + 8 > at[*leaf])
            });
            let (early, leaves) = (early.count(), plan.packs.iter().filter(|pack| ends(pack)).count());
            assert!(early * 50 < leaves, "{early} of {leaves}");
        });
    }

    /// A leaf far longer than the others begins first, though it is the last of the tree.
    #[test]
    fn a_long_leaf_does_not_wait_for_its_place_in_the_tree() {
        let shape = AttentionShape { query_heads: 32, kv_heads: 8, ..Default::default() };
        let mut children = vec![NodeSpec { repeat: 255, ..NodeSpec::leaf(128) }];
        children.push(NodeSpec::leaf(16_384));
        let roots = vec![NodeSpec { children, ..NodeSpec::leaf(2048) }];
        with_fused_plan(&BatchSpec { roots, ..BatchSpec::empty(shape) }, ("pat", "h200-sxm"), |input, plan| {
            let mut leaves = plan.order.iter().map(|pack| plan.pack(*pack)).filter(|pack| ends_requests(input, pack));
            let longest = plan.packs.iter().map(|pack| pack.tokens).max();
            assert_eq!(leaves.next().map(|pack| pack.tokens), longest);
        });
    }

    /// Configuration 9 of PAT with groups of 7: under `pat` pieces of 32 tokens and packs of 256, some five tasks a worker.
    #[test]
    fn in_a_short_queue_each_kind_is_longest_first() {
        let shape = AttentionShape { query_heads: 28, kv_heads: 4, ..Default::default() };
        let spec = parse_tree("1,4,8,256_32,256,256,32", shape).unwrap();
        with_fused_plan(&spec, ("pat", "h200-sxm"), |input, plan| {
            let loads = loads(input, &plan.packs, true);
            assert!(is_short(input, &loads) && Mix::of(&loads).share > 0.0);
            for streams in [true, false] {
                let of_kind = plan.order.iter().filter(|pack| loads[pack.at()].streams == streams);
                let tokens: Vec<u64> = of_kind.map(|pack| plan.pack(*pack).tokens.0).collect();
                assert!(tokens.iter().rev().is_sorted(), "streams {streams}: {tokens:?}");
            }
            let lengths = plan.packs.iter().filter(|pack| pack.queries_len > 1).map(|pack| pack.tokens);
            assert!(lengths.collect::<std::collections::BTreeSet<_>>().len() > 1);
        });
    }

    #[test]
    fn nothing_is_mixed_where_all_packs_stream() {
        // Configurations 18 and 19 of PAT, the first with as much KV in its inner nodes as in its leaves.
        for levels in [&[(8, 512), (16, 512), (32, 256), (256, 32)][..], &[(256, 1024)]] {
            planned(levels, "min-time", |_, plan| assert_eq!(plan.order, longest_first(&plan.packs), "{levels:?}"));
        }
    }

    #[test]
    fn the_first_readings_of_all_packs_are_the_unique_tokens() {
        for scheduler in ["pat", "min-time", "fasttree", "query-centric"] {
            planned(&SHARED_THEN_LEAVES, scheduler, |input, plan| {
                let shape = &input.batch.shape;
                let loads = loads(input, &plan.packs, true);
                let moved: f64 = loads.iter().map(|load| load.hbm * input.device.reachable_bytes_per_s() * 1e-9).sum();
                let results = plan.queries.len() as f64 * shape.partial_bytes_as(PartialForm::Native).as_f64();
                let unique = input.tree.unique_tokens().as_f64() * shape.kv_bytes_per_token().as_f64();
                assert!(((moved - results) / unique - 1.0).abs() < 1e-9, "{scheduler}: {moved} {results} {unique}");
            });
        }
    }
}
