//! Weka's agentic traces: one JSON object a file, with the requests of one conversation and, nested, those of its
//! subagents. Hash ids are local to the file.
//!
//! `requests[]` has `{t, type: "n" | "s", in, out, hash_ids}`, `t` in seconds, and `{type: "subagent", t, requests[]}`.
//! Times of nested requests are taken as those of the conversation.

use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::import::mooncake::check_lengths;
use crate::import::{ImportOptions, Trace, TraceRequest, Watch, lines};
use crate::units::counted;

/// Largest file: a conversation of a thousand calls has a few MB.
const LARGEST: u64 = 256 << 20;

#[derive(Debug, Deserialize)]
struct Conversation {
    block_size: u64,
    hash_id_scope: String,
    requests: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
enum Entry {
    #[serde(rename = "n")]
    Normal(Call),
    #[serde(rename = "s")]
    Streaming(Call),
    #[serde(rename = "subagent")]
    Subagent { requests: Vec<Entry> },
}

#[derive(Debug, Deserialize)]
struct Call {
    t: f64,
    #[serde(rename = "in")]
    input: u64,
    #[serde(rename = "out")]
    output: u64,
    #[serde(default)]
    hash_ids: Vec<u64>,
    /// Server time, s.
    #[serde(default)]
    api_time: Option<f64>,
    /// Time to the first token, s.
    #[serde(default)]
    ttft: Option<f64>,
}

/// Reads the requests that are asked for, in order of their time.
pub(super) fn read(path: &Path, options: &ImportOptions, watch: &mut Watch<'_>) -> Result<Trace> {
    let doing = "reading the trace";
    let size = std::fs::metadata(path).map_err(Error::io(doing, path))?.len();
    if size > LARGEST {
        let problem = "the file is larger than 256 MiB; a Weka trace has one conversation a file".to_owned();
        return Err(Error::File { problem, line: 1, column: 1, offset: 0 });
    }
    let text = std::fs::read(path).map_err(Error::io(doing, path))?;
    (watch.progress.0)(size, Some(size));
    watch.cancel.check()?;
    let conversation: Conversation = serde_json::from_slice(&text).map_err(|error| {
        let before: usize =
            text.split_inclusive(|byte| *byte == b'\n').take(error.line().max(1) - 1).map(<[u8]>::len).sum();
        let column = error.column().max(1);
        let problem = format!("not a Weka trace: {}", lines::reason(&error));
        Error::File { problem, line: error.line().max(1), column, offset: (before + column - 1).min(text.len()) }
    })?;
    trace_of(conversation, options)
        .map_err(|problem| Error::File { problem, line: 1, column: 1, offset: 0 })?
        .or_empty()
}

fn trace_of(conversation: Conversation, options: &ImportOptions) -> std::result::Result<Trace, String> {
    if conversation.block_size == 0 {
        return Err("block_size is 0".to_owned());
    }
    if conversation.hash_id_scope != "local" {
        return Err("hash_id_scope is not \"local\", the only one that the format knows".to_owned());
    }
    let mut calls = Vec::new();
    let nested = collect(conversation.requests, &mut calls);
    for (number, call) in calls.iter().enumerate() {
        // Fewer ids leave the rest of the input to the request alone.
        let most = call.input.div_ceil(conversation.block_size);
        let ids = (call.hash_ids.len() as u64 > most).then_some(call.hash_ids.as_slice());
        check_lengths(call.input, ids, conversation.block_size)
            .and_then(|()| if call.t.is_finite() { Ok(()) } else { Err("t is no number".to_owned()) })
            .map_err(|problem| format!("request {number}: {problem}"))?;
    }
    calls.sort_by(|a, b| a.t.total_cmp(&b.t));
    let (rows, without) = (calls.len() as u64, calls.iter().filter(|call| call.hash_ids.is_empty()).count() as u64);
    let requests =
        calls.into_iter().enumerate().filter(|(at, _)| options.takes_row(*at)).map(|(_, call)| call.request());
    let mut notes = vec![
        "the calls of one conversation follow one another; a window of them decodes together only where agents run side by side"
            .to_owned(),
    ];
    if without > 0 {
        notes.push(format!(
            "no hash_ids for {}; what they share is not known, and none is taken",
            counted(without, "request")
        ));
    }
    if nested > 0 {
        notes.push(format!(
            "{} of subagents; their times are taken as those of the conversation",
            counted(nested, "request")
        ));
    }
    Ok(Trace { block: conversation.block_size, requests: requests.collect(), rows, notes })
}

/// All calls, and how many of them are subagents'.
fn collect(entries: Vec<Entry>, calls: &mut Vec<Call>) -> u64 {
    let mut nested = 0;
    for entry in entries {
        match entry {
            Entry::Normal(call) | Entry::Streaming(call) => calls.push(call),
            Entry::Subagent { requests } => {
                let before = calls.len();
                collect(requests, calls);
                nested += (calls.len() - before) as u64;
            }
        }
    }
    nested
}

impl Call {
    fn request(self) -> TraceRequest {
        let arrival_ms = self.t * 1e3;
        let decoding_ms =
            self.ttft.zip(self.api_time).map(|(first, last)| (arrival_ms + first * 1e3, arrival_ms + last * 1e3));
        TraceRequest { arrival_ms, input: self.input, output: self.output, hash_ids: self.hash_ids, decoding_ms }
    }
}
