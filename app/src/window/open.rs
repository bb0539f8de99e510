//! What the window opens on, and what a file is that was opened or dropped: a capture, a batch or a device.

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

/// A file that was read.
#[derive(Debug)]
pub(super) enum Opened {
    Capture(Box<Loaded>),
    Batch(Box<BatchSpec>),
    Device(Box<Device>),
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
    file.by_ref().take(7).read_to_end(&mut bytes).map_err(failed())?;
    if bytes == b"\x89PSCOPE" || path.extension().is_some_and(|extension| extension == "pscope") {
        return capture::read(path).map(|loaded| Opened::Capture(Box::new(loaded)));
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
