//! Measured runs of one GPU, as `calibrate` fits to them, and the files that hold them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::calibrate::Observed;
use engine::capture::{self, Capture, L2State, Source};
use engine::export::SCHEMA;
use engine::hw::{self, Device};
use engine::metrics::Limits;
use engine::plan::Strategy;
use engine::session::{self, PlanOptions, Planned};
use engine::tile;
use engine::units::{Bytes, Nanos};
use engine::workload::{BatchSpec, PrefixTree};
use serde_json::{Value, json};

use super::args::CalibrateArgs;
use super::fault::{Fault, Outcome};
use super::{convert, input, sets};
use crate::samples;

/// Runs of one GPU.
pub(crate) struct Measured {
    pub(crate) device: Device,
    pub(crate) limits: Option<Limits>,
    pub(crate) runs: Vec<Observed>,
    /// Configuration of each run.
    pub(crate) keys: Vec<String>,
    /// Runs of plans that are other ones by now.
    pub(crate) left_out: usize,
}

impl Measured {
    pub(crate) fn none(device: Device, limits: Option<Limits>) -> Self {
        Self { device, limits, runs: Vec::new(), keys: Vec::new(), left_out: 0 }
    }

    /// Writes the runs in the form that [`read_all`] reads: what it needs of `bench --json`.
    pub(crate) fn write(&self, path: &Path) -> engine::Result<()> {
        let runs: Vec<Value> = self.keys.iter().zip(&self.runs).map(|(key, run)| row(&self.device, key, run)).collect();
        let mut file = json!({ "schema": SCHEMA, "set": "calibrate", "runs": runs });
        if let Some(limits) = &self.limits {
            file["cold_read"] = limits.read.iter().map(|(bytes, ns)| json!({ "bytes": bytes.0, "ns": ns.0 })).collect();
            file["mma_flops"] = json!(limits.flops);
        }
        capture::write_atomically(path, "writing the measured runs", file.to_string().as_bytes())
    }
}

/// The row of one run.
fn row(device: &Device, key: &str, run: &Observed) -> Value {
    let (plan, shape) = (&run.planned.plan, &run.planned.batch.shape);
    json!({ "sample": key, "run": {
        "source": "measured", "device": device.key, "scheduler": plan.scheduler, "strategy": plan.strategy.name(),
        "batch": { "query_heads": shape.query_heads, "kv_heads": shape.kv_heads }, "packs": plan.packs.len(),
        "partials": plan.queries.len(), "plan_crc": plan.crc(), "l2": run.l2, "makespan_ns": run.measured.0,
    } })
}

/// Runs that `bench --json` wrote, and captures; all of one GPU.
pub(crate) fn read_all(args: &CalibrateArgs) -> Outcome<Measured> {
    let mut all: Option<Measured> = None;
    let (captures, benches): (Vec<&PathBuf>, Vec<&PathBuf>) =
        args.from.iter().partition(|path| path.extension().is_some_and(|extension| extension == "pscope"));
    for path in benches {
        let text = std::fs::read_to_string(path).map_err(engine::Error::io("reading the measured runs", path))?;
        let file: Value = serde_json::from_str(&text).map_err(|error| bad(path, &error.to_string()))?;
        let runs =
            file["runs"].as_array().filter(|runs| !runs.is_empty()).ok_or_else(|| bad(path, "it has no runs"))?;
        let of_first = runs[0]["run"]["device"].as_str().unwrap_or_default();
        let device = device_of(args, of_first)?;
        let all = all.get_or_insert_with(|| Measured::none(device, limits_of(&file)));
        for row in runs {
            let Some(observed) = observed(&all.device, row).map_err(|what| bad(path, &what))? else {
                all.left_out += 1;
                continue;
            };
            all.runs.push(observed);
            all.keys.push(row["sample"].as_str().unwrap_or_default().to_owned());
        }
    }
    for path in captures {
        let capture = convert::load(path)?.capture;
        if all.is_none() {
            all = Some(Measured::none(device_of(args, &capture.provenance.device)?, None));
        }
        if let Some(all) = &mut all {
            all.keys.push(capture.batch.name.clone());
            all.runs.push(captured(&all.device, path, capture)?);
        }
    }
    all.filter(|all| !all.runs.is_empty()).ok_or_else(|| Fault::failed("there are no measured runs of today's plans"))
}

/// The device that is asked for, else the one of that name.
fn device_of(args: &CalibrateArgs, name: &str) -> Outcome<Device> {
    Ok(match &args.device.device {
        Some(_) => input::device(&args.device)?,
        None => hw::find(name)?.clone(),
    })
}

/// The run of a capture, with the plan that it ran.
fn captured(device: &Device, path: &Path, capture: Capture) -> Outcome<Observed> {
    if capture.provenance.source != Source::Measured || capture.provenance.device != device.key {
        let what = format!("{}: it was not measured on {}", path.display(), device.name);
        return Err(Fault::input(what, "give captures that `run` wrote on that GPU"));
    }
    let batch = capture.batch.build()?;
    let options = PlanOptions {
        scheduler: capture.plan.scheduler.clone(),
        strategy: capture.plan.strategy,
        ..PlanOptions::new(device)
    };
    let (measured, l2) = (capture.times.spread().median, capture.times.l2);
    let planned = Planned {
        tree: Arc::new(PrefixTree::of(&batch)),
        tiles: Arc::new(tile::solve(device, batch.shape.head_dim, batch.shape.dtype)),
        spec: Arc::new(capture.batch),
        batch: Arc::new(batch),
        plan: Arc::new(capture.plan),
        options: Arc::new(options),
        plan_time: Duration::ZERO,
    };
    Ok(Observed { planned, measured, l2 })
}

fn bad(path: &Path, what: &str) -> Fault {
    Fault::input(
        format!("{}: {what}", path.display()),
        "it should be what `packscope bench --json` of this version wrote on a GPU",
    )
}

/// The run of one row, planned again; `None` where its plan does not come out as it was.
fn observed(device: &Device, row: &Value) -> Result<Option<Observed>, String> {
    let key = row["sample"].as_str().ok_or("a run names no sample")?;
    let run = &row["run"];
    if run["source"] != "measured" || run["device"] != device.key.as_str() {
        return Err(format!("the run of {key} was not measured on {}", device.name));
    }
    let whole = |value: &Value| value.as_u64().and_then(|value| u32::try_from(value).ok());
    let strategy = Strategy::ALL.into_iter().find(|strategy| run["strategy"] == strategy.name());
    let shape = (whole(&run["batch"]["query_heads"]), whole(&run["batch"]["kv_heads"]));
    let ((Some(query_heads), Some(kv_heads)), Some(strategy), Some(scheduler), Some(time)) =
        (shape, strategy, run["scheduler"].as_str(), run["makespan_ns"].as_u64())
    else {
        return Err(format!("the run of {key} misses its heads, scheduler, strategy or makespan"));
    };
    let mut spec = spec_of(key)?;
    (spec.shape.query_heads, spec.shape.kv_heads) = (query_heads, kv_heads);
    let options = PlanOptions { scheduler: scheduler.to_owned(), strategy, ..PlanOptions::new(device) };
    let planned = session::plan_spec(&spec, &options).map_err(|error| error.to_string())?;
    let was = (run["packs"].as_u64(), run["partials"].as_u64());
    let crc = run["plan_crc"].as_u64().unwrap_or_else(|| u64::from(planned.plan.crc()));
    let now = (Some(planned.plan.packs.len() as u64), Some(planned.plan.queries.len() as u64));
    if was != now || crc != u64::from(planned.plan.crc()) {
        return Ok(None);
    }
    let l2 = if run["l2"] == "warm" { L2State::Warm } else { L2State::Cold };
    Ok(Some(Observed { planned, measured: Nanos(time), l2 }))
}

/// The batch of a run: a sample, or the one that `calibrate` measures beside them.
fn spec_of(key: &str) -> Result<BatchSpec, String> {
    if let Some(sample) = samples::find(key) {
        return BatchSpec::from_ron(sample.text).map_err(|error| error.to_string());
    }
    let long_tail = sets::long_tail().ok().filter(|case| case.name == key);
    long_tail.map(|case| case.spec).ok_or_else(|| format!("there is no sample '{key}'"))
}

fn limits_of(file: &Value) -> Option<Limits> {
    let point = |point: &Value| Some((Bytes(point["bytes"].as_u64()?), Nanos(point["ns"].as_u64()?)));
    let read: Option<Vec<_>> = file["cold_read"].as_array()?.iter().map(point).collect();
    Some(Limits { read: read?, flops: file["mma_flops"].as_f64()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Backend, DeviceArgs};

    fn planned(device: &Device, key: &str, strategy: Strategy) -> (String, Observed) {
        let options = PlanOptions { strategy, ..PlanOptions::new(device) };
        let planned = session::plan_spec(&spec_of(key).unwrap(), &options).unwrap();
        (key.to_owned(), Observed { planned, measured: Nanos(12_345), l2: L2State::Cold })
    }

    /// What is kept before a fit is what the fit would have had, the batch that is no sample included.
    #[test]
    fn runs_that_were_written_are_read_again() {
        let device = hw::find("h200-sxm").unwrap();
        let long_tail = sets::long_tail().unwrap().name;
        let limits = Limits { read: vec![(Bytes(1 << 20), Nanos(5_000)), (Bytes(1 << 21), Nanos(7_000))], flops: 5e14 };
        let mut written = Measured::none(device.clone(), Some(limits));
        for (key, strategy) in [(&*long_tail, Strategy::Serial), ("pat-01", Strategy::Fused)] {
            let (key, run) = planned(device, key, strategy);
            written.keys.push(key);
            written.runs.push(run);
        }
        written.runs[1].l2 = L2State::Warm;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gpu.runs.json");
        written.write(&path).unwrap();
        let args = CalibrateArgs {
            from: vec![path],
            device: DeviceArgs { device: None, backend: Backend::Auto },
            schedulers: Vec::new(),
            output: folder.path().join("gpu.ron"),
            json: false,
        };
        let read = read_all(&args).unwrap();
        assert_eq!((&read.keys, read.left_out, &read.device), (&written.keys, 0, device));
        let (read_limits, limits) = (read.limits.unwrap(), written.limits.unwrap());
        assert_eq!((read_limits.read, read_limits.flops.to_bits()), (limits.read, limits.flops.to_bits()));
        for (read, written) in read.runs.iter().zip(&written.runs) {
            assert_eq!(read.planned.plan.crc(), written.planned.plan.crc());
            assert_eq!((read.measured, read.l2), (written.measured, written.l2));
        }
    }
}
