//! `auto`: the scheduler and the strategy with the least simulated time, and what `--tune` and `bench --set random` say.

use engine::cancel::Cancel;
use engine::hw;
use engine::pack;
use engine::plan::Strategy;
use engine::session::{Auto, PlanOptions, RunOptions, plan_spec, simulate};
use engine::workload::random_forest;
use serde_json::Value;

use crate::program::packscope;

fn time(options: &PlanOptions, seed: u64, number: u32) -> Option<u64> {
    let planned = plan_spec(&random_forest(seed, number), options).ok()?;
    Some(simulate(&planned, &RunOptions::default(), &Cancel::default()).unwrap().makespan().0)
}

#[test]
fn auto_is_the_least_of_all_that_it_may_take_one_by_one() {
    let device = hw::find("h200-sxm").unwrap();
    // Small ones, since every way is run twice.
    for number in (0..40).filter(|number| random_forest(21, *number).build().unwrap().requests().len() < 40).take(5) {
        let both = Auto { scheduler: true, strategy: true };
        let auto =
            plan_spec(&random_forest(21, number), &PlanOptions { auto: both, ..PlanOptions::new(device) }).unwrap();
        let taken = simulate(&auto, &RunOptions::default(), &Cancel::default()).unwrap().makespan().0;
        let ways = pack::AUTO
            .iter()
            .flat_map(|name| [Strategy::Serial, Strategy::Streams, Strategy::Fused].map(|s| (name, s)));
        let times: Vec<u64> = ways
            .filter_map(|(name, strategy)| {
                let options = PlanOptions { scheduler: (*name).to_owned(), strategy, ..PlanOptions::new(device) };
                time(&options, 21, number)
            })
            .collect();
        assert_eq!(Some(&taken), times.iter().min(), "batch {number}: {times:?}");
        let decision = &auto.plan.decisions[0];
        assert_eq!((decision.chosen, decision.considered.len()), (0, times.len()), "batch {number}");
        assert_eq!((&auto.options.scheduler, auto.options.strategy), (&auto.plan.scheduler, auto.plan.strategy));
    }
}

#[test]
fn json_names_what_was_asked_and_the_pair_that_it_resolved_to() {
    let json =
        packscope(&["plan", "pat-01", "--scheduler", "auto", "--strategy", "auto", "--explain", "--json"]).json();
    assert_eq!((&json["scheduler_asked"], &json["strategy_asked"]), (&Value::from("auto"), &Value::from("auto")));
    let pair = format!("{} {}", json["scheduler"].as_str().unwrap(), json["strategy"].as_str().unwrap());
    let decision = &json["decisions"][0];
    assert_eq!(decision["considered"][decision["chosen"].as_u64().unwrap() as usize]["what"], pair);
    let one = packscope(&["plan", "pat-01", "--scheduler", "auto", "--strategy", "fused", "--json"]).json();
    assert_eq!((&one["strategy"], &one["strategy_asked"]), (&Value::from("fused"), &Value::Null));
    let wrong = packscope(&["plan", "pat-01", "--scheduler", "best"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("auto, pat"), "{}", wrong.stderr);
}

#[test]
fn tuning_wants_a_gpu_and_something_to_choose() {
    let nothing = packscope(&["run", "pat-01", "--backend", "sim", "--tune"]);
    assert_eq!(nothing.code, 2);
    assert!(nothing.stderr.contains("--tune has nothing to choose"), "{}", nothing.stderr);
    let simulated = packscope(&["run", "pat-01", "--backend", "sim", "--scheduler", "auto", "--tune"]);
    assert_ne!(simulated.code, 0);
    assert!(simulated.stderr.contains("there is none here"), "{}", simulated.stderr);
}

#[test]
fn random_batches_come_with_every_way_and_what_auto_gives_away() {
    let args = ["bench", "--set", "random", "--seed", "3", "--count", "2", "--backend", "sim", "--device", "h200-sxm"];
    let json = packscope(&[&args[..], &["--schedulers", "min-time,query-centric", "--json"]].concat()).json();
    assert_eq!((&json["seed"], json["batches"].as_array().unwrap().len()), (&Value::from(3), 2));
    for batch in json["batches"].as_array().unwrap() {
        let runs: Vec<&Value> =
            json["runs"].as_array().unwrap().iter().filter(|run| run["sample"] == batch["sample"]).collect();
        let refused = batch["refused"].as_array().unwrap().len();
        assert_eq!(runs.len() + refused, 2 * 3, "every scheduler under every strategy runs or says why not");
        let least = runs.iter().map(|run| run["makespan_ns"].as_u64().unwrap()).min();
        assert_eq!(batch["best_ns"].as_u64(), least);
        assert_eq!(batch["auto_over_best"].as_f64(), Some(1.0), "the simulator's own times have the simulator's order");
        assert!(runs.iter().all(|run| run["simulated_ns"].is_null() && run["batch_ron"].as_str().is_some()));
    }
    assert!(json["simulator_error"].is_null(), "nothing was measured");
}
