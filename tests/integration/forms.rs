//! Batch forms on the command line: every form gives the batch that it says, and comes back from a
//! batch file as it was.

use std::fs;

use crate::program::{fixture, packscope, packscope_in};

/// (requests, KV tokens, unique KV tokens) of `plan --json`.
fn counts(args: &[&str]) -> (u64, u64, u64) {
    let mut all = vec!["plan", "--json"];
    all.extend(args);
    let json = packscope(&all).json();
    let number = |name: &str| json["batch"][name].as_u64().unwrap();
    (number("requests"), number("kv_tokens"), number("kv_tokens_unique"))
}

#[test]
fn a_tree_string_is_the_sample_of_the_same_tree() {
    let tree = counts(&["--tree", "1,4,16,64,256,1024_256,32,256,64,32,256"]);
    assert_eq!(tree, (1024, 917504, 278912));
    assert_eq!(tree, counts(&["pat-11"]));
}

#[test]
fn decode_and_prefill_add_up() {
    assert_eq!(counts(&["--decode", "80x12288"]), (80, 983040, 983040));
    assert_eq!(counts(&["--decode", "8x100", "--decode", "2x50", "--prefill", "64@512"]), (11, 900, 900));
    assert_eq!(counts(&["--tree", "1,4_64,32", "--decode", "1x7"]), (5, 391, 199));
}

#[test]
fn shape_options_change_the_shape_of_a_file() {
    let args =
        ["plan", "pat-01", "--heads", "16/2", "--head-dim", "64", "--dtype", "bf16", "--block-size", "16", "--json"];
    let json = packscope(&args).json();
    let batch = &json["batch"];
    assert_eq!((batch["query_heads"].as_u64(), batch["kv_heads"].as_u64()), (Some(16), Some(2)));
    assert_eq!((batch["head_dim"].as_u64(), batch["dtype"].as_str()), (Some(64), Some("bf16")));
    assert_eq!(batch["block_size"].as_u64(), Some(16));
}

#[test]
fn a_mooncake_window_shares_what_its_ids_share() {
    let trace = fixture("small-trace.jsonl");
    let window = |step: &str| counts(&["--mooncake", &trace, "--window", "0:6", "--step", step]);
    let (requests, tokens, unique) = window("0");
    let text = fs::read_to_string(&trace).unwrap();
    let lengths = text
        .lines()
        .take(6)
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["input_length"].as_u64().unwrap());
    assert_eq!((requests, tokens), (6, lengths.sum()));
    assert!(unique < tokens);
    assert_eq!(window("3"), (6, tokens + 18, unique + 18), "each request grows in its own leaf");
}

#[test]
fn an_imported_batch_is_the_batch() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("small-trace.jsonl");
    let forms: [&[&str]; 4] = [
        &["--tree", "2,8,64_96,32,40"],
        &["--decode", "9x77", "--prefill", "16@64", "--heads", "8/8"],
        &["--mooncake", &trace, "--window", "2:20", "--step", "5"],
        &["teach-9-explicit-blocks"],
    ];
    for form in forms {
        let mut import = vec!["import", "-o", "made.ron", "--json"];
        import.extend(form);
        packscope_in(folder.path(), &import).json();
        let again = packscope_in(folder.path(), &["plan", "made.ron", "--json"]).json();
        let mut plan = vec!["plan", "--json"];
        plan.extend(form);
        let mut direct = packscope_in(folder.path(), &plan).json();
        direct["plan_ns"] = again["plan_ns"].clone();
        assert_eq!(again, direct, "{form:?}");
    }
}
