//! Dynamo's request trace, version 1: one JSON object a line, maybe inside `event`. Rows of the type `request_end` count.
//!
//! ```text
//! received ── waiting + prefill ──► first token ──── decode ────► last token
//! request_received_ms               + ttft_ms                      + total_time_ms
//! ```
//!
//! Those between their first and their last token at a time decode together then. `input_sequence_hashes` are chained,
//! one for each `trace_block_size` tokens.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::error::Result;
use crate::import::mooncake::check_lengths;
use crate::import::options::wrong;
use crate::import::{ImportOptions, Part, Trace, TraceRequest, Watch, lines};
use crate::units::counted;

/// What a row says that it is.
const SCHEMA: &str = "dynamo.request.trace.v1";

#[derive(Debug, Deserialize)]
struct Row {
    schema: String,
    #[serde(default)]
    event_type: Option<String>,
    #[serde(default)]
    event_time_unix_ms: Option<f64>,
    #[serde(default)]
    request: Option<Request>,
}

#[derive(Debug, Deserialize)]
struct Request {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default, rename = "request_received_ms")]
    received_ms: Option<f64>,
    #[serde(default)]
    prefill_wait_time_ms: Option<f64>,
    #[serde(default)]
    prefill_time_ms: Option<f64>,
    #[serde(default)]
    ttft_ms: Option<f64>,
    #[serde(default)]
    total_time_ms: Option<f64>,
    #[serde(default)]
    replay: Option<Replay>,
}

#[derive(Debug, Deserialize)]
struct Replay {
    trace_block_size: u64,
    input_length: u64,
    input_sequence_hashes: Vec<u64>,
}

/// What is counted while rows are read.
#[derive(Default)]
struct Rows {
    trace: Trace,
    /// Unix time of the first row's arrival, from which times count.
    begin_ms: Option<f64>,
    ends: usize,
    others: u64,
    without_hashes: u64,
    without_times: u64,
    /// Requests that wait or prefill at the moment.
    before_decode: u64,
}

/// Reads the rows that are asked for.
pub(super) fn read(path: &Path, options: &ImportOptions, watch: &mut Watch<'_>) -> Result<Trace> {
    let mut rows = Rows::default();
    let read = lines::rows(path, "a row of a Dynamo request trace", watch, |mut line: Value| {
        let row = if line.get("schema").is_none() {
            line.get_mut("event").map(Value::take).unwrap_or_default()
        } else {
            line
        };
        let row: Row = serde_json::from_value(row)
            .map_err(|error| format!("not a row of a Dynamo request trace: {}", lines::reason(&error)))?;
        rows.push(row, options)
    })?;
    rows.finish(read, options)
}

impl Rows {
    fn push(&mut self, row: Row, options: &ImportOptions) -> Result<(), String> {
        if row.schema != SCHEMA {
            return Err(format!("the schema is \"{}\", but only {SCHEMA} is read", crate::shown::quoted(&row.schema)));
        }
        if row.event_type.as_deref().is_some_and(|kind| kind != "request_end") {
            self.others += 1;
            return Ok(());
        }
        let request = row.request.ok_or("the row ends a request, but has no field request")?;
        let ended = row.event_time_unix_ms;
        let request = self.request(&request, ended)?;
        let taken = match options.part {
            Some(Part::At(ms)) => self.decodes_at(&request, ms),
            _ => options.takes_row(self.ends),
        };
        self.ends += 1;
        if taken {
            self.without_hashes += u64::from(request.hash_ids.is_empty());
            self.without_times += u64::from(request.decoding_ms.is_none());
            self.trace.requests.push(request);
        }
        Ok(())
    }

    fn decodes_at(&mut self, request: &TraceRequest, ms: f64) -> bool {
        match request.decoding_ms {
            Some((first, last)) => {
                self.before_decode += u64::from(request.arrival_ms <= ms && ms < first);
                first <= ms && ms < last
            }
            None => false,
        }
    }

    fn request(&mut self, row: &Request, ended: Option<f64>) -> Result<TraceRequest, String> {
        let output = row.output_tokens.ok_or("request.output_tokens is missing")?;
        let (input, hash_ids) = match &row.replay {
            None => (row.input_tokens.ok_or("request has neither input_tokens nor replay")?, Vec::new()),
            Some(replay) => {
                self.take_block(replay.trace_block_size)?;
                check_lengths(replay.input_length, Some(&replay.input_sequence_hashes), replay.trace_block_size)?;
                (replay.input_length, replay.input_sequence_hashes.clone())
            }
        };
        check_lengths(input, None, 1)?;
        let total = row.total_time_ms;
        let received = row.received_ms.or_else(|| Some(ended? - total?));
        let received = received.or(ended).ok_or("request.request_received_ms is missing")?;
        let begin = *self.begin_ms.get_or_insert(received);
        let arrival_ms = received - begin;
        let prefill = row.prefill_time_ms.map(|time| row.prefill_wait_time_ms.unwrap_or(0.0) + time);
        let first = row.ttft_ms.or(prefill).map(|after| arrival_ms + after);
        let last = total.map(|total| arrival_ms + total).or_else(|| ended.map(|ended| ended - begin));
        let decoding_ms = first.zip(last).filter(|(first, last)| first <= last);
        if !arrival_ms.is_finite() {
            return Err("the time of arrival is no number".to_owned());
        }
        Ok(TraceRequest { arrival_ms, input, output, hash_ids, decoding_ms })
    }

    /// All rows have hashes of blocks of one size.
    fn take_block(&mut self, size: u64) -> Result<(), String> {
        match self.trace.block {
            _ if size == 0 => Err("replay.trace_block_size is 0".to_owned()),
            0 => {
                self.trace.block = size;
                Ok(())
            }
            own if own != size => Err(format!("replay.trace_block_size is {size}, but {own} in the rows before")),
            _ => Ok(()),
        }
    }

    fn finish(mut self, read: u64, options: &ImportOptions) -> Result<Trace> {
        self.trace.rows = self.ends as u64;
        // No row tells a size where none has hashes; then there is nothing to share.
        self.trace.block = self.trace.block.max(1);
        let mut note = |count: u64, text: &str| {
            if count > 0 {
                self.trace.notes.push(format!("{} {text}", counted(count, "request")));
            }
        };
        note(self.without_hashes, "without replay hashes; what they share is not known, and none is taken");
        if let Some(Part::At(ms)) = options.part {
            if self.trace.requests.is_empty() && self.ends > 0 {
                let problem =
                    "no request of the trace decodes then; times count in ms from the arrival of its first row";
                return Err(wrong(&format!("--at {ms}"), problem));
            }
            note(self.before_decode, "waiting or in prefill at that time, how far is not known; left out");
        } else {
            note(self.without_times, "without times of their first and last token");
        }
        if self.others > 0 && read > 0 {
            let others = counted(self.others, "row");
            self.trace.notes.push(format!("{others} of other events than request_end, not read"));
        }
        self.trace.or_empty()
    }
}
