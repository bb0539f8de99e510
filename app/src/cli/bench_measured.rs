//! `bench` on a GPU: each configuration under each way, beside its floor and what peers take.

use std::path::Path;
use std::process::ExitCode;

use engine::cancel::Cancel;
use engine::export::{RunJson, SCHEMA};
use engine::hw::Device;
use engine::metrics::{Floor, Limits};
use engine::session::{self, PlanOptions, Runner};
use engine::units::Nanos;
use serde_json::{Value, json};

use super::args::BenchArgs;
use super::fault::{FAILED, Fault, Outcome};
use super::figures::ratio;
use super::sets::{Case, Set};
use super::table::Table;
use super::{figures, input, output};

/// One configuration under one way.
struct Row {
    key: String,
    floor: Floor,
    /// Times of peers by name, in the order of [`Peers::names`].
    peers: Vec<Option<Nanos>>,
    upload: Nanos,
    run: RunJson,
}

/// The command, on a GPU.
pub(crate) fn bench(args: &BenchArgs, set: &Set, device: &Device, mut runner: Runner) -> Outcome<ExitCode> {
    let peers = args.peers.as_deref().map(Peers::read).transpose()?.unwrap_or_default();
    let choice = &args.choice;
    let schedulers = or(&args.schedulers, &choice.scheduler);
    let ways = input::ways(device, schedulers, or(&args.strategies, &choice.strategy), &choice.rules)?;
    let bar = output::progress(set.cases.len() as u64 + 1, set.key);
    let Some(limits) = runner.limits()? else { return Err(Fault::failed("the GPU did not give its limits")) };
    bar.inc(1);
    let mut rows = Vec::new();
    for configuration in &set.cases {
        for way in &ways {
            rows.push(measure(args, configuration, way, (&mut runner, &limits, &peers))?);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let bound = |row: &Row| runner.check_bound(row.run.plan.batch.dtype.parse().unwrap_or_default());
    let is_wrong =
        |row: &Row| row.run.check.is_some_and(|check| check.max_rel_err.is_nan() || check.max_rel_err > bound(row));
    let wrong = rows.iter().filter(|row| is_wrong(row)).count();
    if args.json {
        output::print_json(&whole_json(set.key, &limits, &peers, &rows))?;
    } else {
        output::print(&text(set.key, &limits, &peers, &rows))?;
    }
    if wrong > 0 {
        output::note(&format!("the outputs of {wrong} runs differ from the f64 reference by more than they may"));
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
        args.check.then(|| runner.check(&planned, u64::from(std::process::id()), &Cancel::default())).transpose()?;
    let done = figures::run_planned(runner, &planned, &figures::cold(20), check.as_ref())?;
    Ok(Row {
        key: configuration.name.clone(),
        floor: limits.floor(&planned.batch, &planned.tree),
        peers: peers.of(&configuration.name, &done.json),
        upload: done.capture.times.upload.unwrap_or_default(),
        run: done.json,
    })
}

/// Times of other systems: rows of `config`, `heads` and one `NAME_us` a system. Floors in the file are
/// left out, since this GPU's are measured.
#[derive(Debug, Default)]
struct Peers {
    names: Vec<String>,
    rows: Vec<Value>,
}

impl Peers {
    fn read(path: &Path) -> Outcome<Self> {
        let bad = |what: &str| {
            Fault::input(format!("{}: {what}", path.display()), "it should hold rows of config, heads and NAME_us")
        };
        let text = std::fs::read_to_string(path).map_err(engine::Error::io("reading the peers", path))?;
        let file: Value = serde_json::from_str(&text).map_err(|error| bad(&error.to_string()))?;
        let rows = file["rows"].as_array().cloned().ok_or_else(|| bad("it has no rows"))?;
        let mut names = Vec::new();
        for key in rows.iter().filter_map(Value::as_object).flat_map(|row| row.keys()) {
            if let Some(name) = key.strip_suffix("_us").filter(|name| !name.ends_with("_floor"))
                && !names.iter().any(|known| known == name)
            {
                names.push(name.to_owned());
            }
        }
        Ok(Self { names, rows })
    }

    /// What each peer takes for a configuration, `pat-11` being the eleventh.
    fn of(&self, key: &str, run: &RunJson) -> Vec<Option<Nanos>> {
        let config = key.rsplit('-').next().and_then(|number| number.parse::<u64>().ok());
        let heads = format!("{}/{}", run.plan.batch.query_heads, run.plan.batch.kv_heads);
        let row = self.rows.iter().find(|row| row["config"].as_u64() == config && row["heads"] == heads.as_str());
        let time = |name: &String| Some(Nanos((row?[format!("{name}_us")].as_f64()? * 1e3).round() as u64));
        self.names.iter().map(time).collect()
    }
}

fn whole_json(set: &str, limits: &Limits, peers: &Peers, rows: &[Row]) -> Value {
    let read: Vec<_> = limits.read.iter().map(|(bytes, time)| json!({ "bytes": bytes.0, "ns": time.0 })).collect();
    let runs: Vec<_> = rows
        .iter()
        .map(|row| {
            let peers: serde_json::Map<_, _> = peers
                .names
                .iter()
                .zip(&row.peers)
                .map(|(name, time)| (name.clone(), json!(time.map(|t| t.0))))
                .collect();
            json!({
                "sample": row.key, "floor_ns": row.floor.time().0, "read_floor_ns": row.floor.read.0,
                "mma_floor_ns": row.floor.products.0, "upload_ns": row.upload.0, "peers_ns": peers, "run": row.run,
            })
        })
        .collect();
    json!({ "schema": SCHEMA, "set": set, "l2": "cold", "cold_read": read, "mma_flops": limits.flops, "runs": runs })
}

fn text(set: &str, limits: &Limits, peers: &Peers, rows: &[Row]) -> String {
    let mut headings: Vec<String> =
        ["sample", "scheduler", "strategy", "median", "min", "max", "floor", "over floor"].map(str::to_owned).to_vec();
    headings.extend(peers.names.iter().map(|name| format!("over {name}")));
    headings.extend(["traced", "planned", "upload", "error"].map(str::to_owned));
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(3, &headings);
    for row in rows {
        let run = &row.run;
        let mut cells = vec![row.key.clone(), run.plan.scheduler.clone(), run.plan.strategy.to_owned()];
        cells.extend([run.makespan_ns, run.makespan_min_ns, run.makespan_max_ns].map(|ns| Nanos(ns).to_string()));
        cells.extend([row.floor.time().to_string(), ratio(run.makespan_ns, row.floor.time().0)]);
        cells.extend(
            row.peers.iter().map(|peer| peer.map_or_else(|| "–".to_owned(), |peer| ratio(run.makespan_ns, peer.0))),
        );
        cells.push(run.probe_overhead.map_or_else(|| "–".to_owned(), |cost| format!("{:+.1}%", 100.0 * cost)));
        cells.extend([Nanos(run.plan.plan_ns.unwrap_or(0)).to_string(), row.upload.to_string()]);
        cells.push(run.check.map_or_else(|| "–".to_owned(), |check| format!("{:.1e}", check.max_rel_err)));
        table.row(cells);
    }
    let (bytes, time) = limits.read.last().copied().unwrap_or_default();
    format!(
        "{set}: measured, cold L2 (512 MiB written before each run), 5 warm-ups, median of 20, events around the whole call\n\
         floor = the larger of the unique bytes on this GPU's read curve ({bytes} in {time}) and the products at {:.0} TFLOP/s, both measured now\n\n{}\n{}",
        limits.flops / 1e12,
        table.text(),
        means(peers, rows)
    )
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
