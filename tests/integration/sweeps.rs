//! `sweep` by the program: whole, in shards, killed and gone on with, and through Slurm.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use engine::sweep::{Row, read_parquet};

use crate::program::{Ran, command_in, fixture, output, packscope_in};

/// A grid of 56 points: drawn batches, a tree, a sample, a file and windows of a trace, in four ways and on two devices.
fn grid(folder: &Path) {
    fs::copy(fixture("small-trace.jsonl"), folder.join("trace.jsonl")).unwrap();
    let batch = concat!(env!("CARGO_MANIFEST_DIR"), "/../sample_batches/pat-02.ron");
    fs::copy(batch, folder.join("one.ron")).unwrap();
    let text = r#"(
        schema: 1,
        batches: [
            Tree("1,4,64_32,256,32"),
            Samples(["teach-2-two-levels"]),
            Random(seed: 3, count: 2),
            File("one.ron"),
            Trace(file: "trace.jsonl", windows: ["0:8", "4:16"]),
        ],
        schedulers: ["pat", "query-centric"],
        strategies: ["streams", "serial"],
        devices: ["h200-sxm", "teaching-8sm"],
    )"#;
    fs::write(folder.join("grid.ron"), text).unwrap();
}

fn rows(folder: &Path) -> Vec<Row> {
    read_parquet(&folder.join("results.parquet")).unwrap()
}

#[test]
fn killed_and_sharded_sweeps_give_the_rows_of_one_that_ran_through() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    grid(at);
    let json = packscope_in(at, &["sweep", "grid.ron", "-o", "whole", "--json"]).json();
    assert_eq!((json["rows"].as_u64(), json["missing"].as_u64()), (Some(56), Some(0)));
    let whole = rows(&at.join("whole"));
    assert_eq!(whole.len(), 56);
    assert!(whole.iter().all(|row| row.refused.is_some() || row.makespan_ns >= row.floor_ns / 2));
    // Killed again and again, each time a little later, until it gets through.
    for patience in 1.. {
        let quiet = Stdio::null;
        let mut child =
            command_in(at, &["sweep", "grid.ron", "-o", "cut"]).stdout(quiet()).stderr(quiet()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(40 * patience));
        if child.try_wait().unwrap().is_some() {
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(rows(&at.join("cut")), whole);
    for shard in ["2/3", "0/3"] {
        packscope_in(at, &["sweep", "grid.ron", "-o", "sharded", "--shard", shard, "--json"]).json();
    }
    let some = packscope_in(at, &["sweep", "grid.ron", "--collect", "sharded", "--json"]).json();
    assert!(some["missing"].as_u64().unwrap() > 0, "{some}");
    packscope_in(at, &["sweep", "grid.ron", "-o", "sharded", "--shard", "1/3", "--json"]).json();
    packscope_in(at, &["sweep", "grid.ron", "--collect", "sharded", "--json"]).json();
    assert_eq!(rows(&at.join("sharded")), whole);
}

#[test]
fn what_is_no_sweep_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    grid(at);
    let sweep = |args: &[&str]| packscope_in(at, &[&["sweep"], args].concat());
    sweep(&["grid.ron", "-o", "out", "--shard", "3/3"]).fails(2, &["--shard is '3/3'", "0/8"]);
    fs::write(at.join("bad.ron"), "(schema: 1, batches: [Tree(\"1,4_32,32\")], scheduler: [\"pat\"])").unwrap();
    sweep(&["bad.ron", "-o", "out"]).fails(2, &["bad.ron, line 1", "scheduler"]);
    for (axis, word) in [("schedulers", "patt"), ("strategies", "sereal"), ("tiles", "64by32")] {
        fs::write(at.join("way.ron"), format!("(schema: 1, batches: [Tree(\"1,4_32,32\")], {axis}: [\"{word}\"])"))
            .unwrap();
        sweep(&["way.ron", "-o", "never"]).fails(2, &["way.ron", word]);
        assert!(!at.join("never").exists());
    }
    fs::write(at.join("none.ron"), "(schema: 1, batches: [Samples([\"pat-99\"])])").unwrap();
    sweep(&["none.ron", "-o", "out"]).fails(2, &["no sample named 'pat-99'"]);
    fs::create_dir(at.join("other")).unwrap();
    fs::write(at.join("other/spec.ron"), "(schema: 1, batches: [])").unwrap();
    sweep(&["grid.ron", "-o", "other"]).fails(2, &["other holds another sweep"]);
}

#[test]
fn a_job_array_is_written_and_handed_to_slurm_where_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    grid(at);
    // What Slurm would do with the array, without a cluster: each task in its turn.
    let fake = at.join("bin");
    fs::create_dir(&fake).unwrap();
    let script = "#!/bin/sh\n[ \"$1\" = --parsable ] || exit 1\nlast=$(sed -n 's/.*--array=0-//p' \"$2\")\n\
        for task in $(seq 0 \"$last\"); do SLURM_ARRAY_TASK_ID=$task sh \"$2\" >&2 || exit 1; done\necho 7\n";
    fs::write(fake.join("sbatch"), script).unwrap();
    let path = |with: &Path| format!("{}:/usr/bin:/bin", with.display());
    let run = |path: &str| {
        let mut command = command_in(at, &["sweep", "grid.ron", "-o", "out", "--slurm", "3", "--json"]);
        Ran::of(output(command.env("PATH", path)))
    };
    run(at.to_str().unwrap()).fails(3, &["there is no Slurm here", "job.sh"]);
    make_executable(&fake.join("sbatch"));
    let json = run(&path(&fake)).json();
    assert_eq!((json["job"].as_str(), json["shards"].as_u64()), (Some("7"), Some(3)));
    let collected = packscope_in(at, &["sweep", "grid.ron", "--collect", "out", "--json"]).json();
    assert_eq!((collected["rows"].as_u64(), collected["missing"].as_u64()), (Some(56), Some(0)));
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
#[ignore = "needs a Slurm: .ci/slurm starts one and runs this"]
fn a_real_slurm_runs_the_job_array() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    grid(at);
    packscope_in(at, &["sweep", "grid.ron", "-o", "whole", "--json"]).json();
    let json = packscope_in(at, &["sweep", "grid.ron", "-o", "out", "--slurm", "4", "--json"]).json();
    let job = json["job"].as_str().unwrap().to_owned();
    let waits = || !Command::new("squeue").args(["--noheader", "--jobs", &job]).output().unwrap().stdout.is_empty();
    for _ in 0..600 {
        if !waits() {
            break;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    let collected = packscope_in(at, &["sweep", "grid.ron", "--collect", "out", "--json"]).json();
    assert_eq!((collected["rows"].as_u64(), collected["missing"].as_u64()), (Some(56), Some(0)));
    assert_eq!(rows(&at.join("out")), rows(&at.join("whole")));
}
