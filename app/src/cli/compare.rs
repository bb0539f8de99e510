//! `compare`: one table of runs of one batch against each other.

use std::process::ExitCode;

use engine::export::compare_json;

use super::args::CompareArgs;
use super::fault::Outcome;
use super::{figures, input, output};
use engine::shown;

/// The command. The first scheduler under the first strategy is what the others are compared with.
pub(crate) fn compare(args: &CompareArgs) -> Outcome<ExitCode> {
    let mut device = args.device.clone();
    let spec = input::shown(&args.batch, &mut device, None)?;
    let (device, mut runner) = input::setup(&device)?;
    let choices = input::ways(&device, &args.schedulers, &args.strategies, &args.rules)?;
    let bar = output::progress(choices.len() as u64, "running");
    let mut runs = Vec::with_capacity(choices.len());
    for options in &choices {
        runs.push(figures::finish(&mut runner, &spec, options, &figures::cold(20))?.json);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if args.json {
        output::print_json(&compare_json(runs))?;
    } else {
        let source = runs.first().map_or("", |run| run.source);
        let (name, table) = (shown::line(&spec.name), figures::table(&runs));
        output::print(&format!("{name} on {}, all times {source}\n\n{table}", device.key))?;
    }
    Ok(ExitCode::SUCCESS)
}
