//! Where the chunks of a capture file are, and what is in them.
//!
//! Chunks are found by the index and by walking, so that one damaged place hides no other. Each is checked
//! by its CRC and unpacked within the [`Budget`] of the file.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;

use super::budget::{Budget, Fields, Why};
use super::file::{CHUNK_HEADER, END_MAGIC, FOOTER, HEADER, INDEX, IndexEntry, Kind, RAW_LIMIT};
use crate::units::grouped;

/// A little-endian number at an offset, where the bytes reach that far.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let part = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(part.try_into().ok()?))
}

/// The footer, where it is whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Footer {
    pub(super) version: u32,
    index: usize,
}

impl Footer {
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let footer = bytes.get(bytes.len().checked_sub(FOOTER)?..)?;
        if footer[16..] != END_MAGIC || number(footer, 12)? != crc32fast::hash(&footer[..12]) {
            return None;
        }
        let index = usize::try_from(u64::from_le_bytes(footer[..8].try_into().ok()?)).ok()?;
        Some(Self { version: number(footer, 8)?, index })
    }
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
    fn content(&self, bytes: &[u8], budget: &Budget) -> Result<Vec<u8>, Why> {
        let stored = self
            .begin
            .checked_add(self.stored)
            .and_then(|end| bytes.get(self.begin..end))
            .ok_or("the file is cut there")?;
        if crc32fast::hash(stored) != self.crc {
            return Err("its checksum is wrong".to_owned());
        }
        budget.allows(self.raw as u64)?;
        // In one step, since a stream would set up whatever window the frame asks for.
        let raw =
            zstd::bulk::decompress(stored, self.raw).map_err(|error| format!("it cannot be unpacked: {error}"))?;
        if raw.len() == self.raw { Ok(raw) } else { Err("it unpacks to another length than promised".to_owned()) }
    }
}

/// The chunks of a file, and what turned out to be missing.
pub(super) struct Chunks<'a> {
    bytes: &'a [u8],
    found: BTreeMap<(Kind, u32), Header>,
    /// Kinds that the index names, whether or not their chunks can be read.
    indexed: BTreeSet<Kind>,
    pub(super) budget: Budget,
    pub(super) missing: Vec<String>,
}

#[expect(clippy::redundant_closure_for_method_calls, reason = "the methods by name are of one lifetime, not of any")]
impl<'a> Chunks<'a> {
    pub(super) fn find(bytes: &'a [u8], footer: Option<Footer>) -> Self {
        let (found, indexed) = (BTreeMap::new(), BTreeSet::new());
        let mut chunks = Self { bytes, found, indexed, budget: Budget::of(bytes.len()), missing: Vec::new() };
        let indexed = footer.and_then(|footer| chunks.by_index(footer));
        let walked = chunks.by_walking();
        if indexed.is_none() {
            let place = grouped(walked as u64);
            chunks.missing.push(format!("the end of the file: it is cut or damaged near byte {place}"));
        }
        chunks
    }

    fn by_index(&mut self, footer: Footer) -> Option<()> {
        let header = Header::at(self.bytes, footer.index).filter(|header| header.kind == INDEX)?;
        let index: Vec<IndexEntry> = self.content_of(header, |fields| fields.list()).ok()?;
        for entry in index {
            self.indexed.insert(entry.kind);
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

    /// Whether a chunk is there, whatever its state.
    pub(super) fn has(&self, kind: Kind) -> bool {
        self.found.contains_key(&(kind, 0))
    }

    /// Whether a chunk is there, or was when the file was written.
    pub(super) fn promises(&self, kind: Kind) -> bool {
        self.has(kind) || self.indexed.contains(&kind)
    }

    /// The content of a chunk.
    pub(super) fn raw(&self, kind: Kind, number: u32) -> Result<Vec<u8>, Why> {
        self.found.get(&(kind, number)).ok_or("it is not in the file")?.content(self.bytes, &self.budget)
    }

    /// The content of a chunk, read field by field.
    pub(super) fn fields<T>(
        &mut self,
        kind: Kind,
        number: u32,
        read: impl FnOnce(&mut Fields<'_>) -> Result<T, Why>,
    ) -> Result<T, Why> {
        let header = *self.found.get(&(kind, number)).ok_or("it is not in the file")?;
        self.content_of(header, read)
    }

    /// As [`Self::fields`], by the header. What is unpacked counts while it is read, since what is made of it stands beside
    /// it.
    fn content_of<T>(
        &mut self,
        header: Header,
        read: impl FnOnce(&mut Fields<'_>) -> Result<T, Why>,
    ) -> Result<T, Why> {
        let raw = header.content(self.bytes, &self.budget)?;
        let held = raw.len() as u64;
        self.budget.take(held)?;
        let value = read(&mut Fields::of(&raw, &mut self.budget));
        self.budget.give_back(held);
        value
    }

    /// The content of a chunk that is one value.
    pub(super) fn value<T: DeserializeOwned>(&mut self, kind: Kind, number: u32) -> Result<T, Why> {
        self.fields(kind, number, |fields| fields.value())
    }

    /// The content of a chunk that is one list.
    pub(super) fn list<T: DeserializeOwned>(&mut self, kind: Kind, number: u32) -> Result<Vec<T>, Why> {
        self.fields(kind, number, |fields| fields.list())
    }

    /// As [`Self::fields`]; what cannot be read is missing, and said so.
    pub(super) fn or_missing<T: Default>(
        &mut self,
        kind: Kind,
        what: &str,
        read: impl FnOnce(&mut Fields<'_>) -> Result<T, Why>,
    ) -> T {
        self.fields(kind, 0, read).unwrap_or_else(|why| {
            self.missing.push(format!("{what}: {why}"));
            T::default()
        })
    }
}
