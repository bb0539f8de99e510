//! `replay` by the program: the figures that it promises, on a small trace.

use std::fs;

use engine::workload::BatchSpec;

use crate::program::{fixture, packscope, packscope_in};

#[test]
fn a_trace_is_served_under_two_ways_with_their_figures() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("small-trace.jsonl");
    let args = [
        "replay",
        &trace,
        "--window",
        "0:12",
        "--steps",
        "40",
        "--backend",
        "sim",
        "--device",
        "h200-sxm",
        "--time-scale",
        "0",
    ];
    let worst = ["--batch-of", "worst", "-o", "worst.ron", "--json"];
    let json = packscope_in(folder.path(), &[&args[..], &worst].concat()).json();
    let ways = json["ways"].as_array().unwrap();
    assert_eq!((ways.len(), json["model"].as_str(), json["requests"].as_u64()), (2, Some("llama-3-8b"), Some(12)));
    for way in ways {
        let steps = way["steps"].as_array().unwrap();
        let number = |step: &serde_json::Value, name: &str| step[name].as_u64().unwrap();
        assert_eq!(steps.len(), 40);
        let mut now = 0;
        for step in steps {
            assert_eq!(number(step, "begin_ns"), now, "a step begins where the last ended");
            now += number(step, "duration_ns");
            assert_eq!(number(step, "duration_ns"), 32 * (number(step, "attention_ns") + number(step, "rest_ns")));
            let idle: u64 = step["bubbles"].as_array().unwrap().iter().map(|bubble| number(bubble, "slot_ns")).sum();
            assert!(number(step, "busy_slot_ns") > 0 && idle > 0 && step["source"] == "simulated");
            assert!(number(step, "decodes") + number(step, "prefill_tokens") <= 2048);
        }
        assert_eq!(way["duration_ns"].as_u64(), Some(now));
        assert!(way["ttft_ns"]["p50"].as_u64().unwrap() <= way["ttft_ns"]["p99"].as_u64().unwrap());
    }
    assert_eq!(ways[0]["issued_bytes"], ways[0]["first_issued_bytes"]);
    let batch = BatchSpec::from_ron(&fs::read_to_string(folder.path().join("worst.ron")).unwrap()).unwrap();
    assert!(!batch.build().unwrap().requests().is_empty());
    let told = packscope(&args);
    assert!(
        told.stdout.contains("simulated") && told.stdout.contains("not done when the last step ended"),
        "{}",
        told.stdout
    );
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let trace = fixture("small-trace.jsonl");
    let replay = |args: &[&str]| packscope(&[&["replay", &trace, "--backend", "sim"], args].concat());
    replay(&["--window", "30:8"]).fails(2, &["--window 30:8", "32 requests"]);
    replay(&["--format", "tables"]).fails(2, &["a replay", "tells no arrivals", "mooncake"]);
    replay(&["--format", "vllm"]).fails(2, &["vllm", "mooncake"]);
    replay(&["--cache-tokens", "64"]).fails(2, &["no request of the trace fits"]);
    replay(&["--time-scale=-1"]).fails(2, &["--time-scale"]);
    replay(&["--model", "gpt-5"]).fails(2, &["gpt-5", "llama-3-8b"]);
    let last = ["--window", "0:1", "--steps", "2", "--batch-of", "9", "-o", "never.ron"];
    replay(&last).fails(2, &["--batch-of is 9", "2 steps"]);
}
