//! Windows of Mooncake traces as decode batches.
//!
//! A trace has one JSON object a line: `timestamp` (ms), `input_length`, `output_length` (tokens)
//! and `hash_ids`, one id for each 512 tokens of input. Ids are chained over the prefix: equal ids
//! mean equal text up to and including that piece. The last piece may be partly filled.
//!
//! ```text
//! line 7   ids 0 5 6     1,300 tokens  ┐        ┌ 0 ── 5,6 + tail
//! line 8   ids 0 5 9     1,500 tokens  ├─► tree ┤
//! line 9   ids 0 7         900 tokens  ┘        └ nested nodes, runs of ids joined
//! ```
//!
//! What is shared is whole KV blocks of the prompt. The tokens past the last whole block, and those
//! generated since, are a request's own and stand in its leaf. Worked: 1,300 prompt tokens, 5
//! generated, block size 32: 1,280 tokens may be shared, the leaf has 20 + 5.

use std::io::{BufRead, Read as _};

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::shown;
use crate::units::{counted, grouped};
use crate::workload::{AttentionShape, BatchSpec, Limits, NodeSpec, SCHEMA};

/// Tokens of one hash id.
const PIECE: u64 = 512;

/// Most bytes of a line; one of a million tokens has some ten thousand.
const LINE: u64 = 64 << 20;

/// One request of a trace.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TraceRequest {
    /// Arrival in ms since the start of the trace.
    #[serde(default)]
    pub timestamp: f64,
    /// Prompt tokens.
    #[serde(alias = "input_tokens")]
    pub input_length: u64,
    /// Generated tokens in all.
    #[serde(alias = "output_tokens")]
    pub output_length: u64,
    /// One id for each 512 prompt tokens.
    pub hash_ids: Vec<u64>,
}

/// Reads a trace.
///
/// # Errors
/// [`Error::File`] with the line of what is not a request, or whose ids do not fit its length.
pub fn read_mooncake(mut reader: impl BufRead) -> Result<Vec<TraceRequest>> {
    let mut requests = Vec::new();
    let mut bytes = Vec::new();
    let (mut line, mut offset) = (0, 0);
    loop {
        bytes.clear();
        line += 1;
        // The parser counts bytes from 1, a person characters.
        let wrong = |byte: usize, problem: String, bytes: &[u8]| {
            let before = bytes.get(..byte - 1).unwrap_or(bytes);
            let column = String::from_utf8_lossy(before).chars().count() + 1;
            Error::File { problem, line, column, offset: offset + before.len() }
        };
        let read = reader.by_ref().take(LINE).read_until(b'\n', &mut bytes);
        let read = read.map_err(|error| wrong(1, format!("reading stopped: {error}"), &[]))?;
        if read == 0 {
            break;
        }
        if read as u64 == LINE && !bytes.ends_with(b"\n") {
            return Err(wrong(1, format!("the line is longer than {} bytes", grouped(LINE)), &[]));
        }
        if !bytes.iter().all(u8::is_ascii_whitespace) {
            let request: TraceRequest = serde_json::from_slice(&bytes).map_err(|error| {
                let problem = format!("not a request of a Mooncake trace: {}", reason(&error));
                wrong(error.column().max(1), problem, &bytes)
            })?;
            check(&request).map_err(|problem| wrong(1, problem, &[]))?;
            requests.push(request);
        }
        offset += read;
    }
    if requests.is_empty() {
        return Err(Error::File { problem: "the trace has no requests".to_owned(), line: 1, column: 1, offset: 0 });
    }
    Ok(requests)
}

/// The parser's reason without its own line and column, which count from this line.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    shown::reason(text.rsplit_once(" at line ").map_or(&*text, |(reason, _)| reason))
}

fn check(request: &TraceRequest) -> std::result::Result<(), String> {
    let expected = request.input_length.div_ceil(PIECE);
    if request.input_length == 0 {
        return Err("input_length is 0, but a request has at least 1 token".to_owned());
    }
    if request.hash_ids.len() as u64 != expected {
        return Err(format!(
            "input_length {} needs {}, one for each {PIECE} tokens, but hash_ids has {}",
            grouped(request.input_length),
            counted(expected, "hash id"),
            grouped(request.hash_ids.len() as u64)
        ));
    }
    Ok(())
}

/// A request on its way into the tree: the pieces that it may share and what is its own.
struct Path {
    /// (hash id, prompt tokens of the piece, whole-block tokens of it).
    pieces: Vec<(u64, u64, u64)>,
    /// Tokens past the last whole block, generated ones included.
    own: u64,
}

impl Path {
    fn of(request: &TraceRequest, block: u64, step: u64) -> Self {
        let mut pieces = Vec::with_capacity(request.hash_ids.len());
        let mut left = request.input_length;
        let mut own = step.min(request.output_length);
        for &id in &request.hash_ids {
            let tokens = left.min(PIECE);
            let whole = tokens / block * block;
            if whole > 0 {
                pieces.push((id, tokens, whole));
            }
            // A length that no batch can have stays one, for whoever lays the batch out to refuse.
            own = own.saturating_add(tokens - whole);
            left -= tokens;
        }
        Self { pieces, own }
    }
}

/// The requests `start..start + count` of a trace as a batch, each `step` tokens into its output
/// (or at its end, where the output is shorter).
///
/// # Errors
/// [`Error::Form`] where the window reaches past the trace or its tree is too deep to nest;
/// [`Error::Batch`] for a shape that is not supported.
pub fn spec_from_window(
    requests: &[TraceRequest],
    shape: AttentionShape,
    start: usize,
    count: usize,
    step: u64,
) -> Result<BatchSpec> {
    shape.validate()?;
    let wrong = |problem: String| Error::Form { form: format!("--window {start}:{count}"), problem, at: None };
    let window = start.checked_add(count).and_then(|end| requests.get(start..end)).ok_or_else(|| {
        wrong(format!(
            "the trace has {}, counted from 0; choose a window inside it",
            counted(requests.len() as u64, "request")
        ))
    })?;
    let paths: Vec<Path> = window.iter().map(|request| Path::of(request, u64::from(shape.block_size), step)).collect();
    let everyone: Vec<usize> = (0..paths.len()).collect();
    let roots = grow(&paths, &everyone, 0, 0).ok_or_else(|| {
        wrong(format!(
            "the prefix tree of this window is deeper than {} nodes; choose a smaller window",
            grouped(Limits::DEPTH as u64)
        ))
    })?;
    Ok(BatchSpec {
        schema: SCHEMA,
        name: format!("Mooncake window {start}:{count}, step {step}"),
        look_for: String::new(),
        scene: None,
        shape,
        roots,
        requests: Vec::new(),
    })
}

/// The nodes that continue `members` from piece `from` on, in order of first appearance; `None`
/// where they would nest too deeply.
fn grow(paths: &[Path], members: &[usize], from: usize, depth: usize) -> Option<Vec<NodeSpec>> {
    if depth >= Limits::DEPTH && !members.is_empty() {
        return None;
    }
    // A member without a further piece is a leaf of its own tokens; the others meet by piece.
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut by_piece = rustc_hash::FxHashMap::default();
    for &member in members {
        match paths[member].pieces.get(from) {
            None => groups.push(vec![member]),
            Some(piece) => {
                let group = *by_piece.entry(*piece).or_insert_with(|| {
                    groups.push(Vec::new());
                    groups.len() - 1
                });
                groups[group].push(member);
            }
        }
    }
    let mut nodes: Vec<NodeSpec> = Vec::with_capacity(groups.len());
    for group in groups {
        let node = node_of(paths, &group, from, depth)?;
        match nodes.last_mut() {
            Some(last) if like(last, &node) => last.repeat += 1,
            _ => nodes.push(node),
        }
    }
    Some(nodes)
}

/// Whether two leaves differ in nothing, so that one may stand twice instead.
fn like(a: &NodeSpec, b: &NodeSpec) -> bool {
    a.children.is_empty() && b.children.is_empty() && a.tokens == b.tokens && a.requests == b.requests
}

/// The node of requests that share the piece `from`, with everything below it.
fn node_of(paths: &[Path], group: &[usize], from: usize, depth: usize) -> Option<NodeSpec> {
    let first = &paths[group[0]];
    let whole = |pieces: &[(u64, u64, u64)]| pieces.iter().map(|(_, _, whole)| whole).sum::<u64>();
    if let [_] = group {
        return Some(NodeSpec::leaf(whole(&first.pieces[from..]).saturating_add(first.own)));
    }
    let mut end = from + 1;
    while let Some(piece) = first.pieces.get(end)
        && group.iter().all(|&member| paths[member].pieces.get(end) == Some(piece))
    {
        end += 1;
    }
    let ends_here = |member: &usize| paths[*member].pieces.len() == end && paths[*member].own == 0;
    let ending = group.iter().filter(|member| ends_here(member)).count() as u32;
    let below: Vec<usize> = group.iter().copied().filter(|member| !ends_here(member)).collect();
    let children = grow(paths, &below, end, depth + 1)?;
    let usual = u32::from(children.is_empty());
    Some(NodeSpec {
        tokens: whole(&first.pieces[from..end]),
        repeat: 1,
        requests: (ending != usual).then_some(ending),
        children,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::QueryIdx;
    use crate::workload::PrefixTree;

    const TRACE: &str = r#"{"timestamp": 0, "input_length": 1300, "output_length": 9, "hash_ids": [0, 5, 6]}
{"timestamp": 3, "input_length": 1500, "output_length": 9, "hash_ids": [0, 5, 9]}

{"timestamp": 9, "input_length": 1024, "output_length": 9, "hash_ids": [0, 5]}
{"timestamp": 9, "input_length": 12, "output_length": 2, "hash_ids": [77]}
"#;

    #[test]
    fn a_window_becomes_nested_nodes_with_each_request_whole() {
        let requests = read_mooncake(TRACE.as_bytes()).unwrap();
        assert_eq!(requests.len(), 4);
        let spec = spec_from_window(&requests, AttentionShape::default(), 0, 4, 5).unwrap();
        let batch = spec.build().unwrap();
        let lengths: Vec<u64> = batch.requests().iter().map(|request| request.kv.0).collect();
        assert_eq!(lengths, [1305, 1505, 1029, 14], "the last request has only 2 tokens of output");
        assert_eq!(spec.roots[0].tokens, 1024);
        assert_eq!(spec.roots[0].children.len(), 3);
        let (a, b) = (batch.tables().row(QueryIdx(0)), batch.tables().row(QueryIdx(1)));
        assert_eq!(a[..32], b[..32]);
        assert!(a[32..].iter().all(|block| !b.contains(block)));
    }

    #[test]
    fn at_step_zero_a_request_may_end_at_an_inner_node() {
        let requests = read_mooncake(TRACE.as_bytes()).unwrap();
        let spec = spec_from_window(&requests, AttentionShape::default(), 0, 3, 0).unwrap();
        assert_eq!(spec.roots[0].requests, Some(1));
        let tree = PrefixTree::of(&spec.build().unwrap());
        assert_eq!(tree.nodes[0].ending, 1);
    }

    #[test]
    fn equal_prompts_share_their_whole_blocks_and_keep_their_tails() {
        let line = r#"{"timestamp": 0, "input_length": 600, "output_length": 9, "hash_ids": [0, 1]}"#;
        let trace = format!("{line}\n{line}\n{line}\n");
        let requests = read_mooncake(trace.as_bytes()).unwrap();
        let spec = spec_from_window(&requests, AttentionShape::default(), 0, 3, 1).unwrap();
        assert_eq!(spec.roots[0].tokens, 576);
        assert_eq!((spec.roots[0].children[0].tokens, spec.roots[0].children[0].repeat), (25, 3));
    }

    #[test]
    fn lengths_near_the_largest_number_stay_large() {
        let line =
            r#"{"timestamp": 0, "input_length": 600, "output_length": 18446744073709551615, "hash_ids": [0, 1]}"#;
        let requests = read_mooncake(line.as_bytes()).unwrap();
        for step in [u64::MAX, u64::MAX - 20, 1 << 63] {
            let spec = spec_from_window(&requests, AttentionShape::default(), 0, 1, step).unwrap();
            assert!(spec.roots[0].tokens >= step, "{step} became {}", spec.roots[0].tokens);
            assert!(spec.build().unwrap_err().to_string().contains("at most 1,048,576"));
        }
    }

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
    fn a_window_past_the_trace_or_too_deep_is_refused() {
        let requests = read_mooncake(TRACE.as_bytes()).unwrap();
        let shape = AttentionShape::default();
        assert!(spec_from_window(&requests, shape, 3, 2, 0).unwrap_err().to_string().contains("4 requests"));
        assert!(spec_from_window(&requests, shape, usize::MAX, 2, 0).is_err());
        let chain: Vec<TraceRequest> = (1..2000)
            .map(|turns| TraceRequest {
                timestamp: 0.0,
                input_length: turns * 512,
                output_length: 1,
                hash_ids: (0..turns).collect(),
            })
            .collect();
        assert!(spec_from_window(&chain, shape, 0, 1999, 1).unwrap_err().to_string().contains("deeper"));
        assert!(spec_from_window(&chain, shape, 0, Limits::DEPTH + 1, 1).is_err());
        let spec = spec_from_window(&chain, shape, 0, Limits::DEPTH, 1).unwrap();
        assert_eq!(spec.depth(), Limits::DEPTH);
        let text = spec.to_ron().unwrap();
        assert_eq!(BatchSpec::from_ron(&text).unwrap(), spec, "what is imported can be read again");
        spec.build().unwrap();
    }
}
