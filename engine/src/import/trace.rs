//! A trace: requests in the order of the file, whatever its form was.

use crate::error::Error;

/// One request of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceRequest {
    /// Arrival in ms since the start of the trace.
    pub arrival_ms: f64,
    /// Prompt tokens.
    pub input: u64,
    /// Generated tokens in all.
    pub output: u64,
    /// One id for each block of prompt tokens; equal ids after equal ids mean equal text. None where it is not told.
    pub hash_ids: Vec<u64>,
    /// From its first generated token to its last, in ms since the start of the trace, where that is told.
    pub decoding_ms: Option<(f64, f64)>,
}

/// Requests of a trace, or the part of them that was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Tokens of one hash id.
    pub block: u64,
    /// The requests, in the order of the file.
    pub requests: Vec<TraceRequest>,
    /// Rows of the file, those that were not asked for included.
    pub rows: u64,
    /// What the file did not tell, and what was taken instead.
    pub notes: Vec<String>,
}

impl Trace {
    /// A trace without rows is none.
    pub(super) fn or_empty(self) -> Result<Self, Error> {
        if self.rows == 0 {
            let problem = "the trace has no requests".to_owned();
            return Err(Error::File { problem, line: 1, column: 1, offset: 0 });
        }
        Ok(self)
    }
}
