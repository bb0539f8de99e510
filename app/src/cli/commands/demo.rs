//! `demo`: the default sample under the chosen scheduler and the baselines; capture and pictures
//! under `packscope-out/`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::capture::{self, Capture, Outputs};
use engine::export::{RunJson, compare_json};
use engine::session::PlanOptions;
use engine::workload::BatchSpec;

use crate::cli::args::DemoArgs;
use crate::cli::commands::pictures::add_pictures;
use crate::cli::fault::{Fault, Outcome};
use crate::cli::{figures, input, output};
use crate::picture::timeline;
use crate::runs::damage::Damage;
use crate::samples;

/// Where the demo leaves its files.
const FOLDER: &str = "packscope-out";
/// The baseline in which nothing is packed: each request reads all of its KV.
const UNPACKED: &str = "query-centric";

/// The command.
pub(crate) fn demo(args: &DemoArgs) -> Outcome<ExitCode> {
    let spec = sample()?;
    let (device, mut runner) = input::setup(&args.device)?;
    let chosen = input::resolved(&spec, input::options(&device, &args.choice, true)?)?;
    let choices = with_baselines(&chosen);
    let bar = output::progress(choices.len() as u64, "running");
    let mut runs = Vec::new();
    let mut captures = Vec::new();
    for options in &choices {
        let finished = figures::finish(&mut runner, &spec, options, &figures::cold(figures::REPEATS))?;
        runs.push(finished.json);
        captures.push(finished.capture);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let files = write_files(&captures, Path::new(FOLDER))?;
    if args.json {
        output::print_json(&compare_json(runs))?;
    } else {
        let table = figures::table(&runs);
        let expected = figures::expected(runs.first().and_then(|run| run.expected_error));
        let source = runs.first().map_or("", RunJson::source_words);
        output::print(&format!(
            "{}\non {}, all times {source}\n\n{table}{expected}\n{}",
            spec.name, device.name, spec.look_for
        ))?;
    }
    for file in files {
        output::note(&format!("wrote {}", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The sample that the demo and the window show.
pub(crate) fn sample() -> Outcome<BatchSpec> {
    let sample = samples::find(samples::DEFAULT)
        .ok_or_else(|| Fault::input(format!("there is no sample '{}'", samples::DEFAULT), "please report it"))?;
    Ok(BatchSpec { scene: None, ..BatchSpec::from_ron(sample.text)? })
}

/// The choice first, then its scheduler under the other strategies, then nothing packed at all.
fn with_baselines(chosen: &PlanOptions) -> Vec<PlanOptions> {
    let others = engine::plan::Strategy::ANY_BATCH.into_iter().filter(|strategy| *strategy != chosen.strategy);
    let mut choices = vec![chosen.clone()];
    choices.extend(others.map(|strategy| PlanOptions { strategy, ..chosen.clone() }));
    if chosen.scheduler != UNPACKED {
        choices.push(PlanOptions { scheduler: UNPACKED.to_owned(), tile: None, ..chosen.clone() });
    }
    choices
}

/// The capture of the first run, its timeline, and all runs side by side.
fn write_files(runs: &[Capture], folder: &Path) -> Outcome<Vec<PathBuf>> {
    let Some(first) = runs.first() else { return Ok(Vec::new()) };
    let mut outputs = Outputs::default();
    outputs.folder(folder, "writing the demo's folder")?;
    outputs.add(&folder.join("demo.pscope"), "writing the capture", &capture::to_bytes(first)?)?;
    for (name, svg) in
        [("timeline", timeline::timeline_svg(first, &Damage::default())), ("compare", timeline::compare_svg(runs))]
    {
        let path = |ending: &str| folder.join(format!("{name}.{ending}"));
        add_pictures(&mut outputs, &svg, Some(&path("svg")), Some(&path("png")))?;
    }
    Ok(outputs.commit()?)
}
