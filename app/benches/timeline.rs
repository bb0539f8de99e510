//! What a frame of the timeline costs on a million slices, and what an edit costs from key to picture.

use criterion::{Criterion, criterion_group, criterion_main};
use egui::TextureId;
use engine::cancel::Cancel;
use engine::capture::{Capture, L2State, Provenance, RunTimes, Source, Span, Spans};
use engine::metrics::{BubbleCause, Gap};
use engine::plan::{CtaRole, LaunchPlan, MergePlan, PlanDigest, PrefillPlan, Strategy};
use engine::session::PlanOptions;
use engine::units::Nanos;
use engine::workload::{AttentionShape, BatchSpec};
use packscope::jobs::planner;
use packscope::theme;
use packscope::timeline::bubbles;
use packscope::timeline::gaps::Gaps;
use packscope::timeline::lanes::Lanes;
use packscope::timeline::layout::{Layout, View};

/// `count` slices of uneven length on 132 SMs × 2 lanes.
fn capture(count: u64) -> Capture {
    let shape = AttentionShape::default();
    let mut ends = [0_u64; 264];
    let mut state = 7_u64;
    let spans = (0..count).map(|at| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let lane = (at % 264) as usize;
        let begin = ends[lane] + (state >> 60);
        let end = begin + 20 + (state >> 40) % 900;
        ends[lane] = end;
        let (begin, end) = (Nanos(begin), Nanos(end));
        let (sm, slot) = ((lane / 2) as u32, (lane % 2) as u32);
        Span { role: CtaRole::Merge, launch: 0, cta: at as u32, sm, slot, begin, first_tile: begin, loop_end: end, end }
    });
    Capture {
        spans: Spans::from_unsorted(spans.collect()),
        provenance: Provenance {
            packscope: String::new(),
            backend: "sim".into(),
            source: Source::Simulated,
            device: "h200-sxm".into(),
            device_name: String::new(),
            driver: None,
            sm_clock_khz: None,
            plan: PlanDigest::first(0),
            command: String::new(),
            sm_count: 132,
            clock_step: Nanos(1),
            clock_error_ns: None,
            peak_bytes_per_s: 1,
            expected_error: None,
            gpcs: Vec::new(),
            deterministic: false,
            calibrated: true,
        },
        batch: BatchSpec::empty(shape),
        plan: LaunchPlan {
            scheduler: String::new(),
            strategy: Strategy::Serial,
            device: String::new(),
            shape,
            packs: Vec::new(),
            queries: Vec::new(),
            order: Vec::new(),
            launches: Vec::new(),
            merge: MergePlan::default(),
            prefill: PrefillPlan::default(),
            decisions: Vec::new(),
        },
        times: RunTimes { makespans: Vec::new(), l2: L2State::Cold, upload: None },
        kernels: Vec::new(),
        counters: Vec::new(),
        counted: None,
        pauses: None,
        probe_overhead: None,
        warnings: Vec::new(),
    }
}

/// The idle stretches between the slices of each lane.
fn idle(capture: &Capture) -> Vec<Gap> {
    let spans = &capture.spans;
    let pairs = (1..spans.len()).filter(|at| {
        (spans.sm[*at], spans.slot[*at]) == (spans.sm[at - 1], spans.slot[at - 1])
            && spans.begin[*at] > spans.end[at - 1]
    });
    let gap = |at: usize| Gap {
        sm: spans.sm[at],
        slot: spans.slot[at],
        begin: Nanos(spans.end[at - 1]),
        end: Nanos(spans.begin[at]),
        cause: BubbleCause::ALL[at % BubbleCause::ALL.len()],
    };
    pairs.map(gap).collect()
}

fn frames(criterion: &mut Criterion) {
    let capture = capture(1_000_000);
    let lanes = Lanes::of(&capture);
    let gaps: Gaps = idle(&capture).into_iter().collect();
    let rect = egui::Rect::from_min_size(egui::Pos2::ZERO, egui::vec2(1800.0, 900.0));
    let end = lanes.end as f64;
    let tokens = theme::tokens(true);
    for (name, share) in [("all", 1.0), ("tenth", 0.1), ("hundredth", 0.01), ("thousandth", 0.001)] {
        let (begin, end) = (end * 0.4 * (1.0 - share), end * (0.4 * (1.0 - share) + share));
        let layout = Layout::new(&lanes, View { begin, end, scroll: 0.0, lane_height: None }, rect);
        criterion.bench_function(&format!("frame of 1 M slices, gaps and range, {name}"), |bencher| {
            bencher.iter(|| {
                let slices = layout
                    .mesh(&lanes, &capture.spans, |piece| tokens.entity(piece.entity.pack().map_or(0, |pack| pack.0)));
                let tint = |cause| bubbles::colour(tokens, cause);
                let idle = bubbles::mesh((&lanes, &gaps), &layout, TextureId::default(), tint);
                (slices, idle, lanes.within(&capture.spans, begin as u64..end as u64))
            });
        });
    }
}

fn edit(criterion: &mut Criterion) {
    let Some(device) = engine::hw::builtin().first() else { return };
    let Some(sample) = packscope::samples::find("pat-11") else { return };
    let Ok(spec) = BatchSpec::from_ron(sample.text) else { return };
    let options = PlanOptions::new(device);
    let rect = egui::Rect::from_min_size(egui::Pos2::ZERO, egui::vec2(1800.0, 900.0));
    let tokens = theme::tokens(true);
    criterion.bench_function("edit of 1,024 requests: plan, simulate, derive, mesh", |bencher| {
        bencher.iter(|| {
            let (shown, _) = planner::run(&spec, &options, L2State::Cold, &Cancel::default()).ok()?;
            let run = shown.simulated?;
            let view = View { begin: 0.0, end: run.lanes.end as f64, scroll: 0.0, lane_height: None };
            let layout = Layout::new(&run.lanes, view, rect);
            let tint = |cause| bubbles::colour(tokens, cause);
            let idle = bubbles::mesh((&run.lanes, &run.gaps), &layout, TextureId::default(), tint);
            Some((
                layout.mesh(&run.lanes, &run.capture.spans, |piece| {
                    tokens.entity(piece.entity.pack().map_or(0, |pack| pack.0))
                }),
                idle,
            ))
        });
    });
}

criterion_group! { name = benches; config = Criterion::default().sample_size(20); targets = frames, edit }
criterion_main!(benches);
