//! `sweep`: a grid of batches and ways, whole or by shards, here or on a Slurm cluster.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use clap::ValueEnum as _;
use engine::capture::write_atomically;
use engine::export::SCHEMA;
use engine::hw::Device;
use engine::import;
use engine::sweep::{self, BatchSource, Logs, Named, Point, Shard, SweepSpec};
use engine::units::counted;
use engine::workload::{self, AttentionShape, BatchSpec};
use serde_json::json;

use crate::cli::args::{BenchSet, SweepArgs, command_line};
use crate::cli::fault::{Fault, Outcome};
use crate::cli::{files, from, input, interrupt, output, sets};
use crate::samples;

/// The grid as its folder keeps it.
const SPEC: &str = "spec.ron";
/// The joined rows.
const RESULTS: &str = "results.parquet";
/// The job array.
const JOB: &str = "job.sh";

/// The command.
pub(crate) fn sweep(args: &SweepArgs) -> Outcome<ExitCode> {
    let text = files::text(&args.spec, &files::SWEEP)?;
    let spec = SweepSpec::from_ron(&text).map_err(|error| Fault::about(&args.spec, Some(&text), error))?;
    let points = points(&args.spec, &spec)?;
    let folder = args.collect.as_ref().or(args.output.as_ref());
    let folder = folder.ok_or_else(|| Fault::input("no folder is given", "add -o DIR"))?;
    let logs = open(folder, &text)?;
    if let Some(shards) = args.slurm {
        return submit(args, folder, shards);
    }
    let shard = args.shard.as_deref().map(shard).transpose()?;
    if args.collect.is_none() {
        let shard = shard.unwrap_or(Shard::ALL);
        let bar = output::progress(points.iter().filter(|point| shard.has(point)).count() as u64, "points");
        let ran = sweep::run(&points, shard, &logs, interrupt::cancel(), &|| bar.inc(1));
        bar.finish_and_clear();
        ran?;
    }
    if shard.is_some_and(|shard| shard.of > 1) {
        output::note("a shard is done; 'packscope sweep SPEC.ron --collect DIR' joins all");
        return told(args, &folder.join("parts"), logs.rows()?.len(), points.len());
    }
    collect(args, &text, folder, &points, &logs)
}

/// The folder of a sweep, which keeps its grid.
fn open(folder: &Path, text: &str) -> Outcome<Logs> {
    let logs = Logs::of(folder)?;
    let kept = folder.join(SPEC);
    match std::fs::read_to_string(&kept) {
        Ok(there) if there != text => Err(Fault::input(
            format!("{} holds another sweep: its {SPEC} differs", folder.display()),
            "sweep into another folder, or take the grid that is kept there",
        )),
        Ok(_) => Ok(logs),
        Err(_) => {
            write_atomically(&kept, "writing the sweep's folder", text.as_bytes())?;
            Ok(logs)
        }
    }
}

fn shard(text: &str) -> Outcome<Shard> {
    let parsed = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
    match parsed {
        Some((number, of)) if number < of => Ok(Shard { number, of }),
        _ => Err(Fault::input(
            format!("--shard is '{}'", engine::shown::quoted(text)),
            "write it like 0/8: the first of eight shards; the last is 7/8",
        )),
    }
}

/// The points of a grid whose files count from its folder.
fn points(path: &Path, spec: &SweepSpec) -> Outcome<Vec<Point>> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut batches = Vec::new();
    for source in &spec.batches {
        batches.extend(batches_of(source, folder)?);
    }
    let batches = with_heads(batches, &spec.heads)?;
    let devices = spec.devices.iter().map(|device| {
        let device = if device.ends_with(".ron") { folder.join(device) } else { PathBuf::from(device) };
        input::named_device(&device).map(Arc::new)
    });
    let devices = devices.collect::<Outcome<Vec<Arc<Device>>>>()?;
    sweep::points(spec, &batches, &devices).map_err(|error| Fault::about(path, None, error))
}

fn named(name: String, spec: BatchSpec) -> Named {
    Named { name, spec: Arc::new(BatchSpec { scene: None, ..spec }) }
}

fn batches_of(source: &BatchSource, folder: &Path) -> Outcome<Vec<Named>> {
    let file = source.file_from(folder);
    Ok(match (source, file) {
        (BatchSource::Random { seed, count }, _) => {
            (0..*count).map(|at| named(format!("random {seed}:{at}"), workload::random_forest(*seed, at))).collect()
        }
        (BatchSource::RandomHybrid { seed, count }, _) => (0..*count)
            .map(|at| named(format!("random-hybrid {seed}:{at}"), workload::random_hybrid(*seed, at)))
            .collect(),
        (BatchSource::Tree(tree), _) => {
            vec![named(format!("tree {tree}"), workload::parse_tree(tree, AttentionShape::default())?)]
        }
        (BatchSource::Samples(names), _) => names.iter().map(|name| sample(name)).collect::<Outcome<_>>()?,
        (BatchSource::Published(set), _) => published(set)?,
        (BatchSource::Trace { windows, step, .. }, Some(file)) => {
            let trace = from::mooncake(&file)?;
            let window = |text: &String| {
                let (start, count) = workload::parse_window(text)?;
                let spec = import::spec_from_window(&trace, AttentionShape::default(), start, count, *step)?;
                let file = file.file_name().unwrap_or_default().to_string_lossy();
                Ok(named(format!("{file} {text} step {step}"), spec))
            };
            windows.iter().map(window).collect::<Outcome<_>>()?
        }
        // By the grid's own word, which is the same from wherever the grid is named.
        (BatchSource::File(word), Some(file)) => vec![named(output::path(word), input::batch_file(&file)?)],
        (BatchSource::Trace { .. } | BatchSource::File(_), None) => Vec::new(),
    })
}

fn sample(name: &str) -> Outcome<Named> {
    let sample = samples::find(name).ok_or_else(|| {
        Fault::input(
            format!("there is no sample named '{}'", engine::shown::quoted(name)),
            "'packscope list samples' names them",
        )
    })?;
    Ok(named(name.to_owned(), BatchSpec::from_ron(sample.text)?))
}

fn published(name: &str) -> Outcome<Vec<Named>> {
    let unknown = || {
        Fault::input(
            format!("there is no published set of batches named '{}'", engine::shown::quoted(name)),
            "pat-figure-10, pat-ablation, flashforge, fasttree and hydragen are such sets",
        )
    };
    let set = BenchSet::from_str(name, false).map_err(|_| unknown())?;
    let default = AttentionShape::default();
    let set = sets::set(set, (default.query_heads, default.kv_heads))?.ok_or_else(unknown)?;
    Ok(set.cases.into_iter().map(|case| named(format!("{name} {}", case.name), case.spec)).collect())
}

/// Every batch with each of the heads, where any are given.
fn with_heads(batches: Vec<Named>, heads: &[String]) -> Outcome<Vec<Named>> {
    if heads.is_empty() {
        return Ok(batches);
    }
    let mut all = Vec::new();
    for text in heads {
        let (query_heads, kv_heads) = workload::parse_heads(text)?;
        all.extend(batches.iter().map(|batch| {
            let shape = AttentionShape { query_heads, kv_heads, ..batch.spec.shape };
            named(format!("{} heads {text}", batch.name), BatchSpec { shape, ..(*batch.spec).clone() })
        }));
    }
    Ok(all)
}

/// Joins the rows that came, and says how many are missing.
fn collect(args: &SweepArgs, text: &str, folder: &Path, points: &[Point], logs: &Logs) -> Outcome<ExitCode> {
    let wanted: std::collections::HashSet<u64> = points.iter().map(|point| point.key).collect();
    let rows: Vec<_> = logs.rows()?.into_iter().filter(|row| wanted.contains(&row.key)).collect();
    let provenance = [
        ("packscope.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("packscope.command", command_line()),
        ("packscope.spec", text.to_owned()),
        ("packscope.points", points.len().to_string()),
        ("packscope.source", "simulated".to_owned()),
    ];
    let mut bytes = Vec::new();
    sweep::write_parquet(&mut bytes, &rows, &provenance)
        .map_err(|error| Fault::failed(format!("the results cannot be written as Parquet: {error}")))?;
    let path = folder.join(RESULTS);
    write_atomically(&path, "writing the results", &bytes)?;
    told(args, &path, rows.len(), points.len())
}

fn told(args: &SweepArgs, path: &Path, rows: usize, points: usize) -> Outcome<ExitCode> {
    let missing = points.saturating_sub(rows);
    if args.json {
        output::print_json(
            &json!({ "schema": SCHEMA, "file": output::path(path), "rows": rows, "points": points, "missing": missing }),
        )?;
    } else {
        let lacking =
            if missing > 0 { format!(", {} missing", counted(missing as u64, "point")) } else { String::new() };
        output::print(&format!("wrote {} with {}{lacking}", path.display(), counted(rows as u64, "row")))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the job array, and hands it to Slurm.
fn submit(args: &SweepArgs, folder: &Path, shards: u32) -> Outcome<ExitCode> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let program = std::env::current_exe().map_err(engine::Error::io("finding this program", "packscope"))?;
    let (spec, home) = (absolute(&args.spec), absolute(folder));
    let quote = |path: &Path| format!("'{}'", output::path(path).replace('\'', "'\\''"));
    let script = format!(
        "#!/bin/sh\n#SBATCH --job-name=packscope-sweep\n#SBATCH --array=0-{}\n#SBATCH --output={}/slurm-%A_%a.log\n\
         exec {} sweep {} -o {} --shard \"$SLURM_ARRAY_TASK_ID/{shards}\"\n",
        shards - 1,
        output::path(&home),
        quote(&program),
        quote(&spec),
        quote(&home)
    );
    let job = home.join(JOB);
    write_atomically(&job, "writing the job array", script.as_bytes())?;
    let submitted = Command::new("sbatch").arg("--parsable").arg(&job).output();
    let remedy = format!("the job array is written; submit it where Slurm is: sbatch {}", job.display());
    let submitted = match submitted {
        Err(error) => return Err(Fault::hardware(format!("there is no Slurm here: sbatch: {error}"), remedy)),
        Ok(ended) if !ended.status.success() => {
            let why = String::from_utf8_lossy(&ended.stderr);
            return Err(Fault::failed(format!("sbatch refused the job array: {}", why.trim())).or_try(remedy));
        }
        Ok(ended) => String::from_utf8_lossy(&ended.stdout).trim().to_owned(),
    };
    if args.json {
        let (file, schema) = (output::path(&job), SCHEMA);
        output::print_json(&json!({ "schema": schema, "file": file, "job": submitted, "shards": shards }))?;
    } else {
        let shards = counted(u64::from(shards), "shard");
        let spec = args.spec.display();
        output::print(&format!(
            "submitted job {submitted} of {shards}; when it is done: packscope sweep {spec} --collect {}",
            folder.display()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
