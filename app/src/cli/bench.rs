//! `bench`: the published configurations, one row each, beside the least time that their
//! compulsory bytes allow.

use std::process::ExitCode;

use engine::export::{RunJson, SCHEMA};
use engine::hw::Device;
use engine::units::{Bytes, Nanos};
use engine::workload::{self, BatchSpec};
use serde_json::json;

use super::args::{BenchArgs, BenchSet};
use super::bench_measured::{self, Configuration};
use super::fault::Outcome;
use super::figures::{percent, ratio};
use super::table::Table;
use super::{figures, input, output};
use crate::samples;

/// The command.
pub(crate) fn bench(args: &BenchArgs) -> Outcome<ExitCode> {
    let (device, mut runner) = input::setup(&args.device)?;
    let options = input::options(&device, &args.choice, false)?;
    let heads = workload::parse_heads(&args.heads)?;
    let (set, prefix) = match args.set {
        BenchSet::PatFigure10 => ("pat-figure-10", "pat-"),
        BenchSet::Hybrid => ("hybrid", "pod-"),
    };
    let mut configurations = Vec::new();
    for sample in samples::samples().iter().filter(|sample| sample.key.starts_with(prefix)) {
        let mut spec = BatchSpec::from_ron(sample.text)?;
        if args.set == BenchSet::PatFigure10 {
            (spec.shape.query_heads, spec.shape.kv_heads) = heads;
        }
        configurations.push(Configuration { key: sample.key.to_owned(), spec });
    }
    if runner.device().is_some() {
        return bench_measured::bench(args, set, &configurations, runner);
    }
    let bar = output::progress(configurations.len() as u64, set);
    let mut rows = Vec::new();
    for Configuration { key, spec } in &configurations {
        let run = figures::finish(&mut runner, spec, &options, &figures::cold(20))?.json;
        rows.push((key.as_str(), floor_ns(&run, &device), run));
        bar.inc(1);
    }
    bar.finish_and_clear();
    if args.json {
        let runs: Vec<_> =
            rows.iter().map(|(key, floor, run)| json!({ "sample": key, "floor_ns": floor, "run": run })).collect();
        output::print_json(&json!({ "schema": SCHEMA, "set": set, "l2": "cold", "runs": runs }))?;
    } else {
        output::print(&text(set, &device, &rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The least time in which the compulsory bytes come over the bandwidth that a plain read reaches.
fn floor_ns(run: &RunJson, device: &Device) -> u64 {
    (run.plan.traffic.compulsory_bytes as f64 / device.reachable_bytes_per_s() * 1e9).ceil() as u64
}

fn text(set: &str, device: &Device, rows: &[(&str, u64, RunJson)]) -> String {
    let headings = ["sample", "median", "min", "max", "floor", "over floor", "busy", "KV read", "compulsory"];
    let mut table = Table::new(1, &headings);
    for (key, floor, run) in rows {
        table.row(vec![
            (*key).to_owned(),
            Nanos(run.makespan_ns).to_string(),
            Nanos(run.makespan_min_ns).to_string(),
            Nanos(run.makespan_max_ns).to_string(),
            Nanos(*floor).to_string(),
            ratio(run.makespan_ns, *floor),
            percent(run.busy_slot_ns, run.total_slot_ns),
            Bytes(run.plan.traffic.kv_read_bytes).to_string(),
            Bytes(run.plan.traffic.compulsory_bytes).to_string(),
        ]);
    }
    let choice = rows.first().map_or_else(String::new, |(_, _, run)| {
        format!(
            "{} under {}, {} heads {}/{}",
            run.plan.scheduler, run.plan.strategy, run.source, run.plan.batch.query_heads, run.plan.batch.kv_heads
        )
    });
    format!(
        "{set} on {}: {choice}, cold L2\nall times simulated (the simulator gives the same time each run); floor = compulsory bytes / {}/s reachable\n\n{}",
        device.name,
        Bytes(device.reachable_bytes_per_s() as u64),
        table.text()
    )
}
