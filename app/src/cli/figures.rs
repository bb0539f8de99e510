//! A batch planned, run and measured, and the row that tables make of it.

use engine::capture::{Capture, Source};
use engine::export::{RunJson, run_json};
use engine::hw::{Device, ExpectedError};
use engine::numerics::CheckReport;
use engine::session::{self, PlanOptions, Planned, RunOptions, Runner};
use engine::units::{Bytes, Nanos};
use engine::workload::BatchSpec;
use serde::Serialize;

use crate::cli::fault::Outcome;
use crate::cli::interrupt;
use crate::cli::table::Table;

/// One finished run.
pub(crate) struct Finished {
    /// The capture.
    pub(crate) capture: Capture,
    /// Its figures.
    pub(crate) json: RunJson,
}

/// Runs that a measured figure is the median of, where nobody asks for another number.
pub(crate) const REPEATS: u32 = 20;

/// Cold L2, `repeats` runs.
pub(crate) fn cold(repeats: u32) -> RunOptions {
    RunOptions { repeats, command: crate::cli::args::command_line(), ..RunOptions::default() }
}

/// What stands beside the figures that the simulator gives for a device.
pub(crate) fn simulated(device: &Device) -> &'static str {
    Source::Simulated.words(device.calibrated)
}

/// How far off simulated times may be, on a line of its own; nothing where that is not known.
pub(crate) fn expected(error: Option<ExpectedError>) -> String {
    error.map_or_else(String::new, |error| format!("\n{}\n", error.sentence()))
}

/// Plans, runs and measures a batch.
pub(crate) fn finish(
    runner: &mut Runner,
    spec: &BatchSpec,
    options: &PlanOptions,
    run: &RunOptions,
) -> Outcome<Finished> {
    let planned = session::plan_spec(spec, options)?;
    run_planned(runner, &planned, run, None)
}

/// The plan of a batch, unless planning or what runs it refuses it.
pub(crate) fn accepted(runner: &Runner, spec: &BatchSpec, options: &PlanOptions) -> engine::Result<Planned> {
    let planned = session::plan_spec(spec, options)?;
    runner.accepts(&planned)?;
    Ok(planned)
}

/// A time in a table, a dash where there is none.
pub(crate) fn time_or_dash(time: Option<Nanos>) -> String {
    time.map_or_else(|| "–".to_owned(), |time| time.to_string())
}

/// Runs and measures a plan.
pub(crate) fn run_planned(
    runner: &mut Runner,
    planned: &Planned,
    run: &RunOptions,
    check: Option<&CheckReport>,
) -> Outcome<Finished> {
    let capture = runner.run(planned, run, interrupt::cancel())?;
    let report = session::report_of(&planned.batch, &planned.tree, &capture);
    let plan = crate::cli::commands::plan::timed_json(planned)?;
    let json = run_json(plan, &capture, &report.bubbles, &report.bandwidth, check);
    Ok(Finished { capture, json })
}

/// Headings of [`row`].
pub(crate) const HEADINGS: [&str; 9] =
    ["scheduler", "strategy", "makespan", "vs first", "busy", "biggest bubble", "KV read", "issued", "compulsory"];

/// A table of runs, the first being what the others are compared with.
pub(crate) fn table(runs: &[RunJson]) -> String {
    let mut table = Table::new(2, &HEADINGS);
    for run in runs {
        table.row(row(run, &runs[0]));
    }
    table.text()
}

fn row(run: &RunJson, first: &RunJson) -> Vec<String> {
    let traffic = &run.plan.traffic;
    let issued = traffic.kv_read_bytes
        + traffic.q_read_bytes
        + traffic.partial_write_bytes
        + traffic.partial_read_bytes
        + traffic.output_write_bytes;
    let biggest = run.bubbles.iter().filter(|bubble| bubble.slot_ns > 0).max_by_key(|bubble| bubble.slot_ns);
    vec![
        run.plan.scheduler.clone(),
        run.plan.strategy.to_owned(),
        Nanos(run.makespan_ns).to_string(),
        ratio(run.makespan_ns, first.makespan_ns),
        percent(run.busy_slot_ns, run.total_slot_ns),
        biggest.map_or_else(|| "none".to_owned(), |b| format!("{} {}", b.cause, percent(b.slot_ns, run.total_slot_ns))),
        Bytes(traffic.kv_read_bytes).to_string(),
        Bytes(issued).to_string(),
        Bytes(traffic.compulsory_bytes).to_string(),
    ]
}

/// `part` of `whole` as a percentage.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "–".to_owned() } else { format!("{:.1}%", 100.0 * part as f64 / whole as f64) }
}

/// How figures of many runs are spread.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Spread {
    /// How many there are.
    pub(crate) count: usize,
    pub(crate) median: f64,
    /// Nine of ten are below it.
    pub(crate) nine_of_ten: f64,
    pub(crate) worst: f64,
}

impl Spread {
    /// All zero where there is none.
    pub(crate) fn of(figures: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.collect();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| sorted.get((sorted.len() as f64 * part) as usize).copied().unwrap_or(0.0);
        let worst = sorted.last().copied().unwrap_or(0.0);
        Self { count: sorted.len(), median: at(0.5), nine_of_ten: at(0.9), worst }
    }
}

/// `this` over `that` as a factor.
pub(crate) fn ratio(this: u64, that: u64) -> String {
    if that == 0 { "–".to_owned() } else { format!("{:.2}×", this as f64 / that as f64) }
}
