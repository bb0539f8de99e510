//! Batches that nobody chose, by the program: drawn ones as files, and windows of a trace under every way.

use std::fs;

use engine::workload::{BatchSpec, random_forest};
use serde_json::{Value, json};

use crate::program::{Ran, fixture, packscope, packscope_in};

/// `bench --set trace` of the small trace on the simulator.
fn bench(args: &[&str]) -> Ran {
    let trace = fixture("small-trace.jsonl");
    let set = ["bench", "--set", "trace", "--backend", "sim", "--device", "h200-sxm", "--mooncake", &trace];
    packscope(&[&set[..], &["--schedulers", "pat,min-time"], args].concat())
}

fn samples(json: &Value) -> Vec<String> {
    json["batches"].as_array().unwrap().iter().map(|batch| batch["sample"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_random_batch_is_the_one_that_bench_draws() {
    let folder = tempfile::tempdir().unwrap();
    for (text, batch) in [("2", random_forest(2, 0)), ("3:1", random_forest(3, 1))] {
        packscope_in(folder.path(), &["import", "--random", text, "-o", "drawn.ron"]);
        let file = fs::read_to_string(folder.path().join("drawn.ron")).unwrap();
        assert_eq!(BatchSpec::from_ron(&file).unwrap(), batch, "{text}");
    }
    let set = ["bench", "--set", "random", "--seed", "2", "--count", "1", "--backend", "sim", "--schedulers", "pat"];
    let drawn = packscope(&[&set[..], &["--json"]].concat()).json();
    assert_eq!(drawn["runs"][0]["batch_ron"].as_str(), Some(random_forest(2, 0).to_ron().unwrap().as_str()));
    packscope(&["plan", "--random", "seven"]).fails(2, &["--random is 'seven'", "7:3"]);
    packscope(&["plan", "--random", "7", "--tree", "1,2_64,32"]).fails(2, &["more than one batch"]);
}

#[test]
fn windows_of_a_trace_come_with_every_way_their_floor_and_peers() {
    let folder = tempfile::tempdir().unwrap();
    let peers = folder.path().join("peers.json");
    let row = |window: &str, us: f64| json!({ "trace": "small-trace.jsonl", "window": window, "heads": "16/4", "fa3_us": us });
    fs::write(&peers, json!({ "rows": [row("4:20", 90.5), row("9:9", 1.0)] }).to_string()).unwrap();
    let windows = ["--window", "0:8", "--window", "4:20", "--step", "3", "--heads", "16/4"];
    let with_peers = [&windows[..], &["--peers", peers.to_str().unwrap()]].concat();
    let json = bench(&[&with_peers[..], &["--json"]].concat()).json();
    assert_eq!(
        (&json["set"], samples(&json)),
        (&json!("trace"), vec!["small-trace.jsonl 0:8".to_owned(), "small-trace.jsonl 4:20".to_owned()])
    );
    let runs = json["runs"].as_array().unwrap();
    let asked = 2 * 2 * 3;
    assert!(
        (asked..=asked + 2 * 3).contains(&runs.len()),
        "two windows, two schedulers, three strategies, and what auto ranks first: {}",
        runs.len()
    );
    for run in runs {
        let of = |key: &str| run[key].as_u64().unwrap();
        assert!(of("floor_ns") > 0 && of("floor_ns") < of("makespan_ns") && run["simulated_ns"].is_null());
        let spec = BatchSpec::from_ron(run["batch_ron"].as_str().unwrap()).unwrap();
        let (count, peer) =
            if run["sample"] == "small-trace.jsonl 0:8" { (8, Value::Null) } else { (20, json!(90_500)) };
        assert_eq!((spec.build().unwrap().requests().len(), &run["peers_ns"]["fa3"]), (count, &peer));
    }
    let text = bench(&with_peers).stdout;
    assert!(
        text.contains("over fa3") && text.contains("ours are simulated") && text.contains("windows of a trace"),
        "{text}"
    );
}

#[test]
fn drawn_windows_are_the_same_for_a_seed_and_others_for_another() {
    let drawn = |seed: &str| samples(&bench(&["--seed", seed, "--count", "6", "--json"]).json());
    assert_eq!(drawn("4").len(), 6);
    assert_eq!(drawn("4"), drawn("4"));
    assert_ne!(drawn("4"), drawn("5"));
}

#[test]
fn what_is_no_window_of_the_trace_is_refused() {
    packscope(&["bench", "--set", "trace"]).fails(2, &["--set trace needs a trace", "--mooncake FILE.jsonl"]);
    bench(&["--window", "30:8"]).fails(2, &["--window 30:8", "32 requests"]);
    bench(&["--window", "eight"]).fails(2, &["eight"]);
    let folder = tempfile::tempdir().unwrap();
    let peers = folder.path().join("peers.json");
    fs::write(&peers, r#"{"rows": [{"trace": "other.jsonl", "window": "0:8", "heads": "32/8", "a_us": 1}]}"#).unwrap();
    let peers = peers.to_str().unwrap();
    bench(&["--window", "0:8", "--peers", peers]).fails(2, &["no row is of a case of trace", "trace and window"]);
}
