//! Packs of whole subtrees, from the plan to outputs, bytes and the capture.

use engine::cancel::Cancel;
use engine::capture::{from_bytes, to_bytes, verify};
use engine::metrics;
use engine::numerics::check_all;
use engine::plan::{LaunchPlan, Strategy};
use engine::session::{PlanOptions, Planned, RunOptions, plan_spec, simulate};
use engine::units::{Bytes, NodeIdx};
use engine::workload::{AttentionShape, BatchSpec, parse_tree};

/// Leaves that end within a block, below inner nodes and not, of some shared KV.
fn planned(strategy: Strategy) -> Planned {
    let shape = AttentionShape { query_heads: 20, kv_heads: 4, head_dim: 128, block_size: 16, ..Default::default() };
    let mut spec: BatchSpec = parse_tree("1,64,512_1024,32,23", shape).unwrap();
    spec.roots.extend(parse_tree("1,256_512,41", shape).unwrap().roots);
    let device = engine::hw::find("h200-sxm").unwrap();
    let options = PlanOptions { scheduler: "min-time".to_owned(), strategy, ..PlanOptions::new(device) };
    let planned = plan_spec(&spec, &options).unwrap();
    assert_eq!(planned.plan.subtree_packs(), 43 + 22, "12 requests fit a pack: {:?}", planned.plan.tiles());
    planned
}

#[test]
fn they_compute_what_each_request_asks_for_and_nothing_else() {
    for strategy in [Strategy::Serial, Strategy::Streams] {
        let planned = planned(strategy);
        let check =
            |plan: &LaunchPlan| check_all(&planned.batch, &[plan], 7, &Cancel::default()).unwrap().swap_remove(0);
        let report = check(&planned.plan);
        assert!(report.is_right() && report.max_rel_err > 0.0, "{report:?}");
        // A pack that begins a block late, and one that does not go on below.
        for (later, cut) in [(1, 0), (0, 1)] {
            let mut plan = (*planned.plan).clone();
            let pack = plan.packs.iter_mut().find(|pack| pack.is_subtree(16)).unwrap();
            pack.blocks_begin += later;
            if cut == 1 {
                pack.tokens.0 = u64::from(pack.blocks_end - pack.blocks_begin) * 16;
            }
            assert!(!check(&plan).is_right(), "{later} {cut}");
        }
    }
}

#[test]
fn what_is_below_is_read_once_and_no_partials_are_left() {
    let planned = planned(Strategy::Serial);
    let (plan, tree) = (&planned.plan, &planned.tree);
    let traffic = metrics::traffic(plan, &planned.batch, tree);
    assert_eq!((traffic.partial_write, traffic.partial_read), (Bytes(0), Bytes(0)));
    let nodes = metrics::node_traffic(plan, tree);
    for (at, node) in nodes.iter().enumerate().filter(|(at, _)| tree.node(NodeIdx::from(*at)).is_leaf()) {
        assert_eq!(node.tokens, node.tokens_read, "leaf {at}");
    }
    let below: usize = plan.packs.iter().map(|pack| plan.below(pack, tree).len()).sum();
    assert!(below >= tree.nodes.iter().filter(|node| node.is_leaf()).count(), "{below} nodes below packs");
}

#[test]
fn a_capture_keeps_them_and_refuses_more_tokens_than_there_are() {
    let planned = planned(Strategy::Streams);
    let mut capture = simulate(&planned, &RunOptions::default(), &Cancel::default()).unwrap();
    let loaded = from_bytes(&to_bytes(&capture).unwrap()).unwrap();
    assert_eq!(loaded.capture.plan, capture.plan);
    let wrong = verify(&loaded.capture);
    assert!(wrong.is_empty(), "{wrong:?}");
    capture.plan.packs.iter_mut().find(|pack| pack.is_subtree(16)).unwrap().tokens.0 += 16 * 1000;
    let error = from_bytes(&to_bytes(&capture).unwrap()).unwrap_err().to_string();
    assert!(error.contains("reaches past its requests"), "{error}");
}
