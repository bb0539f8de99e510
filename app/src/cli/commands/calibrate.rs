//! `calibrate`: the simulator's constants fitted to a GPU, written as a device file.

use std::process::ExitCode;
use std::time::Instant;

use engine::Error;
use engine::calibrate::{self, Fit, Observed};
use engine::capture;
use engine::export::SCHEMA;
use engine::hw::{self, Device, ExpectedError};
use engine::plan::{Strategy, hybrid};
use engine::session::{self, PlanOptions, Planned, Runner};
use engine::units::{Nanos, counted};
use engine::workload::{self, BatchSpec, random_hybrid};
use serde_json::{Value, json};

use crate::cli::args::CalibrateArgs;
use crate::cli::fault::{Fault, Outcome};
use crate::cli::figures::Spread;
use crate::cli::measured_runs::Measured;
use crate::cli::sets::Case;
use crate::cli::table::Table;
use crate::cli::{figures, input, interrupt, measured_runs, output, sets};

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
    let (held_back, measured) = measured.hold_back();
    let mut fit =
        calibrate::fit(&measured.device, measured.limits.as_ref(), &measured.runs, &tell, interrupt::cancel())?;
    let held_back = HeldBack::of(&fit.device, &held_back)?;
    bar.finish_and_clear();
    let (median, worst) = calibrate::errors(&measured.runs, &fit.after);
    let source = format!(
        "fitted by `packscope calibrate` to {} measured on this GPU: median error of the makespan {:.1} %, worst {:.1} %; {}",
        counted(measured.runs.len() as u64, "run"),
        100.0 * median,
        100.0 * worst,
        held_back.text()
    );
    fit.device.sources.insert("sim".to_owned(), source);
    fit.device.calibrated = true;
    fit.device.expected_error = held_back.expected();
    capture::write_atomically(&args.output, "writing the device file", hw::to_ron(&fit.device)?.as_bytes())?;
    if args.json {
        output::print_json(&whole_json(&measured, &fit, &held_back))?;
    } else {
        output::print(&format!("{}{}\n", text(&measured, &fit), held_back.text()))?;
        output::note(&format!("wrote {}", args.output.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// How well the fitted constants foretell runs that they were not fitted to.
struct HeldBack(Spread);

impl HeldBack {
    fn of(device: &Device, runs: &[Observed]) -> Outcome<Self> {
        let times = calibrate::simulate_all(device, runs, interrupt::cancel())?;
        let error = |(run, time): (&Observed, &Nanos)| (time.as_f64() / run.measured.as_f64() - 1.0).abs();
        Ok(Self(Spread::of(runs.iter().zip(&times).map(error))))
    }

    /// What the device file tells of it.
    fn expected(&self) -> Option<ExpectedError> {
        let Spread { count, median, nine_of_ten, worst } = self.0;
        (count > 0).then_some(ExpectedError { runs: count as u64, median, nine_of_ten, worst })
    }

    fn text(&self) -> String {
        let Spread { count, median, nine_of_ten, worst } = self.0;
        if count == 0 {
            return "no runs were held back".to_owned();
        }
        format!(
            "of {} of random batches that were held back: median error {:.1} %, nine of ten below {:.1} %, worst {:.1} %",
            counted(count as u64, "run"),
            100.0 * median,
            100.0 * nine_of_ten,
            100.0 * worst
        )
    }

    fn json(&self) -> Value {
        let Spread { count, median, nine_of_ten, worst } = self.0;
        json!({ "runs": count, "median": median, "nine_of_ten": nine_of_ten, "worst": worst })
    }
}

/// Measures the published trees, hybrid batches and random ones on the GPU that is here.
fn measure(args: &CalibrateArgs) -> Outcome<Measured> {
    let (device, mut runner) = input::setup(&args.device)?;
    let Some(limits) = runner.limits(figures::REPEATS, interrupt::cancel())? else {
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
    let hybrids = hybrids()?;
    let bar = output::progress((cases.len() + hybrids.len()) as u64 + 1, "measuring");
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
    for Case { name, spec } in &hybrids {
        for (scheduler, strategy) in hybrid_ways(args, &measured.device, spec)? {
            let options = PlanOptions { scheduler: scheduler.clone(), strategy, ..PlanOptions::new(&measured.device) };
            match figures::accepted(&runner, spec, &options) {
                Ok(planned) => {
                    measured.runs.push(observe(&mut runner, planned)?);
                    measured.keys.push(name.clone());
                }
                // Not every GPU runs every strategy, nor has every one room for every batch.
                Err(error @ Error::Unsupported { .. }) => output::note(&format!("left out: {name}: {error}")),
                Err(error) => return Err(error.into()),
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let runs = counted(measured.runs.len() as u64, "run");
    output::note(&format!("measured {runs} in {:.0} s", start.elapsed().as_secs_f64()));
    keep(args, &measured);
    Ok(measured)
}

/// Random hybrid batches that are measured, and their seed.
const RANDOM: u32 = 16;
const SEED: u64 = 20_261_123;

/// POD-Attention's batches, and random ones.
fn hybrids() -> Outcome<Vec<Case>> {
    let random =
        (0..RANDOM).map(|number| Case { name: format!("random-{SEED}-{number}"), spec: random_hybrid(SEED, number) });
    Ok(sets::hybrid()?.into_iter().chain(random).collect())
}

/// Every scheduler under every strategy that the device has kernels for; none where it has none of our own.
fn hybrid_ways<'a>(args: &'a CalibrateArgs, device: &Device, spec: &BatchSpec) -> Outcome<Vec<(&'a String, Strategy)>> {
    let strategies = if device.prefill_kernel.is_some() { hybrid::offered(device, &spec.build()?) } else { Vec::new() };
    Ok(args.schedulers.iter().flat_map(|name| strategies.iter().map(move |strategy| (name, *strategy))).collect())
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
    observe(runner, session::plan_spec(spec, &options)?)
}

fn observe(runner: &mut Runner, planned: Planned) -> Outcome<Observed> {
    let capture = runner.run(&planned, &figures::cold(figures::REPEATS), interrupt::cancel())?;
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

fn whole_json(measured: &Measured, fit: &Fit, held_back: &HeldBack) -> Value {
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
        "held_back": held_back.json(), "sim": fit.device.sim, "prefill_kernel": fit.device.prefill_kernel,
        "hybrid_limits": fit.device.hybrid_limits, "runs": runs, "left_out": measured.left_out,
    })
}
