//! Calls of FlashInfer: dumps of its own logging, and workload files of flashinfer-bench. Both hold a real page table;
//! equal page ids mean shared KV.

mod dump;
mod workload;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::error::{Error, Result};
use crate::import::options::wrong;
use crate::import::{ImportOptions, Imported, Part, Watch};
use crate::units::counted;

/// Reads one call: of a folder, or of the lines of a file.
pub(super) fn read(path: &Path, options: &ImportOptions, watch: &mut Watch<'_>) -> Result<Imported> {
    let session = path.file_name().is_some_and(|name| name == "session.jsonl");
    let folder = if session { path.parent() } else { Some(path).filter(|path| path.is_dir()) };
    if let Some(folder) = folder {
        return dump::read(folder, options, watch);
    }
    let file = File::open(path).map_err(Error::io("reading the workload", path))?;
    let mut start = String::new();
    // A dump's own metadata may be given too; its folder is meant.
    let first = BufReader::new(file).read_line(&mut start);
    match (first, path.parent()) {
        (Ok(_), Some(folder)) if start.contains("\"function_name\"") => dump::read(folder, options, watch),
        _ => workload::read(path, options, watch),
    }
}

/// The number of the call that is asked for; the first where none is.
fn asked(options: &ImportOptions) -> usize {
    match options.part {
        Some(Part::Call(number)) => number,
        _ => 0,
    }
}

/// A call past the last.
fn no_such_call(asked: usize, what: &str, there: u64) -> Error {
    wrong(&format!("--call {asked}"), format!("there are {}, counted from 0", counted(there, what)))
}
