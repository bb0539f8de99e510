//! `bench` on a GPU: each configuration under each way, beside its floor and what peers take.

use std::process::ExitCode;

use engine::export::{RunJson, SCHEMA};
use engine::hw::Device;
use engine::metrics::{Floor, Limits, ReadSpread};
use engine::session::{self, PlanOptions, Runner};
use engine::units::{Bytes, Nanos, counted};
use serde_json::{Value, json};

use crate::cli::args::BenchArgs;
use crate::cli::bench::peers::{Peers, over};
use crate::cli::exit::FAILED;
use crate::cli::fault::{Fault, Outcome};
use crate::cli::figures::ratio;
use crate::cli::sets::{Case, Set};
use crate::cli::table::Table;
use crate::cli::{figures, input, interrupt, measured_runs, output};

/// One configuration under one way.
struct Row {
    key: String,
    /// The batch, where its name does not tell it.
    batch: Option<String>,
    floor: Floor,
    /// Times of peers by name, in the order of [`Peers::names`].
    peers: Vec<Option<Nanos>>,
    upload: Nanos,
    /// Whether the outputs are further from the reference than a right run's.
    wrong: bool,
    run: RunJson,
}

/// The command, on a GPU.
pub(crate) fn bench(args: &BenchArgs, set: &Set, device: &Device, mut runner: Runner) -> Outcome<ExitCode> {
    let peers = Peers::read(args.peers.as_deref(), set.key, &set.cases)?;
    let choice = &args.choice;
    let (scheduler, strategy) = (choice.scheduler().to_owned(), choice.strategy().to_owned());
    let schedulers = or(&args.schedulers, &scheduler);
    let ways = input::ways(device, schedulers, or(&args.strategies, &strategy), &choice.rules)?;
    let bar = output::progress(set.cases.len() as u64 + 1, set.key);
    let Some(limits) = runner.limits(args.repeat, interrupt::cancel())? else {
        return Err(Fault::failed("the GPU did not give its limits"));
    };
    bar.inc(1);
    let mut rows = Vec::new();
    for configuration in &set.cases {
        for way in &ways {
            rows.push(measure(args, configuration, way, (&mut runner, &limits, &peers))?);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let wrong = rows.iter().filter(|row| row.wrong).count();
    if args.json {
        output::print_json(&whole_json(set.key, &limits, &peers, &rows))?;
    } else {
        output::print(&text(args, set.key, &limits, (&peers, &rows)))?;
    }
    if wrong > 0 {
        let runs = counted(wrong as u64, "run");
        output::note(&format!("the outputs of {runs} differ from the f64 reference by more than they may"));
    }
    Ok(ExitCode::from(if wrong > 0 { FAILED } else { 0 }))
}

/// `many`, as `--schedulers` or `--strategies` has them, or else the single one.
fn or<'a>(many: &'a [String], one: &'a String) -> &'a [String] {
    if many.is_empty() { std::slice::from_ref(one) } else { many }
}

fn measure(
    args: &BenchArgs,
    configuration: &Case,
    options: &PlanOptions,
    (runner, limits, peers): (&mut Runner, &Limits, &Peers),
) -> Outcome<Row> {
    let planned = session::plan_spec(&configuration.spec, options)?;
    let check =
        args.check.then(|| runner.check(&planned, u64::from(std::process::id()), interrupt::cancel())).transpose()?;
    let done = figures::run_planned(runner, &planned, &figures::cold(args.repeat), check.as_ref())?;
    Ok(Row {
        key: configuration.name.clone(),
        batch: measured_runs::batch_text(&configuration.name, &configuration.spec),
        floor: limits.floor(&planned.batch, &planned.tree),
        peers: peers.of(configuration),
        upload: done.capture.times.upload.unwrap_or_default(),
        wrong: check.is_some_and(|check| !check.is_right()),
        run: done.json,
    })
}

fn whole_json(set: &str, limits: &Limits, peers: &Peers, rows: &[Row]) -> Value {
    let point = |((bytes, time), spread): (&(Bytes, Nanos), &ReadSpread)| json!({ "bytes": bytes.0, "ns": time.0, "spread": spread.all, "steady_spread": spread.steady });
    let read: Vec<_> = limits.read.iter().zip(&limits.read_spread).map(point).collect();
    let runs: Vec<_> = rows
        .iter()
        .map(|row| {
            json!({
                "sample": row.key, "batch_ron": row.batch, "floor_ns": row.floor.time().0,
                "read_floor_ns": row.floor.read.0, "mma_floor_ns": row.floor.products.0, "upload_ns": row.upload.0,
                "peers_ns": peers.json(&row.peers), "run": row.run,
            })
        })
        .collect();
    json!({ "schema": SCHEMA, "set": set, "l2": "cold", "cold_read": read, "mma_flops": limits.flops, "runs": runs })
}

fn text(args: &BenchArgs, set: &str, limits: &Limits, (peers, rows): (&Peers, &[Row])) -> String {
    let mut headings: Vec<String> =
        ["sample", "scheduler", "strategy", "median", "min", "max", "spread", "steady", "floor", "over floor"]
            .map(str::to_owned)
            .to_vec();
    headings.extend(peers.names.iter().map(|name| format!("over {name}")));
    headings.extend(["traced", "planned", "upload", "error", "bound"].map(str::to_owned));
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(3, &headings);
    for row in rows {
        let run = &row.run;
        let mut cells = vec![row.key.clone(), run.plan.scheduler.clone(), run.plan.strategy.to_owned()];
        cells.extend([run.makespan_ns, run.makespan_min_ns, run.makespan_max_ns].map(|ns| Nanos(ns).to_string()));
        cells.push(figures::percent(run.makespan_p95_ns - run.makespan_p5_ns, run.makespan_ns));
        cells.push(share(run.memory_pauses.as_ref().map(|pauses| pauses.steady_spread)));
        cells.extend([row.floor.time().to_string(), ratio(run.makespan_ns, row.floor.time().0)]);
        cells.extend(row.peers.iter().map(|peer| over(run.makespan_ns, *peer)));
        cells.push(run.probe_overhead.map_or_else(|| "–".to_owned(), |cost| format!("{:+.1}%", 100.0 * cost)));
        cells.extend([Nanos(run.plan.plan_ns.unwrap_or(0)).to_string(), row.upload.to_string()]);
        let error = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.1e}"));
        cells.extend([error(run.check.map(|check| check.max_rel_err)), error(run.check.map(|check| check.bound))]);
        table.row(cells);
    }
    let spreads: Vec<String> = limits
        .read
        .iter()
        .zip(&limits.read_spread)
        .map(|((bytes, _), of)| format!("{bytes} {}", [Some(of.all), of.steady].map(share).join(" · ")))
        .collect();
    let (bytes, time) = limits.read.last().copied().unwrap_or_default();
    format!(
        "{set}: measured, cold L2 (512 MiB written before each run), 5 warm-ups, median of {}, events around the whole call\n\
         spread = from the 5th to the 95th percentile, over the median; steady = the same of the repeats into which equally many pauses of the HBM fell\n\
         spread · steady of as many plain reads: {}\n\
         floor = the larger of the unique bytes on this GPU's read curve ({bytes} in {time}) and the products at {:.0} TFLOP/s, both measured now\n\n{}\n{}",
        args.repeat,
        spreads.join(", "),
        limits.flops / 1e12,
        table.text(),
        means(peers, rows)
    )
}

fn share(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1}%", 100.0 * share))
}

/// Geometric means over the configurations, of each way and of the best way of each.
fn means(peers: &Peers, rows: &[Row]) -> String {
    let mut lines = Vec::new();
    let mut say = |name: &str, rows: &[&Row]| {
        let over = |reference: &dyn Fn(&Row) -> Option<Nanos>| {
            mean(rows.iter().map(|row| (row.run.makespan_ns, reference(row))))
        };
        let mut parts = vec![format!("{name}: {}× floor", over(&|row| Some(row.floor.time())))];
        parts
            .extend(peers.names.iter().enumerate().map(|(at, peer)| format!("{}× {peer}", over(&|row| row.peers[at]))));
        lines.push(parts.join(", "));
    };
    let mut ways: Vec<(&str, &str)> = Vec::new();
    let mut best: Vec<&Row> = Vec::new();
    for row in rows {
        let way = (row.run.plan.scheduler.as_str(), row.run.plan.strategy);
        if !ways.contains(&way) {
            ways.push(way);
        }
        match best.iter_mut().find(|other| other.key == row.key) {
            Some(other) if row.run.makespan_ns < other.run.makespan_ns => *other = row,
            Some(_) => {}
            None => best.push(row),
        }
    }
    for way in &ways {
        let of_way: Vec<&Row> =
            rows.iter().filter(|row| (row.run.plan.scheduler.as_str(), row.run.plan.strategy) == *way).collect();
        say(&format!("{} under {}", way.0, way.1), &of_way);
    }
    if ways.len() > 1 {
        say("best of these", &best);
    }
    format!("geometric means\n{}\n", lines.join("\n"))
}

/// Geometric mean of time over reference, where there is one.
fn mean(pairs: impl Iterator<Item = (u64, Option<Nanos>)>) -> String {
    let (mut logs, mut count) = (0.0, 0_u32);
    for (time, reference) in pairs {
        if let Some(reference) = reference.filter(|reference| reference.0 > 0) {
            logs += (time as f64 / reference.as_f64()).ln();
            count += 1;
        }
    }
    if count == 0 { "–".to_owned() } else { format!("{:.3}", (logs / f64::from(count)).exp()) }
}
