//! A finished set as tables, JSON, CSV and pictures.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::capture::Outputs;
use engine::export::SCHEMA;
use engine::hw::Device;
use engine::plan::Strategy;
use engine::units::Nanos;
use serde_json::json;

use super::claims::{Claim, gain_text, mean, median};
use super::row::{FLASH, PAPERS_DEVICE, STREAMS, Timed, WAYS, Way, sorted_gains};
use crate::cli::args::BenchArgs;
use crate::cli::bench::hybrid::Hybrids;
use crate::cli::commands::pictures::add_pictures;
use crate::cli::fault::Outcome;
use crate::cli::published::{Apart, apart, apart_json};
use crate::cli::table::Table;
use crate::cli::{figures, output};
use crate::picture::plot::{Plot, svg};

/// A finished set.
pub(super) struct Set {
    pub(super) key: &'static str,
    pub(super) ways: &'static [Way; WAYS.len()],
    pub(super) rows: Vec<Timed>,
    pub(super) summary: String,
    pub(super) claims: Vec<Claim>,
    /// What the paper reports that stands beside nothing here.
    pub(super) apart: Vec<Apart>,
    pub(super) plot: Plot,
}

/// One line a batch.
pub(super) fn every_row(rows: &[Timed], ways: &[Way]) -> String {
    let headings: Vec<&str> = ["batch"].into_iter().chain(ways.iter().map(|way| way.name)).chain(["oracle"]).collect();
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
pub(super) fn spread(rows: &[Timed]) -> String {
    let mut table = Table::new(1, &["way", "least", "median", "mean", "most", "slower than serial"]);
    for (at, way) in WAYS.iter().enumerate().skip(STREAMS) {
        let gains = sorted_gains(rows, at);
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

pub(super) fn finish(set: &Set, device: &Device, args: &BenchArgs, hybrids: Option<&Hybrids>) -> Outcome<ExitCode> {
    let claims = claims_table(&set.claims);
    let told = if set.claims.is_empty() { String::new() } else { format!("\n{claims}{}", apart(&set.apart)) };
    let files = write_files(set, &args.output)?;
    if args.json {
        let (runs, batches) = hybrids.map_or_else(Default::default, Hybrids::json);
        let comparison = as_object(set, device);
        output::print_json(&json!({ "schema": SCHEMA, "set": set.key, "l2": "cold", "runs": runs,
            "batches": batches, "comparison": comparison }))?;
    } else {
        let remark = if device.key == PAPERS_DEVICE {
            String::new()
        } else {
            format!("; the paper measured on {PAPERS_DEVICE}, give --device {PAPERS_DEVICE} to compare with it")
        };
        let own = hybrids.map_or_else(String::new, |hybrids| format!("\n{}", hybrids.text(set.key, device)));
        output::print(&format!(
            "{} on {} with FlashAttention 2's and POD's kernels, cold L2, all times {}, the same constants for every batch{remark}\n\n{}{told}{own}",
            set.key,
            device.name,
            figures::simulated(device),
            set.summary,
        ))?;
    }
    for file in files {
        output::note(&format!("wrote {}", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn as_object(set: &Set, device: &Device) -> serde_json::Value {
    let cases = set.rows.iter().map(|row| {
        let ways = set.ways.iter().zip(row.times).map(|(way, time)| {
            let pod = (way.strategy == Strategy::Fused).then(|| way.pod.name());
            json!({ "scheduler": FLASH, "strategy": way.strategy.name(), "pod": pod, "makespan_ns": time.0 })
        });
        json!({ "case": row.name, "oracle_ns": row.oracle.round() as u64, "ways": ways.collect::<Vec<_>>() })
    });
    let claims = set.claims.iter().map(
        |claim| json!({ "what": claim.what, "published": claim.paper, "simulated": claim.got, "agrees": claim.agrees, "near": claim.near }),
    );
    json!({ "source": "simulated", "calibrated": device.calibrated, "cases": cases.collect::<Vec<_>>(), "published": claims.collect::<Vec<_>>(),
        "not_compared": apart_json(&set.apart) })
}

/// The table of every batch as CSV, and the plot.
fn write_files(set: &Set, folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut outputs = Outputs::default();
    outputs.folder(folder, "writing the benchmark's folder")?;
    let at = |ending: &str| folder.join(format!("bench-{}.{ending}", set.key));
    let names = set.ways.iter().map(|way| format!("{}_ns", way.name.replace([' ', '-'], "_")));
    let mut csv = format!("batch,{},oracle_ns\n", names.collect::<Vec<_>>().join(","));
    for row in &set.rows {
        let times: Vec<String> = row.times.iter().map(|time| time.0.to_string()).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(csv, "\"{}\",{},{:.0}", row.name, times.join(","), row.oracle);
    }
    outputs.add(&at("csv"), "writing a table", csv.as_bytes())?;
    add_pictures(&mut outputs, &svg(&set.plot), Some(&at("svg")), Some(&at("png")))?;
    Ok(outputs.commit()?)
}
