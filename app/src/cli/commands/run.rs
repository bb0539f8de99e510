//! `run`: plan and run a batch, and write the capture.

use std::fmt::Write as _;
use std::process::ExitCode;

use engine::capture::{self, L2State};
use engine::export::{MeasuredJson, RunJson};
use engine::numerics::CheckReport;
use engine::session::{self, RunOptions};
use engine::units::{Bytes, Nanos, counted, grouped};

use crate::cli::args::RunArgs;
use crate::cli::exit::FAILED;
use crate::cli::fault::{Fault, Outcome};
use crate::cli::figures::percent;
use crate::cli::table::Table;
use crate::cli::{figures, input, interrupt, output};
use engine::shown;

/// Seed of the random input of `--check`; the same input each time.
const CHECK_SEED: u64 = 1;

/// Runs of each way that `--tune` tries.
const TUNE_REPEATS: u32 = 10;

/// The command.
pub(crate) fn run(args: &RunArgs) -> Outcome<ExitCode> {
    let (mut device, mut choice) = (args.device.clone(), args.choice.clone());
    let spec = input::shown(&args.batch, &mut device, Some(&mut choice))?;
    let (device, mut runner) = input::setup(&device)?;
    let options = input::options(&device, &choice, true)?;
    let planned = if args.tune {
        if !options.auto.any() {
            let hint = "it chooses among the ways that auto stands for; add --scheduler auto, --strategy auto or both";
            return Err(Fault::input("--tune has nothing to choose", hint));
        }
        runner.tune(&spec, &options, &figures::cold(TUNE_REPEATS), interrupt::cancel())?
    } else {
        session::plan_spec(&spec, &options)?
    };
    let bar = output::progress(2, "running");
    let check: Option<CheckReport> =
        args.check.then(|| runner.check(&planned, CHECK_SEED, interrupt::cancel())).transpose()?;
    bar.inc(1);
    let l2 = if args.warm { L2State::Warm } else { L2State::Cold };
    let how = RunOptions { l2, graph: args.graph, counters: args.counters, ..figures::cold(args.repeat) };
    let finished = figures::run_planned(&mut runner, &planned, &how, check.as_ref())?;
    bar.finish_and_clear();
    if args.counters && runner.device().is_none() {
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
    if let Some(wrong) = check.filter(|check| !check.is_right()) {
        output::note(&format!(
            "the outputs differ from the f64 reference by {:.2e}, and a right run of this plan by at most {:.2e}",
            wrong.max_rel_err, wrong.bound
        ));
        return Ok(ExitCode::from(FAILED));
    }
    Ok(ExitCode::SUCCESS)
}

fn text(name: &str, run: &RunJson) -> String {
    let mut out = format!(
        "{}\n  {} under {} on {}, {}\n",
        shown::line(name),
        run.plan.scheduler,
        run.plan.strategy,
        run.plan.device,
        run.source_words()
    );
    let mut say = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {name:<11} {value}");
    };
    say("makespan", format!("{} ({})", Nanos(run.makespan_ns), run.source_words()));
    if let Some(error) = &run.expected_error {
        say("expected", error.words());
    }
    if run.repeats > 1 {
        let (least, most) = (Nanos(run.makespan_min_ns), Nanos(run.makespan_max_ns));
        let (low, high) = (Nanos(run.makespan_p5_ns), Nanos(run.makespan_p95_ns));
        say("repeats", format!("{}, {least} to {most}, nine of ten {low} to {high}, {} L2", run.repeats, run.l2));
    }
    if let Some(pauses) = &run.memory_pauses {
        say("pauses", format!("of the HBM, {}: {}", pauses.rhythm(), pauses.of_groups().join("; ")));
    }
    if let Some(estimate) = run.estimate_ns {
        let off = 100.0 * (estimate as f64 / run.makespan_ns.max(1) as f64 - 1.0);
        say("estimate", format!("{} by the rule that chose, {off:+.0}% off the run", Nanos(estimate)));
    }
    if let Some(overhead) = run.probe_overhead {
        say("tracing", format!("costs {:+.1}% of the time; the times are of plain runs", 100.0 * overhead));
    }
    say("slots", format!("{}, busy {}", grouped(run.slots), percent(run.busy_slot_ns, run.total_slot_ns)));
    if let Some(both) = &run.co_run {
        let share = 100.0 * both.co_resident_share;
        say("shared SMs", format!("prefill and decode on one SM for {share:.1}% of the SMs' time"));
        let (prefill, decode) = (Nanos(both.prefill_end_ns), Nanos(both.decode_end_ns));
        let (flops, bytes) = (both.prefill_flops_per_s / 1e12, Bytes(both.decode_bytes_per_s as u64));
        say("halves", format!("prefill ends at {prefill}, {flops:.0} TFLOP/s; decode at {decode}, {bytes}/s"));
    }
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
    if let Some(counters) = counters(&run.measured) {
        say("counters", counters);
    }
    if let Some(check) = &run.check {
        let rows = counted(check.rows, "row");
        say(
            "check",
            format!("{rows}, largest relative error {:.2e} of at most {:.2e}", check.max_rel_err, check.bound),
        );
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

/// What the hardware counted, in one line; none where it did not.
fn counters(measured: &MeasuredJson) -> Option<String> {
    let passes = measured.passes?;
    let bytes = |name: &str, bytes: Option<u64>| bytes.map(|bytes| format!("{name} {}", Bytes(bytes)));
    let share = |name: &str, share: Option<f64>| share.map(|share| format!("{name} {:.1}%", 100.0 * share));
    let figures = [
        bytes("DRAM read", measured.dram_read_bytes),
        bytes("written", measured.dram_write_bytes),
        bytes("L2 read", measured.l2_read_bytes),
        share("hit", measured.l2_hit_rate),
        share("tensor active", measured.tensor_active),
        share("SM active", measured.sm_active),
    ];
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    Some(format!("{} (measured, {})", figures.join(", "), counted(u64::from(passes), "pass")))
}
