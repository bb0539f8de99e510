//! What of a file is imported, and whoever looks on.

use std::path::PathBuf;

use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::import::{Heeds, Importer};
use crate::workload::AttentionShape;

/// A part of what a file tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// `count` rows from row `start` on.
    Window {
        /// First row, from 0.
        start: usize,
        /// How many.
        count: usize,
    },
    /// A moment, ms after the first record.
    At(f64),
    /// One of several calls, from 0.
    Call(usize),
}

/// What is imported, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportOptions {
    /// Shape of the batch in what the file does not tell.
    pub shape: AttentionShape,
    /// Whether the block size of `shape` was asked for, and is no default.
    pub block_size_asked: bool,
    /// The part.
    pub part: Option<Part>,
    /// Tokens that each request of a trace is into its output.
    pub step: u64,
    /// Tokens of one hash id, where the file does not tell.
    pub trace_block: Option<u64>,
    /// Which requests run, for KV events.
    pub requests: Option<PathBuf>,
}

impl ImportOptions {
    /// Refuses what the importer does not heed.
    pub(super) fn check(&self, importer: &Importer) -> Result<()> {
        self.shape.validate()?;
        let part = self.part.map(|part| match part {
            Part::Window { .. } => ("--window", Heeds::Window),
            Part::At(_) => ("--at", Heeds::At),
            Part::Call(_) => ("--call", Heeds::Call),
        });
        let block = self.trace_block.map(|_| ("--trace-block", Heeds::TraceBlock));
        let requests = self.requests.as_ref().map(|_| ("--requests", Heeds::Requests));
        let refused = [part, block, requests].into_iter().flatten().find(|(_, heeds)| !importer.heeds.contains(heeds));
        if let Some((option, _)) = refused {
            return Err(wrong(option, format!("{} has no such choice; leave it out", importer.what)));
        }
        if self.trace_block == Some(0) {
            return Err(wrong("--trace-block", "a hash id stands for at least 1 token"));
        }
        match self.part {
            Some(Part::At(ms)) if !ms.is_finite() || ms < 0.0 => {
                Err(wrong("--at", "it must be ms after the first record, at least 0"))
            }
            _ => Ok(()),
        }
    }

    /// Whether row `number` of a trace, from 0, is asked for.
    pub(super) fn takes_row(&self, number: usize) -> bool {
        match self.part {
            Some(Part::Window { start, count }) => number >= start && number - start < count,
            _ => true,
        }
    }
}

/// An option that does not fit.
pub(super) fn wrong(option: &str, problem: impl Into<String>) -> Error {
    Error::Form { form: option.to_owned(), problem: problem.into(), at: None }
}

/// Whoever looks on while a file is read, and may stop it.
#[derive(Debug)]
pub struct Watch<'a> {
    /// Stops the reading.
    pub cancel: &'a Cancel,
    /// Told the bytes of the file that were read, and its size where it has one.
    pub progress: Progress<'a>,
}

/// Bytes read, bytes in all.
pub struct Progress<'a>(pub &'a mut dyn FnMut(u64, Option<u64>));

impl std::fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Progress")
    }
}
