//! `calibrate`: the simulator's constants fitted to a GPU, written as a device file.

use std::process::ExitCode;
use std::time::Instant;

use engine::calibrate::{self, Fit, Observed};
use engine::capture;
use engine::export::SCHEMA;
use engine::hw::{self, Device};
use engine::plan::Strategy;
use engine::session::{self, PlanOptions, Runner};
use engine::units::{Nanos, counted};
use engine::workload::{self, BatchSpec};
use serde_json::{Value, json};

use super::args::CalibrateArgs;
use super::fault::{Fault, Outcome};
use super::measured_runs::{self, Measured};
use super::sets::{self, Case};
use super::table::Table;
use super::{figures, input, interrupt, output};

/// Head setups that are measured: grouped queries, and one KV head for each query head.
const HEADS: [&str; 2] = ["32/8", "32/32"];

/// The command.
pub(crate) fn calibrate(args: &CalibrateArgs) -> Outcome<ExitCode> {
    let measured = if args.from.is_empty() { measure(args)? } else { measured_runs::read_all(args)? };
    for which in &measured.left_out {
        output::note(&format!("left out, since its plan is another one by now: {which}"));
    }
    let bar = output::working("fitting");
    let tell = |line: &str| bar.suspend(|| output::note(line));
    let mut fit =
        calibrate::fit(&measured.device, measured.limits.as_ref(), &measured.runs, &tell, interrupt::cancel())?;
    bar.finish_and_clear();
    let (median, worst) = calibrate::errors(&measured.runs, &fit.after);
    let source = format!(
        "fitted by `packscope calibrate` to {} measured on this GPU: median error of the makespan {:.1} %, worst {:.1} %",
        counted(measured.runs.len() as u64, "run"),
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
    let Some(limits) = runner.limits(interrupt::cancel())? else {
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
    let start = Instant::now();
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
    let runs = counted(measured.runs.len() as u64, "run");
    output::note(&format!("measured {runs} in {:.0} s", start.elapsed().as_secs_f64()));
    keep(args, &measured);
    Ok(measured)
}

/// Writes the runs beside the device file before the fit, which takes longer than they did: who breaks it off has
/// them still. Not being able to is no reason to lose the fit as well.
fn keep(args: &CalibrateArgs, measured: &Measured) {
    let path = args.output.with_extension("runs.json");
    if let Err(error) = measured.write(&path) {
        return output::note(&format!("the measured runs are not kept: {error}"));
    }
    let device = match &args.device.device {
        Some(device) => format!(" --device {}", device.display()),
        None if hw::find(&measured.device.key).is_err() => " --device detect".to_owned(),
        None => String::new(),
    };
    let (runs, output) = (path.display(), args.output.display());
    output::note(&format!("wrote {runs}; `packscope calibrate --from {runs}{device} -o {output}` fits to them again"));
}

fn run(
    runner: &mut Runner,
    device: &Device,
    spec: &BatchSpec,
    (scheduler, strategy): (&String, Strategy),
) -> Outcome<Observed> {
    let options = PlanOptions { scheduler: scheduler.clone(), strategy, ..PlanOptions::new(device) };
    let planned = session::plan_spec(spec, &options)?;
    let capture = runner.run(&planned, &figures::cold(20), interrupt::cancel())?;
    Ok(Observed { planned, measured: capture.times.spread().median, l2: capture.times.l2 })
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
                "partials": run.planned.plan.queries.len(), "plan_crc": run.planned.plan.digest().crc,
                "plan_digest_version": run.planned.plan.digest().version, "measured_ns": run.measured.0,
                "simulated_before_ns": before.0, "simulated_ns": after.0,
            })
        })
        .collect();
    json!({
        "schema": SCHEMA, "device": fit.device.key, "error_before": errors(&fit.before), "error": errors(&fit.after),
        "sim": fit.device.sim, "runs": runs, "left_out": measured.left_out,
    })
}
