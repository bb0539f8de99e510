//! The capture file, version 3.
//!
//! ```text
//! offset  bytes  field                                   all numbers little-endian
//!      0      8  magic 89 50 53 43 4F 50 45 0A            (0x89 "PSCOPE" LF)
//!      8      4  version, 3
//!     12      4  CRC-32 of the 12 bytes before            (zero in versions 1 and 2)
//!     16      …  chunks, one after another
//!   end-24    8  offset of the INDX chunk                 footer
//!   end-16    4  version again
//!   end-12    4  CRC-32 of the 12 bytes before
//!   end-8     8  magic 0A 45 50 4F 43 53 50 89            (the first, backwards)
//!
//! a chunk
//!      0      4  kind, four letters
//!      4      4  number among its kind, from 0
//!      8      4  stored length S
//!     12      4  length before compression R, at most 256 MiB
//!     16      4  CRC-32 of the S stored bytes
//!     20      4  CRC-32 of the 20 bytes above
//!     24      S  zstd frame of R bytes
//! ```
//!
//! | kind | count | content |
//! |---|---|---|
//! | `META` | 1 | postcard of provenance, times, probe overhead, and how many of each of the following there are |
//! | `BTCH` | 1 | RON text of the batch, schema as in batch files |
//! | `PLAN` | 1 | postcard of the launch plan, merge rounds and prefill in their places, decisions left out |
//! | `PLCE` | 0 or 1 | postcard of the launches that have a share of the SMs or start programmatically; where none has, there is no such chunk |
//! | `NCAL` | 0 or 1 | a byte; there where the simulator that made the capture is not fitted to its device |
//! | `XERR` | 0 or 1 | postcard of how far off the simulator may be expected to be; there where its device tells it |
//! | `GPCS` | 0 or 1 | postcard of the GPC of each SM, a byte each; there where it is known |
//! | `DETR` | 0 or 1 | postcard of true; there where the kernels give the same bits in every run |
//! | `PAUS` | 0 or 1 | postcard of the pauses of the memory; there where it was seen to have some |
//! | `DCSN` | decisions / 1,024, rounded up | postcard of 1,024 decisions each |
//! | `KERN` | 1 | postcard of the kernel windows |
//! | `WARN` | 1 | postcard of the warnings |
//! | `SPAN` | spans / 65,536, rounded up | postcard of the span columns, 65,536 spans each; the first column is the role of the CTA |
//! | `CNTR` | one a series | postcard of one counter series |
//! | `HWCN` | 1 | postcard of what the hardware counted, or of nothing |
//! | `INDX` | 1 | postcard of (kind, number, offset) of every chunk above |
//!
//! Version 2 has merge rounds and prefill in chunks of their own (`RNDS`, `PREF`), no decisions, plan digests
//! of the first version, and two roles of CTAs alone; version 1 has none of `RNDS`, `PREF` and `HWCN`.
//!
//! Kinds that a reader does not know are passed over. The batch is text because its optional fields
//! are left out where empty, which postcard cannot read back. What every view needs (`META`, `BTCH`,
//! `PLAN`) comes first, so that a file cut later still opens; each chunk stands alone, so that a
//! damaged one costs only itself, and the index finds those behind it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::capture::{Capture, Provenance, RunTimes, Spans, write_atomically};
use crate::error::{Error, Result};

/// Version that this build writes, and the newest that it reads.
pub const VERSION: u32 = 3;
/// First version with the counts of the hardware.
pub(super) const WITH_COUNTS: u32 = 2;
/// First version with decisions, roles of all CTAs, and the whole plan in one chunk.
pub(super) const WITH_ROLES: u32 = 3;

pub(super) const MAGIC: [u8; 8] = *b"\x89PSCOPE\n";
pub(super) const END_MAGIC: [u8; 8] = *b"\nEPOCSP\x89";
pub(super) const HEADER: usize = 16;
pub(super) const CHUNK_HEADER: usize = 24;
pub(super) const FOOTER: usize = 24;
/// Spans of one chunk.
pub(super) const SPANS_PER_CHUNK: usize = 1 << 16;
/// Decisions of one chunk.
pub(super) const DECISIONS_PER_CHUNK: usize = 1 << 10;
/// Largest chunk before compression.
pub(super) const RAW_LIMIT: usize = 256 << 20;
/// zstd level: a million spans in well under a second.
const LEVEL: i32 = 3;

/// Kind of a chunk.
pub(super) type Kind = [u8; 4];
pub(super) const META: Kind = *b"META";
pub(super) const BATCH: Kind = *b"BTCH";
pub(super) const PLAN: Kind = *b"PLAN";
pub(super) const PLACEMENTS: Kind = *b"PLCE";
pub(super) const NOT_CALIBRATED: Kind = *b"NCAL";
pub(super) const EXPECTED_ERROR: Kind = *b"XERR";
pub(super) const GPCS: Kind = *b"GPCS";
pub(super) const DETERMINISTIC: Kind = *b"DETR";
pub(super) const PAUSES: Kind = *b"PAUS";
pub(super) const DECISIONS: Kind = *b"DCSN";
pub(super) const ROUNDS: Kind = *b"RNDS";
pub(super) const PREFILL: Kind = *b"PREF";
pub(super) const KERNELS: Kind = *b"KERN";
pub(super) const WARNINGS: Kind = *b"WARN";
pub(super) const SPANS: Kind = *b"SPAN";
pub(super) const COUNTER: Kind = *b"CNTR";
pub(super) const COUNTED: Kind = *b"HWCN";
pub(super) const INDEX: Kind = *b"INDX";

/// The small things of a capture, and the counts by which a reader knows what is missing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Meta {
    pub(super) provenance: Provenance,
    pub(super) times: RunTimes,
    pub(super) probe_overhead: Option<f64>,
    pub(super) spans: u64,
    pub(super) kernels: u32,
    pub(super) counters: u32,
    pub(super) warnings: u32,
    pub(super) decisions: u32,
}

/// A line of the index.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct IndexEntry {
    pub(super) kind: Kind,
    pub(super) number: u32,
    pub(super) offset: u64,
}

/// Writes a capture to a file, whole or not at all.
///
/// # Errors
/// [`Error::Io`] where the file cannot be written; nothing is left behind then.
pub fn write(capture: &Capture, path: &Path) -> Result<()> {
    write_atomically(path, "writing the capture", &to_bytes(capture)?)
}

/// The bytes of a capture file.
///
/// # Errors
/// [`Error::Capture`] where a part is too large for the format.
pub fn to_bytes(capture: &Capture) -> Result<Vec<u8>> {
    let mut out = Writer::new();
    let spans = &capture.spans;
    let meta = Meta {
        provenance: capture.provenance.clone(),
        times: capture.times.clone(),
        probe_overhead: capture.probe_overhead,
        spans: spans.len() as u64,
        kernels: capture.kernels.len() as u32,
        counters: capture.counters.len() as u32,
        warnings: capture.warnings.len() as u32,
        decisions: capture.plan.decisions.len() as u32,
    };
    out.value(META, 0, &meta)?;
    out.chunk(BATCH, 0, capture.batch.to_ron()?.as_bytes())?;
    out.value(PLAN, 0, &capture.plan)?;
    let placements = capture.plan.placements();
    if !placements.is_empty() {
        out.value(PLACEMENTS, 0, &placements)?;
    }
    if !capture.provenance.calibrated {
        out.value(NOT_CALIBRATED, 0, &true)?;
    }
    if let Some(error) = &capture.provenance.expected_error {
        out.value(EXPECTED_ERROR, 0, error)?;
    }
    if !capture.provenance.gpcs.is_empty() {
        out.value(GPCS, 0, &capture.provenance.gpcs)?;
    }
    if capture.provenance.deterministic {
        out.value(DETERMINISTIC, 0, &true)?;
    }
    if let Some(pauses) = &capture.pauses {
        out.value(PAUSES, 0, pauses)?;
    }
    for (number, decisions) in capture.plan.decisions.chunks(DECISIONS_PER_CHUNK).enumerate() {
        out.value(DECISIONS, number as u32, &decisions)?;
    }
    out.value(KERNELS, 0, &capture.kernels)?;
    out.value(WARNINGS, 0, &capture.warnings)?;
    for (number, begin) in (0..spans.len()).step_by(SPANS_PER_CHUNK).enumerate() {
        let end = spans.len().min(begin + SPANS_PER_CHUNK);
        out.value(SPANS, number as u32, &part(spans, begin..end))?;
    }
    for (number, series) in capture.counters.iter().enumerate() {
        out.value(COUNTER, number as u32, series)?;
    }
    out.value(COUNTED, 0, &capture.counted)?;
    out.finish()
}

/// The spans of a range as columns of their own.
fn part(spans: &Spans, range: std::ops::Range<usize>) -> Spans {
    Spans {
        role: spans.role[range.clone()].to_vec(),
        launch: spans.launch[range.clone()].to_vec(),
        cta: spans.cta[range.clone()].to_vec(),
        sm: spans.sm[range.clone()].to_vec(),
        slot: spans.slot[range.clone()].to_vec(),
        begin: spans.begin[range.clone()].to_vec(),
        first_tile: spans.first_tile[range.clone()].to_vec(),
        loop_end: spans.loop_end[range.clone()].to_vec(),
        end: spans.end[range].to_vec(),
    }
}

/// A file as it grows.
pub(super) struct Writer {
    bytes: Vec<u8>,
    index: Vec<IndexEntry>,
}

impl Writer {
    pub(super) fn new() -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        Self { bytes, index: Vec::new() }
    }

    pub(super) fn value(&mut self, kind: Kind, number: u32, value: &impl Serialize) -> Result<()> {
        let raw = postcard::to_stdvec(value).map_err(|error| cannot(kind, &error))?;
        self.chunk(kind, number, &raw)
    }

    pub(super) fn chunk(&mut self, kind: Kind, number: u32, raw: &[u8]) -> Result<()> {
        if raw.len() > RAW_LIMIT {
            return Err(cannot(kind, &format_args!("{} bytes, but a part has at most {RAW_LIMIT}", raw.len())));
        }
        let stored = zstd::bulk::compress(raw, LEVEL).map_err(|error| cannot(kind, &error))?;
        self.index.push(IndexEntry { kind, number, offset: self.bytes.len() as u64 });
        let begin = self.bytes.len();
        self.bytes.extend(kind);
        self.bytes.extend(number.to_le_bytes());
        self.bytes.extend((stored.len() as u32).to_le_bytes());
        self.bytes.extend((raw.len() as u32).to_le_bytes());
        self.bytes.extend(crc32fast::hash(&stored).to_le_bytes());
        let header = crc32fast::hash(&self.bytes[begin..]);
        self.bytes.extend(header.to_le_bytes());
        self.bytes.extend(stored);
        Ok(())
    }

    /// The chunks of a whole file but those of a kind, for files that are forged by hand.
    #[cfg(test)]
    pub(super) fn copy(&mut self, whole: &[u8], without: Kind) {
        let mut at = HEADER;
        while whole[at..at + 4] != INDEX {
            let kind: Kind = whole[at..at + 4].try_into().unwrap();
            let word = |offset: usize| u32::from_le_bytes(whole[at + offset..at + offset + 4].try_into().unwrap());
            let next = at + CHUNK_HEADER + word(8) as usize;
            if kind != without {
                self.index.push(IndexEntry { kind, number: word(4), offset: self.bytes.len() as u64 });
                self.bytes.extend(&whole[at..next]);
            }
            at = next;
        }
    }

    pub(super) fn finish(mut self) -> Result<Vec<u8>> {
        let index_at = self.bytes.len() as u64;
        let index = std::mem::take(&mut self.index);
        self.value(INDEX, 0, &index)?;
        let begin = self.bytes.len();
        self.bytes.extend(index_at.to_le_bytes());
        self.bytes.extend(VERSION.to_le_bytes());
        let crc = crc32fast::hash(&self.bytes[begin..]);
        self.bytes.extend(crc.to_le_bytes());
        self.bytes.extend(END_MAGIC);
        Ok(self.bytes)
    }
}

fn cannot(kind: Kind, reason: &dyn std::fmt::Display) -> Error {
    Error::Capture(format!("the {} part of the capture cannot be written: {reason}", String::from_utf8_lossy(&kind)))
}
