//! Every scheduler and strategy on ragged forests and on the published trees in small: each
//! (query, token) once, outputs as the f64 reference.

use engine::Error;
use engine::cancel::Cancel;
use engine::numerics::check_all;
use engine::plan::{LaunchPlan, Strategy as LaunchStrategy};
use engine::session::{self, Planned, RunOptions};
use engine::workload::{AttentionShape, BatchSpec, PrefixTree, RequestSpec};
use proptest::prelude::*;

use crate::common::{all_ways, figure_10_small, planned, planned_if_allowed};
use crate::forests::forest;

pub(crate) fn assert_right(planned: &Planned, seed: u64, what: &str) {
    assert_outputs(std::slice::from_ref(planned), seed, what);
    assert_run_adds_up(planned, what);
}

pub(crate) fn assert_outputs(planned: &[Planned], seed: u64, what: &str) {
    let plans: Vec<&LaunchPlan> = planned.iter().map(|planned| planned.plan.as_ref()).collect();
    let Some(first) = planned.first() else { return };
    let reports = check_all(&first.batch, &plans, seed, &Cancel::default()).unwrap();
    for (planned, report) in planned.iter().zip(reports) {
        let what = format!("{what}, {}, {}", planned.plan.scheduler, planned.plan.strategy.name());
        // Of a batch with more than a second of work the check takes a sample: a row of each query, and more if it can.
        let least = report.rows_total.min(first.batch.requests().len() as u64);
        assert!((least..=report.rows_total).contains(&report.rows), "{what}: {} rows are compared", report.rows);
        assert!(report.is_right(), "{what}: {report:?}");
    }
}

/// Every scheduler under every strategy, those that rightly refuse left out. Strategies that give
/// the same packs and merges give the same outputs to the bit, so those are computed once.
fn assert_all_right(spec: &BatchSpec, seed: u64, device: &str, what: &str) {
    let mut distinct: Vec<Planned> = Vec::new();
    for (scheduler, strategy) in all_ways() {
        let Some(planned) = planned_if_allowed(spec, scheduler, strategy, device) else { continue };
        assert_run_adds_up(&planned, &format!("{what}, {scheduler}, {}", strategy.name()));
        let same = |other: &Planned| {
            let (a, b) = (&other.plan, &planned.plan);
            (&a.packs, &a.queries, &a.merge) == (&b.packs, &b.queries, &b.merge)
        };
        if !distinct.iter().any(same) {
            distinct.push(planned);
        }
    }
    assert_outputs(&distinct, seed, what);
}

/// A simulated run keeps every invariant of a capture, and its bubbles fill what is not busy. A plan with a CTA that no SM
/// can hold has no run: tiles of 128 rows at head dimension 256.
pub(crate) fn assert_run_adds_up(planned: &Planned, what: &str) {
    let capture = match session::simulate(planned, &RunOptions::default(), &Cancel::default()) {
        Ok(capture) => capture,
        Err(Error::Unsupported { limit, .. }) if limit.contains("and an SM has") => return,
        Err(error) => panic!("{what}: {error}"),
    };
    let findings = engine::capture::verify(&capture);
    assert!(findings.is_empty(), "{what}: {findings:?}");
    let bubbles = engine::metrics::bubbles(&capture.plan, &capture);
    let busy: u64 = capture.spans.iter().map(|span| (span.end - span.begin).0).sum();
    let idle: u64 = bubbles.bubbles.iter().map(|bubble| bubble.slot_time.0).sum();
    assert_eq!(bubbles.busy_slot.0, busy, "{what}: spans of a lane do not overlap, so busy is their sum");
    assert_eq!(busy + idle, capture.slots() * capture.makespan().0, "{what}");
    assert_eq!(bubbles.total_slot.0, busy + idle, "{what}");
}

#[test]
fn outputs_are_right_on_the_published_trees_in_small() {
    for number in 1..=20 {
        let shapes = [[(2, 2, 64), (4, 1, 128)], [(8, 1, 64), (2, 2, 128)]];
        for (query_heads, kv_heads, head_dim) in shapes[number % 2] {
            let shape = AttentionShape { query_heads, kv_heads, head_dim, block_size: 16, ..Default::default() };
            let spec = figure_10_small(number, shape);
            assert_all_right(&spec, number as u64, "h200-sxm", &format!("configuration {number}"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn outputs_are_right_on_ragged_forests(spec in (0_u32..9).prop_flat_map(|log| forest(1 << log)), seed in any::<u32>(), device in 0_usize..3) {
        assert_all_right(&spec, u64::from(seed), engine::hw::names()[device], "a forest");
    }

    #[test]
    fn the_tree_holds_every_request_once_and_its_tokens_along_the_path(spec in forest(16)) {
        let batch = spec.build().unwrap();
        let tree = PrefixTree::of(&batch);
        let mut seen = vec![0; batch.requests().len()];
        for (position, node) in tree.nodes.iter().enumerate() {
            let idx = engine::units::NodeIdx::from(position);
            let below: u32 = tree.children(idx).iter().map(|c| tree.node(*c).query_count()).sum();
            prop_assert_eq!(node.query_count(), node.ending + below);
            for query in &tree.queries(idx)[..node.ending as usize] {
                seen[query.at()] += 1;
                let mut tokens = 0;
                let mut at = Some(idx);
                while let Some(node_idx) = at {
                    tokens += tree.node(node_idx).tokens.0;
                    at = tree.node(node_idx).parent;
                }
                prop_assert_eq!(tokens, batch.request(*query).kv.0);
            }
        }
        prop_assert!(seen.iter().all(|count| *count == 1));
    }

    /// Brute force: the tree stores as many whole blocks as there are distinct (prefix, block) pairs.
    #[test]
    fn the_tree_shares_as_much_as_the_tables_allow(spec in forest(16)) {
        let batch = spec.build().unwrap();
        let block_size = u64::from(batch.shape.block_size);
        let mut prefixes = std::collections::BTreeSet::new();
        for (query, request) in batch.decodes() {
            let row = batch.tables().row(query);
            for end in 1..=row.len() {
                let fill = (request.kv.0 - (end as u64 - 1) * block_size).min(block_size);
                prefixes.insert((row[..end].to_vec(), fill));
            }
        }
        let tokens: u64 = prefixes.iter().map(|(_, fill)| fill).sum();
        prop_assert_eq!(PrefixTree::of(&batch).unique_tokens().0, tokens);
    }
}

#[test]
fn requests_in_any_order_give_the_same_sharing() {
    let row = |blocks: &[u32], kv| RequestSpec::Blocks { kv, blocks: blocks.to_vec() };
    let mut requests = vec![
        row(&[1, 2, 3, 4], 64),
        row(&[1, 2, 9], 40),
        row(&[5], 16),
        row(&[1, 2], 32),
        row(&[1, 2, 3, 8], 63),
        row(&[1, 2, 9], 40),
        row(&[1, 2, 9], 44),
    ];
    let shape = AttentionShape { query_heads: 2, kv_heads: 1, head_dim: 64, block_size: 16, ..Default::default() };
    let unique = |requests: &[RequestSpec]| {
        let spec = BatchSpec { requests: requests.to_vec(), ..BatchSpec::empty(shape) };
        let planned = planned(&spec, "pat", LaunchStrategy::Fused, "h200-sxm");
        assert_right(&planned, 7, "explicit blocks");
        planned.tree.unique_tokens().0
    };
    // 1,2 | 3 | 4, 8 (15 tokens) | 9 (8 tokens), 9 (12 tokens) | 5
    let expected = 32 + 16 + 16 + 15 + 8 + 12 + 16;
    for _ in 0..requests.len() {
        requests.rotate_left(1);
        assert_eq!(unique(&requests), expected);
        requests.swap(0, 3);
        assert_eq!(unique(&requests), expected);
    }
}

#[test]
fn the_trees_that_the_released_code_gets_wrong_come_out_right() {
    let shape = AttentionShape { query_heads: 4, kv_heads: 1, head_dim: 64, block_size: 32, ..Default::default() };
    for (nodes, tokens) in [(&[1, 4], &[4096, 2048]), (&[1, 2], &[8192, 4096]), (&[2, 4], &[4096, 2048])] {
        let spec = crate::common::uniform(nodes, tokens, shape);
        assert_all_right(&spec, 3, "a100-sxm-80gb", "unequal counts");
    }
}
