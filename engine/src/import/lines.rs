//! Lines of JSON, one record each, with the place of what is wrong. Files that end in `.gz` are unpacked on the way;
//! places then count in the text.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::import::Watch;
use crate::shown;
use crate::units::grouped;

/// Most bytes of a line; one of a million tokens has some ten thousand.
const LINE: u64 = 64 << 20;
/// Lines between two looks at the watch.
const LOOK: usize = 256;
/// Bytes of a buffer.
const BUFFER: usize = 1 << 18;

/// Reads every line of a file as a `T` and hands it to `each`, which tells what is wrong with it. Gives their number.
///
/// # Errors
/// [`Error::File`] with the line; [`Error::Io`]; [`Error::Cancelled`].
pub(super) fn rows<T: DeserializeOwned>(
    path: &Path,
    what: &str,
    watch: &mut Watch<'_>,
    each: impl FnMut(T) -> Result<(), String>,
) -> Result<u64> {
    let file = File::open(path).map_err(Error::io("reading the trace", path))?;
    let size = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
    let read = Arc::new(AtomicU64::new(0));
    let counted = BufReader::with_capacity(BUFFER, Counted { file, read: Arc::clone(&read) });
    let mut look = |_: u64| {
        (watch.progress.0)(read.load(Ordering::Relaxed), size);
        watch.cancel.check()
    };
    if path.extension().is_some_and(|extension| extension == "gz") {
        rows_of(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(counted)), what, &mut look, each)
    } else {
        rows_of(counted, what, &mut look, each)
    }
}

/// A file that tells how much of it was read.
struct Counted {
    file: File,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// As [`rows`], of any reader; `look` is called with the rows so far now and then, and at the end.
pub(super) fn rows_of<T: DeserializeOwned>(
    mut reader: impl BufRead,
    what: &str,
    look: &mut dyn FnMut(u64) -> Result<()>,
    mut each: impl FnMut(T) -> Result<(), String>,
) -> Result<u64> {
    let mut bytes = Vec::new();
    let (mut line, mut offset, mut rows) = (0, 0, 0);
    loop {
        bytes.clear();
        line += 1;
        // The parser counts bytes from 1, a person characters.
        let wrong = |byte: usize, problem: String, bytes: &[u8]| {
            let before = bytes.get(..byte - 1).unwrap_or(bytes);
            let column = String::from_utf8_lossy(before).chars().count() + 1;
            Error::File { problem, line, column, offset: offset + before.len() }
        };
        let read = reader.by_ref().take(LINE).read_until(b'\n', &mut bytes);
        let read = read.map_err(|error| wrong(1, format!("reading stopped: {error}"), &[]))?;
        if read == 0 {
            break;
        }
        if read as u64 == LINE && !bytes.ends_with(b"\n") {
            return Err(wrong(1, format!("the line is longer than {} bytes", grouped(LINE)), &[]));
        }
        if !bytes.iter().all(u8::is_ascii_whitespace) {
            let row: T = serde_json::from_slice(&bytes).map_err(|error| {
                let problem = format!("not {what}: {}", reason(&error));
                wrong(error.column().max(1), problem, &bytes)
            })?;
            each(row).map_err(|problem| wrong(1, problem, &[]))?;
            rows += 1;
        }
        offset += read;
        if line.is_multiple_of(LOOK) {
            look(rows)?;
        }
    }
    look(rows)?;
    Ok(rows)
}

/// A fault in the lines of a file other than the one that was given, which its message then names.
pub(super) fn of_file(path: &Path, error: Error) -> Error {
    match error {
        Error::File { .. } => Error::Tensors { path: path.to_owned(), problem: error.to_string() },
        other => other,
    }
}

/// The parser's reason without its own line and column, which count from this line.
pub(super) fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    shown::reason(text.rsplit_once(" at line ").map_or(&*text, |(reason, _)| reason))
}
