//! Everything that thinks in packscope: a batch goes in, a plan comes out, a backend runs it
//! and a capture of every CTA on every SM comes back to be measured and compared.
//!
//! ```text
//! batch ─► prefix tree ─► scheduler ─► packs ─► tiles + KV split ─► launch plan ─► backend ─► capture ─► metrics
//! (workload)              (pack)                (tile)              (plan)         (sim|cuda)  (capture)  (metrics)
//! ```
//!
//! One direction, no way back: a module imports only from those left of it in
//! `units, shown, error, cancel, decision < workload < hw, import < tile < pack < plan < numerics, capture < backend <
//! metrics < export < session < calibrate < replan < replay, sweep`. A test over the sources keeps this true.
#![forbid(unsafe_code)]

pub mod backend;
pub mod calibrate;
pub mod cancel;
pub mod capture;
pub mod decision;
pub mod error;
pub mod export;
pub mod hw;
pub mod import;
pub mod metrics;
pub mod numerics;
pub mod pack;
pub mod plan;
pub mod replan;
pub mod replay;
pub mod session;
pub mod shown;
pub mod sweep;
pub mod tile;
pub mod units;
pub mod workload;

pub use error::{Error, Result};
