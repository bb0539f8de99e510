//! `run`: plan and run a batch, and write the capture.

use std::fmt::Write as _;
use std::process::ExitCode;

use engine::cancel::Cancel;
use engine::capture;
use engine::export::RunJson;
use engine::numerics::CheckReport;
use engine::session;
use engine::units::{Bytes, Nanos};

use super::args::RunArgs;
use super::fault::{FAILED, Outcome};
use super::figures::{self, percent};
use super::table::Table;
use super::{input, output};

/// Seed of the random input of `--check`; the same input each time.
const CHECK_SEED: u64 = 1;
/// Largest relative error of f32 arithmetic against the f64 reference.
const CHECK_BOUND: f64 = 1e-5;

/// The command.
pub(crate) fn run(args: &RunArgs) -> Outcome<ExitCode> {
    let spec = input::batch(&args.batch)?;
    let device = input::device(&args.device)?;
    let options = input::options(&device, &args.choice, false)?;
    let planned = session::plan_spec(&spec, &options)?;
    let bar = output::progress(2, "running");
    let check: Option<CheckReport> =
        args.check.then(|| session::check(&planned, CHECK_SEED, &Cancel::default())).transpose()?;
    bar.inc(1);
    let finished = figures::run_planned(&planned, args.repeat, check.as_ref())?;
    bar.finish_and_clear();
    if args.counters {
        output::note("the simulator has no hardware counters; --counters is left out");
    }
    if let Some(path) = &args.output {
        capture::write(&finished.capture, path)?;
        output::note(&format!("wrote {}", path.display()));
    }
    if args.json {
        output::print_json(&finished.json)?;
    } else {
        output::print(&text(&planned.batch.name, &finished.json))?;
    }
    // NaN fails the comparison, as it should.
    let wrong =
        check.is_some_and(|check| !matches!(check.max_rel_err.partial_cmp(&CHECK_BOUND), Some(order) if order.is_le()));
    if wrong {
        output::note(&format!("the outputs differ from the f64 reference by more than {CHECK_BOUND:e}"));
    }
    Ok(ExitCode::from(if wrong { FAILED } else { 0 }))
}

fn text(name: &str, run: &RunJson) -> String {
    let mut out = format!(
        "{name}\n  {} under {} on {}, {}\n",
        run.plan.scheduler, run.plan.strategy, run.plan.device, run.source
    );
    let mut say = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {name:<11} {value}");
    };
    say("makespan", format!("{} ({})", Nanos(run.makespan_ns), run.source));
    say("slots", format!("{}, busy {}", run.slots, percent(run.busy_slot_ns, run.total_slot_ns)));
    let bandwidth = &run.bandwidth;
    say(
        "bandwidth",
        format!(
            "issued {}/s; HBM {:.1}% of {}/s",
            Bytes(bandwidth.achieved_bytes_per_s),
            100.0 * bandwidth.utilization,
            Bytes(bandwidth.peak_bytes_per_s)
        ),
    );
    if let Some(check) = &run.check {
        say("check", format!("{} rows, largest relative error {:.2e}", check.rows, check.max_rel_err));
    }
    for warning in &run.warnings {
        say("warning", warning.clone());
    }
    let mut bubbles = Table::new(1, &["slot time", "ns", "share"]);
    let mut row =
        |name: &str, time: u64| bubbles.row(vec![name.to_owned(), time.to_string(), percent(time, run.total_slot_ns)]);
    row("busy", run.busy_slot_ns);
    for bubble in &run.bubbles {
        row(bubble.cause, bubble.slot_ns);
    }
    row("total", run.total_slot_ns);
    format!("{out}\n{}", bubbles.text())
}
