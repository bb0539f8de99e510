//! The sound captures that damage begins with.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context as _, Result, anyhow};
use engine::cancel::Cancel;
use engine::capture::{self, L2State};
use engine::hw;
use engine::metrics;
use engine::plan::Strategy;
use engine::session::{self, PlanOptions, RunOptions};
use engine::workload::{AttentionShape, BatchSpec, parse_decode, parse_prefill, parse_tree};

/// (tree, decodes, prefill, scheduler, strategy) of the simulated ones. The last has spans for two chunks.
const FRESH: [(&str, &str, &str, &str, Strategy); 9] = [
    ("1,2,8_64,64,33", "", "", "pat", Strategy::Streams),
    ("1,4,16_128,32,32", "", "", "min-traffic", Strategy::Fused),
    ("1,8_512,64", "4x300", "", "query-centric", Strategy::Serial),
    ("1,2,8_256,64,64", "", "", "flashforge", Strategy::Serial),
    ("1,2,8_256,64,64", "", "", "cascade", Strategy::Streams),
    ("1,4_256,64", "", "128@512", "pat", Strategy::HFuse),
    ("1,4_256,64", "", "128@512", "pat", Strategy::CtaParallel),
    ("1,4_256,64", "", "128@512", "pat", Strategy::Fused),
    ("1,9000_32,32", "", "", "query-centric", Strategy::Serial),
];

/// The files of all of them, made once a process.
pub(super) fn all() -> Result<&'static [Vec<u8>]> {
    static BASES: OnceLock<Result<Vec<Vec<u8>>>> = OnceLock::new();
    BASES.get_or_init(make).as_ref().map(Vec::as_slice).map_err(|error| anyhow!("{error:#}"))
}

fn make() -> Result<Vec<Vec<u8>>> {
    let mut bases = Vec::new();
    let mut kept: Vec<_> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    kept.retain(|path| path.extension().is_some_and(|extension| extension == "pscope"));
    kept.sort();
    for path in kept {
        bases.push(fs::read(&path).with_context(|| path.display().to_string())?);
    }
    for fresh in FRESH {
        bases.push(simulated(fresh).with_context(|| format!("{fresh:?}"))?);
    }
    Ok(bases)
}

fn simulated((tree, decode, prefill, scheduler, strategy): (&str, &str, &str, &str, Strategy)) -> Result<Vec<u8>> {
    let mut spec: BatchSpec = parse_tree(tree, AttentionShape::default())?;
    if !decode.is_empty() {
        spec.requests.push(parse_decode(decode)?);
    }
    if !prefill.is_empty() {
        spec.requests.push(parse_prefill(prefill)?);
    }
    let base = PlanOptions::new(hw::builtin().first().context("there is no built-in device")?);
    let options = PlanOptions { scheduler: scheduler.to_owned(), strategy, ..base };
    let planned = session::plan_spec(&spec, &options)?;
    let how = RunOptions { repeats: 1, l2: L2State::Cold, command: "soak".to_owned(), ..RunOptions::default() };
    let mut run = session::simulate(&planned, &how, &Cancel::default())?;
    let series = metrics::bandwidth_over_time(&run.plan, &run, 50);
    run.counters.push(series);
    Ok(capture::to_bytes(&run)?)
}
