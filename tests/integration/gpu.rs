//! The CUDA backend against the f64 reference and against the rules of a capture. Without a GPU each test
//! prints why it is skipped.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::cancel::Cancel;
use engine::capture::{self, Capture, L2State};
use engine::error::Error;
use engine::plan::{CtaRole, Strategy as LaunchStrategy};
use engine::session::{PlanOptions, Planned, RunOptions, Runner, plan_spec};
use engine::workload::{AttentionShape, BatchSpec, Dtype};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::common::{all_ways, figure_10, uniform};
use crate::forests::forest;

/// The open GPU of a test, which has it alone: what another one holds or runs would be seen in memory and times.
pub(crate) struct Held {
    runner: Runner,
    _alone: MutexGuard<'static, ()>,
}

impl Deref for Held {
    type Target = Runner;

    fn deref(&self) -> &Runner {
        &self.runner
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Runner {
        &mut self.runner
    }
}

/// Waits until no other test has the GPU.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kernels are compiled once for all tests.
pub(crate) fn kernel_cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")
}

/// The GPU of this machine, or a line that says why the test is skipped: only that there is none to be used. What goes
/// wrong with one that is there fails the test.
pub(crate) fn gpu(test: &str) -> Option<Held> {
    let alone = alone();
    match Runner::gpu(Some(kernel_cache()), Box::new(|_| ()), &Cancel::default()) {
        Ok(runner) => Some(Held { runner, _alone: alone }),
        Err(error @ Error::Hardware(_)) => {
            println!("skipped: {test}: {error}");
            None
        }
        Err(error) => panic!("{test}: {error}"),
    }
}

/// The plan under one way; `None` where the scheduler refuses the batch, or the GPU what it prescribes.
fn plan(runner: &Runner, spec: &BatchSpec, scheduler: &str, strategy: LaunchStrategy) -> Option<Planned> {
    let device = runner.device().unwrap();
    let options = PlanOptions { scheduler: scheduler.to_owned(), strategy, ..PlanOptions::new(device) };
    let planned = plan_spec(spec, &options);
    match planned.and_then(|planned| runner.accepts(&planned).map(|()| planned)) {
        Ok(planned) => Some(planned),
        Err(engine::Error::Unsupported { .. }) => None,
        Err(error) => panic!("{scheduler}: {error}"),
    }
}

/// Every scheduler under every strategy that plans the batch and that the GPU runs.
fn all_plans(runner: &Runner, spec: &BatchSpec) -> Vec<Planned> {
    all_ways().filter_map(|(scheduler, strategy)| plan(runner, spec, scheduler, strategy)).collect()
}

/// Outputs within what the dtype allows. Poison that is left in an output is not a number and fails.
pub(crate) fn assert_right(runner: &mut Runner, all: &[Planned], seed: u64) -> f64 {
    let reports = runner.check_all(all, seed, &Cancel::default()).unwrap();
    assert_eq!(reports.len(), all.len());
    let mut worst = 0.0_f64;
    for (planned, report) in all.iter().zip(reports) {
        let way = format!("{} under {}", planned.plan.scheduler, planned.plan.strategy.name());
        assert!(report.rows > 0 && report.is_right(), "{way}: {report:?} of {:?}", planned.spec);
        worst = worst.max(report.max_rel_err);
    }
    worst
}

/// Tensor cores cut sums off, so that one sum of a million terms is further off than many short ones.
#[test]
fn an_unsplit_pack_of_a_million_tokens_comes_out_right() {
    let Some(mut runner) = gpu("an unsplit pack of a million tokens") else { return };
    for dtype in [Dtype::F16, Dtype::Bf16] {
        let shape = AttentionShape { query_heads: 1, kv_heads: 1, dtype, block_size: 256, ..AttentionShape::default() };
        let spec = uniform(&[1], &[1 << 20], shape);
        let all: Vec<Planned> = plan(&runner, &spec, "naive", LaunchStrategy::Serial).into_iter().collect();
        assert_eq!(all[0].plan.packs.len(), 1);
        println!("largest relative error in {}: {:.2e}", dtype.name(), assert_right(&mut runner, &all, 1));
    }
}

fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::from(now.subsec_nanos())
}

fn the_published_trees_come_out_right(query_heads: u32, kv_heads: u32) {
    let Some(mut runner) = gpu("the published trees") else { return };
    let (mut worst, mut runs) = (0.0_f64, 0);
    let mut ways = std::collections::BTreeSet::new();
    for number in 1..=20 {
        let all = all_plans(&runner, &figure_10(number, query_heads, kv_heads));
        worst = worst.max(assert_right(&mut runner, &all, seed()));
        runs += all.len();
        ways.extend(all.iter().map(|planned| planned.plan.scheduler.clone()));
    }
    println!("largest relative error of {runs} runs {worst:.2e}, under {ways:?}");
}

#[test]
fn the_published_trees_come_out_right_at_32_and_32_heads() {
    the_published_trees_come_out_right(32, 32);
}

#[test]
fn the_published_trees_come_out_right_at_16_and_8_heads() {
    the_published_trees_come_out_right(16, 8);
}

#[test]
fn the_published_trees_come_out_right_at_32_and_8_heads() {
    the_published_trees_come_out_right(32, 8);
}

#[test]
fn the_published_trees_come_out_right_at_64_and_8_heads() {
    the_published_trees_come_out_right(64, 8);
}

#[test]
fn published_trees_in_bf16_and_with_head_dimension_64_come_out_right() {
    let Some(mut runner) = gpu("bf16 and head dimension 64") else { return };
    for number in [1, 4, 9, 12, 18] {
        for (dtype, head_dim) in [(Dtype::Bf16, 128), (Dtype::F16, 64), (Dtype::Bf16, 64)] {
            let mut spec = figure_10(number, 32, 8);
            spec.shape = AttentionShape { dtype, head_dim, ..spec.shape };
            let all = all_plans(&runner, &spec);
            let worst = assert_right(&mut runner, &all, seed());
            println!("configuration {number}, {dtype:?}, head dimension {head_dim}: {worst:.2e}");
        }
    }
}

/// 40 forests; a capture of one way of each, all ways in turn, since it takes ten times as long as a check.
fn ragged_forests_come_out_right(block_size: u32) {
    let Some(mut runner) = gpu("40 ragged forests") else { return };
    let mut cases = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
    let runner = std::cell::RefCell::new(&mut runner);
    let outcome = cases.run(&(forest(block_size), any::<u32>()), |(spec, seed)| {
        let mut runner = runner.borrow_mut();
        let all = all_plans(&runner, &spec);
        assert_right(&mut runner, &all, u64::from(seed));
        if let Some(planned) = all.get(seed as usize % all.len().max(1)) {
            assert_sound(&mut runner, planned);
        }
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn ragged_forests_in_blocks_of_1_come_out_right_and_their_captures_keep_every_rule() {
    ragged_forests_come_out_right(1);
}

#[test]
fn ragged_forests_in_blocks_of_8_come_out_right_and_their_captures_keep_every_rule() {
    ragged_forests_come_out_right(8);
}

#[test]
fn ragged_forests_in_blocks_of_16_come_out_right_and_their_captures_keep_every_rule() {
    ragged_forests_come_out_right(16);
}

#[test]
fn ragged_forests_in_blocks_of_32_come_out_right_and_their_captures_keep_every_rule() {
    ragged_forests_come_out_right(32);
}

#[test]
fn ragged_forests_in_blocks_of_64_come_out_right_and_their_captures_keep_every_rule() {
    ragged_forests_come_out_right(64);
}

#[test]
fn ragged_forests_in_blocks_of_128_come_out_right_and_their_captures_keep_every_rule() {
    ragged_forests_come_out_right(128);
}

#[test]
fn ragged_forests_in_blocks_of_256_come_out_right_and_their_captures_keep_every_rule() {
    ragged_forests_come_out_right(256);
}

/// A measured capture keeps every rule, and its bubbles fill what is not busy.
fn assert_sound(runner: &mut Runner, planned: &Planned) -> Capture {
    let run = RunOptions { repeats: 2, ..RunOptions::default() };
    let capture = runner.run(planned, &run, &Cancel::default()).unwrap();
    assert_eq!(capture::verify(&capture), Vec::new(), "{:?}", planned.spec);
    let bubbles = engine::metrics::bubbles(&capture.plan, &capture);
    let idle: u64 = bubbles.bubbles.iter().map(|bubble| bubble.slot_time.0).sum();
    assert_eq!(bubbles.busy_slot.0 + idle, capture.slots() * capture.makespan().0);
    capture
}

#[test]
fn the_trees_that_the_released_code_gets_wrong_come_out_right() {
    let Some(mut runner) = gpu("the trees of the released code's fault") else { return };
    let shape = AttentionShape::default();
    for (nodes, tokens) in [(&[1, 4], &[4096, 2048]), (&[1, 2], &[8192, 4096]), (&[2, 4], &[4096, 2048])] {
        let spec = uniform(nodes, tokens, shape);
        let all = all_plans(&runner, &spec);
        assert_right(&mut runner, &all, seed());
    }
}

#[test]
fn serial_streams_and_fused_give_captures_that_keep_every_rule_at_full_size() {
    let Some(mut runner) = gpu("captures at full size") else { return };
    for number in [1, 3, 11, 12, 20] {
        for strategy in LaunchStrategy::ANY_BATCH {
            for graph in [false, true] {
                let Some(planned) = plan(&runner, &figure_10(number, 32, 8), "pat", strategy) else { continue };
                let run = RunOptions { repeats: 3, graph, ..RunOptions::default() };
                let capture = runner.run(&planned, &run, &Cancel::default()).unwrap();
                assert_eq!(capture::verify(&capture), Vec::new(), "configuration {number}, {strategy:?}");
                assert_eq!(capture.times.makespans.len(), 3);
                let (step, error) = (capture.provenance.clock_step, capture.provenance.clock_error_ns.unwrap());
                let way = format!("configuration {number}, {strategy:?}, graph {graph}");
                assert!(step.0 > 0 && error < 32.0, "{way}: clocks fitted to {error} ns, the timer steps by {step}");
            }
        }
    }
}

/// Long shared runs in many pieces, with few requests: CTAs that have no more tasks merge (`watch.cuh`). With groups of every
/// size, a query's partials are merged by one warp or by four, in one part or in several; in one wave, and in more.
#[test]
fn merges_by_ctas_without_tasks_come_out_right_and_are_in_the_trace() {
    let Some(mut runner) = gpu("merges by CTAs without tasks") else { return };
    let mut merges = 0;
    for (group, kv_heads) in (1..=16).zip([8, 4, 8, 8, 4, 8, 4, 8, 2, 4, 2, 4, 1, 2, 8, 4]) {
        for (requests, shared, own) in [(20, 12_288, 160), (96, 3072, 40)] {
            let shape = AttentionShape { query_heads: group * kv_heads, kv_heads, ..AttentionShape::default() };
            let spec = uniform(&[1, requests], &[shared, own], shape);
            let all: Vec<Planned> = plan(&runner, &spec, "min-time", LaunchStrategy::Fused).into_iter().collect();
            assert_right(&mut runner, &all, seed());
            for planned in &all {
                let capture = assert_sound(&mut runner, planned);
                merges += capture.spans.role.iter().filter(|role| **role == CtaRole::Merge).count();
            }
        }
    }
    assert!(merges > 5_000, "{merges}");
}

#[test]
fn counters_are_there_or_a_warning_says_why_and_the_times_are_of_plain_runs() {
    let Some(mut runner) = gpu("hardware counters") else { return };
    for (scheduler, strategy) in [("pat", LaunchStrategy::Serial), ("pat", LaunchStrategy::Fused)] {
        let Some(planned) = plan(&runner, &figure_10(20, 32, 8), scheduler, strategy) else { continue };
        let run = RunOptions { repeats: 5, counters: true, ..RunOptions::default() };
        let capture = runner.run(&planned, &run, &Cancel::default()).unwrap();
        assert_eq!(capture::verify(&capture), Vec::new());
        let Some(counted) = &capture.counted else {
            assert!(capture.warnings.iter().any(|warning| warning.text.contains("hardware counters")));
            println!("skipped: no counters: {:?}", capture.warnings);
            return;
        };
        let traffic = engine::metrics::traffic(&planned.plan, &planned.batch, &planned.tree);
        let read = counted.plan.get(capture::Counter::DramRead).unwrap();
        let off = read / traffic.compulsory.as_f64() - 1.0;
        assert!(off.abs() < 0.02, "nothing is shared in configuration 20, but {read} B were read: {off:+.3}");
        let how = counted.sampled.unwrap();
        assert!(how.alignment_error.0 < 1000, "{how:?}");
        let sum = |name: &str| {
            let series = capture.counters.iter().find(|series| series.name == name).unwrap();
            series.values.iter().sum::<f64>() * series.step.as_f64() * 1e-9
        };
        let sampled = sum("dram_read");
        assert!((sampled / read - 1.0).abs() < 0.03, "{sampled} B in the series, {read} B counted");
        // Sampled runs begin with L2 full of written lines, as those that are timed; counted ones do not.
        let (sampled, written) = (sum("dram_write"), counted.plan.get(capture::Counter::DramWrite).unwrap());
        let before = planned.options.device.l2.as_f64() / 4.0;
        assert!(sampled > written + before, "{sampled} B in the series, {written} B counted");
    }
}

/// As many pauses fall into repeats as their length makes likely, those that had one take longer, and what is in L2 waits for none.
#[test]
fn pauses_of_the_memory_are_told_of_repeats_with_cold_l2() {
    let Some(mut runner) = gpu("pauses of the memory") else { return };
    let planned = plan(&runner, &figure_10(9, 32, 8), "min-time", LaunchStrategy::Fused).unwrap();
    let mut run = |l2| {
        let options = RunOptions { repeats: 200, l2, ..RunOptions::default() };
        runner.run(&planned, &options, &Cancel::default()).unwrap()
    };
    let periods: Vec<f64> = (0..2)
        .filter_map(|_| {
            let capture = run(L2State::Cold);
            assert_eq!(capture::verify(&capture), Vec::new());
            let pauses = capture.pauses.as_ref()?;
            assert_eq!(pauses.of_repeats.len(), 200);
            let all: u64 = capture.times.makespans.iter().map(|time| time.0 + pauses.length.0).sum();
            let (likely, told) = (all as f64 / pauses.period_ns, f64::from(pauses.of_repeats.iter().sum::<u32>()));
            assert!((told - likely).abs() < 4.0 * likely.sqrt() + 1.0, "{told} pauses where {likely:.1} are likely");
            let groups = pauses.groups(&capture.times);
            println!("{:.1} ns, {}: {groups:?}", pauses.period_ns, pauses.length);
            assert!(groups[0].0 == 0 && groups[0].1.median < groups[1].1.median, "{groups:?}");
            Some(pauses.period_ns)
        })
        .collect();
    if periods.is_empty() {
        println!("skipped: the memory of this GPU was not seen to pause");
    } else {
        assert!(periods.len() == 2 && (periods[0] / periods[1] - 1.0).abs() < 1e-4, "{periods:?}");
    }
    assert_eq!(run(L2State::Warm).pauses, None);
}

#[test]
fn a_plan_too_large_for_the_memory_is_refused_and_the_next_one_runs() {
    let Some(mut runner) = gpu("a plan larger than the memory") else { return };
    let spec = |count, kv| BatchSpec {
        requests: vec![engine::workload::RequestSpec::Decode { kv, count }],
        ..BatchSpec::empty(AttentionShape { query_heads: 128, kv_heads: 128, ..AttentionShape::default() })
    };
    // 64 requests of 1 Mi tokens at 64 KiB a token are 4 TiB.
    let large = plan(&runner, &spec(64, 1 << 20), "naive", LaunchStrategy::Fused).unwrap();
    let refused = runner.run(&large, &RunOptions::default(), &Cancel::default());
    assert!(matches!(&refused, Err(engine::Error::Gpu(text)) if text.contains("bytes free")), "{refused:?}");
    let small = plan(&runner, &spec(4, 100), "naive", LaunchStrategy::Fused).unwrap();
    assert_right(&mut runner, &[small], 1);
}
