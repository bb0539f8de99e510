//! Work on a real GPU that ends before its time: it is cancelled at one moment after the other, or memory runs out. In
//! each case the GPU is free again, and the next run is a whole one. Without a GPU each test prints why it is skipped.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::cancel::Cancel;
use engine::capture::{self, Capture};
use engine::error::{Error, Result};
use engine::plan::Strategy;
use engine::session::{PlanOptions, Planned, RunOptions, Runner, plan_spec};
use engine::workload::{AttentionShape, BatchSpec, RequestSpec};
use kernels::{DeviceBuffer, Gpu};

use crate::gpu::{alone, kernel_cache};

/// What a context takes differs by some pages from one to the next.
const SLACK: usize = 64 << 20;

/// Free memory of the GPU while nothing of ours is on it; nothing where there is no GPU.
fn free(test: &str) -> Option<usize> {
    match Runner::find_gpu() {
        Ok(_) => Some(Gpu::open(0).unwrap().memory().unwrap().0),
        Err(reason) => {
            println!("skipped: {test}: {reason}");
            None
        }
    }
}

#[track_caller]
fn assert_free(before: usize, after: &str) {
    let now = free("memory").unwrap();
    assert!(now + SLACK > before, "{after}: {now} of {before} bytes are free");
}

/// `count` requests of `kv` tokens, under the device of the GPU that is here.
fn planned(count: u32, kv: u64, strategy: Strategy) -> Planned {
    let (_, device) = Runner::find_gpu().unwrap();
    let device = device.unwrap_or_else(|| engine::hw::find("h200-sxm").unwrap());
    let requests = vec![RequestSpec::Decode { kv, count }];
    let spec = BatchSpec { requests, ..BatchSpec::empty(AttentionShape::default()) };
    plan_spec(&spec, &PlanOptions { strategy, ..PlanOptions::new(device) }).unwrap()
}

/// One way to spend time on the GPU.
struct Work {
    name: &'static str,
    cache: Option<PathBuf>,
    planned: Planned,
    how: RunOptions,
    check: bool,
    limits: bool,
    /// Between one moment to cancel at and the next.
    step: Duration,
    /// Moments, where the work does not end by itself before.
    most: u32,
}

impl Work {
    fn of(name: &'static str, planned: Planned) -> Self {
        let how = RunOptions { repeats: 3, ..RunOptions::default() };
        let (step, most) = (Duration::from_millis(350), 10);
        Self { name, cache: Some(kernel_cache()), planned, how, check: false, limits: false, step, most }
    }

    fn all() -> Vec<Self> {
        let small = || planned(64, 4096, Strategy::Fused);
        let repeats = RunOptions { repeats: 1_000_000, ..RunOptions::default() };
        let counters = RunOptions { repeats: 3, counters: true, ..RunOptions::default() };
        let few = (Duration::from_millis(400), 4);
        vec![
            Self { cache: None, ..Self::of("compile", small()) },
            Self { how: repeats.clone(), step: few.0, most: few.1, ..Self::of("repeats", small()) },
            Self { how: RunOptions { graph: true, ..repeats }, step: few.0, most: few.1, ..Self::of("graph", small()) },
            Self { how: counters, ..Self::of("counters", planned(64, 4096, Strategy::Serial)) },
            // 100 GB of K and V, read in some 25 ms a run.
            Self { ..Self::of("large", planned(192, 131_072, Strategy::Streams)) },
            Self { check: true, ..Self::of("check", small()) },
            Self { limits: true, ..Self::of("limits", small()) },
        ]
    }

    /// Opens the GPU and does it.
    fn whole(&self, cancel: &Cancel) -> Result<Option<Capture>> {
        let mut runner = Runner::gpu(self.cache.clone(), Box::new(|_| ()), cancel)?;
        if self.limits {
            return runner.limits(20, cancel).map(|_| None);
        }
        if self.check {
            return runner.check(&self.planned, 1, cancel).map(|_| None);
        }
        runner.run(&self.planned, &self.how, cancel).map(Some)
    }

    /// How long it went on after it was cancelled, `after` its begin; nothing where it was done before.
    fn cancelled(&self, after: Duration) -> Option<Duration> {
        let (cancel, done) = (Cancel::default(), Arc::new(AtomicBool::new(false)));
        let (later, ended) = (cancel.clone(), Arc::clone(&done));
        let begun = Instant::now();
        let wait = move || {
            while begun.elapsed() < after && !ended.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            later.cancel();
            Instant::now()
        };
        let thread = std::thread::Builder::new().name("cancel".to_owned()).spawn(wait).unwrap();
        let outcome = self.whole(&cancel);
        let end = Instant::now();
        done.store(true, Ordering::Relaxed);
        let asked = thread.join().unwrap();
        match outcome {
            Ok(_) => None,
            Err(Error::Cancelled) => Some(end - asked),
            Err(error) => panic!("{} after {after:?}: {error}", self.name),
        }
    }
}

#[test]
fn what_is_cancelled_at_any_moment_leaves_the_gpu_free_and_the_next_run_is_whole() {
    let _alone = alone();
    let Some(before) = free("cancelling at one moment after the other") else { return };
    for work in Work::all() {
        let mut took = Vec::new();
        for nth in 0..work.most {
            let Some(end) = work.cancelled(work.step * nth) else { break };
            took.push(end);
            assert_free(before, work.name);
        }
        let longest = took.iter().max().copied().unwrap_or_default();
        println!(
            "{}: cancelled {} times, each {:?} apart; the longest end took {longest:?}",
            work.name,
            took.len(),
            work.step
        );
        assert!(!took.is_empty(), "{}: it was done before it could be cancelled", work.name);
    }
    let capture = Work::of("whole", planned(64, 4096, Strategy::Fused)).whole(&Cancel::default()).unwrap().unwrap();
    assert_eq!(capture::verify(&capture), Vec::new());
    assert_free(before, "a whole run");
}

/// Takes all memory but about so many bytes; a single buffer cannot have all that is free.
fn fill(gpu: &Gpu, left: usize) -> Vec<DeviceBuffer> {
    let mut all = Vec::new();
    for piece in [4 << 30, 256 << 20, 16 << 20, 2 << 20] {
        while gpu.memory().unwrap().0 >= left + piece
            && let Ok(buffer) = gpu.allocate(piece)
        {
            all.push(buffer);
        }
    }
    all
}

#[test]
fn a_gpu_that_others_fill_refuses_with_the_bytes_and_runs_when_they_are_gone() {
    let _alone = alone();
    let Some(before) = free("a GPU that others fill") else { return };
    // 256 MB of K and V, and 512 MiB to empty L2.
    let plan = planned(64, 1024, Strategy::Fused);
    let cancel = Cancel::default();
    let how = RunOptions { repeats: 3, ..RunOptions::default() };
    let open = || Runner::gpu(Some(kernel_cache()), Box::new(|_| ()), &cancel).unwrap();
    let mut outcomes = Vec::new();
    for left in [1 << 20, 64 << 20, 200 << 20, 300 << 20, 600 << 20, 900 << 20, 2 << 30] {
        let mut runner = open();
        let other = Gpu::open(0).unwrap();
        let filled = fill(&other, left);
        let ran = runner.run(&plan, &how, &cancel);
        if let Err(error) = &ran {
            let text = error.to_string();
            println!("{left} bytes left: {text}");
            assert!(matches!(error, Error::Gpu(_)) && text.contains("memory") && text.contains("nvidia-smi"), "{text}");
        }
        outcomes.push(ran.is_ok());
        drop(filled);
        drop(other);
        assert!(runner.run(&plan, &how, &cancel).is_ok(), "{left} bytes were left, and now all are");
    }
    assert_eq!((outcomes.first(), outcomes.last()), (Some(&false), Some(&true)), "{outcomes:?}");
    // 2.6 TB of K and V.
    let mut runner = open();
    let large = planned(640, 1 << 20, Strategy::Fused);
    let refused = runner.run(&large, &how, &cancel).unwrap_err().to_string();
    println!("{refused}");
    assert!(refused.contains("bytes were asked") && refused.contains("bytes free"), "{refused}");
    assert_free(before, "a refused run, with the runner still there");
    assert!(runner.run(&plan, &how, &cancel).is_ok());
    drop(runner);
    assert_free(before, "the runner");
}
