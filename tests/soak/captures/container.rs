//! A capture file taken into its chunks and put together again, right or wrong. The format stands in
//! `engine/src/capture/file.rs`; this is a second reading of it, which knows no check.

use anyhow::{Context as _, Result};

const HEADER: usize = 16;
const CHUNK_HEADER: usize = 24;
const FOOTER: usize = 24;
/// First version whose header has a CRC.
const WITH_HEADER_CRC: u32 = 3;
/// Largest content that a chunk may claim.
const RAW_LIMIT: usize = 256 << 20;

pub(super) type Kind = [u8; 4];
pub(super) const INDEX: Kind = *b"INDX";

/// A chunk: its content, how that is packed, and what its header says of it.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) kind: Kind,
    pub(super) number: u32,
    /// What it holds.
    pub(super) raw: Vec<u8>,
    /// The length that its header claims instead of that.
    pub(super) claimed: Option<u32>,
    /// zstd window, as a power of two, instead of the usual one.
    pub(super) window: Option<u32>,
}

/// A file in parts.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    /// In the header, and in the footer.
    pub(super) versions: (u32, u32),
    /// All chunks but the index.
    pub(super) chunks: Vec<Chunk>,
    /// An index instead of the right one.
    pub(super) index: Option<Vec<u8>>,
}

fn number(bytes: &[u8], at: usize) -> Result<u32> {
    let part = bytes.get(at..at + 4).context("the base is cut")?;
    Ok(u32::from_le_bytes(part.try_into()?))
}

impl Parts {
    /// The parts of a whole file.
    pub(super) fn of(bytes: &[u8]) -> Result<Self> {
        let version = number(bytes, 8)?;
        let mut chunks = Vec::new();
        let mut at = HEADER;
        while at + FOOTER < bytes.len() {
            let kind: Kind = bytes[at..at + 4].try_into()?;
            let (stored, raw) = (number(bytes, at + 8)? as usize, number(bytes, at + 12)? as usize);
            let content = bytes.get(at + CHUNK_HEADER..at + CHUNK_HEADER + stored).context("the base is cut")?;
            if kind != INDEX {
                let raw = zstd::bulk::decompress(content, raw).context("unpacking a base")?;
                chunks.push(Chunk { kind, number: number(bytes, at + 4)?, raw, claimed: None, window: None });
            }
            at += CHUNK_HEADER + stored;
        }
        Ok(Self { versions: (version, version), chunks, index: None })
    }

    /// The file, with every CRC and the index right.
    pub(super) fn bytes(&self) -> Result<Vec<u8>> {
        let mut out = b"\x89PSCOPE\n".to_vec();
        out.extend(self.versions.0.to_le_bytes());
        let crc = if self.versions.0 >= WITH_HEADER_CRC { crc32fast::hash(&out) } else { 0 };
        out.extend(crc.to_le_bytes());
        let mut index: Vec<(Kind, u32, u64)> = Vec::new();
        for chunk in &self.chunks {
            index.push((chunk.kind, chunk.number, out.len() as u64));
            chunk.append(&mut out)?;
        }
        let index_at = out.len() as u64;
        let raw = match &self.index {
            Some(raw) => raw.clone(),
            None => postcard::to_stdvec(&index)?,
        };
        Chunk { kind: INDEX, number: 0, raw, claimed: None, window: None }.append(&mut out)?;
        let footer = out.len();
        out.extend(index_at.to_le_bytes());
        out.extend(self.versions.1.to_le_bytes());
        out.extend(crc32fast::hash(&out[footer..]).to_le_bytes());
        out.extend(b"\nEPOCSP\x89");
        Ok(out)
    }

    /// The first chunk of a kind.
    pub(super) fn find(&mut self, kind: Kind) -> Option<&mut Chunk> {
        self.chunks.iter_mut().find(|chunk| chunk.kind == kind)
    }
}

impl Chunk {
    fn append(&self, out: &mut Vec<u8>) -> Result<()> {
        let stored = self.packed()?;
        let begin = out.len();
        out.extend(self.kind);
        out.extend(self.number.to_le_bytes());
        out.extend((stored.len() as u32).to_le_bytes());
        let raw = self.claimed.unwrap_or(self.raw.len().min(RAW_LIMIT) as u32);
        out.extend(raw.to_le_bytes());
        out.extend(crc32fast::hash(&stored).to_le_bytes());
        out.extend(crc32fast::hash(&out[begin..]).to_le_bytes());
        out.extend(stored);
        Ok(())
    }

    fn packed(&self) -> Result<Vec<u8>> {
        let Some(window) = self.window else {
            return Ok(zstd::bulk::compress(&self.raw, 3)?);
        };
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3)?;
        encoder.window_log(window)?;
        encoder.include_contentsize(false)?;
        std::io::Write::write_all(&mut encoder, &self.raw)?;
        Ok(encoder.finish()?)
    }
}
