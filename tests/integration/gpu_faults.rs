//! What goes wrong on a GPU, on a driver that fails where it is told to: `kernels/fake` in the place of `libcuda` and
//! `libnvrtc`. Each test starts itself once more with that driver on the loader's path, which is read when a program
//! starts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use engine::cancel::Cancel;
use engine::capture::{self, Capture};
use engine::error::{Error, Result};
use engine::plan::Strategy;
use engine::session::{PlanOptions, Planned, RunOptions, Runner, plan_spec};
use engine::workload::AttentionShape;

use crate::common::uniform;

/// Set to the driver's folder where it is on the loader's path.
const FOLDER: &str = "PACKSCOPE_FAKE_CUDA";

/// The fake driver: what it is told, and what it saw.
struct Fake(PathBuf);

impl Fake {
    /// The driver, in the process that has it; in the first, the outcome of that one and nothing.
    fn of(test: &str) -> Option<Self> {
        if let Some(folder) = std::env::var_os(FOLDER) {
            return Some(Self(folder.into()));
        }
        let folder = tempfile::tempdir().unwrap();
        let test = format!("gpu_faults::{test}");
        let this = std::env::current_exe().unwrap();
        let mut program = Self::put(folder.path(), Command::new(this));
        let ran = crate::program::output(program.args([&test, "--exact", "--nocapture"]));
        let told = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(ran.status.success() && told[0].contains("1 passed"), "{test} with the fake driver: {told:#?}");
        None
    }

    /// Puts the driver into a folder, and on the path of a program.
    fn put(folder: &Path, mut program: Command) -> Command {
        // Built beside this test, as a part of it.
        let built = std::env::current_exe().unwrap().with_file_name("libfake_cuda.so");
        for name in ["libcuda.so", "libnvrtc.so"] {
            std::os::unix::fs::symlink(&built, folder.join(name)).unwrap();
        }
        let files = Self(folder.to_owned());
        program.env(FOLDER, folder).env("LD_LIBRARY_PATH", folder);
        program.env(fake_cuda::PLAN, files.plan()).env(fake_cuda::REPORT, files.report());
        program
    }

    fn plan(&self) -> PathBuf {
        self.0.join("plan")
    }

    fn report(&self) -> PathBuf {
        self.0.join("report")
    }

    /// From the next start of the driver on.
    fn tell(&self, plan: &str) {
        std::fs::write(self.plan(), plan).unwrap();
    }

    /// A figure of the context that went last.
    fn saw(&self, figure: &str) -> u64 {
        let report = std::fs::read_to_string(self.report()).unwrap();
        let line = report.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
        line.trim().parse().unwrap()
    }

    /// Nothing was left on the GPU.
    #[track_caller]
    fn assert_clean(&self, after: &str) {
        let left = ["buffers", "bytes", "handles"].map(|figure| self.saw(figure));
        assert_eq!(left, [0, 0, 0], "{after}");
    }
}

/// A way to run a small batch with a shared prefix.
struct Way {
    planned: Planned,
    run: RunOptions,
}

impl Way {
    fn all() -> [Self; 3] {
        [(Strategy::Serial, true), (Strategy::Streams, false), (Strategy::Fused, false)].map(|(strategy, graph)| {
            let options = PlanOptions { strategy, ..PlanOptions::new(engine::hw::find("h200-sxm").unwrap()) };
            let spec = uniform(&[1, 4], &[512, 128], AttentionShape::default());
            let run = RunOptions { repeats: 2, graph, ..RunOptions::default() };
            Self { planned: plan_spec(&spec, &options).unwrap(), run }
        })
    }

    fn name(&self) -> &'static str {
        self.planned.plan.strategy.name()
    }

    /// Opens the GPU, checks the plan and runs it.
    fn whole(&self, cancel: &Cancel) -> Result<Capture> {
        let mut runner = open(cancel)?;
        runner.check(&self.planned, 1, cancel)?;
        runner.run(&self.planned, &self.run, cancel)
    }
}

fn open(cancel: &Cancel) -> Result<Runner> {
    Runner::gpu(None, Box::new(|_| ()), cancel)
}

/// Calls of the driver in a whole run.
fn calls(fake: &Fake, way: &Way) -> u64 {
    fake.tell("");
    let capture = way.whole(&Cancel::default()).unwrap();
    assert_eq!(capture::verify(&capture), Vec::new());
    fake.assert_clean("a whole run");
    fake.saw("calls")
}

#[test]
fn a_gpu_that_is_lost_at_any_call_gives_one_error_and_no_call_after_it() {
    let Some(fake) = Fake::of("a_gpu_that_is_lost_at_any_call_gives_one_error_and_no_call_after_it") else { return };
    for way in Way::all() {
        let calls = calls(&fake, &way);
        assert!(calls > 100, "{calls}");
        for call in 1..=calls {
            let (code, words) = LOSSES[call as usize % LOSSES.len()];
            fake.tell(&format!("lose {call} {code}"));
            let error = way.whole(&Cancel::default()).unwrap_err();
            match &error {
                Error::Gpu(text) => assert!(text.contains(words), "call {call}: {text}"),
                // Where the driver does not even start.
                other => assert!(matches!(other, Error::Hardware(_)) && call <= 2, "call {call}: {other}"),
            }
            assert_eq!(error.to_string().matches("CUDA_ERROR").count(), 1, "{error}");
            if call > 20 {
                assert_eq!(fake.saw("after_loss"), 0, "call {call} of {calls}");
            }
        }
        println!("{}: lost at each of {calls} calls", way.name());
    }
}

/// Errors of a lost GPU, and a word of what is to be done.
const LOSSES: [(u32, &str); 5] = [
    (700, "please report it"),
    (719, "please report it"),
    (214, "nvidia-smi"),
    (999, "once the GPU answers"),
    (702, "run too long"),
];

#[test]
fn a_runner_that_failed_or_was_cancelled_runs_the_next_plan() {
    let Some(fake) = Fake::of("a_runner_that_failed_or_was_cancelled_runs_the_next_plan") else { return };
    let [_, way, _] = Way::all();
    fake.tell("");
    let mut runner = open(&Cancel::default()).unwrap();
    let run = |runner: &mut Runner, cancel: &Cancel| runner.run(&way.planned, &way.run, cancel);
    run(&mut runner, &Cancel::default()).unwrap();
    // What fails is read when the driver is started, which it is after a run that ended early.
    let cancelled = Cancel::default();
    cancelled.cancel();
    for plan in ["lose 90 700", "fail 60 2", "memory 500000000"] {
        assert!(matches!(run(&mut runner, &cancelled), Err(Error::Cancelled)));
        fake.assert_clean("a run that was cancelled");
        fake.tell(plan);
        let failed = run(&mut runner, &Cancel::default());
        assert!(matches!(failed, Err(Error::Gpu(_))), "{plan}: {failed:?}");
        fake.tell("");
        run(&mut runner, &Cancel::default()).unwrap();
    }
    drop(runner);
    fake.assert_clean("the runner");
}

#[test]
fn memory_that_runs_out_at_any_call_gives_one_error_and_all_of_it_back() {
    let Some(fake) = Fake::of("memory_that_runs_out_at_any_call_gives_one_error_and_all_of_it_back") else { return };
    for way in Way::all() {
        let (calls, mut refused) = (calls(&fake, &way), 0);
        for call in 1..=calls {
            fake.tell(&format!("fail {call} 2"));
            match way.whole(&Cancel::default()) {
                Err(Error::Gpu(text)) => {
                    assert!(text.contains("memory") && text.contains("nvidia-smi"), "call {call}: {text}");
                    refused += 1;
                }
                // The driver does not start, or does not say which version it is.
                Err(Error::Hardware(_)) | Ok(_) => assert!(call < 40, "call {call}"),
                Err(other) => panic!("call {call}: {other}"),
            }
            fake.assert_clean(&format!("call {call} of {calls}"));
        }
        println!("{}: no memory at each of {calls} calls, {refused} times refused", way.name());
    }
}

#[test]
fn a_gpu_of_any_memory_runs_the_plan_or_says_what_it_has_and_what_is_needed() {
    let Some(fake) = Fake::of("a_gpu_of_any_memory_runs_the_plan_or_says_what_it_has_and_what_is_needed") else {
        return;
    };
    let [.., way] = Way::all();
    // Room for nothing, for some of the inputs, for those but not for what the runs write, and for all.
    let mut outcomes = Vec::new();
    for kib in (0..48).map(|step| step * 64).chain([512 << 10, 520 << 10, 528 << 10]) {
        fake.tell(&format!("memory {}", kib << 10));
        let ran = open(&Cancel::default()).and_then(|mut gpu| gpu.run(&way.planned, &way.run, &Cancel::default()));
        if let Err(error) = &ran {
            let text = error.to_string();
            assert!(text.contains("bytes were asked") && text.contains("bytes free"), "{kib} KiB: {text}");
        }
        fake.assert_clean(&format!("{kib} KiB"));
        outcomes.push(ran.is_ok());
    }
    assert_eq!((outcomes.first(), outcomes.last()), (Some(&false), Some(&true)));
    assert!(outcomes.is_sorted(), "more memory never refuses what less of it ran");
}

/// Cancels after a moment, from another thread.
fn cancelled_soon() -> Cancel {
    let cancel = Cancel::default();
    let later = cancel.clone();
    let wait = move || {
        std::thread::sleep(Duration::from_millis(20));
        later.cancel();
    };
    std::thread::Builder::new().name("cancel".to_owned()).spawn(wait).unwrap();
    cancel
}

/// The driver gives a hanging kernel's memory back when the kernel ends, so that whoever asked for it would wait for
/// good: that the test ends shows that nobody does.
#[test]
fn a_kernel_that_does_not_end_keeps_nobody_who_cancels() {
    let Some(fake) = Fake::of("a_kernel_that_does_not_end_keeps_nobody_who_cancels") else { return };
    for way in Way::all() {
        calls(&fake, &way);
        let launches = fake.saw("launches");
        for launch in (1..=launches).step_by(launches as usize / 6) {
            fake.tell(&format!("hang {launch}"));
            let cancelled = way.whole(&cancelled_soon());
            assert!(matches!(cancelled, Err(Error::Cancelled)), "launch {launch} of {launches}: {cancelled:?}");
        }
        fake.tell("");
        assert!(way.whole(&Cancel::default()).is_ok(), "once the kernel has ended the GPU is there again");
    }
}

#[test]
fn a_long_compilation_keeps_nobody_who_cancels() {
    let Some(fake) = Fake::of("a_long_compilation_keeps_nobody_who_cancels") else { return };
    let [way, ..] = Way::all();
    fake.tell("compile 3600000");
    assert!(matches!(way.whole(&cancelled_soon()), Err(Error::Cancelled)));
    fake.assert_clean("a compilation that was cancelled");
}

/// Tensor cores at work draw all the power that an H200 may, and what runs before its clocks are back is timed too long.
#[test]
fn what_is_timed_after_the_limits_waits_for_the_clocks() {
    let Some(fake) = Fake::of("what_is_timed_after_the_limits_waits_for_the_clocks") else { return };
    fake.tell("");
    for way in Way::all() {
        let mut runner = open(&Cancel::default()).unwrap();
        runner.run(&way.planned, &way.run, &Cancel::default()).unwrap();
        runner.limits(20, &Cancel::default()).unwrap();
        runner.run(&way.planned, &way.run, &Cancel::default()).unwrap();
        drop(runner);
        assert!(fake.saw("longest_rest_ms") >= 450, "{}: {} ms", way.name(), fake.saw("longest_rest_ms"));
    }
}
