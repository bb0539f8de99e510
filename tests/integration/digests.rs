//! By what plans and captures of them know each other.

use engine::cancel::Cancel;
use engine::capture::{from_bytes, to_bytes};
use engine::hw;
use engine::plan::{LaunchPlan, PlanDigest};
use engine::session::{PlanOptions, RunOptions, plan_spec, planned_of, simulate};
use engine::units::NodeIdx;
use engine::workload::{AttentionShape, BatchSpec, RequestSpec, parse_tree};

fn hybrid(chunk: u64) -> LaunchPlan {
    let requests = vec![RequestSpec::Prefill { chunk, kv: 4096 }, RequestSpec::Decode { kv: 900, count: 7 }];
    let spec = BatchSpec { requests, ..BatchSpec::empty(AttentionShape::default()) };
    let plan = plan_spec(&spec, &PlanOptions::new(hw::find("h200-sxm").unwrap())).unwrap().plan;
    (*plan).clone()
}

/// Two hybrids whose chunks differ by a row within one block of rows have the same launches; only the whole
/// plan tells them apart.
#[test]
fn plans_that_differ_in_prefill_alone_have_other_digests() {
    let (one, other) = (hybrid(510), hybrid(511));
    assert_eq!(one.digest_as(1), other.digest_as(1), "the first version leaves prefill out");
    assert_ne!(one.digest(), other.digest());
    assert_eq!(one.digest().is_of(&other), Some(false));
    assert_eq!(PlanDigest { version: 99, crc: 0 }.is_of(&one), None);
}

#[test]
fn decisions_do_not_count() {
    let mut plan = hybrid(510);
    let before = plan.digest();
    assert!(!plan.decisions.is_empty());
    plan.decisions.clear();
    assert_eq!(plan.digest(), before);
}

/// A node that the tree has not shows where the tree is built: a file is read without laying out tables.
#[test]
fn a_plan_of_another_tree_is_refused_where_the_tree_is_built() {
    let device = hw::find("h200-sxm").unwrap();
    let spec = parse_tree("1,2_32,32", AttentionShape::default()).unwrap();
    let planned = plan_spec(&spec, &PlanOptions::new(device)).unwrap();
    let mut capture = simulate(&planned, &RunOptions::default(), &Cancel::default()).unwrap();
    planned_of(&capture, device).unwrap();
    capture.plan.packs[0].node = NodeIdx(99);
    let loaded = from_bytes(&to_bytes(&capture).unwrap()).unwrap();
    let error = planned_of(&loaded.capture, device).unwrap_err().to_string();
    assert!(error.contains("names node 99"), "{error}");
}
