//! The command line's promises: names, one JSON object, every field there.

use crate::program::packscope;

/// Fields of `plan --json`, in the order of the contract.
const PLAN_FIELDS: [&str; 18] = [
    "schema",
    "device",
    "scheduler",
    "strategy",
    "scheduler_asked",
    "strategy_asked",
    "batch",
    "packs",
    "ctas",
    "kv_tokens_read",
    "partials",
    "max_partials_per_query",
    "tiles",
    "traffic",
    "plan_ns",
    "decisions",
    "prefill",
    "hybrid",
];

/// The keys of an object.
fn keys(value: &serde_json::Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn plan_json_has_every_field_of_the_contract() {
    let json = packscope(&["plan", "pat-09", "--scheduler", "pat-released", "--json"]).json();
    let mut fields = PLAN_FIELDS.to_vec();
    fields.sort_unstable();
    assert_eq!(keys(&json), fields);
    assert_eq!(json["schema"], 1);
    let batch =
        ["block_size", "dtype", "head_dim", "kv_heads", "kv_tokens", "kv_tokens_unique", "query_heads", "requests"];
    assert_eq!(keys(&json["batch"]), batch);
    assert_eq!(keys(&json["tiles"][0]), ["m", "n", "packs"]);
    // The byte check of PAT's configuration 9.
    let traffic = &json["traffic"];
    assert_eq!(traffic["kv_read_bytes"], 69206016);
    assert_eq!(traffic["q_read_bytes"], 4194304);
    assert_eq!(traffic["partial_write_bytes"], 8454144);
    assert_eq!(traffic["partial_read_bytes"], 8454144);
    assert_eq!(traffic["output_write_bytes"], 2097152);
    assert_eq!(traffic["compulsory_bytes"], 46268416 + 2 * 2097152);
    assert!(json["plan_ns"].as_u64().unwrap() > 0);
}

#[test]
fn explain_tells_decisions_and_keeps_json_clean() {
    let text = packscope(&["plan", "teach-2-two-levels", "--explain"]);
    assert_eq!(text.code, 0);
    assert!(text.stdout.contains("decisions") && text.stdout.contains("because"), "{}", text.stdout);
    let json = packscope(&["plan", "teach-2-two-levels", "--explain", "--json"]);
    let decisions = json.json()["decisions"].as_array().unwrap().clone();
    assert!(decisions.iter().any(|decision| decision["choice"] == "sharing"));
    for decision in &decisions {
        let ways = decision["considered"].as_array().unwrap();
        assert!((decision["chosen"].as_u64().unwrap() as usize) < ways.len());
        assert!(ways.iter().all(|way| way["bytes"].is_u64() != way["time_ns"].is_u64()), "{decision}");
    }
    assert!(json.stderr.contains("because"));
    assert!(packscope(&["plan", "teach-2-two-levels", "--json"]).json()["decisions"].is_null());
}

#[test]
fn every_list_names_things_that_the_options_take() {
    for (list, option) in [("schedulers", "--scheduler"), ("strategies", "--strategy"), ("devices", "--device")] {
        let json = packscope(&["list", list, "--json"]).json();
        let entries = json[list].as_array().unwrap().clone();
        assert!(entries.len() >= 3, "{list}");
        for entry in entries {
            let (name, about) = (entry["name"].as_str().unwrap(), entry["about"].as_str().unwrap());
            assert!(about.ends_with('.'), "{name}: {about}");
            // Strategies that fuse prefill with decode need both; with them every strategy has work.
            let args: &[&str] = match list {
                // The device has kernels for all of them.
                "strategies" => &["plan", "teach-10-hybrid", "--device", "h200-sxm", option, name],
                _ => &["plan", "teach-2-two-levels", option, name],
            };
            assert_eq!(packscope(args).code, 0, "{option} {name}");
        }
    }
    let samples = packscope(&["list", "samples", "--json"]).json();
    assert!(samples["samples"].as_array().unwrap().len() >= 29);
    assert!(packscope(&["list", "panels"]).stdout.contains("timeline"));
}

#[test]
fn the_same_input_gives_the_same_output() {
    let plan = || {
        let mut json = packscope(&["plan", "teach-7-chat-forest", "--json"]).json();
        json["plan_ns"] = serde_json::Value::Null;
        json
    };
    assert_eq!(plan(), plan());
}

#[test]
fn help_names_every_command() {
    let help = packscope(&["--help"]);
    assert_eq!(help.code, 0);
    for command in ["demo", "plan", "run", "compare", "import", "export", "verify", "view", "bench", "list"] {
        assert!(help.stdout.contains(command), "{command}");
    }
}

#[test]
fn list_tiles_sets_the_paper_beside_the_constraints_and_explains_the_difference() {
    let listed = packscope(&["list", "tiles"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let line = |start: &str| listed.stdout.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    let differing = line("h100-sxm-pat 64×64 ");
    assert!(differing.contains("feasible;") && differing.contains("PAT leaves it out: three CTAs"), "{differing}");
    assert!(line("a100-sxm-80gb 64×16 ").contains("fails ② bytes in flight"));
    assert!(line("h200-sxm 64×32 ").contains("PAT has no list"));
}
