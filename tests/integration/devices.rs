//! Device files: each figure has a range, and whatever lies in all ranges runs to a capture that is whole.

use std::cell::Cell;

use engine::Error;
use engine::cancel::Cancel;
use engine::capture::{from_bytes, to_bytes, verify};
use engine::hw::{self, Device, Figure, Number, figures};
use engine::pack::schedulers;
use engine::plan::Strategy as Launching;
use engine::session::{PlanOptions, RunOptions, plan_spec, simulate};
use engine::units::Bytes;
use engine::workload::{AttentionShape, BatchSpec, RequestSpec};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{TestCaseError, TestRunner};
use serde_json::{Value, json};

use crate::calibrated::bench_of_a_slower_gpu;
use crate::forests::forest;
use crate::program::packscope_in;

/// The H200 with every part of a device file that may be left out.
fn full() -> Device {
    let mut device = hw::find("h200-sxm").unwrap().clone();
    "fuzzed".clone_into(&mut device.key);
    device.kernels[0].shared = device.kernels[0].shared.or(Some(Bytes(4096)));
    device
}

/// Where a figure stands in the device as JSON.
fn pointer(field: &str) -> String {
    format!("/{}", field.replace('[', ".").replace(']', "").replace('.', "/"))
}

/// The device with one figure of another value; as a file would give it, unchecked.
fn with(device: &Device, field: &str, value: Number) -> Device {
    let mut json = serde_json::to_value(device).unwrap();
    *json.pointer_mut(&pointer(field)).unwrap_or_else(|| panic!("{field} is not there")) = match value {
        Number::Whole(whole) => json!(whole),
        Number::Part(part) => json!(part),
    };
    serde_json::from_value(json).unwrap()
}

/// Values just outside a range, and far outside it.
fn outside(figure: &Figure) -> Vec<Number> {
    match (figure.least, figure.most) {
        (Number::Whole(least), Number::Whole(most)) => {
            let below = least.checked_sub(1).filter(|below| *below > 0 || !figure.or_none);
            below.into_iter().chain([most + 1]).map(Number::Whole).collect()
        }
        (Number::Part(least), Number::Part(most)) => {
            let tiny = (least > 0.0).then_some(1e-300);
            [least - 1e-3, -1.0, most + 1e-3, 1e300].into_iter().chain(tiny).map(Number::Part).collect()
        }
        _ => panic!("{figure}"),
    }
}

fn numbers(value: &Value) -> usize {
    match value {
        Value::Number(_) => 1,
        Value::Array(all) => all.iter().map(numbers).sum(),
        Value::Object(all) => all.values().map(numbers).sum(),
        _ => 0,
    }
}

#[test]
fn every_number_of_a_device_file_has_a_range_and_is_refused_by_name_outside_it() {
    let device = full();
    let all = figures(&device);
    let json = serde_json::to_value(&device).unwrap();
    assert_eq!(all.len(), numbers(&json), "a number has no range");
    for figure in &all {
        assert!(figure.holds(), "{figure}");
        for value in outside(figure) {
            let text = hw::to_ron(&with(&device, &figure.field, value)).unwrap();
            let told = hw::from_ron(&text).expect_err(&figure.field).to_string();
            let wrong = Figure { value, ..figure.clone() };
            // A tile that is changed alone may be missed by `tile_steps`; the range is told before that.
            assert!(told.contains(&wrong.to_string()) && told.contains("fuzzed"), "{wrong}: {told}");
        }
    }
}

#[test]
fn what_is_no_number_and_names_with_control_characters_are_refused() {
    for value in [f64::NAN, f64::INFINITY] {
        let mut device = full();
        device.sim.hbm_efficiency = value;
        let told = hw::from_ron(&hw::to_ron(&device).unwrap()).unwrap_err().to_string();
        assert!(told.contains("sim.hbm_efficiency is") && told.contains("from 0.05 to 1"), "{told}");
    }
    for (name, shown) in [("", "''"), ("a\u{1b}[31mb", "a␛[31mb"), ("x".repeat(300).as_str(), "300 bytes")] {
        let device = Device { name: name.to_owned(), ..full() };
        let told = hw::from_ron(&hw::to_ron(&device).unwrap()).unwrap_err().to_string();
        assert!(told.contains("name is") && told.contains(shown) && !told.contains('\u{1b}'), "{told}");
    }
}

#[test]
fn every_command_refuses_a_device_file_by_the_figure_that_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let granule = Device { register_granule_per_warp: 0, ..full() };
    std::fs::write(folder.path().join("gpu.ron"), hw::to_ron(&granule).unwrap()).unwrap();
    std::fs::write(folder.path().join("runs.json"), bench_of_a_slower_gpu().to_string()).unwrap();
    for command in [
        &["plan", "teach-2-two-levels"][..],
        &["run", "teach-2-two-levels", "-o", "out.pscope"],
        &["compare", "teach-2-two-levels"],
        &["bench", "--set", "pat-figure-10"],
        &["calibrate", "--from", "runs.json", "-o", "out.ron"],
        &["demo"],
    ] {
        let args: Vec<&str> = command.iter().copied().chain(["--device", "gpu.ron"]).collect();
        let words = ["gpu.ron", "register_granule_per_warp is 0", "from 1 to 4,096"];
        packscope_in(folder.path(), &args).fails(2, &words);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is written");
}

fn decodes(count: u32, kv: u64) -> BatchSpec {
    BatchSpec { requests: vec![RequestSpec::Decode { kv, count }], ..BatchSpec::empty(AttentionShape::default()) }
}

/// Plans and runs on a device.
fn run(device: &Device, spec: &BatchSpec, scheduler: &str, strategy: Launching) -> engine::Result<Vec<u8>> {
    let options = PlanOptions { scheduler: scheduler.to_owned(), strategy, explain: false, ..PlanOptions::new(device) };
    let planned = plan_spec(spec, &options)?;
    to_bytes(&simulate(&planned, &RunOptions::default(), &Cancel::default())?)
}

#[test]
fn a_cta_that_no_sm_can_hold_is_an_error_that_names_the_launch_and_what_does_not_fit() {
    let told = |device: &Device, strategy| {
        run(device, &decodes(4, 4096), "pat-released", strategy).expect_err("it cannot run").to_string()
    };
    let few_warps = Device { warps_per_sm: 1, ..full() };
    for strategy in [Launching::Serial, Launching::Fused] {
        let text = told(&few_warps, strategy);
        assert!(text.contains("launch 0 (") && text.contains("a CTA has 5 warps, and an SM holds 1"), "{text}");
    }
    let mut little_shared = full();
    (little_shared.shared_per_sm, little_shared.shared_per_cta) = (Bytes(16_384), Bytes(16_384));
    let text = told(&little_shared, Launching::Fused);
    assert!(text.contains("B of shared memory, and an SM has 16,384 B"), "{text}");
    // A merge that does not fit would wait for ever behind attention that does.
    let mut wide_merge = full();
    if let Some(kernel) = &mut wide_merge.merge_kernel {
        (kernel.warps, kernel.registers) = (64, 1024);
    }
    let text = told(&wide_merge, Launching::Serial);
    assert!(text.contains("(merge)") && text.contains("registers, and an SM has 65,536"), "{text}");
}

#[test]
fn a_run_longer_than_a_capture_can_hold_is_an_error() {
    let mut slow = full();
    slow.tensor_flops = 100_000_000_000;
    (slow.sim.tensor_efficiency, slow.sm_count) = (0.05, 4096);
    // Steps that were measured would not follow the rate.
    slow.kernels.iter_mut().for_each(|kernel| kernel.sm_step = None);
    let text = run(&slow, &decodes(1, 1 << 20), "naive", Launching::Serial).unwrap_err().to_string();
    assert!(text.contains("takes more than 1099.51 s") && text.contains("at launch 0 (attention"), "{text}");
}

/// How a figure is drawn.
#[derive(Clone, Copy, Debug)]
enum Draw {
    /// As the built-in device has it.
    Same,
    /// That times a factor, within its range.
    Near(f64),
    /// The least and the most that it may be.
    Edge(bool),
    /// Anywhere in its range, evenly on a scale of powers.
    Within(f64),
    /// Outside its range.
    Outside(Index),
}

fn draw() -> impl Strategy<Value = Draw> {
    prop_oneof![
        40 => Just(Draw::Same),
        40 => (-2.0_f64..2.0).prop_map(|by| Draw::Near(by.exp())),
        4 => any::<bool>().prop_map(Draw::Edge),
        8 => (0.0_f64..1.0).prop_map(Draw::Within),
    ]
}

impl Draw {
    fn of(self, figure: &Figure) -> Number {
        let value = |value: Number| match value {
            Number::Whole(whole) => whole as f64,
            Number::Part(part) => part,
        };
        let [was, least, most] = [figure.value, figure.least, figure.most].map(value);
        let drawn = match self {
            // What was drawn before may have left it outside.
            Self::Same => was.clamp(least, most),
            Self::Edge(high) => return if high { figure.most } else { figure.least },
            Self::Outside(at) => return at.get(&outside(figure)).to_owned(),
            Self::Near(by) => (was * by).clamp(least, most),
            Self::Within(at) => least + ((most - least + 1.0).ln() * at).exp_m1().clamp(0.0, most - least),
        };
        match (figure.least, figure.most) {
            (Number::Whole(least), Number::Whole(most)) => Number::Whole((drawn as u64).clamp(least, most)),
            _ => Number::Part(drawn),
        }
    }
}

/// A device whose figures are drawn one after another, since some ranges depend on figures before them. Tiles keep
/// their sides, which are names more than figures.
fn drawn(base: &Device, draws: &[Draw]) -> Device {
    let mut device = base.clone();
    for (at, draw) in draws.iter().enumerate().take(figures(base).len()) {
        let figure = &figures(&device)[at];
        if !figure.field.ends_with(".m") && !figure.field.ends_with(".n") {
            device = with(&device, &figure.field, draw.of(figure));
        }
    }
    device
}

/// All ways of a batch on a device end in a whole capture or in an error that says what does not go. Gives how many
/// ended in a capture.
fn assert_runs(device: &Device, spec: &BatchSpec, strategy: Launching) -> usize {
    let ways = schedulers().iter().map(|scheduler| scheduler.name());
    let ran = ways.filter(|scheduler| match run(device, spec, scheduler, strategy) {
        Ok(bytes) => {
            let loaded = from_bytes(&bytes).unwrap_or_else(|error| panic!("{scheduler}: {error}"));
            assert!(loaded.missing.is_empty(), "{scheduler}: {:?}", loaded.missing);
            assert_eq!(verify(&loaded.capture), [], "{scheduler}");
            true
        }
        Err(Error::Unsupported { .. }) => false,
        Err(Error::Device(told)) => {
            assert!(told.contains("launch ") && told.contains("fuzzed"), "{scheduler}: {told}");
            false
        }
        Err(other) => panic!("{scheduler}: {other}"),
    });
    ran.count()
}

/// Cases of the fuzzed tests; more by `DEVICE_CASES=10000`.
fn cases() -> ProptestConfig {
    let cases = std::env::var("DEVICE_CASES").map_or(128, |cases| cases.parse().unwrap());
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

#[test]
fn a_device_in_its_ranges_runs_to_a_whole_capture() {
    let (tried, ran) = (Cell::new(0), Cell::new(0));
    let draws = prop::collection::vec(draw(), 150);
    let base = prop::sample::select(hw::names());
    let strategy = prop::sample::select(Launching::ANY_BATCH.to_vec());
    let case = |(draws, base, spec, strategy): (Vec<Draw>, &str, BatchSpec, Launching)| {
        let base = Device { key: "fuzzed".to_owned(), gpcs: Vec::new(), ..hw::find(base).unwrap().clone() };
        let text = hw::to_ron(&drawn(&base, &draws)).unwrap();
        let device = hw::from_ron(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        tried.set(tried.get() + schedulers().len());
        ran.set(ran.get() + assert_runs(&device, &spec, strategy));
        Ok(())
    };
    TestRunner::new(cases()).run(&(draws, base, forest(32), strategy), case).unwrap();
    // Some devices hold no CTA of some tile, and some systems do not take some batches: of draws about a third runs.
    assert!(4 * ran.get() > tried.get(), "only {} of {} ways ran", ran.get(), tried.get());
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_device_out_of_its_ranges_is_refused_by_the_first_figure_that_is(
        draws in prop::collection::vec(prop_oneof![20 => draw(), 1 => any::<Index>().prop_map(Draw::Outside)], 150),
    ) {
        let device = drawn(&full(), &draws);
        let read = hw::from_ron(&hw::to_ron(&device).unwrap());
        match figures(&device).into_iter().find(|figure| !figure.holds()) {
            Some(figure) => prop_assert!(read.unwrap_err().to_string().contains(&figure.to_string())),
            None => prop_assert!(read.is_ok()),
        }
    }
}
