//! Speed of the simulator and of the bubble metrics, on one thread.
//!
//! Targets: configuration 11 of PAT's Figure 10 at 32/8 (10,752 CTAs) under 50 ms, a million CTAs
//! under 1.5 s.
#![allow(missing_docs, reason = "criterion's macros make public functions without documentation")]

use criterion::{Criterion, criterion_group, criterion_main};
use engine::cancel::Cancel;
use engine::plan::Strategy;
use engine::session::{PlanOptions, Planned, RunOptions, plan_spec, simulate};
use engine::workload::{AttentionShape, BatchSpec, RequestSpec, parse_tree};

fn planned(spec: &BatchSpec, strategy: Strategy) -> Option<Planned> {
    let device = engine::hw::builtin().first()?;
    plan_spec(spec, &PlanOptions { strategy, explain: false, ..PlanOptions::new(device) }).ok()
}

fn simulator(criterion: &mut Criterion) {
    let run = RunOptions::default();
    let cancel = Cancel::default();
    let mut group = criterion.benchmark_group("simulate");
    group.sample_size(10);
    let tree = parse_tree("1,4,16,64,256,1024_256,32,256,64,32,256", AttentionShape::default());
    for strategy in Strategy::ANY_BATCH {
        let Some(planned) = tree.as_ref().ok().and_then(|spec| planned(spec, strategy)) else { continue };
        group.bench_function(format!("configuration 11, {}", strategy.name()), |bencher| {
            bencher.iter(|| simulate(&planned, &run, &cancel));
        });
    }
    // 7,813 requests under 128 KV heads: 1,000,064 CTAs.
    let shape = AttentionShape { query_heads: 128, kv_heads: 128, ..AttentionShape::default() };
    let requests = (0..7813).map(|at| RequestSpec::Decode { kv: 512 + at % 64, count: 1 }).collect();
    let spec = BatchSpec { requests, ..BatchSpec::empty(shape) };
    if let Some(planned) = planned(&spec, Strategy::Streams) {
        group.bench_function("a million CTAs", |bencher| bencher.iter(|| simulate(&planned, &run, &cancel)));
        if let Ok(capture) = simulate(&planned, &run, &cancel) {
            group.bench_function("bubbles of a million CTAs", |bencher| {
                bencher.iter(|| engine::metrics::bubbles(&planned.plan, &capture));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, simulator);
criterion_main!(benches);
