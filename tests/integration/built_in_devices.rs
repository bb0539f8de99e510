//! The built-in devices: each plans and simulates whatever it offers, no run is faster than its floor, and where nobody
//! calibrated the simulator every figure says so.

use egui_kittest::kittest::Queryable as _;
use engine::Error;
use engine::cancel::Cancel;
use engine::capture::verify;
use engine::hw::{self, Device};
use engine::plan::Strategy;
use engine::plan::hybrid::offered;
use engine::session::{PlanOptions, RunOptions, oracle_ns, plan_spec, simulate};
use engine::workload::{AttentionShape, BatchSpec, RequestSpec, parse_tree};
use packscope::window::App;
use packscope::window::command::Command;
use packscope::window::panel::Panel;
use serde_json::{Value, json};

use crate::program::{packscope, packscope_in};
use crate::window::{Window, batch, open_with, send, small};

/// Small, large and hybrid batches, at every head dimension.
fn batches() -> Vec<(&'static str, BatchSpec)> {
    let shape = AttentionShape::default();
    let tree = |text, shape| parse_tree(text, shape).unwrap();
    let hybrid = |decodes: u32, kv: u64, chunk: u64| {
        let mut spec = BatchSpec::empty(AttentionShape { query_heads: 16, kv_heads: 4, ..shape });
        spec.requests = vec![RequestSpec::Decode { kv, count: decodes }, RequestSpec::Prefill { kv, chunk }];
        spec
    };
    vec![
        ("tiny", tree("1,2_64,32", shape)),
        ("large", tree("1,4,16,512_1024,256,128,512", shape)),
        ("d 64", tree("1,8_512,96", AttentionShape { head_dim: 64, ..shape })),
        ("d 256", tree("1,8_512,96", AttentionShape { head_dim: 256, block_size: 16, ..shape })),
        ("MQA, blocks of 1", tree("1,8_512,96", AttentionShape { kv_heads: 1, block_size: 1, ..shape })),
        ("small hybrid", hybrid(4, 512, 128)),
        ("large hybrid", hybrid(80, 12_288, 1024)),
    ]
}

/// Runs a batch on a device: the makespan beside its floor, in ns; or why the device refuses it.
fn run(device: &Device, spec: &BatchSpec, scheduler: &str, strategy: Strategy) -> Result<(f64, f64), String> {
    let options = PlanOptions { scheduler: scheduler.to_owned(), strategy, explain: false, ..PlanOptions::new(device) };
    let told = |error: Error| match error {
        Error::Unsupported { .. } | Error::Device(_) => Err(error.to_string()),
        other => panic!("{}, {scheduler} under {}: {other}", device.key, strategy.name()),
    };
    let planned = match plan_spec(spec, &options) {
        Ok(planned) => planned,
        Err(error) => return told(error),
    };
    match simulate(&planned, &RunOptions::default(), &Cancel::default()) {
        Ok(capture) => {
            assert_eq!(verify(&capture), [], "{}, {scheduler} under {}", device.key, strategy.name());
            assert_eq!(capture.provenance.calibrated, device.calibrated);
            Ok((capture.makespan().as_f64(), oracle_ns(&planned)))
        }
        Err(error) => told(error),
    }
}

#[test]
fn every_device_runs_what_it_offers_or_says_what_does_not_fit() {
    for device in hw::builtin() {
        let mut refused = Vec::new();
        for (name, spec) in batches() {
            for strategy in offered(device, &spec.build().unwrap()) {
                for scheduler in ["pat", "min-time", "query-centric"] {
                    match run(device, &spec, scheduler, strategy) {
                        Ok((took, floor)) => {
                            let what = format!("{}, {name}, {scheduler} under {}", device.key, strategy.name());
                            assert!(took >= floor && floor > 0.0, "{what}: {took} ns, floor {floor}");
                            assert!(took < 1e9, "{what}: {took} ns");
                        }
                        Err(why) => {
                            let little = "B of shared memory, and an SM has 102,400 B; take another device, scheduler";
                            assert!(why.contains(little), "{}, {name}: {why}", device.key);
                            refused.push((name, scheduler, strategy.name()));
                        }
                    }
                }
            }
        }
        // Two kernels as one CTA take more than these SMs have.
        let little = device.shared_per_sm.0 < 164 << 10;
        assert_eq!(little, ["l40s", "rtx-4090"].contains(&device.key.as_str()));
        let expected = |(_, _, strategy): &(&str, &str, &str)| little && *strategy == "hfuse";
        assert!(refused.iter().all(expected), "{}: {refused:#?}", device.key);
        assert_eq!(refused.len(), if little { 2 * 3 } else { 0 }, "{}: {refused:#?}", device.key);
    }
}

#[test]
fn what_does_not_fit_is_left_out_of_a_comparison_and_refused_by_name() {
    let batch = ["--prefill", "128@512", "--decode", "4x512", "--heads", "16/4", "--device", "l40s"];
    let compared = packscope(&[&["compare", "--json"][..], &batch].concat());
    let json = compared.json();
    let strategies: Vec<&Value> = json["runs"].as_array().unwrap().iter().map(|run| &run["strategy"]).collect();
    assert_eq!(strategies, ["streams", "serial", "fused", "cta-parallel"]);
    assert!(compared.stderr.contains("(prefill with decode) on 'l40s'"), "{}", compared.stderr);
    let asked = packscope(&[&["compare", "--strategies", "hfuse"][..], &batch].concat());
    asked.fails(2, &["'l40s'", "of shared memory, and an SM has 102,400 B"]);
    let auto = packscope(&[&["plan", "--strategy", "auto", "--json"][..], &batch].concat()).json();
    assert_ne!(auto["strategy"], "hfuse");
}

#[test]
fn every_report_says_where_nobody_calibrated_the_simulator() {
    const SAID: &str = "simulated, not calibrated";
    let told = |args: &[&str], device: &str| packscope(&[args, &["--device", device, "--backend", "sim"]].concat());
    let reports: [&[&str]; 4] = [
        &["run", "teach-1-system-prompt"],
        &["compare", "teach-1-system-prompt"],
        &["bench", "--set", "random", "--count", "1", "--schedulers", "pat"],
        &["bench", "--set", "random-hybrid", "--count", "1"],
    ];
    for args in reports {
        let (guessed, fitted) = (told(args, "rtx-4090"), told(args, "h200-sxm"));
        assert!(guessed.code == 0 && guessed.stdout.contains(SAID), "{args:?}: {}{}", guessed.stdout, guessed.stderr);
        assert!(fitted.code == 0 && fitted.stdout.contains("simulated"), "{args:?}: {}", fitted.stdout);
        assert!(!fitted.stdout.contains("not calibrated"), "{args:?}: {}", fitted.stdout);
    }
    assert!(told(&["plan", "teach-1-system-prompt"], "b200").stdout.contains("on b200, not calibrated"));
    for (device, calibrated) in [("h20-sxm", false), ("h200-sxm", true)] {
        let run = told(&["run", "teach-1-system-prompt", "--json"], device).json();
        assert_eq!((&run["source"], &run["calibrated"]), (&json!("simulated"), &json!(calibrated)));
        let random =
            told(&["bench", "--set", "random", "--count", "1", "--schedulers", "pat", "--json"], device).json();
        assert_eq!(
            (&random["calibrated"], &random["runs"][0]["run"]["calibrated"]),
            (&json!(calibrated), &json!(calibrated))
        );
    }
}

#[test]
fn captures_and_what_is_made_of_them_say_it_too() {
    let folder = tempfile::tempdir().unwrap();
    let run = ["run", "teach-1-system-prompt", "--device", "teaching-8sm", "--backend", "sim", "-o", "run.pscope"];
    assert_eq!(packscope_in(folder.path(), &run).code, 0);
    let loaded = engine::capture::read(&folder.path().join("run.pscope")).unwrap();
    assert!(loaded.missing.is_empty() && !loaded.capture.provenance.calibrated);
    let export = ["export", "run.pscope", "--svg", "run.svg", "--perfetto", "run.pftrace"];
    assert_eq!(packscope_in(folder.path(), &export).code, 0);
    for file in ["run.svg", "run.pftrace"] {
        let bytes = std::fs::read(folder.path().join(file)).unwrap();
        let said = b"simulated, not calibrated";
        assert!(bytes.windows(said.len()).any(|part| part == said), "{file}");
    }
}

#[test]
fn the_window_says_it_beside_the_makespan() {
    let mut window = open_with(batch(small()), |ctx, opening| App::new(ctx, opening).unwrap());
    let says = |window: &Window| window.query_all_by_label_contains("simulated, not calibrated").count();
    assert_eq!(says(&window), 0);
    send(&mut window, Command::Device("l40s".to_owned()));
    for panel in [Panel::Timeline, Panel::Compare, Panel::Inspector, Panel::Roofline, Panel::Memory] {
        send(&mut window, Command::Show(panel));
        assert!(says(&window) > 0, "{panel:?}");
    }
}

#[test]
fn every_report_of_decodes_says_how_far_off_a_simulated_time_may_be() {
    let error = hw::find("h200-sxm").unwrap().expected_error.expect("it was measured");
    let run = packscope(&["run", "teach-1-system-prompt", "--json"]).json();
    assert_eq!(run["expected_error"], serde_json::to_value(error).unwrap());
    assert!(packscope(&["run", "teach-10-hybrid", "--json"]).json()["expected_error"].is_null(), "it is of decodes");
    assert!(
        packscope(&["run", "teach-1-system-prompt", "--device", "b200", "--json"]).json()["expected_error"].is_null()
    );
    let reports: [&[&str]; 4] = [
        &["run", "teach-1-system-prompt"],
        &["compare", "teach-1-system-prompt", "--schedulers", "pat"],
        &["bench", "--set", "hydragen"],
        &["bench", "--set", "random", "--count", "1", "--schedulers", "pat"],
    ];
    let folder = tempfile::tempdir().unwrap();
    for args in reports {
        let told = packscope_in(folder.path(), args);
        assert!(told.stdout.contains(&error.words()), "{args:?}: {}{}", told.stdout, told.stderr);
    }
    assert_eq!(packscope_in(folder.path(), &["run", "teach-1-system-prompt", "-o", "run.pscope"]).code, 0);
    assert_eq!(packscope_in(folder.path(), &["export", "run.pscope", "--svg", "run.svg"]).code, 0);
    assert!(std::fs::read_to_string(folder.path().join("run.svg")).unwrap().contains(&error.short()));
}

#[test]
fn the_window_says_how_far_off_a_simulated_time_may_be() {
    let error = hw::find("h200-sxm").unwrap().expected_error.expect("it was measured");
    let mut window = open_with(batch(small()), |ctx, opening| App::new(ctx, opening).unwrap());
    for panel in [Panel::Timeline, Panel::Inspector] {
        send(&mut window, Command::Show(panel));
        assert!(window.query_all_by_label_contains(&error.short()).count() > 0, "{panel:?}");
    }
    send(&mut window, Command::Device("l40s".to_owned()));
    assert_eq!(window.query_all_by_label_contains("nine of ten").count(), 0);
}

#[test]
fn the_list_names_every_device_and_which_are_calibrated() {
    let json = packscope(&["list", "devices", "--json"]).json();
    let listed = json["devices"].as_array().unwrap();
    let names: Vec<&str> = listed.iter().map(|device| device["name"].as_str().unwrap()).collect();
    let all = [
        "h200-sxm",
        "h100-sxm",
        "h100-sxm-pat",
        "a100-sxm-80gb",
        "a100-sxm-40gb",
        "h20-sxm",
        "b200",
        "l40s",
        "rtx-4090",
        "teaching-8sm",
    ];
    assert_eq!(names, all);
    for device in listed {
        let guessed = device["about"].as_str().unwrap().contains("not calibrated");
        assert_eq!(guessed, device["name"] != "h200-sxm" && device["name"] != "h100-sxm", "{device}");
    }
    assert!(listed.last().unwrap()["about"].as_str().unwrap().contains("invented"));
}
