//! `min-traffic` moves no more bytes than any other scheduler whose packs hold what all of their queries share, on any batch; `min-time` makes of the same
//! search the plans that the simulator runs fastest.

use engine::cancel::Cancel;
use engine::pack::schedulers;
use engine::plan::Strategy as LaunchStrategy;
use engine::session::{PlanOptions, RunOptions, plan_spec, simulate};
use engine::workload::{AttentionShape, BatchSpec, NodeSpec, RequestSpec};
use proptest::prelude::*;

use crate::common::figure_10;

/// Bytes by the exact model under each scheduler that takes the batch: KV once for each tile of rows (a
/// system may have wider packs, but no kernel here reads KV once for more than a tile), and Q and fp32
/// partials of every slot, whatever the form and the number of launches of a system's own merge. Subtree packs of
/// `min-time` hold what few of their queries have, and move fewer bytes than what `min-traffic` searches.
fn bytes(spec: &BatchSpec) -> Vec<(&'static str, u64)> {
    let device = engine::hw::find("h200-sxm").unwrap();
    let of = |scheduler: &'static str| {
        let options = PlanOptions { scheduler: scheduler.to_owned(), explain: false, ..PlanOptions::new(device) };
        let planned = match plan_spec(spec, &options) {
            Ok(planned) => planned,
            Err(engine::Error::Unsupported { .. }) => return None,
            Err(error) => panic!("{scheduler}: {error}"),
        };
        let (shape, plan) = (planned.batch.shape, &planned.plan);
        if plan.subtree_packs() > 0 {
            assert_eq!(scheduler, "min-time");
            return None;
        }
        let tiles = |queries: u32| u64::from(queries.div_ceil((planned.tiles.max_m() / shape.group()).max(1)));
        let read: u64 = plan.packs.iter().map(|pack| pack.tokens.0 * tiles(pack.queries_len)).sum();
        let partials = if plan.merge.max_partials() > 1 { shape.partial_bytes().0 * 2 } else { 0 };
        let slots = plan.queries.len() as u64;
        Some((scheduler, read * shape.kv_bytes_per_token().0 + slots * (shape.query_bytes().0 + partials)))
    };
    schedulers().iter().filter_map(|scheduler| of(scheduler.name())).collect()
}

fn assert_least(spec: &BatchSpec, what: &str) {
    let all = bytes(spec);
    let ours = all.iter().find(|(name, _)| *name == "min-traffic").unwrap().1;
    for (name, other) in all {
        assert!(ours <= other, "{what}: min-traffic moves {ours} bytes, {name} {other}");
    }
}

#[test]
fn no_scheduler_moves_fewer_bytes_on_the_published_configurations() {
    for number in 1..=20 {
        for (query_heads, kv_heads) in [(32, 32), (16, 8), (32, 8), (64, 8)] {
            let spec = figure_10(number, query_heads, kv_heads);
            assert_least(&spec, &format!("configuration {number} at {query_heads}/{kv_heads}"));
        }
    }
}

#[test]
fn on_the_published_configurations_min_time_is_simulated_faster_than_pat_and_than_the_fewest_bytes() {
    let device = engine::hw::find("h200-sxm").unwrap();
    let run = |number: usize, scheduler: &str, strategy| {
        let options =
            PlanOptions { scheduler: scheduler.to_owned(), strategy, explain: false, ..PlanOptions::new(device) };
        let planned = plan_spec(&figure_10(number, 32, 8), &options).unwrap();
        simulate(&planned, &RunOptions::default(), &Cancel::default()).unwrap().makespan().as_f64()
    };
    for strategy in [LaunchStrategy::Serial, LaunchStrategy::Streams] {
        let (mut against_pat, mut against_bytes) = (0.0, 0.0);
        for number in 1..=20 {
            let [ours, pat, bytes] = ["min-time", "pat", "min-traffic"].map(|name| run(number, name, strategy));
            // It is slower in a few: in configuration 4 by 7 % under serial, where an H200 takes 42.5 µs against 41.4.
            assert!(ours < 1.1 * pat, "configuration {number}: {ours} ns, pat {pat} ns");
            against_pat += (pat / ours).ln() / 20.0;
            against_bytes += (bytes / ours).ln() / 20.0;
        }
        assert!(against_pat > 0.3 && against_bytes > 0.0, "{against_pat} {against_bytes}");
    }
}

fn inner(tokens: u64, repeat: u32, ending: u32, children: Vec<NodeSpec>) -> NodeSpec {
    NodeSpec { tokens, repeat, requests: Some(ending), children }
}

/// Nodes of one request each.
fn leaves<const N: usize>(repeats: [u32; N]) -> Vec<NodeSpec> {
    repeats.map(|repeat| NodeSpec { repeat, ..NodeSpec::leaf(1) }).to_vec()
}

/// Random forests at which the search was cut short and had dropped what `pat-released` found, shrunk.
/// Under each are many open packs that fill up to M in nearly equal ways.
#[test]
fn a_search_that_is_cut_short_still_finds_what_other_schedulers_find() {
    let shape = AttentionShape { query_heads: 32, kv_heads: 32, block_size: 16, ..Default::default() };
    let pairs =
        vec![inner(16, 2, 0, leaves([36, 15])), inner(16, 2, 0, leaves([25, 26])), inner(16, 2, 1, leaves([13]))];
    let narrow = inner(80, 1, 0, vec![inner(240, 1, 0, vec![inner(96, 1, 0, pairs)])]);
    let threes =
        [leaves([28]), vec![inner(16, 1, 0, leaves([10, 25, 2])), inner(16, 2, 1, leaves([24, 12, 23]))]].concat();
    let twice = inner(16, 2, 0, vec![inner(16, 1, 0, vec![inner(368, 2, 0, threes)])]);
    for (what, root) in [("pairs of fans", narrow), ("a fan twice", twice)] {
        assert_least(&BatchSpec { roots: vec![root], ..BatchSpec::empty(shape) }, what);
    }
}

/// A ragged tree with short and long nodes, narrow and wide fans, and requests that end inside.
fn node(depth: u32) -> BoxedStrategy<NodeSpec> {
    let leaf = (1_u64..600, 1_u32..40).prop_map(|(tokens, repeat)| NodeSpec { repeat, ..NodeSpec::leaf(tokens) });
    if depth == 0 {
        return leaf.boxed();
    }
    let of = |children| {
        (1_u64..40, 0_u32..3, 1_u32..3, children)
            .prop_map(|(blocks, ending, repeat, children)| inner(16 * blocks, repeat, ending, children))
    };
    let narrow = of(prop::collection::vec(node(depth - 1), 1..4).boxed());
    let wide = of(prop::collection::vec(leaf.clone(), 4..24).boxed());
    prop_oneof![4 => leaf, 8 => narrow, 1 => wide].boxed()
}

fn forest() -> impl Strategy<Value = BatchSpec> {
    let heads = vec![(32, 32), (16, 8), (24, 8), (32, 8), (40, 8), (28, 4), (64, 8), (16, 1)];
    let beside =
        prop::collection::vec((1_u64..900, 1_u32..9).prop_map(|(kv, count)| RequestSpec::Decode { kv, count }), 0..2);
    (prop::sample::select(heads), prop::collection::vec(node(5), 1..3), beside).prop_map(
        |((query_heads, kv_heads), roots, requests)| {
            let shape = AttentionShape { query_heads, kv_heads, block_size: 16, ..Default::default() };
            BatchSpec { roots, requests, ..BatchSpec::empty(shape) }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_scheduler_moves_fewer_bytes_on_ragged_forests(spec in forest()) {
        // A few have more requests than a batch may.
        prop_assume!(spec.build().is_ok());
        assert_least(&spec, "forest");
    }
}
