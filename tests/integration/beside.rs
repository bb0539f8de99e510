//! Prefill beside decode on packscope's own kernels: laws of the plans and of their simulated runs, what was
//! measured, and what the command line makes of it.

use std::collections::BTreeSet;

use engine::cancel::Cancel;
use engine::capture::{Capture, Span};
use engine::hw::{self, Device};
use engine::pack;
use engine::plan::hybrid::{PodChoice, PodWay, offered};
use engine::plan::{CtaRole, LaunchKind, LaunchPlan, Strategy as Launching};
use engine::session::{self, Auto, PlanOptions, Planned, RunOptions, plan_spec, simulate};
use engine::workload::{AttentionShape, BatchSpec, RequestSpec, parse_decode, parse_prefill, random_hybrid};
use proptest::prelude::*;

use crate::plans::assert_outputs;
use crate::program::packscope;

fn h200() -> &'static Device {
    hw::find("h200-sxm").unwrap()
}

fn hybrid(heads: (u32, u32), prefill: &[&str], decode: &str) -> BatchSpec {
    let shape = AttentionShape { query_heads: heads.0, kv_heads: heads.1, ..AttentionShape::default() };
    let mut requests: Vec<RequestSpec> = prefill.iter().map(|text| parse_prefill(text).unwrap()).collect();
    if !decode.is_empty() {
        requests.push(parse_decode(decode).unwrap());
    }
    BatchSpec { requests, ..BatchSpec::empty(shape) }
}

fn planned(spec: &BatchSpec, strategy: Launching) -> Planned {
    plan_spec(spec, &PlanOptions { strategy, ..PlanOptions::new(h200()) }).unwrap()
}

fn ran(planned: &Planned) -> Capture {
    simulate(planned, &RunOptions::default(), &Cancel::default()).unwrap()
}

/// Measured on an H200 with the full kernel, 16/4 heads, d 128, f16, cold L2.
#[test]
fn prefill_alone_takes_what_was_measured() {
    for (chunk, micros) in [("1024@12288", 154.1), ("12288@12288", 906.5), ("16384@16384", 1584.6)] {
        let time = ran(&planned(&hybrid((16, 4), &[chunk], ""), Launching::Serial)).makespan().as_f64() * 1e-3;
        assert!((time / micros - 1.0).abs() < 0.01, "{chunk}: {time} µs of {micros}");
    }
}

/// The same of chunks whose query heads are folded, likewise measured, and each of 40 with 5 tokens.
#[test]
fn folded_chunks_take_about_what_was_measured() {
    let many: Vec<String> = (0..40).map(|at| format!("5@{}", 4000 + 113 * at)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (heads, chunks, micros) in [
        ((32, 8), &["16@8192"][..], 25.7),
        ((48, 8), &["64@8192"], 40.9),
        ((64, 8), &["64@16384"], 64.8),
        ((32, 8), &many, 281.0),
    ] {
        let planned = planned(&hybrid(heads, chunks, ""), Launching::Serial);
        let (plan, capture) = (&planned.plan, ran(&planned));
        assert!(plan.launches[0].kind.folds_heads(), "{chunks:?}");
        assert_eq!(plan.cta_count(&plan.launches[0]), plan.prefill.tasks.len() as u32 * heads.1);
        let time = capture.makespan().as_f64() * 1e-3;
        assert!((time / micros - 1.0).abs() < 0.14, "{chunks:?} at {heads:?}: {time} µs of {micros}");
    }
}

/// Blocks of fewer than 8 tokens come token by token, which takes longest where prefill and decode share SMs.
#[test]
fn co_resident_in_blocks_of_one_takes_about_what_was_measured() {
    for (heads, head_dim, prefill, decode, micros) in [
        ((32, 8), 128, "1024@8192", "40x4000", 415.9),
        ((32, 8), 128, "300@6000", "80x3000", 318.6),
        ((96, 8), 128, "512@14512", "12x6000", 791.5),
        ((64, 8), 64, "1024@5000", "24x3000", 263.7),
    ] {
        let mut spec = hybrid(heads, &[prefill], decode);
        (spec.shape.head_dim, spec.shape.block_size) = (head_dim, 1);
        let time = ran(&planned(&spec, Launching::CoResident)).makespan().as_f64() * 1e-3;
        assert!((time / micros - 1.0).abs() < 0.1, "{prefill} beside {decode} at {heads:?}: {time} µs of {micros}");
    }
}

fn of_role(capture: &Capture, role: CtaRole) -> Vec<Span> {
    capture.spans.iter().filter(|span| span.role == role).collect()
}

/// Decode starts when each prefill CTA is on its SM, and not before.
#[test]
fn a_programmatic_launch_starts_when_all_before_it_are_placed() {
    let spec = hybrid((16, 4), &["4096@8192"], "60x4096");
    for strategy in [Launching::Spatial, Launching::CoResident] {
        let capture = ran(&planned(&spec, strategy));
        let prefill = of_role(&capture, CtaRole::Prefill);
        let lanes: BTreeSet<(u32, u32)> = prefill.iter().map(|span| (span.sm, span.slot)).collect();
        let first = |lane: &(u32, u32)| {
            prefill.iter().filter(|span| (span.sm, span.slot) == *lane).map(|span| span.begin).min().unwrap()
        };
        let last_placed = lanes.iter().map(first).max().unwrap();
        let decode = of_role(&capture, CtaRole::Decode).iter().map(|span| span.begin).min().unwrap();
        let prefill_ends = prefill.iter().map(|span| span.end).max().unwrap();
        assert!(
            last_placed <= decode && decode < prefill_ends,
            "{strategy:?}: {last_placed}, {decode}, {prefill_ends}"
        );
    }
}

#[test]
fn spatial_keeps_the_halves_apart_and_co_resident_brings_them_together() {
    let spec = hybrid((16, 4), &["4096@8192"], "200x4096");
    let sms = |capture: &Capture, role| of_role(capture, role).iter().map(|span| span.sm).collect::<BTreeSet<u32>>();
    let apart = planned(&spec, Launching::Spatial);
    let capture = ran(&apart);
    let (prefill, decode) = (sms(&capture, CtaRole::Prefill), sms(&capture, CtaRole::Decode));
    assert!(prefill.is_disjoint(&decode), "{prefill:?}, {decode:?}");
    assert_eq!(prefill.len() as u32, apart.plan.launches[0].sms.unwrap());
    let together = planned(&spec, Launching::CoResident);
    let capture = ran(&together);
    let (prefill, decode) = (sms(&capture, CtaRole::Prefill), sms(&capture, CtaRole::Decode));
    assert!(prefill.is_subset(&decode), "each SM that prefills has decode beside it");
    assert_eq!(prefill.len() as u32, together.plan.launches[0].sms.unwrap_or(132));
}

/// A decode grid larger than fits beside prefill: its further CTAs take the place of prefill CTAs that end.
#[test]
fn lean_decode_spreads_as_prefill_ends() {
    let spec = hybrid((16, 4), &["1024@2048"], "400x4096");
    let capture = ran(&planned(&spec, Launching::CoResident));
    let prefill_end = of_role(&capture, CtaRole::Prefill).iter().map(|span| span.end).max().unwrap();
    let lanes = |keep: &dyn Fn(&Span) -> bool| {
        let decode = of_role(&capture, CtaRole::Decode);
        decode.iter().filter(|span| keep(span)).map(|span| (span.sm, span.slot)).collect::<BTreeSet<_>>().len()
    };
    let (before, all) = (lanes(&|span| span.begin < prefill_end), lanes(&|_| true));
    assert!(all > before && all > 132, "{before} lanes beside prefill, {all} in all");
}

#[test]
fn pods_ways_with_four_ctas_are_refused_where_they_cannot_be_compiled() {
    let spec = hybrid((16, 4), &["1024@12288"], "80x12288");
    let options = |pod| PlanOptions { strategy: Launching::Fused, pod, ..PlanOptions::new(h200()) };
    let error = plan_spec(&spec, &options(PodChoice::Way(PodWay::FOUR))).unwrap_err().to_string();
    assert!(error.contains("64 threads") && error.contains("255 registers") && error.contains("--pod auto"), "{error}");
    let plan = plan_spec(&spec, &options(PodChoice::Ours)).unwrap().plan;
    assert_eq!(plan.prefill.tasks[0].tile.m, 64, "auto takes our kernel, of which an SM holds two CTAs");
    let narrow = BatchSpec { shape: AttentionShape { head_dim: 64, ..spec.shape }, ..spec };
    plan_spec(&narrow, &options(PodChoice::Way(PodWay::FOUR))).unwrap();
    let plan = plan_spec(&narrow, &options(PodChoice::Ours)).unwrap().plan;
    assert_eq!(plan.hybrid_figures().unwrap().decode_slots * 4, plan.packs.len() as u32 * 4, "four heads of a pack");
    assert_eq!("ours".parse::<PodChoice>().unwrap(), "auto".parse::<PodChoice>().unwrap());
}

#[test]
fn few_long_items_are_split_at_whole_blocks() {
    let spec = hybrid((8, 1), &["128@65536"], "4x512");
    for strategy in offered(h200(), &spec.build().unwrap()) {
        let plan = planned(&spec, strategy).plan;
        let own = plan.launches.iter().any(|launch| launch.kind.is_prefill_queue());
        if own {
            let chunk = plan.prefill.chunks[0];
            assert_eq!(chunk.splits, 16, "{strategy:?}");
            assert!(plan.prefill.tasks.iter().all(|task| task.kv_begin.is_multiple_of(128)), "{strategy:?}");
            assert!(plan.launches.iter().any(|launch| launch.kind == LaunchKind::MergePrefill), "{strategy:?}");
        }
    }
    let many = planned(&hybrid((16, 4), &["1024@12288"], "80x12288"), Launching::Spatial).plan;
    assert_eq!(many.prefill.chunks[0].splits, 1);
}

/// Rows of a lean pack fit its tile, whatever is shared.
fn assert_rows_fit(plan: &LaunchPlan) {
    for pack in &plan.packs {
        assert!(pack.queries_len * plan.shape.group() <= pack.tile.m, "{:?}", plan.strategy);
    }
}

fn small_hybrid() -> impl Strategy<Value = BatchSpec> {
    // So few rows that the check compares them all; some chunks have several blocks of them.
    let rows = prop_oneof![4 => 1_u64..60, 1 => 130_u64..180];
    let chunk = (rows, 0_u64..500).prop_map(|(chunk, before)| RequestSpec::Prefill { chunk, kv: chunk + before });
    let tree = prop::sample::select(vec!["1,4_64,32", "1,2,8_32,64,33", "3_100", "1,40_256,16"]);
    let heads = prop::sample::select(vec![(2, 2), (2, 1), (4, 1), (8, 1), (8, 2)]);
    let dims = prop::sample::select(vec![64, 128]);
    (prop::collection::vec(chunk, 1..3), tree, heads, dims).prop_map(
        |(chunks, tree, (query_heads, kv_heads), head_dim)| {
            let shape = AttentionShape { query_heads, kv_heads, head_dim, ..AttentionShape::default() };
            let mut spec = engine::workload::parse_tree(tree, shape).unwrap();
            spec.requests.extend(chunks);
            spec
        },
    )
}

/// What holds of every strategy on a batch; gives the makespans.
fn assert_laws(spec: &BatchSpec, scheduler: &str, device: &Device) -> Vec<(Launching, u64)> {
    let mut times = Vec::new();
    for strategy in offered(device, &spec.build().unwrap()) {
        let options = PlanOptions { scheduler: scheduler.to_owned(), strategy, ..PlanOptions::new(device) };
        // Planning proves that each token is computed once.
        let planned = plan_spec(spec, &options).unwrap_or_else(|error| panic!("{strategy:?}: {error}"));
        let plan = &planned.plan;
        let makespan = ran(&planned).makespan();
        assert!(makespan.as_f64() >= session::oracle_ns(&planned).floor(), "{strategy:?}: {makespan}");
        match strategy {
            Launching::Spatial => {
                let shares: Vec<u32> = plan.launches[..2].iter().map(|launch| launch.sms.unwrap()).collect();
                assert!(shares[0] >= 1 && shares[1] >= 1 && shares[0] + shares[1] == device.sm_count, "{shares:?}");
                assert!(plan.launches[1].programmatic && !plan.launches[0].programmatic);
            }
            Launching::CoResident | Launching::Batched => assert_rows_fit(plan),
            _ => assert!(plan.placements().is_empty()),
        }
        times.push((strategy, makespan.0));
    }
    times
}

fn assert_auto_is_the_least(spec: &BatchSpec, scheduler: &str, times: &[(Launching, u64)]) {
    let options = PlanOptions {
        scheduler: scheduler.to_owned(),
        auto: Auto { scheduler: false, strategy: true },
        ..PlanOptions::new(h200())
    };
    let auto = plan_spec(spec, &options).unwrap();
    let least = times.iter().map(|(_, time)| *time).min().unwrap();
    assert_eq!(ran(&auto).makespan().0, least, "{:?} of {times:?}", auto.plan.strategy);
    let decision = &auto.plan.decisions[0];
    assert_eq!(decision.considered.len(), times.len(), "auto tells all that it tried");
    assert!(auto.options.auto.strategy && auto.options.strategy == auto.plan.strategy);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn laws_hold_on_small_hybrids(spec in small_hybrid(), scheduler in 0_usize..3, key in 0_usize..2, seed in any::<u64>()) {
        let scheduler = ["pat", "query-centric", "min-traffic"][scheduler];
        let device = hw::find(["h200-sxm", "h100-sxm"][key]).unwrap();
        let times = assert_laws(&spec, scheduler, device);
        prop_assert_eq!(times.len(), 8);
        if key == 0 {
            assert_auto_is_the_least(&spec, scheduler, &times);
        }
        let plans = [Launching::Batched, Launching::CoResident, Launching::Spatial].map(|strategy| {
            plan_spec(&spec, &PlanOptions { scheduler: scheduler.to_owned(), strategy, ..PlanOptions::new(device) }).unwrap()
        });
        assert_outputs(&plans, seed, "own kernels");
    }
}

#[test]
fn laws_hold_on_drawn_hybrids_of_full_size() {
    for number in 0..3 {
        let spec = random_hybrid(11, number);
        let times = assert_laws(&spec, pack::DEFAULT, h200());
        assert_auto_is_the_least(&spec, pack::DEFAULT, &times);
    }
}

#[test]
fn auto_says_what_was_asked_and_what_it_took() {
    let args = ["plan", "teach-10-hybrid", "--device", "h200-sxm", "--strategy", "auto", "--explain", "--json"];
    let json = packscope(&args).json();
    assert_eq!(json["strategy_asked"], "auto");
    let decision = &json["decisions"][0];
    let chosen = decision["chosen"].as_u64().unwrap() as usize;
    assert_eq!(decision["considered"][chosen]["what"], json["strategy"]);
    assert_eq!(decision["considered"].as_array().unwrap().len(), 8);
    let asked = packscope(&["plan", "teach-10-hybrid", "--strategy", "serial", "--json"]).json();
    assert!(asked["strategy_asked"].is_null());
    let wrong = packscope(&["plan", "teach-10-hybrid", "--strategy", "best"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("auto, serial"), "{}", wrong.stderr);
}

/// Times of other systems as they are kept: names for configurations, times within, two rounds of them.
const PEERS: &str = r#"{"what": "by hand", "rows": [
    {"config": "C0", "heads": "16/4", "prefill": "1024@12288", "decode": "80x12288", "us": {"pod": 638.2, "serial": 819.2},
     "overlap_floor_us": 447.4, "us_2": {"split": 558.1}, "best_us": 558.1, "best": "split"},
    {"config": "C1", "heads": "16/4", "us": {"pod": 2766.7, "serial": 3053.8}, "us_2": {"split": 1956.9}},
    {"config": "C2", "heads": "16/4", "us": {"pod": null, "serial": 4447.0}, "us_2": {"split": 2779.0}}]}"#;

#[test]
fn hybrid_batches_stand_beside_their_own_peers() {
    let folder = tempfile::tempdir().unwrap();
    let peers = folder.path().join("peers.json");
    std::fs::write(&peers, PEERS).unwrap();
    let at = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let args = ["bench", "--set", "hybrid", "--backend", "sim", "--device", "h200-sxm", "--peers", &at(&peers), "-o"];
    let json = packscope(&[&args[..], &[&at(folder.path()), "--json"]].concat()).json();
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3 * 8);
    for (sample, pod, split) in
        [("pod-c0", Some(638_200), 558_100), ("pod-c1", Some(2_766_700), 1_956_900), ("pod-c2", None, 2_779_000)]
    {
        let of: Vec<_> = runs.iter().filter(|run| run["sample"] == sample).collect();
        assert_eq!(of.len(), 8, "{sample}");
        for run in of {
            assert_eq!(run["peers_ns"]["pod"].as_u64(), pod, "{sample}");
            assert_eq!(run["peers_ns"]["split"], split, "{sample}");
            assert!(run["makespan_ns"].as_u64() >= run["floor_ns"].as_u64() && run["simulated_ns"].is_null());
        }
    }
}

#[test]
fn random_hybrids_come_with_their_batch_and_every_strategy() {
    let args =
        ["bench", "--set", "random-hybrid", "--seed", "5", "--count", "2", "--backend", "sim", "--device", "h200-sxm"];
    let json = packscope(&[&args[..], &["--json"]].concat()).json();
    assert_eq!((json["seed"].as_u64(), json["batches"].as_array().unwrap().len()), (Some(5), 2));
    for run in json["runs"].as_array().unwrap() {
        let spec = BatchSpec::from_ron(run["batch_ron"].as_str().unwrap()).unwrap();
        assert!(spec.is_hybrid() && spec.name.starts_with("random hybrid 5:"));
        assert!(run["makespan_ns"].as_u64() >= run["floor_ns"].as_u64(), "{}", run["strategy"]);
    }
    let text = packscope(&args).stdout;
    assert!(text.contains("co-resident") && text.contains("all times simulated"), "{text}");
}
