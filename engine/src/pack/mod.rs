//! Schedulers: from a prefix tree to packs, each with its decisions written down.
//!
//! [`schedulers`] is the one list; menus, help, tests and benchmarks read it. To add a scheduler,
//! write a file here and put it on the list.

mod coverage;
mod cut;
mod naive;
mod pat;
mod pat_released;
mod query_centric;
mod splits;
mod types;

pub use coverage::coverage;
pub use types::{Pack, PackInput, PackOptions, Packing, Scheduler};

use crate::error::{Error, Result};

/// Name of the scheduler that is used unless another is asked for.
pub const DEFAULT: &str = "pat";

/// All schedulers, in the order of menus.
pub fn schedulers() -> &'static [&'static dyn Scheduler] {
    &[&pat::Pat, &pat_released::PatReleased, &naive::Naive, &query_centric::QueryCentric]
}

/// A scheduler by name.
///
/// # Errors
/// [`Error::UnknownName`] with the names that exist.
pub fn find(name: &str) -> Result<&'static dyn Scheduler> {
    schedulers().iter().copied().find(|scheduler| scheduler.name() == name).ok_or_else(|| Error::UnknownName {
        kind: "scheduler",
        name: name.to_owned(),
        known: schedulers().iter().map(|s| s.name()).collect::<Vec<_>>().join(", "),
    })
}
