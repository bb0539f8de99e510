//! Qwen-Bailian usage traces: one JSON object a line with `chat_id`, `parent_chat_id` (-1 for none), `timestamp` in
//! seconds, `input_length`, `output_length`, `type`, `turn` and `hash_ids`, one for each 16 tokens of input. A block is
//! hashed by itself: equal ids mean equal text only where all ids before them are equal too.

use std::path::Path;

use serde::Deserialize;

use crate::error::Result;
use crate::import::mooncake::check_lengths;
use crate::import::{ImportOptions, Trace, TraceRequest, Watch, lines};

/// Tokens of one hash id.
const BLOCK: u64 = 16;

/// A row.
#[derive(Debug, Deserialize)]
struct Row {
    /// Part of every row; asked for, so that no other trace is taken for one of these.
    #[serde(rename = "chat_id")]
    _chat_id: i64,
    timestamp: f64,
    input_length: u64,
    output_length: u64,
    hash_ids: Vec<u64>,
}

/// Reads the rows that are asked for.
pub(super) fn read(path: &Path, options: &ImportOptions, watch: &mut Watch<'_>) -> Result<Trace> {
    let mut trace = Trace { block: options.trace_block.unwrap_or(BLOCK), ..Trace::default() };
    let mut seen = 0;
    trace.rows = lines::rows(path, "a request of a Qwen-Bailian trace", watch, |row: Row| {
        check_lengths(row.input_length, Some(&row.hash_ids), trace.block)?;
        if !row.timestamp.is_finite() {
            return Err("the timestamp is no number".to_owned());
        }
        if options.takes_row(seen) {
            trace.requests.push(TraceRequest {
                arrival_ms: row.timestamp * 1e3,
                input: row.input_length,
                output: row.output_length,
                hash_ids: row.hash_ids,
                decoding_ms: None,
            });
        }
        seen += 1;
        Ok(())
    })?;
    trace.or_empty()
}
