//! Reading capture files, whole, cut or damaged.
//!
//! ```text
//! bytes ─► magic, version ─► chunk places (index, else one after another) ─► CRC ─► zstd ─► parts
//!                                                                                            │
//!                         Loaded { capture, missing } ◄── counts of META, ids against PLAN ◄─┘
//! ```
//!
//! A file is input from outside: no length in it is trusted before it is checked, and every index
//! that a view would follow is checked against the plan here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::file::{
    BATCH, CHUNK_HEADER, COUNTED, COUNTER, END_MAGIC, FOOTER, HEADER, INDEX, IndexEntry, KERNELS, Kind, MAGIC, META,
    Meta, PLAN, PREFILL, RAW_LIMIT, ROUNDS, SPANS, SPANS_PER_CHUNK, VERSION, WARNINGS, WITH_COUNTS,
};
use super::fit::{batch_fits, counts_fit, plan_fits, series_fits, spans_fit};
use crate::capture::{Capture, Counted, Spans};
use crate::error::{Error, Result};
use crate::plan::LaunchPlan;
use crate::units::grouped;
use crate::workload::BatchSpec;

/// Most chunks of one kind: 68 billion spans. Bounds the work that a damaged count can ask for.
const MOST_CHUNKS: u32 = 1 << 20;

/// A capture with what its file should have had but had not.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// What could be read.
    pub capture: Capture,
    /// What is missing, one sentence each; empty for a whole file.
    pub missing: Vec<String>,
}

/// Reads a capture file.
///
/// # Errors
/// [`Error::Io`] where it cannot be read; [`Error::Capture`] where it is no capture, is newer than
/// this build, or lost what every view needs.
pub fn read(path: &Path) -> Result<Loaded> {
    let failed = || Error::io("reading the capture", path);
    let mut file = File::open(path).map_err(failed())?;
    if file.metadata().map_err(failed())?.is_dir() {
        return Err(failed()(std::io::Error::from(std::io::ErrorKind::IsADirectory)));
    }
    // A large file of another program is refused by its first bytes.
    let mut bytes = Vec::new();
    file.by_ref().take(HEADER as u64).read_to_end(&mut bytes).map_err(failed())?;
    check_header(&bytes)?;
    file.read_to_end(&mut bytes).map_err(failed())?;
    from_bytes(&bytes)
}

/// Reads a capture from the bytes of its file.
///
/// # Errors
/// [`Error::Capture`] as [`read`].
pub fn from_bytes(bytes: &[u8]) -> Result<Loaded> {
    let version = check_header(bytes)?;
    let mut chunks = Chunks::find(bytes);
    let meta: Meta = chunks.needed(META, "what made it")?;
    let batch = chunks.raw(BATCH, 0).map_err(|why| useless("its batch", &why))?;
    let batch = String::from_utf8(batch).map_err(|_| useless("its batch", "it is not text"))?;
    let batch = BatchSpec::from_ron(&batch).map_err(|error| useless("its batch", &error.to_string()))?;
    let mut plan: LaunchPlan = chunks.needed(PLAN, "its plan")?;
    // A plan whose launches name rounds or prefill that are not there is refused just below.
    plan.merge.rounds = chunks.value(ROUNDS, 0).unwrap_or_default();
    plan.prefill = chunks.value(PREFILL, 0).unwrap_or_default();
    plan_fits(&plan).and_then(|()| batch_fits(&plan, &batch)).map_err(|why| useless("its plan", &why))?;
    let kernels = chunks.optional(KERNELS, &format!("{} kernel windows", meta.kernels));
    let warnings = chunks.optional(WARNINGS, &format!("{} warnings", meta.warnings));
    let mut capture = Capture {
        provenance: meta.provenance.clone(),
        batch,
        plan,
        times: meta.times.clone(),
        kernels,
        spans: Spans::default(),
        counters: Vec::new(),
        counted: None,
        probe_overhead: meta.probe_overhead,
        warnings,
    };
    let launches = capture.plan.launches.len();
    capture.kernels.retain(|kernel| (kernel.launch as usize) < launches);
    chunks.spans(&meta, &mut capture)?;
    chunks.counters(&meta, &mut capture);
    if version >= WITH_COUNTS {
        chunks.counted(&mut capture);
    }
    Ok(Loaded { capture, missing: chunks.missing })
}

/// The version of the file.
fn check_header(bytes: &[u8]) -> Result<u32> {
    let wrong = |text: &str| Err(Error::Capture(text.to_owned()));
    if bytes.is_empty() {
        return wrong("the file is empty; a capture is written by 'packscope run BATCH -o FILE'");
    }
    let seen = bytes.len().min(MAGIC.len());
    if bytes[..seen] != MAGIC[..seen] {
        return wrong("this is not a packscope capture; it is a file of another program");
    }
    let Some(version) = number(bytes, 8).filter(|_| bytes.len() >= HEADER) else {
        return wrong("the capture is cut inside its first 16 bytes; nothing of it can be read");
    };
    if version > VERSION {
        return Err(Error::Capture(format!(
            "the capture has version {version}, but this build reads up to version {VERSION}; update packscope"
        )));
    }
    if version == 0 {
        return wrong("the capture has version 0, which never was; its header is damaged");
    }
    Ok(version)
}

/// A little-endian number at an offset, where the bytes reach that far.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let part = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(part.try_into().ok()?))
}

fn useless(what: &str, why: &str) -> Error {
    Error::Capture(format!("the capture is damaged past use: {what} cannot be read ({why})"))
}

/// A chunk header whose own CRC is right and whose content lies inside the file.
#[derive(Clone, Copy)]
struct Header {
    kind: Kind,
    number: u32,
    begin: usize,
    stored: usize,
    raw: usize,
    crc: u32,
}

impl Header {
    fn at(bytes: &[u8], offset: usize) -> Option<Self> {
        let head = bytes.get(offset..offset.checked_add(CHUNK_HEADER)?)?;
        if number(head, 20)? != crc32fast::hash(&head[..20]) {
            return None;
        }
        let header = Self {
            kind: head[..4].try_into().ok()?,
            number: number(head, 4)?,
            begin: offset + CHUNK_HEADER,
            stored: number(head, 8)? as usize,
            raw: number(head, 12)? as usize,
            crc: number(head, 16)?,
        };
        (header.raw <= RAW_LIMIT).then_some(header)
    }

    /// The content, checked and unpacked.
    fn content(&self, bytes: &[u8]) -> std::result::Result<Vec<u8>, String> {
        let stored = self
            .begin
            .checked_add(self.stored)
            .and_then(|end| bytes.get(self.begin..end))
            .ok_or("the file is cut there")?;
        if crc32fast::hash(stored) != self.crc {
            return Err("its checksum is wrong".to_owned());
        }
        let unpack = || {
            let mut raw = Vec::new();
            // One byte more than promised, so that a frame that goes on is noticed.
            zstd::stream::read::Decoder::with_buffer(stored)?.take(self.raw as u64 + 1).read_to_end(&mut raw)?;
            Ok::<_, std::io::Error>(raw)
        };
        let raw = unpack().map_err(|error| format!("it cannot be unpacked: {error}"))?;
        if raw.len() == self.raw { Ok(raw) } else { Err("it unpacks to another length than promised".to_owned()) }
    }
}

/// Where the chunks of a file are, and what turned out to be missing.
struct Chunks<'a> {
    bytes: &'a [u8],
    found: BTreeMap<(Kind, u32), Header>,
    missing: Vec<String>,
}

impl<'a> Chunks<'a> {
    /// Finds the chunks by the index and by walking, so that one damaged place hides no other.
    fn find(bytes: &'a [u8]) -> Self {
        let mut chunks = Self { bytes, found: BTreeMap::new(), missing: Vec::new() };
        let end = chunks.by_index();
        let walked = chunks.by_walking();
        if end.is_none() {
            chunks
                .missing
                .push(format!("the end of the file: it is cut or damaged near byte {}", grouped(walked as u64)));
        }
        chunks
    }

    fn by_index(&mut self) -> Option<()> {
        let footer = self.bytes.get(self.bytes.len().checked_sub(FOOTER)?..)?;
        if footer[16..] != END_MAGIC || number(footer, 12)? != crc32fast::hash(&footer[..12]) {
            return None;
        }
        let offset = usize::try_from(u64::from_le_bytes(footer[..8].try_into().ok()?)).ok()?;
        let header = Header::at(self.bytes, offset).filter(|header| header.kind == INDEX)?;
        let index: Vec<IndexEntry> = postcard::from_bytes(&header.content(self.bytes).ok()?).ok()?;
        for entry in index {
            let header = usize::try_from(entry.offset).ok().and_then(|offset| Header::at(self.bytes, offset));
            if let Some(header) = header.filter(|header| (header.kind, header.number) == (entry.kind, entry.number)) {
                self.found.insert((header.kind, header.number), header);
            }
        }
        Some(())
    }

    /// Returns where the walk stopped.
    fn by_walking(&mut self) -> usize {
        let mut at = HEADER;
        while let Some(header) = Header::at(self.bytes, at) {
            self.found.entry((header.kind, header.number)).or_insert(header);
            match header.begin.checked_add(header.stored) {
                Some(next) if next <= self.bytes.len() => at = next,
                _ => break,
            }
        }
        at
    }

    fn raw(&self, kind: Kind, number: u32) -> std::result::Result<Vec<u8>, String> {
        self.found.get(&(kind, number)).ok_or("it is not in the file")?.content(self.bytes)
    }

    fn value<T: DeserializeOwned>(&self, kind: Kind, number: u32) -> std::result::Result<T, String> {
        postcard::from_bytes(&self.raw(kind, number)?).map_err(|error| format!("it does not parse: {error}"))
    }

    fn needed<T: DeserializeOwned>(&self, kind: Kind, what: &str) -> Result<T> {
        self.value(kind, 0).map_err(|why| useless(what, &why))
    }

    fn optional<T: DeserializeOwned + Default>(&mut self, kind: Kind, what: &str) -> T {
        match self.value(kind, 0) {
            Ok(value) => value,
            Err(why) => {
                self.missing.push(format!("{what}: {why}"));
                T::default()
            }
        }
    }

    fn spans(&mut self, meta: &Meta, capture: &mut Capture) -> Result<()> {
        let blocks = u32::try_from(meta.spans.div_ceil(SPANS_PER_CHUNK as u64))
            .ok()
            .filter(|&blocks| blocks <= MOST_CHUNKS)
            .ok_or_else(|| useless("what made it", "it promises more spans than a file can have"))?;
        let mut lost = Lost::default();
        for number in 0..blocks {
            let first = u64::from(number) * SPANS_PER_CHUNK as u64;
            let promised = (meta.spans - first).min(SPANS_PER_CHUNK as u64);
            let part = self.value::<Spans>(SPANS, number).and_then(|part| {
                spans_fit(&part, promised, &capture.plan, &capture.provenance)?;
                Ok(part)
            });
            match part {
                Ok(part) => append(&mut capture.spans, part),
                Err(why) => lost.add(first..first + promised, &why),
            }
        }
        self.missing.extend(lost.sentence(meta.spans));
        Ok(())
    }

    fn counters(&mut self, meta: &Meta, capture: &mut Capture) {
        let mut lost = 0_u32;
        let mut reason = String::new();
        for number in 0..meta.counters.min(MOST_CHUNKS) {
            let series = self.value(COUNTER, number).and_then(|series| series_fits(&series).map(|()| series));
            match series {
                Ok(series) => capture.counters.push(series),
                Err(why) => {
                    lost += 1;
                    reason = why;
                }
            }
        }
        if lost > 0 {
            self.missing.push(format!("{lost} of {} counter series: {reason}", meta.counters));
        }
    }

    fn counted(&mut self, capture: &mut Capture) {
        let counted = self.value::<Option<Counted>>(COUNTED, 0).and_then(|counted| {
            counted.as_ref().map_or(Ok(()), |counted| counts_fit(counted, &capture.plan))?;
            Ok(counted)
        });
        match counted {
            Ok(counted) => capture.counted = counted,
            Err(why) => self.missing.push(format!("what the hardware counted: {why}")),
        }
    }
}

/// Spans that could not be read.
#[derive(Default)]
struct Lost {
    spans: u64,
    first: Option<u64>,
    last: u64,
    why: String,
}

impl Lost {
    fn add(&mut self, range: std::ops::Range<u64>, why: &str) {
        self.spans += range.end - range.start;
        self.first.get_or_insert(range.start);
        self.last = range.end - 1;
        if self.why.is_empty() {
            why.clone_into(&mut self.why);
        }
    }

    fn sentence(&self, of: u64) -> Option<String> {
        let first = self.first?;
        Some(format!(
            "{} of {} spans, between span {} and span {}: {}",
            grouped(self.spans),
            grouped(of),
            grouped(first),
            grouped(self.last),
            self.why
        ))
    }
}

fn append(all: &mut Spans, part: Spans) {
    all.kind.extend(part.kind);
    all.launch.extend(part.launch);
    all.cta.extend(part.cta);
    all.sm.extend(part.sm);
    all.slot.extend(part.slot);
    all.begin.extend(part.begin);
    all.first_tile.extend(part.first_tile);
    all.loop_end.extend(part.loop_end);
    all.end.extend(part.end);
}
