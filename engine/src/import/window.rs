//! Requests of a trace as a batch: those of a window, each so many tokens into its output, or those that decode at a
//! time.
//!
//! ```text
//! row 7   ids 0 5 6     1,300 tokens  ┐        ┌ 0 ── 5,6 + tail
//! row 8   ids 0 5 9     1,500 tokens  ├─► tree ┤
//! row 9   ids 0 7         900 tokens  ┘        └ nested nodes, runs of ids joined
//! ```
//!
//! What is shared is whole KV blocks of the prompt: a block is shared by those whose hash ids are the same from the
//! root up to the one that holds its last token. The tokens past the last whole block, and those generated since, are a
//! request's own and stand in its leaf. Worked: 1,300 prompt tokens, 5 generated, block size 32: 1,280 tokens may be
//! shared, the leaf has 20 + 5. With hash ids of 16 tokens each, two of them make one such block.

use rustc_hash::FxHashMap;

use crate::error::{Error, Result};
use crate::import::options::wrong;
use crate::import::{ImportOptions, Imported, Importer, Part, Trace, TraceRequest};
use crate::units::{counted, grouped};
use crate::workload::{AttentionShape, BatchSpec, Limits, NodeSpec};

/// The part of a trace that was asked for, and alone was read.
pub(super) fn imported(trace: &Trace, options: &ImportOptions, importer: &Importer) -> Result<Imported> {
    let shape = options.shape;
    let (name, chosen): (String, Vec<(&TraceRequest, u64)>) = match options.part {
        Some(Part::Window { start, count }) => {
            let form = format!("--window {start}:{count}");
            if trace.requests.len() < count {
                return Err(wrong(&form, outside(trace.rows)));
            }
            let name = window_name(importer.title(), (start, count), options.step);
            (name, trace.requests.iter().map(|request| (request, options.step)).collect())
        }
        Some(Part::At(ms)) => {
            let name = format!("{} at {ms} ms", importer.title());
            (name, trace.requests.iter().map(|request| (request, generated_at(request, ms))).collect())
        }
        Some(Part::Call(_)) | None => return Err(needs_part(importer)),
    };
    let batch = forest(&chosen, trace.block, shape, name)?;
    Ok(Imported { batch, notes: trace.notes.clone(), records: trace.rows })
}

/// What is said where no part of a trace was asked for.
pub(super) fn needs_part(importer: &Importer) -> Error {
    wrong(
        &format!("--{}", importer.name),
        "it needs a part of the trace; add --window START:COUNT, such as --window 0:256",
    )
}

fn window_name(title: &str, (start, count): (usize, usize), step: u64) -> String {
    format!("{title}, window {start}:{count}, step {step}")
}

fn outside(rows: u64) -> String {
    format!("the trace has {}, counted from 0; choose a window inside it", counted(rows, "request"))
}

/// Tokens that a request has generated at a time, at an even pace from its first to its last.
fn generated_at(request: &TraceRequest, ms: f64) -> u64 {
    let Some((first, last)) = request.decoding_ms else { return 1 };
    let share = if last > first { ((ms - first) / (last - first)).clamp(0.0, 1.0) } else { 1.0 };
    1 + (share * request.output.saturating_sub(1) as f64) as u64
}

/// The requests `start..start + count` of a whole trace as a batch, each `step` tokens into its output (or at its end,
/// where the output is shorter).
///
/// # Errors
/// [`Error::Form`] where the window reaches past the trace or its tree is too deep to nest;
/// [`Error::Batch`] for a shape that is not supported.
pub fn spec_from_window(
    trace: &Trace,
    shape: AttentionShape,
    start: usize,
    count: usize,
    step: u64,
) -> Result<BatchSpec> {
    let window = start.checked_add(count).and_then(|end| trace.requests.get(start..end));
    let window = window.ok_or_else(|| wrong(&format!("--window {start}:{count}"), outside(trace.rows)))?;
    let chosen: Vec<(&TraceRequest, u64)> = window.iter().map(|request| (request, step)).collect();
    forest(&chosen, trace.block, shape, window_name("Mooncake trace", (start, count), step))
}

/// Requests with the tokens that each has generated, as prefix trees.
fn forest(chosen: &[(&TraceRequest, u64)], trace_block: u64, shape: AttentionShape, name: String) -> Result<BatchSpec> {
    shape.validate()?;
    let mut chains = Chains::default();
    let block = u64::from(shape.block_size);
    let paths: Vec<Path> =
        chosen.iter().map(|(request, step)| Path::of(request, (block, trace_block), *step, &mut chains)).collect();
    let everyone: Vec<usize> = (0..paths.len()).collect();
    let roots = grow(&paths, &everyone, 0, 0).ok_or_else(|| {
        let most = grouped(Limits::DEPTH as u64);
        let problem = format!("the prefix tree of these requests is deeper than {most} nodes; choose a smaller window");
        wrong("--window", problem)
    })?;
    Ok(BatchSpec { name, roots, ..BatchSpec::empty(shape) })
}

/// For each request the keys of the whole KV blocks of its prompt: equal keys mean equal text from the root on.
///
/// `trace_block` are the tokens of one hash id, `block` those of a KV block.
pub fn prefix_keys(requests: &[TraceRequest], trace_block: u64, block: u64) -> Vec<Vec<(u32, u32)>> {
    let mut chains = Chains::default();
    let mut keys = |request: &TraceRequest| {
        let path = Path::of(request, (block, trace_block), 0, &mut chains);
        let blocks = |(chain, tokens): &(u32, u64)| {
            let chain = *chain;
            (0..(tokens / block) as u32).map(move |at| (chain, at))
        };
        path.pieces.iter().flat_map(blocks).collect()
    };
    requests.iter().map(&mut keys).collect()
}

/// Numbers for ids with all ids before them: equal numbers mean equal text from the root on, whether or not the ids of
/// the trace are chained themselves.
#[derive(Default)]
struct Chains(FxHashMap<(u32, u64, u64), u32>);

impl Chains {
    fn after(&mut self, before: u32, id: u64, tokens: u64) -> u32 {
        let next = self.0.len() as u32 + 1;
        *self.0.entry((before, id, tokens)).or_insert(next)
    }
}

/// A request on its way into the tree: the pieces that it may share and what is its own.
struct Path {
    /// (number of the chain of ids up to here, tokens of the whole KV blocks that end here).
    pieces: Vec<(u32, u64)>,
    /// Tokens past the last whole block, generated ones included.
    own: u64,
}

impl Path {
    fn of(request: &TraceRequest, (block, trace_block): (u64, u64), step: u64, chains: &mut Chains) -> Self {
        let mut pieces = Vec::with_capacity(request.hash_ids.len());
        let (mut chain, mut end, mut laid) = (0, 0, 0);
        for &id in &request.hash_ids {
            let tokens = (request.input - end).min(trace_block);
            chain = chains.after(chain, id, tokens);
            end += tokens;
            let whole = end / block * block;
            if whole > laid {
                pieces.push((chain, whole - laid));
                laid = whole;
            }
        }
        // A length that no batch can have stays one, for whoever lays the batch out to refuse.
        let own = (request.input - laid).saturating_add(step.min(request.output));
        Self { pieces, own }
    }
}

/// The nodes that continue `members` from piece `from` on, in order of first appearance; `None`
/// where they would nest too deeply.
fn grow(paths: &[Path], members: &[usize], from: usize, depth: usize) -> Option<Vec<NodeSpec>> {
    if depth >= Limits::DEPTH && !members.is_empty() {
        return None;
    }
    // A member without a further piece is a leaf of its own tokens; the others meet by piece.
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut by_piece = FxHashMap::default();
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
    let whole = |pieces: &[(u32, u64)]| pieces.iter().map(|(_, whole)| whole).sum::<u64>();
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
    use crate::import::read_mooncake;
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
        assert_eq!(requests.requests.len(), 4);
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
    fn a_window_past_the_trace_or_too_deep_is_refused() {
        let requests = read_mooncake(TRACE.as_bytes()).unwrap();
        let shape = AttentionShape::default();
        assert!(spec_from_window(&requests, shape, 3, 2, 0).unwrap_err().to_string().contains("4 requests"));
        assert!(spec_from_window(&requests, shape, usize::MAX, 2, 0).is_err());
        let chain: Vec<TraceRequest> = (1..2000)
            .map(|turns| TraceRequest {
                input: turns * 512,
                output: 1,
                hash_ids: (0..turns).collect(),
                ..TraceRequest::default()
            })
            .collect();
        let chain = Trace { block: 512, rows: 1999, requests: chain, notes: Vec::new() };
        assert!(spec_from_window(&chain, shape, 0, 1999, 1).unwrap_err().to_string().contains("deeper"));
        assert!(spec_from_window(&chain, shape, 0, Limits::DEPTH + 1, 1).is_err());
        let spec = spec_from_window(&chain, shape, 0, Limits::DEPTH, 1).unwrap();
        assert_eq!(spec.depth(), Limits::DEPTH);
        let text = spec.to_ron().unwrap();
        assert_eq!(BatchSpec::from_ron(&text).unwrap(), spec, "what is imported can be read again");
        spec.build().unwrap();
    }

    #[test]
    fn blocks_larger_than_a_hash_id_are_shared_where_all_their_ids_are() {
        let request =
            |ids: &[u64], input| TraceRequest { input, output: 4, hash_ids: ids.to_vec(), ..TraceRequest::default() };
        // The second ids differ, the third are the same again: what follows a difference is not shared.
        let requests = vec![request(&[1, 2, 3, 4], 64), request(&[1, 9, 3, 4], 64), request(&[1, 2, 3, 5], 60)];
        let trace = Trace { block: 16, rows: 3, requests, notes: Vec::new() };
        let shape = AttentionShape::default();
        let spec = spec_from_window(&trace, shape, 0, 3, 0).unwrap();
        assert_eq!(spec.roots.len(), 2, "the block of ids 1, 9 is another than that of 1, 2");
        assert_eq!((spec.roots[0].tokens, spec.roots[0].children.len()), (32, 2));
        let fine = spec_from_window(&trace, AttentionShape { block_size: 16, ..shape }, 0, 3, 0).unwrap();
        assert_eq!((fine.roots.len(), fine.roots[0].tokens), (1, 16));
        let batch = spec.build().unwrap();
        assert_eq!(batch.requests().iter().map(|request| request.kv.0).collect::<Vec<_>>(), [64, 60, 64]);
    }

    #[test]
    fn a_request_generates_at_an_even_pace() {
        let request = TraceRequest { output: 11, decoding_ms: Some((100.0, 200.0)), ..TraceRequest::default() };
        let at = |ms| generated_at(&request, ms);
        assert_eq!((at(100.0), at(150.0), at(200.0)), (1, 6, 11));
    }
}
