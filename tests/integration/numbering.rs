//! CTA numbers, forward and inverse, for every kind of launch.

use std::collections::BTreeSet;

use engine::pack::CtaOrder;
use engine::plan::hybrid::PodChoice;
use engine::plan::{
    CtaRole, Dispatch, HybridKernel, Launch, LaunchKind, LaunchPlan, PrefillKernel, PrefillTask, PrefillWork,
    Strategy as LaunchStrategy, Tickets, Work,
};
use engine::session::{PlanOptions, plan_spec};
use engine::units::QueryIdx;
use engine::workload::{AttentionShape, BatchSpec, RequestSpec};
use proptest::prelude::*;

use crate::common::all_ways;
use crate::forests::forest;

/// Each CTA's pieces lead back to it; each piece of the launch, made without asking for numbers, belongs to
/// one CTA; and the role says what the pieces are.
fn assert_undo(plan: &LaunchPlan, what: &str) {
    for (launch, numbers) in plan.launches.iter().zip(plan.all_numbers()) {
        let mut seen = BTreeSet::new();
        let ctas = plan.ctas(launch);
        for cta in &ctas {
            let work = numbers.work(*cta).unwrap_or_else(|| panic!("{what}: CTA {cta} does nothing"));
            assert_eq!(work.role(), plan.role_of(launch, *cta), "{what}");
            assert_eq!(work.role(), role(&work.pieces().collect::<Vec<_>>()), "{what}");
            for piece in work.pieces() {
                assert_eq!(plan.cta_of(launch, piece), Some(*cta), "{what}: {piece:?}");
                assert!(seen.insert(piece), "{what}: {piece:?} twice");
            }
        }
        let heads: u64 = seen.iter().map(query_heads).sum();
        assert_eq!(heads, planned_query_heads(plan, launch), "{what}: query heads of all decodes");
        assert_eq!(prefills(&seen), planned_prefills(plan, launch), "{what}");
        let rows = seen.iter().filter(|piece| matches!(piece, Work::Merge(_))).count();
        assert_eq!(rows as u32, if launch.kind.is_merge() { plan.cta_count(launch) } else { 0 }, "{what}");
        assert!(numbers.work(plan.cta_count(launch)).is_none() && numbers.work(u32::MAX).is_none(), "{what}");
        every_head_of_a_run_leads_to_its_cta(plan, launch, what);
    }
}

fn role(pieces: &[Work]) -> CtaRole {
    let any = |is: fn(&Work) -> bool| pieces.iter().any(is);
    match (any(|p| matches!(p, Work::Prefill(_))), any(|p| matches!(p, Work::Decode(_)))) {
        (true, true) => CtaRole::Both,
        (true, false) => CtaRole::Prefill,
        (false, true) => CtaRole::Decode,
        (false, false) => CtaRole::Merge,
    }
}

fn query_heads(piece: &Work) -> u64 {
    if let Work::Decode(decode) = piece { u64::from(decode.query_heads) } else { 0 }
}

fn planned_query_heads(plan: &LaunchPlan, launch: &Launch) -> u64 {
    plan.packs_of(launch).len() as u64 * u64::from(plan.shape.query_heads)
}

fn prefills(seen: &BTreeSet<Work>) -> BTreeSet<(u32, u32)> {
    let work = |piece: &Work| if let Work::Prefill(work) = piece { Some(*work) } else { None };
    let pairs =
        |work: PrefillWork| (work.query_head..work.query_head + work.query_heads).map(move |head| (work.task, head));
    seen.iter().filter_map(work).flat_map(pairs).collect()
}

fn planned_prefills(plan: &LaunchPlan, launch: &Launch) -> BTreeSet<(u32, u32)> {
    let tasks = match launch.kind {
        LaunchKind::Prefill(kernel) | LaunchKind::PrefillQueue(kernel) | LaunchKind::FoldedPrefill(kernel) => {
            kernel.tasks_begin..kernel.tasks_end
        }
        LaunchKind::Hybrid(kernel) => kernel.tasks_begin..kernel.tasks_end,
        _ => 0..0,
    };
    tasks.flat_map(|task| (0..plan.shape.query_heads).map(move |head| (task, head))).collect()
}

/// A trace has a record of each KV head, whatever run of heads its CTA takes.
fn every_head_of_a_run_leads_to_its_cta(plan: &LaunchPlan, launch: &Launch, what: &str) {
    for place in launch.packs_begin..launch.packs_end {
        for kv_head in 0..plan.shape.kv_heads {
            let Some(work) = plan.decode_work(launch, place, kv_head) else { panic!("{what}: pack {place}") };
            let cta = plan.cta_of(launch, Work::Decode(work)).unwrap();
            let found = plan.work_of(launch, cta).unwrap();
            let there = |d: &engine::plan::DecodeWork| {
                d.place == place && (d.kv_head..d.kv_head + d.kv_heads).contains(&kv_head)
            };
            assert!(found.decodes().any(|decode| there(&decode)), "{what}: pack {place}, KV head {kv_head}");
        }
    }
}

/// A hybrid launch of any dispatch over the decodes and prefill tasks of a plan.
fn recast(plan: &LaunchPlan, dispatch: Dispatch, decodes_per_cta: u32, order: CtaOrder) -> LaunchPlan {
    let mut plan = plan.clone();
    let (packs, tasks) = (plan.order.len() as u32, plan.prefill.tasks.len() as u32);
    let cta = engine::tile::CtaShape { shared: engine::units::Bytes(0), registers: 0, warps: 4 };
    let kernel =
        HybridKernel { tasks_begin: tasks.min(1), tasks_end: tasks, cta, prefill_warps: 4, decodes_per_cta, dispatch };
    plan.launches = vec![Launch {
        kind: LaunchKind::Hybrid(kernel),
        stream: 0,
        packs_begin: packs.min(1),
        packs_end: packs,
        order,
        after: Vec::new(),
        sms: None,
        programmatic: false,
    }];
    plan
}

/// A persistent prefill launch over the prefill tasks of a plan, of query heads or of KV heads.
fn queued(plan: &LaunchPlan, kind: fn(PrefillKernel) -> LaunchKind) -> LaunchPlan {
    let mut plan = recast(plan, Dispatch::Queue, 1, CtaOrder::HeadFastest);
    let LaunchKind::Hybrid(HybridKernel { tasks_begin, tasks_end, cta, .. }) = plan.launches[0].kind else {
        panic!("recast gives a hybrid launch")
    };
    plan.launches[0].kind = kind(PrefillKernel { tasks_begin, tasks_end, cta });
    plan.launches[0].packs_begin = plan.launches[0].packs_end;
    plan
}

/// A queue that holds prefill is taken KV head by KV head, in each the longest first.
fn assert_queue_order(plan: &LaunchPlan) {
    let launch = &plan.launches[0];
    let place = |cta: &u32| {
        let work = plan.work_of(launch, *cta).unwrap();
        let head = work.prefill.map(|p| p.query_head / plan.shape.group());
        (head.or(work.first_decode().map(|d| d.kv_head)).unwrap(), std::cmp::Reverse(work.kv_tokens()))
    };
    assert!(plan.ctas(launch).iter().map(place).is_sorted(), "{:?}", launch.kind);
}

fn hybrid(chunks: &[(u64, u64)], forest: BatchSpec) -> BatchSpec {
    let mut spec = forest;
    spec.requests
        .extend(chunks.iter().map(|(chunk, before)| RequestSpec::Prefill { chunk: *chunk, kv: chunk + before }));
    spec
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn numbers_undo_each_other_for_decodes(spec in forest(16)) {
        let device = engine::hw::find("h200-sxm").unwrap();
        for (scheduler, strategy) in all_ways() {
            let options = PlanOptions { scheduler: scheduler.to_owned(), strategy, explain: false, ..PlanOptions::new(device) };
            if let Ok(planned) = plan_spec(&spec, &options) {
                assert_undo(&planned.plan, &format!("{scheduler}, {}", strategy.name()));
            }
        }
    }

    #[test]
    fn numbers_undo_each_other_beside_prefill(
        spec in forest(16),
        chunks in prop::collection::vec((1_u64..400, 0_u64..600), 1..4),
        pod in prop::sample::select(vec![PodChoice::Ours, PodChoice::Released]),
        per_cta in 1_u32..6,
        tickets in (1_u32..5, 0_u32..5),
    ) {
        let spec = hybrid(&chunks, spec);
        let devices = ["a100-sxm-80gb", "h200-sxm"].map(|key| engine::hw::find(key).unwrap());
        for (device, strategy) in devices.into_iter().flat_map(|device| LaunchStrategy::ALL.map(|by| (device, by))) {
            let options = PlanOptions { scheduler: "query-centric".to_owned(), strategy, pod, ..PlanOptions::new(device) };
            let Ok(planned) = plan_spec(&spec, &options) else { continue };
            assert_undo(&planned.plan, strategy.name());
            for kind in [LaunchKind::PrefillQueue, LaunchKind::FoldedPrefill] {
                assert_undo(&queued(&planned.plan, kind), "a queue of prefill");
                assert_queue_order(&queued(&planned.plan, kind));
            }
            for dispatch in [Dispatch::Queue, Dispatch::FoldedQueue] {
                assert_queue_order(&recast(&planned.plan, dispatch, 1, CtaOrder::PackFastest));
            }
            let tickets = Dispatch::Tickets(Tickets { period: tickets.0, prefill: tickets.1 });
            for dispatch in [Dispatch::Static, Dispatch::Paired, tickets, Dispatch::Queue, Dispatch::FoldedQueue] {
                for order in [CtaOrder::PackFastest, CtaOrder::HeadFastest, CtaOrder::QueryHeads] {
                    assert_undo(&recast(&planned.plan, dispatch, per_cta, order), &format!("{dispatch:?}, {order:?}"));
                }
            }
        }
    }

    /// The closed form of a task's pairs, against counting them row by row; over all tasks they are the chunk's.
    #[test]
    fn pairs_of_prefill_tasks_add_up(chunks in prop::collection::vec((1_u64..700, 0_u64..900), 1..3)) {
        let device = engine::hw::find("h200-sxm").unwrap();
        let spec = hybrid(&chunks, BatchSpec::empty(AttentionShape::default()));
        let plan = plan_spec(&spec, &PlanOptions::new(device)).unwrap().plan;
        let by_rows = |task: &PrefillTask| (task.rows_begin..task.rows_end).map(|row| task.seen_by(row).len() as u64).sum::<u64>();
        for task in &plan.prefill.tasks {
            prop_assert_eq!(task.attended(), by_rows(task));
        }
        prop_assert_eq!(plan.prefill.tasks.iter().map(PrefillTask::attended).sum::<u64>(), plan.prefill.attended());
        prop_assert!(plan.prefill.chunks.iter().all(|chunk| chunk.query < QueryIdx(3)));
    }
}
