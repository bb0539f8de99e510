//! The file that `packscope record` keeps KV events in: raw messages, so that what is not understood today is not lost.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `\x89KVR\r\n\x1a\n` |
//! | then for each message: 4 | its bytes that follow, little-endian |
//! | 4 | bytes of the first frame, little-endian |
//! | … | the frame; the others likewise: topic, sequence (8 bytes, big-endian), payload (msgpack) |

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use crate::error::{Error, Result};
use crate::import::Watch;
use crate::units::{counted, grouped};

/// How a file begins.
const MAGIC: [u8; 8] = *b"\x89KVR\r\n\x1a\n";
/// Largest message.
const LARGEST: u32 = 256 << 20;
/// Messages between two looks at the watch.
const LOOK: u64 = 64;

/// A message as it came.
#[derive(Debug)]
pub(super) struct Message<'a> {
    /// Number that the publisher gave it.
    pub(super) sequence: u64,
    /// The msgpack.
    pub(super) payload: &'a [u8],
}

/// Writes messages, each whole or not at all.
#[derive(Debug)]
pub struct KvEventsWriter<W> {
    out: W,
}

impl<W: Write> KvEventsWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// The writer's.
    pub fn new(mut out: W) -> std::io::Result<Self> {
        out.write_all(&MAGIC)?;
        out.flush()?;
        Ok(Self { out })
    }

    /// Adds a message of these frames.
    ///
    /// # Errors
    /// The writer's; `InvalidInput` for a message of more than 256 MiB.
    pub fn add<F: AsRef<[u8]>>(&mut self, frames: &[F]) -> std::io::Result<()> {
        let size: usize = frames.iter().map(|frame| 4 + frame.as_ref().len()).sum();
        let size = u32::try_from(size).ok().filter(|size| *size <= LARGEST);
        let size =
            size.ok_or_else(|| std::io::Error::new(std::io::ErrorKind::InvalidInput, "a message of over 256 MiB"))?;
        let mut record = Vec::with_capacity(4 + size as usize);
        record.extend(size.to_le_bytes());
        for frame in frames.iter().map(AsRef::as_ref) {
            record.extend((frame.len() as u32).to_le_bytes());
            record.extend(frame);
        }
        self.out.write_all(&record)?;
        self.out.flush()
    }

    /// What was written to.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// Hands each message of a file to `each`, which tells what is wrong with it and whether to go on. Gives their number.
///
/// # Errors
/// [`Error::Record`] with the message and its byte; [`Error::Io`]; [`Error::Cancelled`].
pub(super) fn messages(
    path: &Path,
    watch: &mut Watch<'_>,
    mut each: impl FnMut(Message<'_>) -> std::result::Result<(), String>,
) -> Result<u64> {
    let failed = || Error::io("reading the events", path);
    let file = File::open(path).map_err(failed())?;
    let size = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let mut magic = Vec::new();
    reader.by_ref().take(8).read_to_end(&mut magic).map_err(failed())?;
    let (mut number, mut offset, mut record) = (0, 8, Vec::new());
    let wrong = |number, offset, problem: String| Error::Record { what: "message", number, offset, problem };
    if magic != MAGIC {
        let problem = "this is no file of KV events; 'packscope record --kv-events ADDRESS -o FILE' writes them";
        return Err(wrong(0, 0, problem.to_owned()));
    }
    loop {
        let there = size_of_next(&mut reader).map_err(failed())?;
        let size_here = match there {
            Next::End => break,
            Next::Cut(bytes) => return Err(wrong(number, offset, cut(4, bytes))),
            Next::Size(bytes) if bytes > LARGEST => {
                return Err(wrong(number, offset, format!("it has {} bytes, over 256 MiB", grouped(u64::from(bytes)))));
            }
            Next::Size(bytes) => u64::from(bytes),
        };
        record.clear();
        let read = reader.by_ref().take(size_here).read_to_end(&mut record).map_err(failed())? as u64;
        if read < size_here {
            return Err(wrong(number, offset, cut(size_here, read)));
        }
        message_of(&record).and_then(&mut each).map_err(|problem| wrong(number, offset, problem))?;
        number += 1;
        offset += 4 + size_here;
        if number.is_multiple_of(LOOK) {
            (watch.progress.0)(offset, size);
            watch.cancel.check()?;
        }
    }
    (watch.progress.0)(offset, size);
    Ok(number)
}

fn cut(needed: u64, there: u64) -> String {
    format!(
        "the file is cut inside it: it has {} of {}; record anew, or cut the file there",
        grouped(there),
        counted(needed, "byte")
    )
}

/// What comes next in a file.
enum Next {
    End,
    Cut(u64),
    Size(u32),
}

fn size_of_next(reader: &mut impl Read) -> std::io::Result<Next> {
    let mut size = Vec::new();
    reader.take(4).read_to_end(&mut size)?;
    Ok(match <[u8; 4]>::try_from(size.as_slice()) {
        Ok(size) => Next::Size(u32::from_le_bytes(size)),
        Err(_) if size.is_empty() => Next::End,
        Err(_) => Next::Cut(size.len() as u64),
    })
}

fn message_of(mut record: &[u8]) -> std::result::Result<Message<'_>, String> {
    let mut frames = Vec::new();
    while !record.is_empty() {
        let (size, rest) = record.split_first_chunk::<4>().ok_or("its frames do not fill it")?;
        let (frame, rest) =
            rest.split_at_checked(u32::from_le_bytes(*size) as usize).ok_or("a frame reaches past its end")?;
        frames.push(frame);
        record = rest;
    }
    let [_topic, sequence, payload] = frames[..] else {
        return Err(format!(
            "it has {}, but topic, sequence and payload are three",
            counted(frames.len() as u64, "frame")
        ));
    };
    let sequence = <[u8; 8]>::try_from(sequence)
        .map_err(|_| format!("its sequence has {}, not 8", counted(sequence.len() as u64, "byte")))?;
    Ok(Message { sequence: u64::from_be_bytes(sequence), payload })
}
