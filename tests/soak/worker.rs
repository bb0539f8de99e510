//! A process that runs cases one after another, within limits, and answers each with a line.

use std::io::{BufRead, Write, stdin, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::HEAP;
use crate::checks::{Tried, Verdict};
use crate::kept;
use crate::kinds::{Input, Kind};

/// Most memory that a case may hold: block tables of the largest batch are 512 MiB, and are copied.
const MEMORY: u64 = 2 << 30;
/// Address space of the process. Beyond it an allocation fails, and the process with it.
#[cfg(unix)]
const ADDRESS_SPACE: u64 = 6 << 30;

/// A case to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Job {
    /// The input of a seed.
    Seed(Kind, u64),
    /// An input that is kept.
    Kept(Kind, u64),
}

/// How a case went.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) tried: Tried,
    /// Most memory that was held beside what was there before, in bytes.
    pub(crate) peak: u64,
    /// For a capture: memory of loading it, and its length.
    pub(crate) loading: Option<(u64, u64)>,
    pub(crate) ms: f64,
}

/// Panics of any thread since the case began.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// What loading took, and of how many bytes.
static LOADING: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

fn panics() -> std::sync::MutexGuard<'static, Vec<String>> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a thread has panicked since the case began.
pub(crate) fn panicked() -> bool {
    !panics().is_empty()
}

/// Notes what loading a capture took.
pub(crate) fn tell_loading(peak: u64, length: usize) {
    LOADING[0].store(peak, Ordering::Relaxed);
    LOADING[1].store(length as u64, Ordering::Relaxed);
}

/// Runs cases until stdin ends.
pub(crate) fn work() -> Result<()> {
    #[cfg(unix)]
    rlimit::setrlimit(rlimit::Resource::AS, ADDRESS_SPACE, ADDRESS_SPACE).context("limiting the memory")?;
    std::panic::set_hook(Box::new(|info| {
        let text = info.payload_as_str().unwrap_or("no words");
        let place = info.location().map_or_else(String::new, |at| format!(" at {}:{}", at.file(), at.line()));
        panics().push(format!("a panic{place}: {text}"));
    }));
    for line in stdin().lock().lines() {
        let job: Job = serde_json::from_str(&line?).context("reading a job")?;
        let answer = run(&job);
        let mut out = stdout().lock();
        serde_json::to_writer(&mut out, &answer).context("answering")?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

fn run(job: &Job) -> Answer {
    panics().clear();
    tell_loading(0, 0);
    let input = catch_unwind(|| match job {
        Job::Seed(kind, seed) => Input::draw(*kind, *seed),
        Job::Kept(kind, seed) => kept::read(*kind, *seed),
    });
    let start = Instant::now();
    let held = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let mut tried = match input {
        Ok(Ok(input)) => catch_unwind(AssertUnwindSafe(|| input.try_out())).unwrap_or(Ok(Verdict::Refused)),
        Ok(Err(error)) => Err(format!("the case cannot be made: {error:#}")),
        Err(_) => Err("making the case panicked".to_owned()),
    };
    let ms = start.elapsed().as_secs_f64() * 1e3;
    let peak = HEAP.peak_usage().saturating_sub(held) as u64;
    let loading = (LOADING[0].load(Ordering::Relaxed), LOADING[1].load(Ordering::Relaxed));
    // Whoever caught a panic, it was one.
    if let Some(panic) = panics().first() {
        tried = Err(panic.clone());
    } else if tried.is_ok() && peak > MEMORY {
        tried = Err(format!("it took {peak} bytes of memory"));
    }
    Answer { tried, peak, loading: (loading.1 > 0).then_some(loading), ms }
}
