//! `bench` of hybrid batches: POD-Attention's Figures 6 and 11 and its Table 1, under every strategy,
//! with what the paper reports beside what the simulator gives.
//!
//! Serial, streams, HFuse and CTA-parallel are FlashAttention's kernels (scheduler `query-centric`),
//! as in the paper; `fused` is POD as released and by our choice.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::cancel::Cancel;
use engine::export::SCHEMA;
use engine::hw::Device;
use engine::plan::Strategy;
use engine::plan::hybrid::PodChoice;
use engine::session::{self, PlanOptions, RunOptions};
use engine::units::Nanos;
use engine::workload::{BatchSpec, PodRow, pod_figure_6, pod_figure_11};
use rayon::prelude::*;
use serde_json::json;

use super::args::{BenchArgs, BenchSet};
use super::bench::Chosen;
use super::convert::write_pictures;
use super::fault::Outcome;
use super::table::Table;
use super::{output, sets};
use crate::plot::{Plot, Series, svg};

/// FlashAttention's decode.
const FLASH: &str = "query-centric";
/// The device on which the paper's figures were measured.
const PAPERS_DEVICE: &str = "a100-sxm-80gb";

/// A way of running a hybrid batch.
struct Way {
    name: &'static str,
    strategy: Strategy,
    pod: PodChoice,
}

/// All ways; the first is what the others are compared with.
const WAYS: [Way; 6] = [
    Way { name: "serial", strategy: Strategy::Serial, pod: PodChoice::Released },
    Way { name: "streams", strategy: Strategy::Streams, pod: PodChoice::Released },
    Way { name: "cta-parallel", strategy: Strategy::CtaParallel, pod: PodChoice::Released },
    Way { name: "hfuse", strategy: Strategy::HFuse, pod: PodChoice::Released },
    Way { name: "fused released", strategy: Strategy::Fused, pod: PodChoice::Released },
    Way { name: "fused ours", strategy: Strategy::Fused, pod: PodChoice::Ours },
];
const SERIAL: usize = 0;
const STREAMS: usize = 1;
const HFUSE: usize = 3;
const RELEASED: usize = 4;
const OURS: usize = 5;

/// Makespans of a batch by way, and the least that any can take.
struct Timed {
    name: String,
    times: [Nanos; WAYS.len()],
    oracle: f64,
}

impl Timed {
    fn gain(&self, way: usize) -> f64 {
        self.times[SERIAL].as_f64() / self.times[way].as_f64()
    }
}

/// What a paper says and what came out.
struct Claim {
    what: &'static str,
    paper: &'static str,
    got: String,
    /// Whether it points the same way.
    agrees: bool,
    /// Whether a number is within ten points of the paper's, where it gives one.
    near: Option<bool>,
}

/// Whether a gain is within ten points of the published one.
fn near(gain: f64, paper: f64) -> bool {
    (gain - paper).abs() <= 0.1
}

/// A finished set.
struct Set {
    key: &'static str,
    rows: Vec<Timed>,
    summary: String,
    claims: Vec<Claim>,
    plot: Plot,
}

/// One of the hybrid sets; `chosen` are the rows of the way that the command line chose.
pub(crate) fn bench(device: &Device, args: &BenchArgs, chosen: &[Chosen]) -> Outcome<ExitCode> {
    let set = match args.set {
        BenchSet::PodFigure6 => figure_6(device)?,
        BenchSet::PodFigure11 => figure_11(device)?,
        _ => table_1(device)?,
    };
    finish(&set, device, args, chosen)
}

/// `--set pod-figure-6`.
fn figure_6(device: &Device) -> Outcome<Set> {
    let rows = timed("pod-figure-6", &specs(&pod_figure_6()), device)?;
    let (few, many) = rows.split_at(rows.len() / 2);
    let series = [(few, 54), (many, 55)].into_iter().flat_map(|(rows, decodes)| {
        [SERIAL, STREAMS, HFUSE, RELEASED].map(|way| Series {
            name: format!("{} {decodes}", WAYS[way].name),
            look: (way, usize::from(decodes == 55)),
            points: rows.iter().enumerate().map(|(at, row)| (at as f64, row.times[way].as_f64() * 1e-6)).collect(),
        })
    });
    let plot =
        plot("POD Figure 6: Yi-6B, chunks of 512 of 16K, 54 and 55 decodes", device, "chunk", "ms", series.collect());
    let claims = claims_of_6(few, many);
    let summary = every_row(&rows);
    Ok(Set { key: "pod-figure-6", summary, claims, plot, rows })
}

/// `--set pod-figure-11`.
fn figure_11(device: &Device) -> Outcome<Set> {
    let rows = timed("pod-figure-11", &specs(&pod_figure_11()), device)?;
    let sorted = |way: usize| {
        let mut gains: Vec<f64> = rows.iter().map(|row| row.gain(way)).collect();
        gains.sort_by(f64::total_cmp);
        gains
    };
    let series = (STREAMS..WAYS.len()).map(|way| {
        let gains = sorted(way);
        let share = |at: usize| 100.0 * at as f64 / gains.len() as f64;
        // A point each half per cent is as fine as the picture shows.
        let points = (0..gains.len()).step_by((gains.len() / 200).max(1)).map(|at| (share(at), gains[at]));
        Series { name: WAYS[way].name.to_owned(), look: (way, way), points: points.collect() }
    });
    let title = "POD Figure 11: speed-up over serial, 4,410 batches sorted";
    let plot = plot(title, device, "% of batches", "speed-up over serial", series.collect());
    let claims = claims_of_11(&rows);
    let summary = spread(&rows);
    Ok(Set { key: "pod-figure-11", summary, claims, plot, rows })
}

/// `--set hybrid`.
fn table_1(device: &Device) -> Outcome<Set> {
    let specs: Vec<BatchSpec> = sets::hybrid()?.into_iter().map(|case| case.spec).collect();
    let rows = timed("hybrid", &specs, device)?;
    let series = (0..WAYS.len()).map(|way| Series {
        name: WAYS[way].name.to_owned(),
        look: (way, way),
        points: rows.iter().enumerate().map(|(at, row)| (at as f64, row.times[way].as_f64() * 1e-6)).collect(),
    });
    let plot = plot("POD Table 1: C0, C1, C2", device, "configuration", "ms", series.collect());
    let summary = every_row(&rows);
    Ok(Set { key: "hybrid", summary, claims: Vec::new(), plot, rows })
}

fn specs(rows: &[PodRow]) -> Vec<BatchSpec> {
    rows.iter().map(PodRow::spec).collect()
}

fn plot(what: &str, device: &Device, across: &str, upward: &str, series: Vec<Series>) -> Plot {
    Plot {
        title: format!("{what} · {} (simulated)", device.name),
        across: across.to_owned(),
        upward: upward.to_owned(),
        series,
    }
}

/// Every batch under every way, on as many threads as there are cores; the order does not depend on
/// them.
fn timed(set: &'static str, specs: &[BatchSpec], device: &Device) -> Outcome<Vec<Timed>> {
    let bar = output::progress(specs.len() as u64, set);
    let rows = specs.par_iter().map(|spec| {
        let row = one(spec, device);
        bar.inc(1);
        row
    });
    let rows = rows.collect();
    bar.finish_and_clear();
    rows
}

fn one(spec: &BatchSpec, device: &Device) -> Outcome<Timed> {
    let mut times = [Nanos::ZERO; WAYS.len()];
    let mut oracle = 0.0;
    for (time, way) in times.iter_mut().zip(&WAYS) {
        let options = PlanOptions {
            scheduler: FLASH.to_owned(),
            strategy: way.strategy,
            pod: way.pod,
            explain: false,
            ..PlanOptions::new(device)
        };
        let planned = session::plan_spec(spec, &options)?;
        let run = RunOptions { repeats: 1, command: super::command_line(), ..RunOptions::default() };
        *time = session::simulate(&planned, &run, &Cancel::default())?.makespan();
        oracle = session::oracle_ns(&planned);
    }
    Ok(Timed { name: spec.name.clone(), times, oracle })
}

fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NEG_INFINITY, f64::max)
}

fn least(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

fn gain_text(gain: f64) -> String {
    format!("{:+.1} %", 100.0 * (gain - 1.0))
}

fn claims_of_6(few: &[Timed], many: &[Timed]) -> Vec<Claim> {
    let streams = |rows: &[Timed]| most(rows.iter().map(|row| row.gain(STREAMS)));
    let serial = most(few.iter().zip(many).map(|(few, many)| many.times[SERIAL].as_f64() / few.times[SERIAL].as_f64()));
    let flat = mean(few.iter().zip(many).map(|(few, many)| many.times[STREAMS].as_f64() / few.times[STREAMS].as_f64()));
    let first = many[0].times[SERIAL].as_f64() / few[0].times[SERIAL].as_f64();
    let all = || few.iter().chain(many);
    let next_best =
        most(all().map(|row| row.times[STREAMS].min(row.times[HFUSE]).as_f64() / row.times[RELEASED].as_f64()));
    // Of both halves of each run of chunks, the mean of a figure of its rows.
    let halves = |figure: &dyn Fn(&Timed) -> f64| {
        let half = |rows: &[Timed], late: bool| {
            let (early, rest) = rows.split_at(rows.len() / 2);
            mean(if late { rest } else { early }.iter().map(figure))
        };
        (half(few, false).midpoint(half(many, false)), half(few, true).midpoint(half(many, true)))
    };
    let (early, late) = halves(&|row| row.gain(HFUSE));
    let behind = halves(&|row| row.times[HFUSE].as_f64() / row.times[RELEASED].as_f64());
    let beats =
        all().filter(|row| [SERIAL, STREAMS, HFUSE].iter().all(|way| row.times[RELEASED] <= row.times[*way])).count();
    vec![
        Claim {
            what: "most that streams gain over serial, at 55 decodes",
            paper: "up to +20 %",
            got: format!("{} (at 54: {})", gain_text(streams(many)), gain_text(streams(few))),
            agrees: streams(many) > streams(few) + 0.02,
            near: Some(near(streams(many), 1.2)),
        },
        Claim {
            what: "most that serial grows from 54 to 55 decodes",
            paper: "up to +17 %",
            got: gain_text(serial),
            agrees: serial > 1.05,
            near: Some(near(serial, 1.17)),
        },
        Claim {
            what: "growth of serial in the first chunk, nearly all decode",
            paper: "more than +25 % in decode",
            got: gain_text(first),
            agrees: first > 1.05,
            near: Some(near(first, 1.25)),
        },
        Claim {
            what: "growth of streams from 54 to 55 decodes, mean",
            paper: "about none",
            got: gain_text(flat),
            agrees: flat < 1.1,
            near: Some(near(flat, 1.0)),
        },
        Claim {
            what: "HFuse over serial in the first half, and in the second",
            paper: "degrades in late chunks",
            got: format!("{}, {}", gain_text(early), gain_text(late)),
            agrees: late < early,
            near: None,
        },
        Claim {
            what: "time of HFuse over that of POD in the first half, and in the second",
            paper: "falls behind in late chunks",
            got: format!("{}, {}", gain_text(behind.0), gain_text(behind.1)),
            agrees: behind.1 > behind.0 + 0.02,
            near: None,
        },
        Claim {
            what: "most that POD gains over the better of streams and HFuse",
            paper: "up to +29 %",
            got: gain_text(next_best),
            agrees: next_best > 1.1,
            near: Some(near(next_best, 1.29)),
        },
        Claim {
            what: "batches in which POD is faster than serial, streams and HFuse",
            paper: "all",
            got: format!("{beats} of {}", few.len() + many.len()),
            agrees: beats == few.len() + many.len(),
            near: None,
        },
    ]
}

fn claims_of_11(rows: &[Timed]) -> Vec<Claim> {
    let gains = |way: usize| rows.iter().map(move |row| row.gain(way));
    let mut hfuse: Vec<f64> = gains(HFUSE).collect();
    hfuse.sort_by(f64::total_cmp);
    let within = |way: usize| {
        let near = rows.iter().filter(|row| row.times[way].as_f64() <= 1.1 * row.oracle).count();
        100.0 * near as f64 / rows.len().max(1) as f64
    };
    let slower = |way: usize| gains(way).filter(|gain| *gain < 1.0).count();
    let pod = |figure: &dyn Fn(usize) -> String| format!("{} (ours: {})", figure(RELEASED), figure(OURS));
    let peak = most(gains(RELEASED));
    let average = mean(gains(RELEASED));
    let better = [STREAMS, HFUSE].into_iter().all(|way| average > mean(gains(way)));
    vec![
        Claim {
            what: "most that POD gains over serial",
            paper: "+59 %",
            got: pod(&|way| gain_text(most(gains(way)))),
            agrees: peak > 1.0,
            near: Some(near(peak, 1.59)),
        },
        Claim {
            what: "mean that POD gains",
            paper: "+28 %",
            got: pod(&|way| gain_text(mean(gains(way)))),
            agrees: average > 1.0,
            near: Some(near(average, 1.28)),
        },
        Claim {
            what: "POD gains more than streams and HFuse, mean",
            paper: "yes",
            got: if better { "yes" } else { "no" }.to_owned(),
            agrees: better,
            near: None,
        },
        Claim {
            what: "batches in which POD is slower than serial",
            paper: "none",
            got: pod(&|way| slower(way).to_string()),
            agrees: slower(RELEASED) == 0,
            near: None,
        },
        Claim {
            what: "batches within 10 % of the oracle",
            paper: "25 %",
            got: pod(&|way| format!("{:.0} %", within(way))),
            agrees: within(RELEASED) > 0.0,
            near: Some(near(within(RELEASED) / 100.0, 0.25)),
        },
        Claim {
            what: "median that HFuse gains",
            paper: "+11 %",
            got: gain_text(median(&hfuse)),
            agrees: median(&hfuse) > 1.0,
            near: Some(near(median(&hfuse), 1.11)),
        },
        Claim {
            what: "HFuse at its worst",
            paper: "−13 %",
            got: gain_text(least(gains(HFUSE))),
            agrees: least(gains(HFUSE)) < 1.0,
            near: Some(near(least(gains(HFUSE)), 0.87)),
        },
        Claim {
            what: "streams at their worst",
            paper: "below serial in rare cases",
            got: gain_text(least(gains(STREAMS))),
            agrees: least(gains(STREAMS)) < 1.0,
            near: None,
        },
    ]
}

/// One line a batch.
fn every_row(rows: &[Timed]) -> String {
    let headings: Vec<&str> = ["batch"].into_iter().chain(WAYS.iter().map(|way| way.name)).chain(["oracle"]).collect();
    let mut table = Table::new(1, &headings);
    for row in rows {
        let mut cells = vec![row.name.clone()];
        cells.extend(row.times.iter().map(Nanos::to_string));
        cells.push(Nanos(row.oracle as u64).to_string());
        table.row(cells);
    }
    table.text()
}

/// One line a way: its gains over serial.
fn spread(rows: &[Timed]) -> String {
    let mut table = Table::new(1, &["way", "least", "median", "mean", "most", "slower than serial"]);
    for (at, way) in WAYS.iter().enumerate().skip(STREAMS) {
        let mut gains: Vec<f64> = rows.iter().map(|row| row.gain(at)).collect();
        gains.sort_by(f64::total_cmp);
        table.row(vec![
            way.name.to_owned(),
            gain_text(gains.first().copied().unwrap_or(1.0)),
            gain_text(median(&gains)),
            gain_text(mean(gains.iter().copied())),
            gain_text(gains.last().copied().unwrap_or(1.0)),
            format!("{} of {}", gains.iter().filter(|gain| **gain < 1.0).count(), gains.len()),
        ]);
    }
    table.text()
}

/// What the paper says beside what came out: whether it points the same way, and how near it is.
fn claims_table(claims: &[Claim]) -> String {
    let mut table = Table::new(2, &["published", "paper", "simulated", "direction", "size"]);
    for claim in claims {
        let direction = if claim.agrees { "agrees" } else { "DISAGREES" };
        let size = match claim.near {
            Some(true) => "within 10 points",
            Some(false) => "OFF",
            None => "–",
        };
        let texts = [claim.what, claim.paper, &claim.got, direction, size];
        table.row(texts.map(str::to_owned).to_vec());
    }
    table.text()
}

fn finish(set: &Set, device: &Device, args: &BenchArgs, chosen: &[Chosen]) -> Outcome<ExitCode> {
    let claims = claims_table(&set.claims);
    let told = if set.claims.is_empty() { String::new() } else { format!("\n{claims}") };
    let files = write_files(set, &args.output)?;
    if args.json {
        let runs: Vec<_> = chosen.iter().map(Chosen::json).collect();
        let comparison = as_object(set);
        output::print_json(&json!({ "schema": SCHEMA, "set": set.key, "l2": "cold", "runs": runs,
            "comparison": comparison }))?;
    } else {
        let remark = if device.key == PAPERS_DEVICE {
            String::new()
        } else {
            format!("; the paper measured on {PAPERS_DEVICE}, give --device {PAPERS_DEVICE} to compare with it")
        };
        output::print(&format!(
            "{} on {}, cold L2, all times simulated, the same constants for every batch{remark}\n\n{}{told}",
            set.key, device.name, set.summary
        ))?;
    }
    for file in files {
        output::note(&format!("wrote {}", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn as_object(set: &Set) -> serde_json::Value {
    let cases = set.rows.iter().map(|row| {
        let ways = WAYS.iter().zip(row.times).map(|(way, time)| {
            let pod = (way.strategy == Strategy::Fused).then(|| way.pod.name());
            json!({ "scheduler": FLASH, "strategy": way.strategy.name(), "pod": pod, "makespan_ns": time.0 })
        });
        json!({ "case": row.name, "oracle_ns": row.oracle.round() as u64, "ways": ways.collect::<Vec<_>>() })
    });
    let claims = set.claims.iter().map(
        |claim| json!({ "what": claim.what, "published": claim.paper, "simulated": claim.got, "agrees": claim.agrees, "near": claim.near }),
    );
    json!({ "source": "simulated", "cases": cases.collect::<Vec<_>>(), "published": claims.collect::<Vec<_>>() })
}

/// The table of every batch as CSV, and the plot.
fn write_files(set: &Set, folder: &Path) -> Outcome<Vec<PathBuf>> {
    std::fs::create_dir_all(folder).map_err(engine::Error::io("writing the benchmark's folder", folder))?;
    let at = |ending: &str| folder.join(format!("bench-{}.{ending}", set.key));
    let names = WAYS.iter().map(|way| format!("{}_ns", way.name.replace([' ', '-'], "_")));
    let mut csv = format!("batch,{},oracle_ns\n", names.collect::<Vec<_>>().join(","));
    for row in &set.rows {
        let times: Vec<String> = row.times.iter().map(|time| time.0.to_string()).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(csv, "\"{}\",{},{:.0}", row.name, times.join(","), row.oracle);
    }
    engine::capture::write_atomically(&at("csv"), "writing a table", csv.as_bytes())?;
    let mut files = vec![at("csv")];
    files.extend(write_pictures(&svg(&set.plot), Some(&at("svg")), Some(&at("png")))?);
    Ok(files)
}
