//! The soak: random input without end, against everything that a person can hand to packscope.
//!
//! ```text
//!                 ┌─ kept cases, then seeds from `--from` on ─┐
//! crew.rs ──one line a case──► worker.rs ──► kinds.rs: (kind, seed) ─► input ─► what it must hold
//!    ▲                            │          captures/, batches, devices, imports, forms, edits
//!    └──one line an answer────────┘          limits of memory, of time; no panic
//! ```
//!
//! Cases run in child processes, so that an abort, an exhausted stack or an endless loop costs one of them
//! and is told like any other fault. A case is its kind and its seed, and gives the same input always while
//! the generators stand; the input of each case that ever failed is kept under `kept/`.

mod batches;
mod captures;
mod checks;
mod crew;
mod devices;
mod draw;
mod edits;
mod forms;
mod imports;
mod kept;
mod kinds;
mod views;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use kinds::Kind;

/// Counts what is held, for the limits of memory.
#[global_allocator]
static HEAP: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

/// Feeds packscope random and damaged input, and says what it could not stand.
#[derive(Debug, Parser)]
#[command(name = "soak")]
struct Args {
    /// Go on for so many minutes
    #[arg(long, conflicts_with = "count")]
    minutes: Option<f64>,
    /// Run so many cases
    #[arg(long, default_value_t = 1000)]
    count: u64,
    /// Worker processes
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Run cases of this kind alone
    #[arg(long)]
    kind: Option<Kind>,
    /// First seed; another one gives other cases
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run this one case, and keep its input whatever comes of it
    #[arg(long, requires = "kind", conflicts_with_all = ["minutes", "from", "count"])]
    seed: Option<u64>,
    /// Folder for the inputs of cases that fail
    #[arg(long, default_value = "packscope-out/soak")]
    out: PathBuf,
    /// Run the cases that come in on stdin
    #[arg(long, hide = true)]
    worker: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    if args.worker {
        worker::work()?;
        return Ok(ExitCode::SUCCESS);
    }
    let sound = crew::soak(&args)?;
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
