//! The bound of `--check`: right plans stay within it whatever they round, wrong ones do not.

use engine::cancel::Cancel;
use engine::numerics::{CheckReport, CheckedRow, HeadKv, Input, check_all, check_rows};
use engine::pack::schedulers;
use engine::plan::{LaunchPlan, Strategy};
use engine::session::{PlanOptions, Planned, plan_spec};
use engine::units::{PackIdx, QueryIdx};
use engine::workload::{AttentionShape, Batch, BatchSpec, Dtype, parse_decode, parse_tree};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

use crate::common::planned_if_allowed;
use crate::forests::forest;

/// Schedulers whose systems store partials in 16 bits, and two whose do not.
const SCHEDULERS: [&str; 6] = ["cascade", "relay", "relay-plus-plus", "hydragen", "pat", "deft"];

fn check(batch: &Batch, plan: &LaunchPlan, seed: u64) -> CheckReport {
    check_all(batch, &[plan], seed, &Cancel::default()).unwrap().swap_remove(0)
}

fn shape(dtype: Dtype) -> AttentionShape {
    AttentionShape { query_heads: 4, kv_heads: 2, head_dim: 64, dtype, block_size: 16 }
}

#[test]
fn partials_in_16_bits_are_within_the_bound_and_above_that_of_f32() {
    for (dtype, tree) in [Dtype::F16, Dtype::Bf16]
        .into_iter()
        .flat_map(|d| ["1,8_256,64", "1,2,8_512,128,64", "1,3,9,27_64,64,64,64", "1,64_4096,16"].map(|tree| (d, tree)))
    {
        let spec = parse_tree(tree, shape(dtype)).unwrap();
        for scheduler in ["cascade", "relay", "relay-plus-plus", "hydragen"] {
            let made = planned_if_allowed(&spec, scheduler, Strategy::Serial, "h200-sxm").unwrap();
            let report = check(&made.batch, &made.plan, 5);
            let said = format!("{scheduler} on {tree} in {}: {report:?}", dtype.name());
            assert!(report.is_right(), "{said}");
            // The bound follows the error: it is no more than some times what there is.
            assert!(report.max_rel_err > 0.1 * report.bound, "{said}");
            assert!(report.max_rel_err > 1e-5, "{said}: nothing was rounded");
        }
    }
}

#[test]
fn an_unsplit_pack_of_a_million_tokens_is_within_the_bound_and_above_that_of_short_ones() {
    let shape = AttentionShape { query_heads: 1, kv_heads: 1, head_dim: 64, dtype: Dtype::F16, block_size: 256 };
    let spec = |kv| BatchSpec { requests: vec![parse_decode(kv).unwrap()], ..BatchSpec::empty(shape) };
    let naive = |kv| planned_if_allowed(&spec(kv), "naive", Strategy::Serial, "h200-sxm").unwrap();
    let (long, short) = (naive("1x1048576"), naive("1x4096"));
    assert_eq!(long.plan.packs.len(), 1);
    let (long, short) = (check(&long.batch, &long.plan, 1), check(&short.batch, &short.plan, 1));
    assert!(long.is_right() && short.is_right(), "{long:?}, {short:?}");
    assert!(long.max_rel_err > short.bound, "{long:?}, {short:?}");
}

/// A plan made wrong on purpose, with what was done; `None` where the plan has no place for it.
type Mutation = fn(&Planned, usize) -> Option<LaunchPlan>;

/// A pack reads nothing.
fn drop_pack(made: &Planned, at: usize) -> Option<LaunchPlan> {
    let mut plan = (*made.plan).clone();
    let at = at % plan.packs.len();
    let pack = &mut plan.packs[at];
    // One token can have next to no weight, so a few are dropped at least.
    (pack.tokens.0 >= 8).then_some(())?;
    (pack.blocks_end, pack.tokens.0) = (pack.blocks_begin, 0);
    Some(plan)
}

/// A pack reads one block further on, where its first query has another.
fn shift_block(made: &Planned, at: usize) -> Option<LaunchPlan> {
    let mut plan = (*made.plan).clone();
    let at = at % plan.packs.len();
    let first = plan.queries_of(PackIdx::from(at))[0];
    let pack = &mut plan.packs[at];
    let all = made.batch.tables().row(first).len() as u32;
    if pack.blocks_end < all {
        (pack.blocks_begin, pack.blocks_end) = (pack.blocks_begin + 1, pack.blocks_end + 1);
    } else {
        pack.blocks_begin.checked_sub(1)?;
        (pack.blocks_begin, pack.blocks_end) = (pack.blocks_begin - 1, pack.blocks_end - 1);
    }
    Some(plan)
}

/// Blocks that a pack reads.
fn blocks(made: &Planned, plan: &LaunchPlan, pack: usize) -> Vec<u32> {
    let first = plan.queries_of(PackIdx::from(pack))[0];
    let range = plan.packs[pack].blocks_begin as usize..plan.packs[pack].blocks_end as usize;
    made.batch.tables().row(first)[range].iter().map(|block| block.0).collect()
}

/// Two queries change places: each is in the other's pack, which reads other KV, and the merges follow.
fn swap_slots(made: &Planned, at: usize) -> Option<LaunchPlan> {
    let mut plan = (*made.plan).clone();
    let owner =
        |slot: u32| plan.packs.iter().position(|p| (p.slots_begin..p.slots_begin + p.queries_len).contains(&slot));
    let a = (at % plan.queries.len()) as u32;
    let other = |b: &u32| {
        let (pa, pb) = (owner(a).unwrap(), owner(*b).unwrap());
        let in_both = plan.queries_of(PackIdx::from(pb)).contains(&plan.queries[a as usize])
            || plan.queries_of(PackIdx::from(pa)).contains(&plan.queries[*b as usize]);
        // The first query of a pack gives its blocks, so it stays.
        let firsts = plan.packs[pa].slots_begin == a || plan.packs[pb].slots_begin == *b;
        pa != pb && !in_both && !firsts && blocks(made, &plan, pa) != blocks(made, &plan, pb)
    };
    let b = (0..plan.queries.len() as u32).find(other)?;
    plan.queries.swap(a as usize, b as usize);
    let exchange = |slot: &mut u32| {
        *slot = if *slot == a {
            b
        } else if *slot == b {
            a
        } else {
            *slot
        }
    };
    plan.merge.slots.iter_mut().for_each(exchange);
    plan.merge.rounds.iter_mut().for_each(|round| round.slots.iter_mut().for_each(exchange));
    Some(plan)
}

const MUTATIONS: [(&str, Mutation); 3] =
    [("drop a pack", drop_pack), ("shift a block", shift_block), ("swap two slots", swap_slots)];

#[test]
fn wrong_plans_of_random_batches_are_beyond_the_bound() {
    let mut refused = [[0_u32; SCHEDULERS.len()]; MUTATIONS.len()];
    let mut runner = TestRunner::deterministic();
    for case in 0..120_usize {
        // Forests for those that take any, one root with even levels for those that do not.
        let spec = if case % 2 == 0 {
            forest(16).new_tree(&mut runner).unwrap().current()
        } else {
            let dtype = if case % 4 == 1 { Dtype::F16 } else { Dtype::Bf16 };
            let tree = ["1,4_48,32", "1,2,6_32,64,16", "1,3,6,12_16,32,16,48"][case / 2 % 3];
            parse_tree(tree, shape(dtype)).unwrap()
        };
        for (by, scheduler) in SCHEDULERS.iter().enumerate() {
            let Some(made) = planned_if_allowed(&spec, scheduler, Strategy::Serial, "h200-sxm") else { continue };
            for (how, (name, mutate)) in MUTATIONS.iter().enumerate() {
                let Some(plan) = mutate(&made, 7 * case + 3) else { continue };
                let report = check(&made.batch, &plan, case as u64);
                assert!(!report.is_right(), "{name}, {scheduler}: {report:?} of {spec:?}");
                refused[how][by] += 1;
            }
        }
    }
    for (of, (name, _)) in refused.iter().zip(&MUTATIONS) {
        assert!(of.iter().sum::<u32>() >= 60 && of.iter().filter(|count| **count > 0).count() >= 3, "{name}: {of:?}");
    }
    println!("wrong plans refused, by mutation and scheduler: {refused:?}");
}

/// Attention of one row in f32, with the query of another head.
fn with_query_of(batch: &Batch, input: &Input, kv: &HeadKv, row: &CheckedRow, head: u32) -> Vec<f32> {
    let shape = &batch.shape;
    let q = input.query(row.query, head);
    let tokens = batch.request(row.query).kv.0 as u32;
    let table = batch.tables().row(row.query);
    let place = |token: u32| (table[(token / shape.block_size) as usize], token % shape.block_size);
    let dot = |k: &[f32]| k.iter().zip(&q).map(|(k, q)| k * q).sum::<f32>() / (shape.head_dim as f32).sqrt();
    let scores: Vec<f32> = (0..tokens).map(|token| dot(kv.key(place(token).0, place(token).1))).collect();
    let high = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = scores.iter().map(|score| (score - high).exp()).sum();
    let mut out = vec![0.0; shape.head_dim as usize];
    for (token, score) in scores.iter().enumerate() {
        let (block, at) = place(token as u32);
        out.iter_mut().zip(kv.value(block, at)).for_each(|(o, v)| *o += (score - high).exp() / sum * v);
    }
    out
}

#[test]
fn the_query_of_another_head_is_beyond_the_bound_and_its_own_is_within() {
    let mut runner = TestRunner::deterministic();
    let mut seen = 0;
    for seed in 0..40 {
        let spec = forest(16).new_tree(&mut runner).unwrap().current();
        if spec.shape.query_heads == 1 {
            continue;
        }
        let made = plan_spec(&spec, &PlanOptions::new(engine::hw::find("h200-sxm").unwrap())).unwrap();
        let input = Input::new(seed, spec.shape);
        let bound = check(&made.batch, &made.plan, seed).bound;
        let heads = spec.shape.query_heads;
        let rows = |off: u32| {
            let output = |kv: &HeadKv, row: &CheckedRow| {
                vec![with_query_of(&made.batch, &input, kv, row, (row.head + off) % heads)]
            };
            check_rows(&made.batch, (seed, &[bound]), &Cancel::default(), output).unwrap().swap_remove(0)
        };
        // One token has all the weight whatever the query.
        let one_token = (0..made.batch.requests().len()).all(|q| made.batch.request(QueryIdx::from(q)).kv.0 == 1);
        assert!(rows(0).is_right() && (one_token || !rows(1).is_right()), "{spec:?}");
        seen += 1;
    }
    assert!(seen > 20);
}

#[test]
fn every_scheduler_has_a_bound_that_follows_its_forms() {
    let spec = parse_tree("1,2,8_512,128,64", shape(Dtype::F16)).unwrap();
    for scheduler in schedulers() {
        let Some(made) = planned_if_allowed(&spec, scheduler.name(), Strategy::Serial, "h200-sxm") else { continue };
        let native = made.plan.slot_forms().contains(&Some(engine::workload::PartialForm::Native));
        let bound = check(&made.batch, &made.plan, 1).bound;
        assert_eq!(bound > 1e-4, native, "{}: {bound}", scheduler.name());
    }
}
