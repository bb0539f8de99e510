//! What a run leaves behind: when each CTA ran on which SM, in one type that goes to disk.
//!
//! Simulated and measured runs fill the same type, so that every view and every figure goes
//! through the same code.

mod atomic;
mod budget;
mod chunks;
mod counters;
mod file;
mod fit;
mod old;
mod pauses;
mod read;
#[cfg(test)]
mod tests;
mod types;
mod verify;

pub use atomic::{Outputs, abandon, write_atomically};
pub use counters::{Count, Counted, Counter, Counts, LaunchCounts, Sampled};
pub use file::{VERSION, to_bytes, write};
pub(crate) use fit::LONGEST_RUN;
pub use pauses::Pauses;
pub use read::{Loaded, Losses, from_bytes, read};
pub use types::{
    Capture, CounterSeries, KernelWindow, L2State, Provenance, RunTimes, Source, Span, Spans, Spread, Warning,
};
pub use verify::{Finding, verify};
