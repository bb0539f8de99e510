//! Measured runs of one GPU, as `calibrate` fits to them, and the files that hold them.

use std::path::{Path, PathBuf};

use engine::calibrate::Observed;
use engine::capture::{self, Capture, L2State, Source};
use engine::export::SCHEMA;
use engine::hw::{self, Device};
use engine::metrics::Limits;
use engine::plan::{PlanDigest, Strategy};
use engine::session::{self, PlanOptions};
use engine::shown::{quoted, reason};
use engine::units::{Bytes, Nanos};
use engine::workload::BatchSpec;
use serde_json::{Value, json};

use crate::cli::args::CalibrateArgs;
use crate::cli::commands::convert;
use crate::cli::fault::{Fault, Outcome};
use crate::cli::{files, input, sets};
use crate::samples;

/// Runs of one GPU.
pub(crate) struct Measured {
    pub(crate) device: Device,
    pub(crate) limits: Option<Limits>,
    pub(crate) runs: Vec<Observed>,
    /// Configuration of each run.
    pub(crate) keys: Vec<String>,
    /// Runs of plans that are other ones by now: which, and how they differ.
    pub(crate) left_out: Vec<String>,
}

impl Measured {
    pub(crate) fn none(device: Device, limits: Option<Limits>) -> Self {
        Self { device, limits, runs: Vec::new(), keys: Vec::new(), left_out: Vec::new() }
    }

    /// Takes out the runs that nothing is fitted to, by which a fit is judged: every fourth random batch.
    pub(crate) fn hold_back(mut self) -> (Vec<Observed>, Self) {
        let (mut held, mut kept, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for (key, run) in std::mem::take(&mut self.keys).into_iter().zip(std::mem::take(&mut self.runs)) {
            if is_held_back(&key) {
                held.push(run);
            } else {
                kept.push(run);
                keys.push(key);
            }
        }
        (held, Self { runs: kept, keys, ..self })
    }

    /// Writes the runs in the form that [`read_all`] reads: what it needs of `bench --json`.
    pub(crate) fn write(&self, path: &Path) -> engine::Result<()> {
        let runs: Vec<Value> = self.keys.iter().zip(&self.runs).map(|(key, run)| row(&self.device, key, run)).collect();
        let mut file = json!({ "schema": SCHEMA, "set": "calibrate", "runs": runs });
        if let Some(limits) = &self.limits {
            file["cold_read"] = limits.read.iter().map(|(bytes, ns)| json!({ "bytes": bytes.0, "ns": ns.0 })).collect();
            file["mma_flops"] = json!(limits.flops);
            file["hybrid_limits"] = json!(limits.hybrid);
        }
        capture::write_atomically(path, "writing the measured runs", file.to_string().as_bytes())
    }
}

/// Of `random-SEED-NUMBER` every fourth.
fn is_held_back(key: &str) -> bool {
    let number = key.strip_prefix("random-").and_then(|rest| rest.rsplit('-').next()?.parse::<u32>().ok());
    number.is_some_and(|number| number % 4 == 3)
}

/// The row of one run.
fn row(device: &Device, key: &str, run: &Observed) -> Value {
    let (plan, shape, digest) = (&run.planned.plan, &run.planned.batch.shape, run.planned.plan.digest());
    json!({ "sample": key, "batch_ron": batch_text(key, &run.planned.spec), "run": {
        "source": "measured", "device": device.key, "scheduler": plan.scheduler, "strategy": plan.strategy.name(),
        "batch": { "query_heads": shape.query_heads, "kv_heads": shape.kv_heads }, "packs": plan.packs.len(),
        "partials": plan.queries.len(), "plan_crc": digest.crc, "plan_digest_version": digest.version, "l2": run.l2, "makespan_ns": run.measured.0,
    } })
}

/// Runs that `bench --json` wrote, and captures; all of one GPU.
pub(crate) fn read_all(args: &CalibrateArgs) -> Outcome<Measured> {
    let mut all: Option<Measured> = None;
    let (captures, benches): (Vec<&PathBuf>, Vec<&PathBuf>) =
        args.from.iter().partition(|path| path.extension().is_some_and(|extension| extension == "pscope"));
    for path in benches {
        let text = files::text(path, &files::RUNS)?;
        let file: Value = serde_json::from_str(&text).map_err(|error| bad(path, &reason(&error.to_string())))?;
        let runs =
            file["runs"].as_array().filter(|runs| !runs.is_empty()).ok_or_else(|| bad(path, "it has no runs"))?;
        let of_first = runs[0]["run"]["device"].as_str().unwrap_or_default();
        let device = device_of(args, of_first)?;
        let all = all.get_or_insert_with(|| Measured::none(device, limits_of(&file)));
        for row in runs {
            match observed(&all.device, row).map_err(|what| bad(path, &what))? {
                Row::Run(observed) => {
                    all.runs.push(*observed);
                    all.keys.push(row["sample"].as_str().unwrap_or_default().to_owned());
                }
                Row::OtherPlan(which) => all.left_out.push(which),
            }
        }
    }
    for path in captures {
        let capture = convert::load(path)?.capture;
        if all.is_none() {
            all = Some(Measured::none(device_of(args, &capture.provenance.device)?, None));
        }
        if let Some(all) = &mut all {
            all.keys.push(capture.batch.name.clone());
            all.runs.push(captured(&all.device, path, &capture)?);
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
fn captured(device: &Device, path: &Path, capture: &Capture) -> Outcome<Observed> {
    if capture.provenance.source != Source::Measured || capture.provenance.device != device.key {
        let what = format!("{}: it was not measured on {}", path.display(), device.name);
        return Err(Fault::input(what, "give captures that `run` wrote on that GPU"));
    }
    let (measured, l2) = (capture.times.spread().median, capture.times.l2);
    Ok(Observed { planned: session::planned_of(capture, device)?, measured, l2 })
}

fn bad(path: &Path, what: &str) -> Fault {
    Fault::input(
        format!("{}: {what}", path.display()),
        "it should be what `packscope bench --json` of this version wrote on a GPU",
    )
}

/// A row of measured runs, planned again.
enum Row {
    /// The plan came out as it was.
    Run(Box<Observed>),
    /// It is another one by now: which run, and how it differs.
    OtherPlan(String),
}

/// The run of one row.
fn observed(device: &Device, row: &Value) -> Result<Row, String> {
    let key = row["sample"].as_str().ok_or("a run names no sample")?;
    let told = quoted(key);
    let run = &row["run"];
    if run["source"] != "measured" || run["device"] != device.key.as_str() {
        return Err(format!("the run of {told} was not measured on {}", device.name));
    }
    let whole = |value: &Value| value.as_u64().and_then(|value| u32::try_from(value).ok());
    let strategy = Strategy::ALL.into_iter().find(|strategy| run["strategy"] == strategy.name());
    let shape = (whole(&run["batch"]["query_heads"]), whole(&run["batch"]["kv_heads"]));
    let ((Some(query_heads), Some(kv_heads)), Some(strategy), Some(scheduler), Some(time)) =
        (shape, strategy, run["scheduler"].as_str(), run["makespan_ns"].as_u64())
    else {
        return Err(format!("the run of {told} misses its heads, scheduler, strategy or makespan"));
    };
    let spec = match row["batch_ron"].as_str() {
        Some(text) => BatchSpec::from_ron(text).map_err(|error| format!("the batch of {told}: {error}"))?,
        None => with_heads(spec_of(key)?, query_heads, kv_heads),
    };
    let options = PlanOptions { scheduler: scheduler.to_owned(), strategy, ..PlanOptions::new(device) };
    let planned = session::plan_spec(&spec, &options).map_err(|error| error.to_string())?;
    let was = (run["packs"].as_u64(), run["partials"].as_u64());
    let now = (planned.plan.packs.len() as u64, planned.plan.queries.len() as u64);
    let same = was == (Some(now.0), Some(now.1))
        && digest_of(run).is_none_or(|digest| digest.is_of(&planned.plan) == Some(true));
    if !same {
        let ((packs, partials), strategy) = (now, strategy.name());
        let then = |count: Option<u64>| count.map_or_else(|| "unknown".to_owned(), |count| count.to_string());
        return Ok(Row::OtherPlan(format!(
            "{told} at {query_heads}/{kv_heads} under {scheduler}, {strategy}: {} packs and {} partials were measured, {packs} and {partials} are planned now, {}",
            then(was.0),
            then(was.1),
            if was == (Some(packs), Some(partials)) {
                "in another order or with other tiles"
            } else {
                "a different cut"
            },
        )));
    }
    let l2 = if run["l2"] == "warm" { L2State::Warm } else { L2State::Cold };
    Ok(Row::Run(Box::new(Observed { planned, measured: Nanos(time), l2 })))
}

/// The digest of the plan that a row was measured with. Rows without a version are of the first.
fn digest_of(run: &Value) -> Option<PlanDigest> {
    let whole = |value: &Value| value.as_u64().and_then(|value| u32::try_from(value).ok());
    let crc = whole(&run["plan_crc"])?;
    Some(PlanDigest { version: whole(&run["plan_digest_version"]).unwrap_or(1), crc })
}

fn with_heads(mut spec: BatchSpec, query_heads: u32, kv_heads: u32) -> BatchSpec {
    (spec.shape.query_heads, spec.shape.kv_heads) = (query_heads, kv_heads);
    spec
}

/// The text of a batch that its name and heads do not tell, for its row.
pub(crate) fn batch_text(key: &str, spec: &BatchSpec) -> Option<String> {
    let (query_heads, kv_heads) = (spec.shape.query_heads, spec.shape.kv_heads);
    let named = spec_of(key).is_ok_and(|named| with_heads(named, query_heads, kv_heads) == *spec);
    if named { None } else { spec.to_ron().ok() }
}

/// The batch of a run: a sample, or the one that `calibrate` measures beside them.
fn spec_of(key: &str) -> Result<BatchSpec, String> {
    if let Some(sample) = samples::find(key) {
        return BatchSpec::from_ron(sample.text).map_err(|error| error.to_string());
    }
    let long_tail = sets::long_tail().ok().filter(|case| case.name == key);
    long_tail.map(|case| case.spec).ok_or_else(|| format!("there is no sample '{}'", quoted(key)))
}

fn limits_of(file: &Value) -> Option<Limits> {
    let point = |point: &Value| Some((Bytes(point["bytes"].as_u64()?), Nanos(point["ns"].as_u64()?)));
    let read: Option<Vec<_>> = file["cold_read"].as_array()?.iter().map(point).collect();
    let hybrid = serde_json::from_value(file["hybrid_limits"].clone()).ok().flatten();
    Some(Limits { read: read?, read_spread: Vec::new(), flops: file["mma_flops"].as_f64()?, hybrid })
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
        let limits = Limits {
            read: vec![(Bytes(1 << 20), Nanos(5_000)), (Bytes(1 << 21), Nanos(7_000))],
            read_spread: Vec::new(),
            flops: 5e14,
            hybrid: device.hybrid_limits,
        };
        let mut written = Measured::none(device.clone(), Some(limits));
        for (key, strategy) in [(&*long_tail, Strategy::Serial), ("pat-01", Strategy::Fused)] {
            let (key, run) = planned(device, key, strategy);
            written.keys.push(key);
            written.runs.push(run);
        }
        // A batch that has a name of nobody's, and one that has a sample's name and another shape.
        for (key, head_dim) in [("a window of a trace", 128), ("pat-02", 64)] {
            let mut spec = spec_of("pat-02").unwrap();
            spec.shape.head_dim = head_dim;
            let planned = session::plan_spec(&spec, &PlanOptions::new(device)).unwrap();
            written.keys.push(key.to_owned());
            written.runs.push(Observed { planned, measured: Nanos(9), l2: L2State::Cold });
        }
        written.runs[1].l2 = L2State::Warm;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gpu.runs.json");
        written.write(&path).unwrap();
        let args = CalibrateArgs {
            from: vec![path],
            device: DeviceArgs { device: None, backend: Backend::Auto, deterministic: false },
            schedulers: Vec::new(),
            output: folder.path().join("gpu.ron"),
            json: false,
        };
        let read = read_all(&args).unwrap();
        assert_eq!((&read.keys, read.left_out, &read.device), (&written.keys, Vec::new(), device));
        let (read_limits, limits) = (read.limits.unwrap(), written.limits.unwrap());
        assert_eq!((read_limits.read, read_limits.flops.to_bits()), (limits.read, limits.flops.to_bits()));
        for (read, written) in read.runs.iter().zip(&written.runs) {
            assert_eq!(read.planned.plan.digest(), written.planned.plan.digest());
            assert_eq!((read.measured, read.l2), (written.measured, written.l2));
        }
    }

    #[test]
    fn every_fourth_random_batch_is_held_back() {
        let device = hw::find("h200-sxm").unwrap();
        let mut measured = Measured::none(device.clone(), None);
        for key in ["pat-01", "random-7-2", "random-7-3", "pat-03", "random-7-11"] {
            measured.runs.push(planned(device, "pat-01", Strategy::Serial).1);
            measured.keys.push(key.to_owned());
        }
        let (held, kept) = measured.hold_back();
        assert_eq!((held.len(), kept.runs.len()), (2, 3));
        assert_eq!(kept.keys, ["pat-01", "random-7-2", "pat-03"]);
    }

    /// A run whose plan is another one by now is left out by name, and never in silence.
    #[test]
    fn a_run_of_another_plan_is_named() {
        let device = hw::find("h200-sxm").unwrap();
        let (key, run) = planned(device, "pat-01", Strategy::Streams);
        let mut stale = row(device, &key, &run);
        stale["run"]["plan_crc"] = json!(run.planned.plan.digest().crc ^ 1);
        let Row::OtherPlan(which) = observed(device, &stale).unwrap() else { panic!("it passes as today's") };
        assert!(which.starts_with("pat-01 at 32/8 under pat, streams"), "{which}");
        // A digest of the first kind is compared as what it is.
        stale["run"]["plan_crc"] = json!(run.planned.plan.digest_as(1).unwrap().crc);
        stale["run"]["plan_digest_version"] = Value::Null;
        assert!(matches!(observed(device, &stale).unwrap(), Row::Run(_)));
    }
}
