//! `calibrate`: the simulator's constants fitted to a GPU, written as a device file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use engine::calibrate::{self, Fit, Observed};
use engine::cancel::Cancel;
use engine::capture::{self, Capture, L2State, Source};
use engine::export::SCHEMA;
use engine::hw::{self, Device};
use engine::metrics::Limits;
use engine::plan::Strategy;
use engine::session::{self, PlanOptions, Planned, Runner};
use engine::tile;
use engine::units::{Bytes, Nanos};
use engine::workload::{self, BatchSpec, PrefixTree};
use serde_json::{Value, json};

use super::args::CalibrateArgs;
use super::fault::{Fault, Outcome};
use super::sets::{self, Case};
use super::table::Table;
use super::{convert, figures, input, output};
use crate::samples;

/// Head setups that are measured: grouped queries, and one KV head for each query head.
const HEADS: [&str; 2] = ["32/8", "32/32"];

/// Runs of one GPU.
struct Measured {
    device: Device,
    limits: Option<Limits>,
    runs: Vec<Observed>,
    /// Configuration of each run.
    keys: Vec<String>,
    /// Runs of plans that are other ones by now.
    left_out: usize,
}

impl Measured {
    fn none(device: Device, limits: Option<Limits>) -> Self {
        Self { device, limits, runs: Vec::new(), keys: Vec::new(), left_out: 0 }
    }
}

/// The command.
pub(crate) fn calibrate(args: &CalibrateArgs) -> Outcome<ExitCode> {
    let measured = if args.from.is_empty() { measure(args)? } else { read_all(args)? };
    if measured.left_out > 0 {
        output::note(&format!("{} runs are left out: their plans are other ones by now", measured.left_out));
    }
    let bar = output::progress(0, "fitting");
    let tell = |line: &str| bar.println(line);
    let mut fit =
        calibrate::fit(&measured.device, measured.limits.as_ref(), &measured.runs, &tell, &Cancel::default())?;
    bar.finish_and_clear();
    let (median, worst) = calibrate::errors(&measured.runs, &fit.after);
    let source = format!(
        "fitted by `packscope calibrate` to {} runs measured on this GPU: median error of the makespan {:.1} %, worst {:.1} %",
        measured.runs.len(),
        100.0 * median,
        100.0 * worst
    );
    fit.device.sources.insert("sim".to_owned(), source);
    capture::write_atomically(&args.output, "writing the device file", hw::to_ron(&fit.device)?.as_bytes())?;
    if args.json {
        output::print_json(&whole_json(&measured, &fit))?;
    } else {
        output::print(&text(&measured, &fit))?;
        output::note(&format!("wrote {}", args.output.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures the published trees on the GPU that is here.
fn measure(args: &CalibrateArgs) -> Outcome<Measured> {
    let (device, mut runner) = input::setup(&args.device)?;
    let Some(limits) = runner.limits()? else {
        return Err(Fault::hardware(
            "a calibration measures a GPU, and there is none here",
            "give --from with what `packscope bench --json` wrote on a machine that has one",
        ));
    };
    let ways: Vec<(&String, Strategy)> =
        args.schedulers.iter().flat_map(|name| Strategy::ANY_BATCH.map(|strategy| (name, strategy))).collect();
    let mut cases = Vec::new();
    for heads in HEADS {
        cases.extend(sets::figure_10(workload::parse_heads(heads)?)?);
    }
    let bar = output::progress(cases.len() as u64 + 1, "measuring");
    let mut measured = Measured::none(device, Some(limits));
    // The trees keep the memory full, so nothing else tells what one SM draws.
    let Case { name, spec } = sets::long_tail()?;
    let plain = ("naive".to_owned(), Strategy::Serial);
    measured.runs.push(run(&mut runner, &measured.device, &spec, (&plain.0, plain.1))?);
    measured.keys.push(name);
    bar.inc(1);
    for Case { name, spec } in &cases {
        for (scheduler, strategy) in &ways {
            measured.runs.push(run(&mut runner, &measured.device, spec, (scheduler, *strategy))?);
            measured.keys.push(name.clone());
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(measured)
}

fn run(
    runner: &mut Runner,
    device: &Device,
    spec: &BatchSpec,
    (scheduler, strategy): (&String, Strategy),
) -> Outcome<Observed> {
    let options = PlanOptions { scheduler: scheduler.clone(), strategy, ..PlanOptions::new(device) };
    let planned = session::plan_spec(spec, &options)?;
    let capture = runner.run(&planned, &figures::cold(20), &Cancel::default())?;
    Ok(Observed { planned, measured: capture.times.spread().median, l2: capture.times.l2 })
}

/// Runs that `bench --json` wrote, and captures; all of one GPU.
fn read_all(args: &CalibrateArgs) -> Outcome<Measured> {
    let mut all: Option<Measured> = None;
    let (captures, benches): (Vec<&PathBuf>, Vec<&PathBuf>) =
        args.from.iter().partition(|path| path.extension().is_some_and(|extension| extension == "pscope"));
    for path in benches {
        let text = std::fs::read_to_string(path).map_err(engine::Error::io("reading the measured runs", path))?;
        let file: Value = serde_json::from_str(&text).map_err(|error| bad(path, &error.to_string()))?;
        let runs =
            file["runs"].as_array().filter(|runs| !runs.is_empty()).ok_or_else(|| bad(path, "it has no runs"))?;
        let of_first = runs[0]["run"]["device"].as_str().unwrap_or_default();
        let device = device_of(args, of_first)?;
        let all = all.get_or_insert_with(|| Measured::none(device, limits_of(&file)));
        for row in runs {
            let Some(observed) = observed(&all.device, row).map_err(|what| bad(path, &what))? else {
                all.left_out += 1;
                continue;
            };
            all.runs.push(observed);
            all.keys.push(row["sample"].as_str().unwrap_or_default().to_owned());
        }
    }
    for path in captures {
        let capture = convert::load(path)?.capture;
        if all.is_none() {
            all = Some(Measured::none(device_of(args, &capture.provenance.device)?, None));
        }
        if let Some(all) = &mut all {
            all.keys.push(capture.batch.name.clone());
            all.runs.push(captured(&all.device, path, capture)?);
        }
    }
    all.filter(|all| !all.runs.is_empty()).ok_or_else(|| Fault::failed("there are no measured runs of today's plans"))
}

/// The device that is asked for, else the one of that name.
fn device_of(args: &CalibrateArgs, name: &str) -> Outcome<Device> {
    Ok(match &args.device.device {
        Some(_) => input::device(&args.device)?,
        None => hw::find(name)?.clone(),
    })
}

/// The run of a capture, with the plan that it ran.
fn captured(device: &Device, path: &Path, capture: Capture) -> Outcome<Observed> {
    if capture.provenance.source != Source::Measured || capture.provenance.device != device.key {
        let what = format!("{}: it was not measured on {}", path.display(), device.name);
        return Err(Fault::input(what, "give captures that `run` wrote on that GPU"));
    }
    let batch = capture.batch.build()?;
    let options = PlanOptions {
        scheduler: capture.plan.scheduler.clone(),
        strategy: capture.plan.strategy,
        ..PlanOptions::new(device)
    };
    let (measured, l2) = (capture.times.spread().median, capture.times.l2);
    let planned = Planned {
        tree: Arc::new(PrefixTree::of(&batch)),
        tiles: Arc::new(tile::solve(device, batch.shape.head_dim, batch.shape.dtype)),
        spec: Arc::new(capture.batch),
        batch: Arc::new(batch),
        plan: Arc::new(capture.plan),
        options: Arc::new(options),
        plan_time: Duration::ZERO,
    };
    Ok(Observed { planned, measured, l2 })
}

fn bad(path: &Path, what: &str) -> Fault {
    Fault::input(
        format!("{}: {what}", path.display()),
        "it should be what `packscope bench --json` of this version wrote on a GPU",
    )
}

/// The run of one row, planned again; `None` where its plan does not come out as it was.
fn observed(device: &Device, row: &Value) -> Result<Option<Observed>, String> {
    let key = row["sample"].as_str().ok_or("a run names no sample")?;
    let sample = samples::find(key).ok_or_else(|| format!("there is no sample '{key}'"))?;
    let run = &row["run"];
    if run["source"] != "measured" || run["device"] != device.key.as_str() {
        return Err(format!("the run of {key} was not measured on {}", device.name));
    }
    let whole = |value: &Value| value.as_u64().and_then(|value| u32::try_from(value).ok());
    let strategy = Strategy::ALL.into_iter().find(|strategy| run["strategy"] == strategy.name());
    let shape = (whole(&run["batch"]["query_heads"]), whole(&run["batch"]["kv_heads"]));
    let ((Some(query_heads), Some(kv_heads)), Some(strategy), Some(scheduler), Some(time)) =
        (shape, strategy, run["scheduler"].as_str(), run["makespan_ns"].as_u64())
    else {
        return Err(format!("the run of {key} misses its heads, scheduler, strategy or makespan"));
    };
    let mut spec = BatchSpec::from_ron(sample.text).map_err(|error| error.to_string())?;
    (spec.shape.query_heads, spec.shape.kv_heads) = (query_heads, kv_heads);
    let options = PlanOptions { scheduler: scheduler.to_owned(), strategy, ..PlanOptions::new(device) };
    let planned = session::plan_spec(&spec, &options).map_err(|error| error.to_string())?;
    let was = (run["packs"].as_u64(), run["partials"].as_u64());
    let crc = run["plan_crc"].as_u64().unwrap_or_else(|| u64::from(planned.plan.crc()));
    let now = (Some(planned.plan.packs.len() as u64), Some(planned.plan.queries.len() as u64));
    if was != now || crc != u64::from(planned.plan.crc()) {
        return Ok(None);
    }
    let l2 = if run["l2"] == "warm" { L2State::Warm } else { L2State::Cold };
    Ok(Some(Observed { planned, measured: Nanos(time), l2 }))
}

fn limits_of(file: &Value) -> Option<Limits> {
    let point = |point: &Value| Some((Bytes(point["bytes"].as_u64()?), Nanos(point["ns"].as_u64()?)));
    let read: Option<Vec<_>> = file["cold_read"].as_array()?.iter().map(point).collect();
    Some(Limits { read: read?, flops: file["mma_flops"].as_f64()? })
}

/// Runs with their simulated times before and after.
fn rows<'a>(measured: &'a Measured, fit: &'a Fit) -> impl Iterator<Item = (&'a str, &'a Observed, Nanos, Nanos)> {
    let times = fit.before.iter().copied().zip(fit.after.iter().copied());
    measured
        .keys
        .iter()
        .zip(&measured.runs)
        .zip(times)
        .map(|((key, run), (before, after))| (key.as_str(), run, before, after))
}

fn text(measured: &Measured, fit: &Fit) -> String {
    let headings = [
        "sample",
        "scheduler",
        "strategy",
        "heads",
        "measured",
        "simulated before",
        "simulated",
        "simulated / measured",
    ];
    let mut table = Table::new(4, &headings);
    for (key, run, before, after) in rows(measured, fit) {
        let (plan, shape) = (&run.planned.plan, &run.planned.batch.shape);
        table.row(vec![
            key.to_owned(),
            plan.scheduler.clone(),
            plan.strategy.name().to_owned(),
            format!("{}/{}", shape.query_heads, shape.kv_heads),
            run.measured.to_string(),
            before.to_string(),
            after.to_string(),
            figures::ratio(after.0, run.measured.0),
        ]);
    }
    let line = |name: &str, times: &[Nanos]| {
        let (median, worst) = calibrate::errors(&measured.runs, times);
        format!("{name}: median error {:.1} %, worst {:.1} %\n", 100.0 * median, 100.0 * worst)
    };
    format!("{}\n{}{}", table.text(), line("before", &fit.before), line("fitted", &fit.after))
}

fn whole_json(measured: &Measured, fit: &Fit) -> Value {
    let errors = |times: &[Nanos]| {
        let (median, worst) = calibrate::errors(&measured.runs, times);
        json!({ "median": median, "worst": worst })
    };
    let runs: Vec<Value> = rows(measured, fit)
        .map(|(key, run, before, after)| {
            let shape = &run.planned.batch.shape;
            json!({
                "sample": key, "scheduler": run.planned.plan.scheduler, "strategy": run.planned.plan.strategy.name(),
                "query_heads": shape.query_heads, "kv_heads": shape.kv_heads, "packs": run.planned.plan.packs.len(),
                "partials": run.planned.plan.queries.len(), "plan_crc": run.planned.plan.crc(), "measured_ns": run.measured.0,
                "simulated_before_ns": before.0, "simulated_ns": after.0,
            })
        })
        .collect();
    json!({
        "schema": SCHEMA, "device": fit.device.key, "error_before": errors(&fit.before), "error": errors(&fit.after),
        "sim": fit.device.sim, "runs": runs,
    })
}
