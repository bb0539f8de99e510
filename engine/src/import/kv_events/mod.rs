//! KV events of vLLM and SGLang: what the prefix cache holds at a time, as a batch.
//!
//! ```text
//! ZMQ messages ─► file (records) ─► events (wire) ─► cached blocks (cache) ─► rows of blocks ─► batch
//! ```
//!
//! Events tell the cached tree, not which requests run. Those come from `--requests`, lines of
//! `{"block_hashes": [hash of each full block], "kv": tokens}`; without them one request a leaf is taken.

mod cache;
mod file;
mod wire;

pub use file::KvEventsWriter;

use std::path::Path;

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::import::options::wrong;
use crate::import::pages::{PageRow, PageTable};
use crate::import::{ImportOptions, Imported, Part, Watch, lines};
use crate::units::{counted, grouped};
use crate::workload::AttentionShape;

use cache::Cache;
use wire::Hash;

/// A request that runs.
#[derive(Debug, Deserialize)]
struct Running {
    block_hashes: Vec<Value>,
    kv: u64,
}

/// Reads the events up to the time that is asked for, or all.
pub(super) fn read(path: &Path, options: &ImportOptions, watch: &mut Watch<'_>) -> Result<Imported> {
    let mut cache = Cache::default();
    let until = match options.part {
        Some(Part::At(ms)) => Some(ms),
        _ => None,
    };
    let messages = file::messages(path, watch, |message| {
        let batch = wire::decode(message.payload)?;
        cache.take(message.sequence, batch, until)
    })?;
    if messages == 0 {
        let problem = "the file has no messages; record while the server serves".to_owned();
        return Err(Error::Record { what: "message", number: 0, offset: 0, problem });
    }
    let block = cache.block_size().ok_or_else(|| match until {
        Some(ms) => {
            wrong(&format!("--at {ms}"), "no block is in the cache then; times count in ms from the first message")
        }
        None => wrong("--kv-events", "the events leave the cache empty; ask for a time before its end with --at"),
    })?;
    let mut notes = cache.notes(messages);
    let rows = match &options.requests {
        Some(requests) => running(requests, &cache, block, &mut notes, watch)?,
        None => leaves(&cache, block, &mut notes),
    };
    notes.push("heads, head dimension and element type are not in the events; say --model or --heads".to_owned());
    let shape = AttentionShape { block_size: block, ..options.shape };
    let name = match until {
        Some(ms) => format!("KV events at {ms} ms"),
        None => "KV events".to_owned(),
    };
    PageTable { name, shape, rows, notes, records: messages }.imported(options)
}

/// One request for each cached block that no other continues.
fn leaves(cache: &Cache, block: u32, notes: &mut Vec<String>) -> Vec<PageRow> {
    let rows: Vec<PageRow> = cache
        .leaves()
        .into_iter()
        .map(|pages| PageRow { kv: pages.len() as u64 * u64::from(block), pages, chunk: None })
        .collect();
    notes.push(format!(
        "which requests run is not in the events; {} taken, one at each leaf of the cached tree; say --requests FILE.jsonl",
        counted(rows.len() as u64, "request")
    ));
    rows
}

/// The requests that a file lists, over the cached blocks.
fn running(
    path: &Path,
    cache: &Cache,
    block: u32,
    notes: &mut Vec<String>,
    watch: &mut Watch<'_>,
) -> Result<Vec<PageRow>> {
    let mut rows = Vec::new();
    let mut strangers: FxHashMap<Hash, u64> = FxHashMap::default();
    // Past all pages of the cache, so that none is another's.
    let mut fresh = 1_u64 << 32;
    lines::rows(path, "a request with block_hashes and kv", watch, |request: Running| {
        let full = request.kv / u64::from(block);
        let listed = request.block_hashes.len() as u64;
        if listed > full {
            return Err(format!(
                "{} listed, but {} fill {} of {block}",
                counted(listed, "full block"),
                counted(request.kv, "KV token"),
                grouped(full)
            ));
        }
        let mut pages = Vec::with_capacity(full as usize + 1);
        let mut take_fresh = || {
            fresh += 1;
            fresh
        };
        for told in &request.block_hashes {
            let hash = Hash::of_json(told).ok_or("a hash is neither a whole number nor hexadecimal text")?;
            let page = cache.page(&hash);
            pages.push(page.unwrap_or_else(|| *strangers.entry(hash).or_insert_with(&mut take_fresh)));
        }
        // What is not listed is its own: a block that is being filled, or one that was never cached.
        pages.extend((listed..request.kv.div_ceil(u64::from(block))).map(|_| take_fresh()));
        rows.push(PageRow { kv: request.kv, pages, chunk: None });
        Ok(())
    })
    .map_err(|error| lines::of_file(path, error))?;
    if !strangers.is_empty() {
        let count = counted(strangers.len() as u64, "block");
        notes.push(format!("{count} of the requests not in the cache by its events; equal hashes are taken as shared"));
    }
    Ok(rows)
}
