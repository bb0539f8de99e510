//! Prices of decisions are named by what they cover, and a run holds them to that name.

use engine::cancel::Cancel;
use engine::decision::{Choice, Covers, Decision};
use engine::hw;
use engine::plan::Strategy;
use engine::session::{PlanOptions, RunOptions, plan_spec, simulate};
use engine::workload::{AttentionShape, BatchSpec, parse_decode, parse_prefill, parse_tree};

use crate::common::{figure_10, planned, planned_if_allowed};
use crate::program::packscope;

/// Prefill beside decodes that are alone, and beside decodes that share.
fn hybrids() -> Vec<BatchSpec> {
    let mut shared = parse_tree("1,4,64_1024,256,64", AttentionShape::default()).unwrap();
    shared.requests.push(parse_prefill("700@4096").unwrap());
    let alone = |prefill, decode| BatchSpec {
        requests: vec![parse_prefill(prefill).unwrap(), parse_decode(decode).unwrap()],
        ..BatchSpec::empty(AttentionShape::default())
    };
    vec![shared, alone("1024@12288", "80x12288"), alone("4096@4096", "4x512"), alone("64@8192", "200x2048")]
}

/// The way that was taken never costs more than the whole run where its price says that it covers a part of it.
fn assert_prices_fit(spec: &BatchSpec, scheduler: &str, strategy: Strategy, device: &str) {
    let Some(planned) = planned_if_allowed(spec, scheduler, strategy, device) else { return };
    let run = simulate(&planned, &RunOptions::default(), &Cancel::default()).unwrap().makespan();
    for decision in &planned.plan.decisions {
        let taken = decision.taken().unwrap();
        let part = matches!(taken.price.covers, Covers::Overhead | Covers::LowerBound);
        let said = || format!("{scheduler} {} on {device}: {} of a run of {run}", strategy.name(), decision.sentence());
        assert!(!part || taken.price.time().unwrap() <= run, "{}", said());
        assert!(taken.price.covers != Covers::Run || decision.choice != Choice::Launch, "{}", said());
    }
}

#[test]
fn overheads_and_bounds_stay_below_the_run() {
    for number in [1, 4, 11, 19] {
        for scheduler in ["pat", "query-centric", "cascade", "fasttree"] {
            for strategy in Strategy::ANY_BATCH {
                assert_prices_fit(&figure_10(number, 32, 8), scheduler, strategy, "h200-sxm");
            }
        }
    }
    for spec in hybrids() {
        for device in ["a100-sxm-80gb", "h200-sxm"] {
            let all = engine::plan::hybrid::offered(hw::find(device).unwrap(), &spec.build().unwrap());
            for (scheduler, strategy) in ["pat", "query-centric"].iter().flat_map(|s| all.iter().map(move |by| (s, by)))
            {
                assert_prices_fit(&spec, scheduler, *strategy, device);
            }
        }
    }
}

fn launches(spec: &BatchSpec, scheduler: &str, strategy: Strategy) -> Vec<(String, f64, f64)> {
    let plan = planned(spec, scheduler, strategy, "h200-sxm").plan;
    let about = |decision: &&Decision| decision.unit == "launches" && decision.considered.len() == 3;
    let decision = plan.decisions.iter().rev().find(about).unwrap();
    decision.considered.iter().map(|way| (way.what.to_string(), way.cost, way.price.amount)).collect()
}

#[test]
fn launches_and_overheads_do_not_depend_on_which_strategy_was_asked_for() {
    for (number, scheduler) in [(4, "pat"), (4, "cascade"), (9, "min-traffic"), (19, "query-centric")] {
        let spec = figure_10(number, 32, 8);
        let [serial, streams, fused] = Strategy::ANY_BATCH.map(|strategy| launches(&spec, scheduler, strategy));
        assert_eq!(serial, streams, "{scheduler}");
        assert_eq!(serial, fused, "{scheduler}");
        let made = |strategy| planned(&spec, scheduler, strategy, "h200-sxm").plan.launches.len() as f64;
        let told: Vec<f64> = serial.iter().map(|(_, launches, _)| *launches).collect();
        assert_eq!(told, Strategy::ANY_BATCH.map(made), "{scheduler}");
    }
}

#[test]
fn every_price_is_named_in_json_and_in_the_sentence() {
    let told = packscope(&["plan", "teach-2-two-levels", "--explain", "--json"]);
    let decisions = told.json()["decisions"].as_array().unwrap().clone();
    let names = Covers::ALL.map(Covers::name);
    for way in decisions.iter().flat_map(|decision| decision["considered"].as_array().unwrap()) {
        let name = way["price"].as_str().unwrap();
        assert!(names.contains(&name), "{way}");
        assert_eq!(name == "bytes moved", way["bytes"].is_u64(), "{way}");
    }
    let launch = told.stderr.lines().find(|line| line.contains("launches;")).unwrap();
    for strategy in ["serial (", "streams (", "fused ("] {
        let (_, after) = launch.split_once(strategy).unwrap();
        assert!(after.split_once(')').unwrap().0.contains("overhead only"), "{launch}");
    }
}

#[test]
fn an_estimate_of_the_run_stands_beside_the_run() {
    let run = ["run", "teach-10-hybrid", "--strategy", "fused", "--scheduler", "query-centric"];
    let text = packscope(&run).stdout;
    assert!(text.lines().any(|line| line.contains("estimate ") && line.contains("% off the run")), "{text}");
    let json = packscope(&[&run[..], &["--json"]].concat()).json();
    assert!(json["estimate_ns"].as_u64().unwrap() > 0);
    // Whoever weighed bytes, not times, estimated no run.
    assert!(packscope(&["run", "teach-2-two-levels", "--json"]).json()["estimate_ns"].is_null());
}

#[test]
fn an_estimate_of_a_hybrid_run_is_near_it() {
    for (spec, strategy) in hybrids().iter().flat_map(|spec| [Strategy::Serial, Strategy::Fused].map(|s| (spec, s))) {
        let options = PlanOptions {
            scheduler: "query-centric".to_owned(),
            strategy,
            ..PlanOptions::new(hw::find("a100-sxm-80gb").unwrap())
        };
        let planned = plan_spec(spec, &options).unwrap();
        let run = simulate(&planned, &RunOptions::default(), &Cancel::default()).unwrap().makespan().as_f64();
        let (decision, estimate) = engine::decision::run_estimate(&planned.plan.decisions).unwrap();
        let off = estimate.as_f64() / run;
        assert!((0.6..1.6).contains(&off), "{}: {estimate} of {run}, {}", strategy.name(), decision.sentence());
    }
}
