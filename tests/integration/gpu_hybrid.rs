//! Hybrid batches on the GPU: right under every strategy that it runs, and traced CTA by CTA. Without a GPU each test
//! prints why it is skipped. `PACKSCOPE_GPU_HYBRIDS` sets how many random batches run (12 when unset), and
//! `PACKSCOPE_GPU_SEED` repeats a run.

use engine::cancel::Cancel;
use engine::capture::Capture;
use engine::error::Error;
use engine::metrics::side_by_side;
use engine::plan::{CtaRole, Strategy as LaunchStrategy};
use engine::session::{PlanOptions, Planned, RunOptions, Runner, plan_spec};
use engine::workload::{AttentionShape, BatchSpec, Dtype, RequestSpec};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::forests::forest;
use crate::gpu::{assert_right, gpu};

const CHUNKS: [u64; 7] = [1, 17, 127, 128, 129, 300, 1024];
const CONTEXTS: [u64; 6] = [0, 1, 95, 1000, 4000, 11264];

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Chunks of the lists above beside a ragged forest of decodes.
fn hybrid() -> impl Strategy<Value = BatchSpec> {
    let chunk = (select(&CHUNKS[..]), select(&CONTEXTS[..]));
    let chunk = chunk.prop_map(|(chunk, context)| RequestSpec::Prefill { chunk, kv: chunk + context });
    let blocks = select(&[16_u32, 32, 64, 128, 256][..]);
    (blocks.prop_flat_map(forest), prop::collection::vec(chunk, 1..4)).prop_map(|(mut spec, chunks)| {
        spec.requests.extend(chunks);
        spec
    })
}

/// The batch of a seed.
fn drawn(seed: u64) -> BatchSpec {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    hybrid().new_tree(&mut TestRunner::new_with_rng(Config::default(), rng)).unwrap().current()
}

/// The batch under every strategy that plans it and that the GPU runs.
fn plans(runner: &Runner, spec: &BatchSpec, scheduler: &str) -> Vec<Planned> {
    let planned = |strategy: &LaunchStrategy| {
        let device = runner.device().unwrap();
        let options = PlanOptions { scheduler: scheduler.to_owned(), strategy: *strategy, ..PlanOptions::new(device) };
        match plan_spec(spec, &options).and_then(|planned| runner.accepts(&planned).map(|()| planned)) {
            Ok(planned) => Some(planned),
            Err(Error::Unsupported { .. }) => None,
            Err(error) => panic!("{scheduler}: {error}"),
        }
    };
    LaunchStrategy::ALL.iter().filter_map(planned).collect()
}

#[test]
fn random_hybrids_come_out_right() {
    let Some(mut runner) = gpu("random hybrids") else { return };
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let first = from_env("PACKSCOPE_GPU_SEED").unwrap_or_else(now);
    let count = from_env("PACKSCOPE_GPU_HYBRIDS").unwrap_or(12);
    let mut worst = [0.0_f64; 2];
    let (mut runs, mut ways) = (0, std::collections::BTreeMap::<&str, u32>::new());
    for seed in first..first + count {
        let spec = drawn(seed);
        let schedulers = ["min-time", "pat", "query-centric", "naive"];
        let all = plans(&runner, &spec, schedulers[seed as usize % schedulers.len()]);
        assert!(!all.is_empty(), "seed {seed}: no strategy runs {spec:?}");
        println!("seed {seed}: {} plans", all.len());
        let error = assert_right(&mut runner, &all, seed);
        let worst = &mut worst[usize::from(all[0].plan.shape.dtype == Dtype::Bf16)];
        *worst = worst.max(error);
        runs += all.len();
        for planned in &all {
            *ways.entry(planned.plan.strategy.name()).or_default() += 1;
        }
    }
    println!("{count} hybrids from seed {first}, {runs} runs {ways:?}: {:.1e} f16, {:.1e} bf16", worst[0], worst[1]);
}

/// Every CTA of the plan has a span, of its own role, and no two of a lane overlap.
fn assert_traced(capture: &Capture) {
    let plan = &capture.plan;
    let way = format!("{} under {}", plan.scheduler, plan.strategy.name());
    let mut seen = std::collections::BTreeSet::new();
    let mut free_at = std::collections::BTreeMap::new();
    for span in capture.spans.iter() {
        assert!(seen.insert((span.launch, span.cta)), "{way}: two spans of CTA {} of launch {}", span.cta, span.launch);
        assert_eq!(span.role, plan.role_of(&plan.launches[span.launch as usize], span.cta), "{way}");
        assert!(
            span.begin <= span.first_tile && span.first_tile <= span.loop_end && span.loop_end <= span.end,
            "{way}"
        );
        let free = free_at.entry((span.sm, span.slot)).or_insert(span.begin);
        assert!(*free <= span.begin, "{way}: two CTAs at once on SM {} lane {}", span.sm, span.slot);
        *free = span.end;
    }
    for (at, launch) in (0_u32..).zip(&plan.launches) {
        for cta in plan.ctas(launch) {
            assert!(seen.contains(&(at, cta)), "{way}: CTA {cta} of launch {at} is missing");
        }
    }
    // Under hfuse all prefill may be in CTAs that decode too.
    let prefills = |role| matches!(role, CtaRole::Prefill | CtaRole::Both);
    assert!(capture.spans.iter().any(|span| prefills(span.role)), "{way}");
}

#[test]
fn hybrids_are_traced_cta_by_cta() {
    let Some(mut runner) = gpu("traces of hybrids") else { return };
    let first = from_env("PACKSCOPE_GPU_SEED").unwrap_or(7);
    for seed in first..first + 3 {
        let spec = drawn(seed);
        for planned in plans(&runner, &spec, "min-time") {
            let capture = runner.run(&planned, &RunOptions { repeats: 3, ..RunOptions::default() }, &Cancel::default());
            assert_traced(&capture.unwrap());
        }
    }
}

/// Two kernels that fit on an SM together must be there together: a plan that says so proves nothing.
#[test]
fn co_resident_prefill_and_decode_are_on_an_sm_at_once() {
    let Some(mut runner) = gpu("co-residency") else { return };
    let shape = AttentionShape { query_heads: 16, kv_heads: 4, ..AttentionShape::default() };
    let requests = vec![RequestSpec::Prefill { chunk: 4096, kv: 8192 }, RequestSpec::Decode { kv: 8192, count: 64 }];
    let spec = BatchSpec { requests, ..BatchSpec::empty(shape) };
    let all = plans(&runner, &spec, "min-time");
    let Some(planned) = all.iter().find(|planned| planned.plan.strategy == LaunchStrategy::CoResident) else {
        return println!("skipped: co-residency: this GPU has no kernels for it");
    };
    let capture = runner.run(planned, &RunOptions { repeats: 3, ..RunOptions::default() }, &Cancel::default()).unwrap();
    let share = side_by_side(&capture.spans, capture.provenance.sm_count).unwrap();
    println!("prefill and decode shared {:.0} % of the SMs' time", 100.0 * share);
    assert!(share > 0.2, "prefill and decode ran one after the other: {share}");
}
