//! Mooncake traces and their relatives: one JSON object a line with lengths, and one hash id for each 512 tokens of
//! input, chained over the prefix. The last piece may be partly filled.
//!
//! | field | also called | here |
//! |---|---|---|
//! | `timestamp` | `created_time` | arrival, ms; a row without one arrives with the row before it, `delay` ms later |
//! | `input_length`, `output_length` | `input_tokens`, `output_tokens` | tokens |
//! | `hash_ids` | | none: the request shares nothing |
//! | `session_id`, `request_id`, `priority`, `wait_for`, … | | not needed |

use std::io::BufRead;
use std::path::Path;

use serde::Deserialize;

use crate::error::Result;
use crate::import::{ImportOptions, Trace, TraceRequest, Watch, lines};
use crate::units::{counted, grouped};

/// Tokens of one hash id in Mooncake's own traces.
const PIECE: u64 = 512;
/// What a row is.
const ROW: &str = "a request of a Mooncake trace";

/// A row.
#[derive(Debug, Deserialize)]
struct Row {
    #[serde(default, alias = "created_time")]
    timestamp: Option<f64>,
    #[serde(default)]
    delay: Option<f64>,
    #[serde(alias = "input_tokens")]
    input_length: u64,
    #[serde(alias = "output_tokens")]
    output_length: u64,
    #[serde(default)]
    hash_ids: Option<Vec<u64>>,
}

/// Collects rows.
#[derive(Default)]
struct Rows {
    trace: Trace,
    arrival_ms: f64,
    without_ids: u64,
    without_time: u64,
    seen: usize,
}

/// Reads the rows that are asked for.
pub(super) fn read(path: &Path, options: &ImportOptions, watch: &mut Watch<'_>) -> Result<Trace> {
    let mut rows = Rows::of(options.trace_block.unwrap_or(PIECE));
    let count = lines::rows(path, ROW, watch, |row| rows.push(row, options))?;
    rows.finish(count)
}

/// Reads all rows of a trace of Mooncake's own.
///
/// # Errors
/// [`crate::Error::File`] with the line of what is not a request, or whose ids do not fit its length.
pub fn read_mooncake(reader: impl BufRead) -> Result<Trace> {
    let mut rows = Rows::of(PIECE);
    let options = ImportOptions::default();
    let count = lines::rows_of(reader, ROW, &mut |_| Ok(()), |row| rows.push(row, &options))?;
    rows.finish(count)
}

impl Rows {
    fn of(block: u64) -> Self {
        Self { trace: Trace { block, ..Trace::default() }, ..Self::default() }
    }

    fn push(&mut self, row: Row, options: &ImportOptions) -> Result<(), String> {
        check_lengths(row.input_length, row.hash_ids.as_deref(), self.trace.block)?;
        self.without_time += u64::from(row.timestamp.is_none());
        self.arrival_ms = row.timestamp.unwrap_or(self.arrival_ms + row.delay.unwrap_or(0.0));
        if !self.arrival_ms.is_finite() {
            return Err("the time of arrival is no number".to_owned());
        }
        if options.takes_row(self.seen) {
            self.without_ids += u64::from(row.hash_ids.is_none());
            self.trace.requests.push(TraceRequest {
                arrival_ms: self.arrival_ms,
                input: row.input_length,
                output: row.output_length,
                hash_ids: row.hash_ids.unwrap_or_default(),
                decoding_ms: None,
            });
        }
        self.seen += 1;
        Ok(())
    }

    fn finish(mut self, rows: u64) -> Result<Trace> {
        self.trace.rows = rows;
        if self.without_ids > 0 {
            let of = counted(self.without_ids, "request");
            self.trace.notes.push(format!("no hash_ids for {of}; what they share is not known, and none is taken"));
        }
        if self.without_time > 0 {
            let of = counted(self.without_time, "row");
            self.trace.notes.push(format!("no timestamp in {of}; each arrives its delay after the row before it"));
        }
        self.trace.or_empty()
    }
}

/// Refuses a length of zero, and ids that are not one for each `block` tokens.
pub(super) fn check_lengths(input: u64, ids: Option<&[u64]>, block: u64) -> Result<(), String> {
    let expected = input.div_ceil(block);
    if input == 0 {
        return Err("input_length is 0, but a request has at least 1 token".to_owned());
    }
    match ids {
        Some(ids) if ids.len() as u64 != expected => Err(format!(
            "input_length {} needs {}, one for each {block} tokens, but hash_ids has {}",
            grouped(input),
            counted(expected, "hash id"),
            grouped(ids.len() as u64)
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    const TRACE: &str = r#"{"timestamp": 0, "input_length": 1300, "output_length": 9, "hash_ids": [0, 5, 6]}
{"timestamp": 3, "input_length": 1500, "output_length": 9, "hash_ids": [0, 5, 9]}

{"timestamp": 9, "input_length": 1024, "output_length": 9, "hash_ids": [0, 5]}
{"timestamp": 9, "input_length": 12, "output_length": 2, "hash_ids": [77]}
"#;

    #[test]
    fn a_list_of_ids_that_does_not_fit_its_length_names_the_line() {
        let trace = TRACE.replace("[77]", "[77, 78]");
        let text = read_mooncake(trace.as_bytes()).unwrap_err().to_string();
        assert!(text.contains("line 5") && text.contains("needs 1 hash id,") && text.contains("has 2"), "{text}");
    }

    #[test]
    fn what_is_not_a_trace_is_refused_with_its_line() {
        for (trace, line) in
            [("", 1), ("\n \n", 1), ("{\"timestamp\": 0}\n", 1), ("\n[1, 2]\n", 2), ("\n\n\u{7f}ELF", 3)]
        {
            match read_mooncake(trace.as_bytes()).unwrap_err() {
                Error::File { line: at, .. } => assert_eq!(at, line, "{trace:?}"),
                other => panic!("{other}"),
            }
        }
        assert!(read_mooncake(&[0xff, 0xfe, b'\n'][..]).is_err());
    }

    #[test]
    fn a_refusal_repeats_little_of_the_trace() {
        let line = TRACE.replace("1300", &format!("\"{}\"", "long".repeat(70_000)));
        let text = read_mooncake(line.as_bytes()).unwrap_err().to_string();
        assert!(text.contains("invalid type: string \"longlong") && text.len() < 400, "{text:.200}");
    }

    #[test]
    fn relatives_have_other_names_and_leave_fields_out() {
        let text = r#"{"created_time": 5, "input_tokens": 20, "output_tokens": 3, "session_id": "a", "priority": 1}
{"delay": 30, "input_length": 520, "output_length": 3, "hash_ids": [1, 2], "session_id": "a"}"#;
        let trace = read_mooncake(text.as_bytes()).unwrap();
        assert_eq!(trace.requests.iter().map(|request| request.arrival_ms).collect::<Vec<_>>(), [5.0, 35.0]);
        assert_eq!(trace.notes.len(), 2, "{:?}", trace.notes);
        assert!(trace.notes[0].contains("hash_ids for 1 request"), "{:?}", trace.notes);
    }
}
