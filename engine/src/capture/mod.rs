//! What a run leaves behind: when each CTA ran on which SM, in one type that goes to disk.
//!
//! Simulated and measured runs fill the same type, so that every view and every figure goes
//! through the same code.

mod types;

pub use types::{
    Capture, CounterSeries, KernelWindow, L2State, Provenance, RunTimes, Source, Spans, Span, SpanKind, Warning,
};
