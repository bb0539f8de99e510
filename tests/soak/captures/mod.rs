//! Damaged captures: kept files of every version and fresh simulated ones, broken in every way.

mod bases;
mod container;
mod damage;

use engine::capture;

use crate::HEAP;
use crate::checks::{Tried, readable, refused, whole};
use crate::draw::Draw;
use crate::views;

/// What loading may take beside what grows with the file.
const BASE: u64 = 64_000_000;
/// What loading may take for each byte of the file.
const PER_BYTE: u64 = 60;

/// A capture file of a seed.
pub(crate) fn draw(draw: &mut Draw) -> anyhow::Result<Vec<u8>> {
    let bases = bases::all()?;
    damage::damaged(draw, bases)
}

/// Most memory that loading a file of this length may take.
pub(crate) fn limit(length: usize) -> u64 {
    BASE + PER_BYTE * length as u64
}

/// Loads a file, holds the memory that this took against the limit, and looks at what was loaded.
pub(crate) fn try_out(bytes: &[u8]) -> Tried {
    let held = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let loaded = capture::from_bytes(bytes);
    // The file itself, which the program reads into memory.
    let peak = (HEAP.peak_usage().saturating_sub(held) + bytes.len()) as u64;
    crate::worker::tell_loading(peak, bytes.len());
    if peak > limit(bytes.len()) {
        return Err(format!("loading {} bytes took {peak} bytes of memory", bytes.len()));
    }
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return refused(&error),
    };
    loaded.missing.iter().try_for_each(|missing| readable(missing))?;
    for finding in capture::verify(&loaded.capture) {
        readable(&finding.text)?;
    }
    // What was loaded, however little, is a capture that can be written and read.
    whole(&loaded.capture).map_err(|why| format!("what was loaded, written again: {why}"))?;
    views::look(&loaded)
}
