//! `compare`: one table of runs of one batch against each other.

use std::process::ExitCode;

use engine::Error;
use engine::export::{RunJson, compare_json};
use engine::hw::Device;
use engine::pack;
use engine::plan::{Strategy, hybrid};
use engine::session::{self, PlanOptions};
use engine::units::Nanos;
use engine::workload::BatchSpec;

use crate::cli::args::CompareArgs;
use crate::cli::fault::Outcome;
use crate::cli::{figures, input, output};
use engine::shown;

/// Strategies where none is named: all for a hybrid batch, the plain three first.
fn usual(device: &Device, spec: &BatchSpec) -> Outcome<Vec<String>> {
    let mut all = vec![Strategy::Streams, Strategy::Serial, Strategy::Fused];
    if spec.is_hybrid() {
        let others = hybrid::offered(device, &spec.build()?);
        all.extend(others.into_iter().filter(|strategy| !Strategy::ANY_BATCH.contains(strategy)));
    }
    Ok(all.into_iter().map(|strategy| strategy.name().to_owned()).collect())
}

/// The ways to compare: where no scheduler is named, the pair that auto takes comes first, then `pat` under each strategy.
fn choices(args: &CompareArgs, device: &Device, spec: &BatchSpec, strategies: &[String]) -> Outcome<Vec<PlanOptions>> {
    if !args.schedulers.is_empty() {
        return input::ways(device, &args.schedulers, strategies, &args.rules);
    }
    let mut choices = input::ways(device, &[pack::DEFAULT.to_owned()], strategies, &args.rules)?;
    if args.strategies.is_empty() {
        let auto = input::options_of(device, input::AUTO, input::AUTO, &args.rules, false)?;
        let best = input::resolved(spec, auto)?;
        choices.retain(|other| way(other) != way(&best));
        choices.insert(0, best);
    }
    Ok(choices)
}

fn way(options: &PlanOptions) -> (&str, Strategy) {
    (&options.scheduler, options.strategy)
}

/// The command. The first scheduler under the first strategy is what the others are compared with.
pub(crate) fn compare(args: &CompareArgs) -> Outcome<ExitCode> {
    let mut device = args.device.clone();
    let spec = input::shown(&args.batch, &mut device, None)?;
    let (device, mut runner) = input::setup(&device)?;
    let all = args.strategies.is_empty();
    let strategies = if all { usual(&device, &spec)? } else { args.strategies.clone() };
    let choices = choices(args, &device, &spec, &strategies)?;
    let bar = output::progress(choices.len() as u64, "running");
    let mut runs = Vec::with_capacity(choices.len());
    let (mut refused, mut floor) = (None, None);
    for options in &choices {
        match figures::accepted(&runner, &spec, options) {
            Ok(planned) => {
                floor = spec.is_hybrid().then(|| Nanos(session::oracle_ns(&planned).ceil() as u64));
                runs.push(figures::run_planned(&mut runner, &planned, &figures::cold(figures::REPEATS), None)?.json);
            }
            // Nobody asked for this one by name, so the others are shown all the same.
            Err(error @ Error::Unsupported { .. }) if all => {
                output::note(&error.to_string());
                refused.get_or_insert(error);
            }
            Err(error) => return Err(error.into()),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let (true, Some(error)) = (runs.is_empty(), refused) {
        return Err(error.into());
    }
    if args.json {
        output::print_json(&compare_json(runs))?;
    } else {
        let source = runs.first().map_or("", RunJson::source_words);
        let expected = figures::expected(runs.first().and_then(|run| run.expected_error));
        let (name, table) = (shown::line(&spec.name), figures::table(&runs));
        let floor = floor.map_or_else(String::new, |floor| {
            format!("\nfloor {floor}: prefill products and compulsory bytes at the best rates of the device file\n")
        });
        output::print(&format!("{name} on {}, all times {source}\n\n{table}{floor}{expected}", device.key))?;
    }
    Ok(ExitCode::SUCCESS)
}
