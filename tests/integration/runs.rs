//! Runs on the simulator through the real program: fields, identities, files, baselines.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::program::{packscope, packscope_in};

/// Fields that `run --json` adds to those of `plan --json`.
const RUN_FIELDS: [&str; 28] = [
    "calibrated",
    "expected_error",
    "backend",
    "source",
    "repeats",
    "l2",
    "deterministic",
    "makespan_ns",
    "makespan_min_ns",
    "makespan_max_ns",
    "makespan_p5_ns",
    "makespan_p95_ns",
    "memory_pauses",
    "estimate_ns",
    "slots",
    "busy_slot_ns",
    "total_slot_ns",
    "bubbles",
    "side_by_side",
    "co_run",
    "prefill_sms",
    "bandwidth",
    "measured",
    "plan_crc",
    "plan_digest_version",
    "probe_overhead",
    "check",
    "warnings",
];

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a whole number"))
}

/// busy + all bubbles = total = slots × makespan, in integers.
fn holds_together(run: &Value) {
    let bubbles: u64 = run["bubbles"].as_array().unwrap().iter().map(|bubble| number(&bubble["slot_ns"])).sum();
    let total = number(&run["total_slot_ns"]);
    assert_eq!(number(&run["busy_slot_ns"]) + bubbles, total);
    assert_eq!(number(&run["slots"]) * number(&run["makespan_ns"]), total);
}

#[test]
fn run_json_has_every_field_and_its_slot_time_adds_up() {
    // Partials of a persistent kernel have 16 bits, which the bound below would have to allow for.
    let way = ["teach-2-two-levels", "--strategy", "serial", "--json"];
    let plan = packscope(&[&["plan"], &way[..]].concat()).json();
    let run = packscope(&[&["run", "--check"], &way[..]].concat()).json();
    for field in RUN_FIELDS.into_iter().chain(plan.as_object().unwrap().keys().map(String::as_str)) {
        assert!(run.get(field).is_some(), "{field} is missing");
    }
    assert_eq!(run.as_object().unwrap().len(), RUN_FIELDS.len() + plan.as_object().unwrap().len());
    assert_eq!((run["source"].as_str(), run["backend"].as_str()), (Some("simulated"), Some("sim")));
    let measured = run["measured"].as_object().unwrap();
    assert!(measured.values().all(Value::is_null), "{measured:?}");
    for counter in ["dram_read_bytes", "dram_write_bytes", "l2_read_bytes", "tensor_active", "series", "launches"] {
        assert!(measured.contains_key(counter), "{counter}");
    }
    holds_together(&run);
    assert!(number(&run["makespan_ns"]) > 0);
    let (error, bound) = (run["check"]["max_rel_err"].as_f64().unwrap(), run["check"]["bound"].as_f64().unwrap());
    assert!(error > 0.0 && error <= bound && bound < 1e-5, "{error} of {bound}");
    assert!(number(&run["check"]["rows"]) > 0);
}

#[test]
fn compare_has_one_run_a_choice_with_the_first_as_baseline() {
    let args = ["compare", "pat-09", "--schedulers", "pat,query-centric", "--strategies", "serial,fused", "--json"];
    let json = packscope(&args).json();
    assert_eq!((json["schema"].as_u64(), json["baseline"].as_u64()), (Some(1), Some(0)));
    let runs = json["runs"].as_array().unwrap();
    let names: Vec<(&str, &str)> =
        runs.iter().map(|run| (run["scheduler"].as_str().unwrap(), run["strategy"].as_str().unwrap())).collect();
    let expected = [("pat", "serial"), ("pat", "fused"), ("query-centric", "serial"), ("query-centric", "fused")];
    assert_eq!(names, expected);
    runs.iter().for_each(holds_together);
    let text = packscope(&["compare", "pat-09"]);
    assert!(text.stdout.contains("simulated") && text.stdout.contains("biggest bubble"), "{}", text.stdout);
}

#[test]
fn a_capture_written_by_run_verifies_and_exports() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for strategy in ["serial", "streams", "fused"] {
        let run = packscope_in(at, &["run", "teach-7-chat-forest", "--strategy", strategy, "-o", "a.pscope", "--json"]);
        let run = run.json();
        let verified = packscope_in(at, &["verify", "a.pscope", "--json"]);
        assert_eq!(verified.code, 0, "{strategy}: {}", verified.stdout);
        let verified = verified.json();
        assert_eq!(verified["sound"], true);
        assert!(number(&verified["spans"]) >= number(&run["ctas"]));
    }
    packscope_in(at, &["export", "a.pscope", "--csv", "tables", "--json"]).json();
    let spans = fs::read_to_string(at.join("tables/spans.csv")).unwrap();
    assert!(spans.starts_with("kind,launch,cta,pack,"));
    assert!(spans.lines().count() > 100);
    let columns = spans.lines().next().unwrap().split(',').count();
    assert!(spans.lines().all(|line| line.split(',').count() == columns));
}

#[test]
fn without_a_command_or_display_the_demo_runs_and_leaves_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let ran = packscope_in(folder.path(), &[""; 0]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("no display") && ran.stderr.contains("packscope demo"), "{}", ran.stderr);
    for word in ["serial", "streams", "fused", "query-centric", "simulated", "vs first"] {
        assert!(ran.stdout.contains(word), "'{word}' is not in: {}", ran.stdout);
    }
    assert_eq!(packscope_in(folder.path(), &["verify", "packscope-out/demo.pscope"]).code, 0);
}

#[test]
fn an_output_that_cannot_be_written_fails_after_the_run_too() {
    let folder = tempfile::tempdir().unwrap();
    let run = |output: &str| packscope_in(folder.path(), &["run", "teach-9-explicit-blocks", "-o", output]);
    run("no/such/a.pscope").fails(1, &["writing the capture", "no/such/a.pscope"]);
    if std::path::Path::new("/dev/full").exists() {
        run("/dev/full").fails(1, &["No space left"]);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// A trace of conversations: each request goes on from an earlier one or starts anew.
fn trace(requests: usize) -> String {
    let mut out = String::new();
    let mut earlier: Vec<(u64, Vec<u64>)> = Vec::new();
    let (mut next, mut state) = (1, 12345_u64);
    let mut random = |below: u64| {
        // Knuth's MMIX generator: seeded, and the same everywhere.
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    for position in 0..requests {
        let (mut length, mut ids) = (random(6000) + 600, vec![0]);
        if position > 4 && random(2) == 0 {
            let (before, shared) = &earlier[random(earlier.len() as u64) as usize];
            ids = shared[..(before / 512) as usize].to_vec();
            length = before + random(2000) + 1;
        }
        while (ids.len() as u64) < length.div_ceil(512) {
            ids.push(next);
            next += 1;
        }
        let _ = writeln!(
            out,
            r#"{{"timestamp": {position}, "input_length": {length}, "output_length": 100, "hash_ids": {ids:?}}}"#
        );
        earlier.push((length, ids));
    }
    out
}

#[test]
fn a_mooncake_window_of_256_requests_imports_plans_and_simulates() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("trace.jsonl"), trace(300)).unwrap();
    packscope_in(at, &["import", "--mooncake", "trace.jsonl", "--window", "20:256", "--step", "7", "-o", "w.ron"]);
    let run = packscope_in(at, &["run", "w.ron", "-o", "w.pscope", "--json"]).json();
    assert_eq!(run["batch"]["requests"], 256);
    assert!(number(&run["batch"]["kv_tokens_unique"]) < number(&run["batch"]["kv_tokens"]));
    holds_together(&run);
    assert_eq!(packscope_in(at, &["verify", "w.pscope"]).code, 0);
}

#[test]
fn bench_states_the_floor_beside_every_time() {
    let folder = tempfile::tempdir().unwrap();
    let peers =
        r#"{"rows": [{"config": 3, "heads": "32/8", "slow_us": 5000.5}, {"config": 3, "heads": "8/8", "slow_us": 1}]}"#;
    std::fs::write(folder.path().join("peers.json"), peers).unwrap();
    let bench = ["bench", "--set", "pat-figure-10", "--peers", "peers.json", "--json", "-o", "out"];
    let json = packscope_in(folder.path(), &bench).json();
    for end in ["txt", "svg", "png"] {
        assert!(folder.path().join(format!("out/bench-pat-figure-10.{end}")).exists(), "no {end}");
    }
    let cases = json["comparison"]["cases"].as_array().unwrap();
    assert!(cases.len() == 20 && cases.iter().all(|case| case["ways"].as_array().unwrap().len() == 9));
    // Relay takes one system prefix; the sixteenth tree has two.
    let of_two_roots = |way: &&serde_json::Value| way["refused"].as_str().is_some_and(|why| why.contains("2 roots"));
    let refused = cases[15]["ways"].as_array().unwrap().iter().find(of_two_roots).unwrap();
    assert!(refused["makespan_ns"].is_null(), "{refused}");
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 20);
    for (at, run) in runs.iter().enumerate() {
        let peer = (at == 2).then_some(5_000_500);
        assert_eq!(run["peers_ns"], serde_json::json!({ "slow": peer }), "{}", run["sample"]);
        assert!(number(&run["run"]["makespan_ns"]) > number(&run["floor_ns"]), "{} beats its floor", run["sample"]);
        assert_eq!(run["run"]["source"], "simulated");
    }
}

#[test]
fn bench_reads_peers_on_the_simulator_or_says_what_is_wrong_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let bench = |set: &str, text: &str| {
        std::fs::write(folder.path().join("peers.json"), text).unwrap();
        packscope_in(folder.path(), &["bench", "--set", set, "--peers", "peers.json", "-o", "out"])
    };
    let row = |row: &str| format!("{{\"rows\": [{row}]}}");
    bench("pat-figure-10", "{ not JSON").fails(2, &["peers.json", "line 1"]);
    bench("hybrid", "{}").fails(2, &["peers.json", "no list 'rows'"]);
    let broken = row(r#"{"config": "C0", "heads": "16/4", "us": {"fi_pod": "638"}}"#);
    bench("hybrid", &broken).fails(2, &["rows[0].us.fi_pod", "not a time in µs"]);
    // Rows of other batches would stand beside nothing.
    let trace = row(r#"{"trace": "t.jsonl", "window": "0:64", "heads": "32/8", "a_us": 7}"#);
    bench("pat-figure-10", &trace).fails(2, &["no row is of a case of pat-figure-10"]);
    let right = row(r#"{"config": 1, "heads": "32/8", "a_us": 7}"#);
    for set in ["pat-ablation", "pod-figure-6", "lazy-update"] {
        bench(set, &right).fails(2, &["--peers", "leave it out"]);
    }
    packscope_in(folder.path(), &["bench", "--peers", "missing.json"]).fails(2, &["missing.json"]);
    assert!(!folder.path().join("out").exists(), "a refused bench leaves nothing");
}

#[test]
fn a_hybrid_batch_runs_compares_and_exports_under_every_strategy() {
    let folder = tempfile::tempdir().unwrap();
    let batch = ["--prefill", "256@512", "--decode", "8x512", "--heads", "8/2"];
    for strategy in ["serial", "streams", "cta-parallel", "hfuse", "fused"] {
        let run = [&["run"], &batch[..], &["--strategy", strategy, "--json", "--check", "-o", "run.pscope"]].concat();
        let json = packscope_in(folder.path(), &run).json();
        assert_eq!(json["prefill"]["query_tokens"], 256, "{strategy}");
        assert_eq!(json["hybrid"].is_null(), ["serial", "streams"].contains(&strategy), "{strategy}");
        let svg = packscope_in(folder.path(), &["export", "run.pscope", "--svg", "run.svg"]);
        assert_eq!(svg.code, 0, "{}", svg.stderr);
        assert!(std::fs::read_to_string(folder.path().join("run.svg")).unwrap().contains("prefill"));
    }
    let strategies = ["--strategies", "serial,streams,cta-parallel,hfuse,fused", "--json"];
    let compared = packscope(&[&["compare"], &batch[..], &strategies].concat()).json();
    assert_eq!(compared["runs"].as_array().unwrap().len(), 5);
    packscope(&["run", "--decode", "8x512", "--strategy", "hfuse"]).fails(2, &["no prefill chunk", "use serial"]);
}
