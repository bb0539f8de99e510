//! What the window opens on, and what a file is that was opened or dropped: a capture, a batch, a device, a sweep or a
//! trace.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use engine::capture::Loaded;
use engine::hw::{self, Device};
use engine::workload::BatchSpec;
use engine::{Error, capture};

/// What the window opens on.
#[derive(Debug)]
pub enum Opening {
    /// A finished example.
    Example,
    /// A batch.
    Batch(Box<BatchSpec>),
    /// A capture.
    Capture(Box<Loaded>),
}

/// Largest batch or device file; ten thousand requests with explicit blocks fit many times.
const TEXT_LIMIT: u64 = 256 << 20;
/// A field that every device file has and no batch.
const OF_A_DEVICE: &str = "sm_count:";
/// Bytes from which a file is known.
const START: u64 = 64 << 10;
/// Words that one form of trace has and no other, with its importer.
const OF_TRACES: [(&str, &str); 3] =
    [("dynamo.request.trace", "dynamo"), ("\"chat_id\"", "bailian"), ("\"hash_id_scope\"", "weka")];

/// A file that was read.
#[derive(Debug)]
pub(super) enum Opened {
    Capture(Box<Loaded>),
    Batch(Box<BatchSpec>),
    Device(Box<Device>),
    /// The Parquet file of a sweep, which is read on a thread of its own.
    Sweep,
    /// A trace that can be replayed, with the name of its importer.
    Trace(&'static str),
}

/// Reads a file by what is in it, whatever it is called.
///
/// # Errors
/// One sentence that names the file and what is wrong with it.
pub(super) fn open(path: &Path) -> Result<Opened, String> {
    read(path).map_err(|problem| match problem {
        // These name the path themselves.
        error @ Error::Io { .. } => error.to_string(),
        other => format!("{}: {other}", path.display()),
    })
}

fn read(path: &Path) -> Result<Opened, Error> {
    let failed = || Error::io("opening the file", path);
    let mut file = File::open(path).map_err(failed())?;
    let mut bytes = Vec::new();
    file.by_ref().take(START).read_to_end(&mut bytes).map_err(failed())?;
    let ends = |ending: &str| path.extension().is_some_and(|extension| extension == ending);
    if bytes.starts_with(b"\x89PSCOPE") || ends("pscope") {
        return capture::read(path).map(|loaded| Opened::Capture(Box::new(loaded)));
    }
    if bytes.starts_with(b"PAR1") || ends("parquet") {
        return Ok(Opened::Sweep);
    }
    if ends("jsonl") || ends("gz") || bytes.trim_ascii_start().starts_with(b"{") {
        return Ok(Opened::Trace(importer(&bytes)));
    }
    file.take(TEXT_LIMIT).read_to_end(&mut bytes).map_err(failed())?;
    if bytes.len() as u64 > TEXT_LIMIT {
        return Err(Error::Batch("the file is larger than 256 MiB; is it the right one?".to_owned()));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        Error::Batch("this is no text, but batches and devices are RON text; is it the right file?".to_owned())
    })?;
    match BatchSpec::from_ron(&text) {
        Ok(spec) => Ok(Opened::Batch(Box::new(spec))),
        Err(_) if text.contains(OF_A_DEVICE) => hw::from_ron(&text).map(|device| Opened::Device(Box::new(device))),
        Err(error) => Err(error),
    }
}

/// The importer of a trace by its first rows; that of the plainest form where they tell nothing.
fn importer(start: &[u8]) -> &'static str {
    let text = String::from_utf8_lossy(start);
    OF_TRACES.iter().find(|(word, _)| text.contains(word)).map_or("mooncake", |(_, importer)| importer)
}
