//! Sweeps: every combination of a grid of batches and ways, in shards, resumable, with the rows as Parquet.
//!
//! ```text
//! SPEC.ron ─► points, each with a stable key ─► those of a shard ─► simulated, several at once
//!                                                                        │ a line each, as it comes
//!              results.parquet ◄── rows in the order of the grid ◄── parts/*.jsonl
//! ```
//!
//! A line is written whole before its point counts as done; a run that was killed leaves at most one cut line, which the
//! next run takes away. Rows do not depend on who ran them, in which order, or how often it was broken off.

mod grid;
mod log;
mod point;
mod table;
#[cfg(test)]
mod tests;

pub use grid::{BatchSource, Named, Point, SweepSpec, WayOf, points};
pub use log::Logs;
pub use point::Row;
pub use table::{read_parquet, write_parquet};

use rayon::prelude::*;

use crate::cancel::Cancel;
use crate::error::Result;
use crate::sweep::point::run_point;

/// One of several parts of a sweep, by the keys of its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 0.
    pub number: u32,
    /// Of how many.
    pub of: u32,
}

impl Shard {
    /// All of it.
    pub const ALL: Self = Self { number: 0, of: 1 };

    /// Whether a point belongs to it.
    pub fn has(self, point: &Point) -> bool {
        point.key % u64::from(self.of.max(1)) == u64::from(self.number)
    }
}

/// Runs the points of a shard that no log has yet, and adds them to the shard's own. `tell` is called after each.
///
/// # Errors
/// [`crate::Error::Io`] where a log cannot be written; [`crate::Error::Cancelled`].
pub fn run(points: &[Point], shard: Shard, logs: &Logs, cancel: &Cancel, tell: &(dyn Fn() + Sync)) -> Result<()> {
    let done = logs.keys()?;
    let writer = logs.writer(shard)?;
    let left: Vec<&Point> = points.iter().filter(|point| shard.has(point) && !done.contains(&point.key)).collect();
    left.par_iter().try_for_each(|point| {
        cancel.check()?;
        let row = run_point(point, cancel)?;
        writer.add(&row)?;
        tell();
        Ok(())
    })
}
