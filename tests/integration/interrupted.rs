//! Signals: every command ends soon with one message and the shell's exit code, leaves no temporary file, and
//! what was there before is as it was.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::calibrated::bench_of_a_slower_gpu;
use crate::program::{Ran, command_in, fixture, output_of, started};

/// For a machine that is busy with other tests; alone it is half a second.
const BOUND: Duration = Duration::from_secs(10);
const MANY: &str = "--decode=2000x32768";

/// A folder with an older file under each name that a command writes, and a pipe that nobody reads or fills.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("older"), "older").unwrap();
    let made = Command::new("mkfifo").arg(folder.path().join("pipe.ron")).status().unwrap();
    assert!(made.success());
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Waits until the program takes signals, as its bit mask of caught ones says, and then for it to be at work.
fn wait_for_work(child: &mut Child) {
    let status = format!("/proc/{}/status", child.id());
    let takes = || {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim().to_owned();
        u64::from_str_radix(&mask, 16).unwrap() & 2 != 0
    };
    let start = Instant::now();
    while !takes() {
        assert!(start.elapsed() < Duration::from_mins(1), "the program does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(child.try_wait().unwrap(), None, "the program ended before it was asked to");
}

/// The command with every signal as a terminal hands it on: what runs tests in the background may ignore some, and
/// those would be ignored here too.
fn taking_signals(command: &Command) -> Command {
    let mut env = Command::new("env");
    env.arg("--default-signal").arg(command.get_program()).args(command.get_args());
    env.current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => env.env(name, value),
            None => env.env_remove(name),
        };
    }
    env
}

/// Starts the program, sends it a signal while it works, and says how it ended.
fn interrupt(folder: &Path, signal: &str, args: &[&str]) -> Ran {
    let mut child = started(&mut taking_signals(&command_in(folder, args)));
    wait_for_work(&mut child);
    let kill = format!("kill -{signal} {}", child.id());
    let start = Instant::now();
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let output = output_of(child);
    let took = start.elapsed();
    println!("{signal}: {args:?} ended in {} ms", took.as_millis());
    assert!(took < BOUND, "{args:?} took {took:?} to end");
    Ran::of(output)
}

/// Interrupts the program and finds that nothing is left of it.
fn leaves_nothing(signal: &str, code: i32, args: &[&str]) {
    let folder = folder();
    let before = names(folder.path());
    let ran = interrupt(folder.path(), signal, args);
    ran.fails(code, &[&format!("stopped by SIG{signal}")]);
    assert_eq!(ran.stderr.matches("stopped by").count(), 1, "{}", ran.stderr);
    assert_eq!(ran.stderr.matches('×').count(), 0, "another message: {}", ran.stderr);
    assert_eq!(names(folder.path()), before, "{args:?}");
    assert_eq!(fs::read(folder.path().join("older")).unwrap(), b"older", "{args:?}");
}

#[test]
fn commands_that_compute_end_when_they_are_interrupted() {
    leaves_nothing("INT", 130, &["run", MANY, "--check", "-o", "older", "--backend", "sim"]);
    leaves_nothing(
        "INT",
        130,
        &["compare", MANY, "--schedulers", "pat,naive,deft,fasttree,query-centric,cascade", "--backend", "sim"],
    );
    leaves_nothing("TERM", 143, &["bench", "--set", "pat-figure-10", "-o", "new/bench", "--backend", "sim", "--json"]);
    leaves_nothing("HUP", 129, &["bench", "--set", "pod-figure-11", "-o", "new", "--backend", "sim"]);
    let trace = fixture("small-trace.jsonl");
    let lazy = ["bench", "--set", "lazy-update", "--mooncake", &trace, "--window", "0:9", "--steps", "100000"];
    leaves_nothing("INT", 130, &lazy);
    let bench = tempfile::NamedTempFile::new().unwrap();
    fs::write(&bench, bench_of_a_slower_gpu().to_string()).unwrap();
    let from = ["--from", bench.path().to_str().unwrap()];
    let calibrate = [&["calibrate", "-o", "older"][..], &from.repeat(50)].concat();
    leaves_nothing("INT", 130, &calibrate);
}

#[test]
fn commands_that_wait_for_input_end_when_they_are_interrupted() {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        leaves_nothing(signal, code, &["plan", "pipe.ron"]);
    }
    leaves_nothing("INT", 130, &["import", "pipe.ron", "-o", "older"]);
    leaves_nothing("INT", 130, &["import", "--mooncake", "pipe.ron", "--window", "0:1", "-o", "older"]);
    leaves_nothing("TERM", 143, &["verify", "pipe.ron"]);
    leaves_nothing("TERM", 143, &["plan", "pat-01", "--device", "pipe.ron"]);
    leaves_nothing("INT", 130, &["view", "pipe.ron"]);
}

/// The files of a group are ready beside their places while the pipe that belongs to it waits for a reader.
#[test]
fn a_group_that_is_about_to_appear_is_gone_after_each_signal() {
    let capture = fixture("capture-v2-streams.pscope");
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let export =
            ["export", &capture, "--csv", "new/csv", "--svg", "older", "--png", "new.png", "--perfetto", "pipe.ron"];
        leaves_nothing(signal, code, &export);
    }
}

#[test]
fn the_demo_leaves_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("packscope-out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("demo.pscope"), "older").unwrap();
    assert!(Command::new("mkfifo").arg(out.join("compare.png")).status().unwrap().success());
    interrupt(folder.path(), "TERM", &["demo", "--backend", "sim"]).fails(143, &["stopped by SIGTERM"]);
    assert_eq!(names(&out), ["compare.png", "demo.pscope"]);
    assert_eq!(fs::read(out.join("demo.pscope")).unwrap(), b"older");
}

#[test]
fn nohup_keeps_the_program_at_work() {
    let folder = folder();
    let script = "trap '' HUP; \"$@\" & pid=$!; sleep 1; kill -HUP $pid; sleep 1; cat \"$batch\" > pipe.ron; wait $pid";
    let batch = concat!(env!("CARGO_MANIFEST_DIR"), "/../sample_batches/pat-01.ron");
    let script = format!("batch={batch}; {script}");
    let ran = crate::program::shell_in(folder.path(), &script, &["plan", "pipe.ron", "--json"]);
    assert_eq!(ran.json()["schema"], 1);
}
