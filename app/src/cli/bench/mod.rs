//! `bench`: the published configurations, one row each, beside the least time that their
//! compulsory bytes allow; and the comparison of each set, with the paper's numbers beside ours.

mod hybrid;
mod lazy;
mod measured;
mod peers;
mod pod;
mod random;
mod serving;
mod trace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use engine::capture::Outputs;
use engine::export::{RunJson, SCHEMA};
use engine::hw::Device;
use engine::metrics;
use engine::session::{self, PlanOptions, RunOptions, Runner};
use engine::units::{Bytes, Nanos};
use engine::workload::{self, Batch, BatchSpec};
use serde_json::json;

use self::peers::Peers;
use crate::cli::args::{BenchArgs, BenchSet};
use crate::cli::commands::pictures::add_pictures;
use crate::cli::fault::{Fault, Outcome};
use crate::cli::figures::{percent, ratio};
use crate::cli::published::Outcomes;
use crate::cli::sets::{Case, Set, Way};
use crate::cli::table::Table;
use crate::cli::{figures, input, interrupt, output, published, sets};
use crate::picture::bars::Bars;

/// The command.
pub(crate) fn bench(args: &BenchArgs) -> Outcome<ExitCode> {
    let file = args.peers.as_deref();
    if args.set == BenchSet::LazyUpdate {
        Peers::refuse(file, "lazy-update")?;
        return lazy::lazy(args);
    }
    let (device, mut runner) = input::setup(&args.device)?;
    let set = sets::set(args.set, workload::parse_heads(&args.heads)?)?;
    let options = input::bench_options(&device, &args.choice)?;
    let Some(set) = set else {
        return every_way(args, &device, &mut runner);
    };
    if runner.device().is_some() {
        return measured::bench(args, &set, &device, runner);
    }
    // The chosen way alone, on the sets whose rows are a contract.
    let key = set.key;
    let (peers, alone) = if args.set == BenchSet::PatFigure10 {
        let peers = Peers::read(file, key, &set.cases)?;
        let alone = chosen(key, &set.cases, (&options, &peers), runner)?;
        (peers, alone)
    } else {
        Peers::refuse(file, key)?;
        (Peers::default(), Vec::new())
    };
    let compared = compare(set, &device, &args.output)?;
    if args.json {
        let runs: Vec<_> = alone.iter().map(|row| row.json(&peers)).collect();
        let json = compared.json(&device);
        output::print_json(&json!({ "schema": SCHEMA, "set": key, "l2": "cold", "runs": runs, "comparison": json }))?;
    } else {
        let told = if alone.is_empty() { String::new() } else { text(key, &device, &alone) };
        let told = format!("{told}\n{}{}", beside(&peers, &alone), compared.text);
        output::print(told.trim_start())?;
    }
    for file in &compared.files {
        output::note(&format!("wrote {}", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The sets that compare ways of running, not ways of packing alone.
fn every_way(args: &BenchArgs, device: &Device, runner: &mut Runner) -> Outcome<ExitCode> {
    let measured = runner.device().is_some();
    match args.set {
        BenchSet::Random => {
            Peers::refuse(args.peers.as_deref(), "random")?;
            random::bench(args, device, runner)
        }
        BenchSet::Trace => random::bench(args, device, runner),
        BenchSet::RandomHybrid => {
            Peers::refuse(args.peers.as_deref(), "random-hybrid")?;
            hybrid::bench(args, "random-hybrid", device, runner)
        }
        BenchSet::PatServing | BenchSet::PodServing => {
            Peers::refuse(args.peers.as_deref(), "the serving sets")?;
            serving::refuse_gpu(measured)?;
            serving::bench(args, device)
        }
        BenchSet::Hybrid if measured => hybrid::bench(args, "hybrid", device, runner),
        BenchSet::Hybrid => pod::bench(device, args, Some(&hybrid::run(args, device, runner)?)),
        _ if measured => Err(Fault::input(
            "the sets of POD-Attention's figures are simulated, with its kernels",
            "use --backend sim, or --set hybrid to run hybrid batches on the GPU",
        )),
        _ => {
            Peers::refuse(args.peers.as_deref(), "a figure of POD-Attention")?;
            pod::bench(device, args, None)
        }
    }
}

/// A case of a set under the chosen way.
pub(crate) struct Chosen {
    name: String,
    floor: u64,
    /// Times of peers, in the order of their names.
    peers: Vec<Option<Nanos>>,
    run: RunJson,
}

impl Chosen {
    pub(crate) fn json(&self, peers: &Peers) -> serde_json::Value {
        json!({ "sample": self.name, "floor_ns": self.floor, "peers_ns": peers.json(&self.peers), "run": self.run })
    }
}

/// The chosen way beside peers; empty without them.
pub(crate) fn beside(peers: &Peers, rows: &[Chosen]) -> String {
    let source = rows.first().map_or("", |row| row.run.source_words());
    let rows: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.run.makespan_ns, row.peers.as_slice())).collect();
    let table = peers.table(source, &rows);
    if table.is_empty() { table } else { format!("{table}\n") }
}

/// The cases of a set under the chosen way.
fn chosen(
    set: &str,
    cases: &[Case],
    (options, peers): (&PlanOptions, &Peers),
    mut runner: Runner,
) -> Outcome<Vec<Chosen>> {
    let bar = output::progress(cases.len() as u64, set);
    let mut rows = Vec::new();
    for case in cases {
        let run = figures::finish(&mut runner, &case.spec, options, &figures::cold(figures::REPEATS))?.json;
        let floor = floor_ns(&run, &options.device);
        rows.push(Chosen { name: case.name.clone(), floor, peers: peers.of(case), run });
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(rows)
}

/// A set under all its ways.
struct Compared {
    set: Set,
    came: Outcomes,
    /// Why a way refused a case: (case, way, sentence).
    refused: Vec<(usize, usize, String)>,
    text: String,
    files: Vec<PathBuf>,
}

/// Runs every case every way; writes the table and the plot.
fn compare(set: Set, device: &Device, folder: &Path) -> Outcome<Compared> {
    let bar = output::progress((set.cases.len() * set.ways.len()) as u64, set.key);
    let (mut came, mut refused): (Outcomes, Vec<(usize, usize, String)>) = Default::default();
    for (case_at, case) in set.cases.iter().enumerate() {
        let spec = Arc::new(case.spec.clone());
        let batch = Arc::new(spec.build()?);
        let device = set.device_of(case_at, device)?;
        let (mut times, mut bytes) = (Vec::new(), Vec::new());
        for (way_at, way) in set.ways.iter().enumerate() {
            let (time, issued) = match outcome(&spec, &batch, *way, device) {
                Ok((time, issued)) => (Some(time), Some(issued)),
                Err(engine::Error::Unsupported { who, limit }) => {
                    refused.push((case_at, way_at, format!("{who}: {limit}")));
                    (None, None)
                }
                Err(error) => return Err(error.into()),
            };
            times.push(time);
            bytes.push(issued);
            bar.inc(1);
        }
        came.times.push(times);
        came.bytes.push(bytes);
    }
    bar.finish_and_clear();
    let text = comparison_text(&set, device, &came, &refused);
    let bars = Bars {
        title: format!(
            "{} on {}, {}, factor to {}",
            set.key,
            device.name,
            figures::simulated(device),
            set.ways[0].scheduler
        ),
        cases: set.cases.iter().map(|case| case.name.clone()).collect(),
        ways: set.ways.iter().map(|way| way.scheduler.to_owned()).collect(),
        values: came.times.clone(),
    };
    let files = write_files(&bars, &text, set.key, folder)?;
    Ok(Compared { set, came, refused, text, files })
}

/// The makespan in ns, and the bytes that the CTAs issue.
fn outcome(spec: &Arc<BatchSpec>, batch: &Arc<Batch>, way: Way, device: &Device) -> engine::Result<(f64, f64)> {
    let options = PlanOptions {
        scheduler: way.scheduler.to_owned(),
        strategy: way.strategy,
        explain: false,
        ..PlanOptions::new(device)
    };
    let planned = session::plan_batch(spec, batch, &options)?;
    let issued = metrics::traffic(&planned.plan, &planned.batch, &planned.tree).issued();
    let capture = session::simulate(&planned, &RunOptions::default(), interrupt::cancel())?;
    Ok((capture.makespan().as_f64(), issued.as_f64()))
}

fn write_files(bars: &Bars, text: &str, key: &str, folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut outputs = Outputs::default();
    outputs.folder(folder, "writing the benchmark's folder")?;
    let [table, svg, png] = ["txt", "svg", "png"].map(|end| folder.join(format!("bench-{key}.{end}")));
    outputs.add(&table, "writing the table", text.as_bytes())?;
    add_pictures(&mut outputs, &bars.svg(), Some(&svg), Some(&png))?;
    Ok(outputs.commit()?)
}

fn comparison_text(set: &Set, device: &Device, came: &Outcomes, refused: &[(usize, usize, String)]) -> String {
    let mut headings = vec!["case"];
    headings.extend(set.ways.iter().map(|way| way.scheduler));
    let mut table = Table::new(1, &headings);
    for (case, row) in set.cases.iter().zip(&came.times) {
        let mut cells = vec![case.name.clone()];
        cells.extend(row.iter().enumerate().map(|(way, time)| match (time, row[0]) {
            (None, _) => "refused".to_owned(),
            (Some(time), Some(first)) if way > 0 => ratio(*time as u64, first as u64),
            (Some(time), _) => Nanos(*time as u64).to_string(),
        }));
        table.row(cells);
    }
    let mut why: Vec<&str> = refused.iter().map(|(_, _, why)| why.as_str()).collect();
    why.sort_unstable();
    why.dedup();
    let refusals = why.iter().fold(String::new(), |told, why| format!("{told}refused by {why}\n"));
    format!(
        "{} compared on {}: {} under {}, factors of the others to it; all {}, cold L2, the same constants for every case\n\n{}{}\n{refusals}\n{}{}",
        set.key,
        device.name,
        set.ways[0].scheduler,
        set.ways[0].strategy.name(),
        figures::simulated(device),
        table.text(),
        figures::expected(device.expected_error),
        published::table(&set.claims, came),
        published::apart(&set.apart),
    )
}

impl Compared {
    fn json(&self, device: &Device) -> serde_json::Value {
        let rows: Vec<_> = self.set.cases.iter().zip(&self.came.times).enumerate().map(|(at, (case, row))| {
            let ways: Vec<_> = self.set.ways.iter().zip(row).enumerate().map(|(way_at, (way, time))| {
                let why = self.refused.iter().find(|(case, way, _)| (*case, *way) == (at, way_at)).map(|(_, _, why)| why);
                json!({ "scheduler": way.scheduler, "strategy": way.strategy.name(), "makespan_ns": time.map(|t| t as u64), "refused": why })
            }).collect();
            json!({ "case": case.name, "ways": ways })
        }).collect();
        let claims: Vec<_> = self.set.claims.iter().map(|claim| claim.json(&self.came)).collect();
        let apart = published::apart_json(&self.set.apart);
        json!({ "source": "simulated", "calibrated": device.calibrated, "cases": rows, "published": claims,
            "not_compared": apart })
    }
}

/// The least time in which the compulsory bytes come over the bandwidth that a plain read reaches.
fn floor_ns(run: &RunJson, device: &Device) -> u64 {
    (run.plan.traffic.compulsory_bytes as f64 / device.reachable_bytes_per_s() * 1e9).ceil() as u64
}

fn text(set: &str, device: &Device, rows: &[Chosen]) -> String {
    let headings = ["sample", "median", "min", "max", "floor", "over floor", "busy", "KV read", "compulsory"];
    let mut table = Table::new(1, &headings);
    for Chosen { name, floor, run, .. } in rows {
        table.row(vec![
            name.clone(),
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
    let choice = rows.first().map_or_else(String::new, |Chosen { run, .. }| {
        format!(
            "{} under {}, {} heads {}/{}",
            run.plan.scheduler,
            run.plan.strategy,
            run.source_words(),
            run.plan.batch.query_heads,
            run.plan.batch.kv_heads
        )
    });
    format!(
        "{set} on {}: {choice}, cold L2\nall times {} (the simulator gives the same time each run); floor = compulsory bytes / {}/s reachable\n\n{}{}",
        device.name,
        figures::simulated(device),
        Bytes(device.reachable_bytes_per_s() as u64),
        table.text(),
        figures::expected(rows.first().and_then(|row| row.run.expected_error))
    )
}
