//! Batches from what engines write: page tables, cache events and traces.
//!
//! ```text
//! FlashInfer calls, engine tensors ─► page table ──────────────┐
//! KV events ─► cached blocks ─► rows of blocks ─► page table ──┼─► BatchSpec + what could not be known
//! traces (JSON) ─► requests with hash ids ─► window, or time ──┘
//! ```
//!
//! [`importers`] is the one list that the command line, the window and `packscope list importers` read. A file is
//! read record by record, so that its size does not matter; what was asked for is all that is kept.

mod bailian;
mod dynamo;
mod flashinfer;
mod kv_events;
mod lines;
mod mooncake;
mod options;
mod pages;
mod tables;
mod tensors;
mod trace;
mod weka;
mod window;

pub use kv_events::KvEventsWriter;
pub use mooncake::read_mooncake;
pub use options::{ImportOptions, Part, Progress, Watch};
pub use trace::{Trace, TraceRequest};
pub use window::{prefix_keys, spec_from_window};

use std::path::Path;

use crate::error::{Error, Result};
use crate::workload::BatchSpec;

/// What a file is, for whoever looks at its first bytes before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Lines of JSON, maybe compressed by gzip.
    JsonLines,
    /// One JSON object.
    Json,
    /// A file of KV events, as `packscope record` writes it.
    KvEvents,
    /// Tensors: `.safetensors` or `.npz`.
    Tensors,
    /// A folder of calls, or lines of JSON that name files of tensors.
    Calls,
}

/// An option that an importer heeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heeds {
    /// `--window START:COUNT`: rows of a trace.
    Window,
    /// `--at MS`: a moment.
    At,
    /// `--call N`: one of several calls.
    Call,
    /// `--step TOKENS`: how far each request is into its output.
    Step,
    /// `--trace-block TOKENS`: tokens of one hash id.
    TraceBlock,
    /// `--requests FILE.jsonl`: which requests run.
    Requests,
}

/// A batch that was imported.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The batch.
    pub batch: BatchSpec,
    /// What the file did not tell, and what was taken instead: one sentence each.
    pub notes: Vec<String>,
    /// Records that were read: rows, messages or calls.
    pub records: u64,
}

type ReadTrace = fn(&Path, &ImportOptions, &mut Watch<'_>) -> Result<Trace>;
type ReadBatch = fn(&Path, &ImportOptions, &mut Watch<'_>) -> Result<Imported>;

/// How it reads.
#[derive(Clone, Copy, Debug)]
enum Read {
    Trace(ReadTrace),
    Batch(ReadBatch),
}

/// One form that can be read.
#[derive(Clone, Copy, Debug)]
pub struct Importer {
    /// Name, and option on the command line.
    pub name: &'static str,
    /// What it reads, as a noun with its article: `a Mooncake trace`.
    pub what: &'static str,
    /// What it reads and what it cannot know, in a sentence or two.
    pub about: &'static str,
    /// What the file is.
    pub form: Form,
    /// Options that it heeds.
    pub heeds: &'static [Heeds],
    read: Read,
}

/// All importers, in the order of menus.
pub fn importers() -> &'static [Importer] {
    &IMPORTERS
}

/// The importer of a name.
///
/// # Errors
/// [`Error::UnknownName`] with the names that exist.
pub fn find(name: &str) -> Result<&'static Importer> {
    IMPORTERS.iter().find(|importer| importer.name == name).ok_or_else(|| Error::UnknownName {
        kind: "importer",
        name: name.to_owned(),
        known: IMPORTERS.map(|importer| importer.name).join(", "),
    })
}

/// A trace tells arrivals and lengths; of who decodes when it knows nothing, unless it says so.
const OF_TRACES: &[Heeds] = &[Heeds::Window, Heeds::Step, Heeds::TraceBlock];

const IMPORTERS: [Importer; 7] = [
    Importer {
        name: "flashinfer",
        what: "a FlashInfer dump or workload",
        about: "Calls of FlashInfer: a dump folder of logging level 10 in safetensors, or the workload lines of \
                flashinfer-bench. Pages of prefill chunks are not kept.",
        form: Form::Calls,
        heeds: &[Heeds::Call],
        read: Read::Batch(flashinfer::read),
    },
    Importer {
        name: "kv-events",
        what: "a file of KV events",
        about: "KV events of vLLM or SGLang as 'packscope record' keeps them: the cached blocks at a time. Which \
                requests run is in --requests; without it one request a leaf is taken.",
        form: Form::KvEvents,
        heeds: &[Heeds::At, Heeds::Requests],
        read: Read::Batch(kv_events::read),
    },
    Importer {
        name: "dynamo",
        what: "a Dynamo request trace",
        about: "Dynamo's request trace, version 1: who decodes together at a time, or a window of its rows. Rows \
                without replay hashes share nothing.",
        form: Form::JsonLines,
        heeds: &[Heeds::Window, Heeds::At, Heeds::Step],
        read: Read::Trace(dynamo::read),
    },
    Importer {
        name: "mooncake",
        what: "a Mooncake trace",
        about: "A window of a Mooncake trace, or of a relative with its field names. What is shared is whole hash \
                blocks; how long a request runs is not told.",
        form: Form::JsonLines,
        heeds: OF_TRACES,
        read: Read::Trace(mooncake::read),
    },
    Importer {
        name: "bailian",
        what: "a Qwen-Bailian usage trace",
        about: "A window of a Qwen-Bailian usage trace, whose 16-token blocks are hashed one by one and are compared \
                from the root.",
        form: Form::JsonLines,
        heeds: OF_TRACES,
        read: Read::Trace(bailian::read),
    },
    Importer {
        name: "weka",
        what: "a Weka agentic trace",
        about: "A window of the requests of one agentic conversation in order of time, those of its subagents \
                included. Its hash ids mean nothing in other files.",
        form: Form::Json,
        heeds: &[Heeds::Window, Heeds::Step],
        read: Read::Trace(weka::read),
    },
    Importer {
        name: "tables",
        what: "a file of engine tensors",
        about: "Tensors block_table and seq_lens, and query_start_loc for prefill, in safetensors or .npz: what three \
                lines of Python save from a running engine. The block size is not in them.",
        form: Form::Tensors,
        heeds: &[],
        read: Read::Batch(tables::read),
    },
];

impl Importer {
    /// Reads a file, and makes a batch of what was asked for.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Record`] with the place of what cannot be; [`Error::Form`] for an option that does
    /// not fit the file; [`Error::Io`]; [`Error::Cancelled`].
    pub fn read(&self, path: &Path, options: &ImportOptions, watch: &mut Watch<'_>) -> Result<Imported> {
        options.check(self)?;
        match self.read {
            Read::Batch(read) => read(path, options, watch),
            // All rows of a trace may be more than memory holds.
            Read::Trace(_) if options.part.is_none() => Err(window::needs_part(self)),
            Read::Trace(read) => {
                let trace = read(path, options, watch)?;
                window::imported(&trace, options, self)
            }
        }
    }

    /// Reads the rows of a trace; all of them where no part was asked for.
    ///
    /// # Errors
    /// As [`Self::read`]; [`Error::Unsupported`] for what is no trace.
    pub fn read_trace(&self, path: &Path, options: &ImportOptions, watch: &mut Watch<'_>) -> Result<Trace> {
        match self.read {
            Read::Trace(read) => {
                options.check(self)?;
                read(path, options, watch)
            }
            Read::Batch(_) => Err(Error::Unsupported {
                who: "a replay".to_owned(),
                limit: format!("{} tells no arrivals; traces do: {}", self.what, traces().join(", ")),
            }),
        }
    }

    /// What it reads, without the article.
    pub(crate) fn title(&self) -> &'static str {
        self.what.strip_prefix("a ").unwrap_or(self.what)
    }

    /// Whether it reads a trace, which can be replayed.
    pub fn is_trace(&self) -> bool {
        matches!(self.read, Read::Trace(_))
    }
}

/// Names of the importers of traces.
fn traces() -> Vec<&'static str> {
    IMPORTERS.iter().filter(|importer| importer.is_trace()).map(|importer| importer.name).collect()
}
