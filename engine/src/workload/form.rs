//! The short forms in which a batch is typed: tree strings, decode and prefill counts, heads,
//! trace windows. Every error names the byte at which the text stops making sense.
//!
//! | form | example | means |
//! |---|---|---|
//! | tree | `1,4,256_32,256,32` | nodes per level `_` tokens per node, roots first |
//! | decode | `80x12288` | 80 requests of 12,288 KV tokens, nothing shared |
//! | prefill | `1024@12288` | 1,024 query tokens ending at KV length 12,288 |
//! | heads | `32/8` | query heads / KV heads |
//! | window | `100:256` | 256 requests from request 100 on |

use crate::error::{Error, Result};
use crate::shown::quoted;
use crate::units::{counted, grouped};
use crate::workload::{AttentionShape, BatchSpec, Limits, NodeSpec, RequestSpec, SCHEMA};

/// A number of the text with its byte offset.
struct Number {
    value: u64,
    at: usize,
}

/// One form being read.
struct Form<'a> {
    name: &'static str,
    text: &'a str,
}

impl<'a> Form<'a> {
    fn wrong(&self, at: usize, problem: impl Into<String>) -> Error {
        Error::Form { form: format!("{} {}", self.name, self.text), problem: problem.into(), at: Some(at) }
    }

    /// Both sides of the only `separator`.
    fn halves(&self, separator: char, example: &str) -> Result<(&'a str, &'a str, usize)> {
        let Some((left, right)) = self.text.split_once(separator) else {
            return Err(self.wrong(self.text.len(), format!("there is no '{separator}'; write it like {example}")));
        };
        let begin = left.len() + separator.len_utf8();
        if let Some(second) = right.find(separator) {
            return Err(self.wrong(begin + second, format!("a second '{separator}'; write it like {example}")));
        }
        Ok((left, right, begin))
    }

    /// One whole number above zero unless `zero` is allowed.
    fn number(&self, part: &str, at: usize, what: &str, zero: bool) -> Result<Number> {
        if part.is_empty() {
            return Err(self.wrong(at, format!("{what} is missing here")));
        }
        if let Some(bad) = part.find(|c: char| !c.is_ascii_digit()) {
            return Err(self.wrong(at + bad, format!("{what} is '{}', which is not a whole number", quoted(part))));
        }
        let value: u64 =
            part.parse().map_err(|_| self.wrong(at, format!("{what} is {}, which is too large", quoted(part))))?;
        if value == 0 && !zero {
            return Err(self.wrong(at, format!("{what} is 0, but must be at least 1")));
        }
        Ok(Number { value, at })
    }

    fn small(&self, number: &Number, what: &str) -> Result<u32> {
        u32::try_from(number.value)
            .map_err(|_| self.wrong(number.at, format!("{what} is {}, which is too large", number.value)))
    }

    /// Comma-separated numbers.
    fn list(&self, part: &str, begin: usize, what: &str) -> Result<Vec<Number>> {
        let mut at = begin;
        let mut numbers = Vec::new();
        for item in part.split(',') {
            numbers.push(self.number(item, at, what, false)?);
            at += item.len() + 1;
        }
        Ok(numbers)
    }
}

/// Reads a tree string: `nodes per level _ tokens per node`, from the roots down.
///
/// The last number of nodes is the batch. Request i sits under node `i / (batch / nodes)` of each
/// level, so each number of nodes is a multiple of the one before it.
///
/// # Errors
/// [`Error::Form`] with the byte offset; [`Error::Batch`] for a shape that is not supported.
pub fn parse_tree(text: &str, shape: AttentionShape) -> Result<BatchSpec> {
    shape.validate()?;
    let form = Form { name: "--tree", text };
    let (left, right, begin) = form.halves('_', "1,4,256_32,256,32 (nodes per level, '_', tokens per node)")?;
    let nodes = form.list(left, 0, "the number of nodes of a level")?;
    let tokens = form.list(right, begin, "the number of tokens of a level")?;
    check_levels(&form, &nodes, &tokens, shape)?;
    let mut below: Option<NodeSpec> = None;
    for level in (0..nodes.len()).rev() {
        let above = if level == 0 { 1 } else { nodes[level - 1].value };
        let repeat = Number { value: nodes[level].value / above, at: nodes[level].at };
        below = Some(NodeSpec {
            tokens: tokens[level].value,
            repeat: form.small(&repeat, "the number of nodes of a level")?,
            requests: None,
            children: below.into_iter().collect(),
        });
    }
    Ok(BatchSpec {
        schema: SCHEMA,
        name: format!("tree {text}"),
        look_for: String::new(),
        scene: None,
        shape,
        roots: below.into_iter().collect(),
        requests: Vec::new(),
    })
}

/// As many token counts as levels, each level a multiple of the one above, shared runs in whole blocks.
fn check_levels(form: &Form<'_>, nodes: &[Number], tokens: &[Number], shape: AttentionShape) -> Result<()> {
    if nodes.len() > Limits::DEPTH {
        let most = Limits::DEPTH;
        let problem =
            format!("{} levels, but a tree has at most {}", grouped(nodes.len() as u64), grouped(most as u64));
        return Err(form.wrong(nodes[most].at, problem));
    }
    if nodes.len() != tokens.len() {
        let problem = format!(
            "{} of nodes but {}; give one token count for each level",
            counted(nodes.len() as u64, "level"),
            counted(tokens.len() as u64, "token count")
        );
        let at = tokens.get(nodes.len()).map_or(form.text.len(), |extra| extra.at);
        return Err(form.wrong(at, problem));
    }
    for pair in nodes.windows(2) {
        let (above, here) = (pair[0].value, pair[1].value);
        if !here.is_multiple_of(above) {
            let lower = here / above * above;
            let near =
                if lower == 0 { above.to_string() } else { format!("{lower} or {}", lower.saturating_add(above)) };
            let problem = format!(
                "{here} {} evenly under the {above} of the level above; use a multiple of {above}, such as {near}",
                if here == 1 { "node does not divide" } else { "nodes do not divide" }
            );
            return Err(form.wrong(pair[1].at, problem));
        }
    }
    let block = u64::from(shape.block_size);
    for shared in tokens.iter().take(tokens.len().saturating_sub(1)) {
        if !shared.value.is_multiple_of(block) {
            let problem = format!(
                "{} shared by the levels below, but only whole blocks can be shared; use a multiple of {block}",
                counted(shared.value, "token")
            );
            return Err(form.wrong(shared.at, problem));
        }
    }
    Ok(())
}

/// Reads `80x12288`: 80 decode requests of 12,288 KV tokens each, nothing shared.
///
/// # Errors
/// [`Error::Form`] with the byte offset.
pub fn parse_decode(text: &str) -> Result<RequestSpec> {
    let form = Form { name: "--decode", text };
    let (left, right, begin) = form.halves('x', "80x12288 (requests, 'x', KV tokens of each)")?;
    let count = form.number(left, 0, "the number of requests", false)?;
    let kv = form.number(right, begin, "the number of KV tokens", false)?;
    Ok(RequestSpec::Decode { kv: kv.value, count: form.small(&count, "the number of requests")? })
}

/// Reads `1024@12288`: a prefill chunk of 1,024 query tokens that ends at KV length 12,288.
///
/// # Errors
/// [`Error::Form`] with the byte offset.
pub fn parse_prefill(text: &str) -> Result<RequestSpec> {
    let form = Form { name: "--prefill", text };
    let (left, right, begin) = form.halves('@', "1024@12288 (query tokens, '@', KV length at the end)")?;
    let chunk = form.number(left, 0, "the number of query tokens", false)?;
    let kv = form.number(right, begin, "the KV length", false)?;
    if chunk.value > kv.value {
        let problem = format!(
            "the chunk has {} but ends at KV length {}; it must end at {} or later",
            counted(chunk.value, "token"),
            grouped(kv.value),
            grouped(chunk.value)
        );
        return Err(form.wrong(kv.at, problem));
    }
    Ok(RequestSpec::Prefill { chunk: chunk.value, kv: kv.value })
}

/// Reads `32/8` as (query heads, KV heads). Whether they divide is the shape's to say.
///
/// # Errors
/// [`Error::Form`] with the byte offset.
pub fn parse_heads(text: &str) -> Result<(u32, u32)> {
    let form = Form { name: "--heads", text };
    let (left, right, begin) = form.halves('/', "32/8 (query heads, '/', KV heads)")?;
    let query = form.number(left, 0, "the number of query heads", false)?;
    let kv = form.number(right, begin, "the number of KV heads", false)?;
    Ok((form.small(&query, "the number of query heads")?, form.small(&kv, "the number of KV heads")?))
}

/// Reads `START:COUNT` as (first request from 0, number of requests).
///
/// # Errors
/// [`Error::Form`] with the byte offset.
pub fn parse_window(text: &str) -> Result<(usize, usize)> {
    let form = Form { name: "--window", text };
    let (left, right, begin) = form.halves(':', "100:256 (first request from 0, ':', number of requests)")?;
    let start = form.number(left, 0, "the first request", true)?;
    let count = form.number(right, begin, "the number of requests", false)?;
    Ok((form.small(&start, "the first request")? as usize, form.small(&count, "the number of requests")? as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(result: Result<impl std::fmt::Debug>) -> (usize, String) {
        match result.unwrap_err() {
            Error::Form { at: Some(at), problem, .. } => (at, problem),
            other => panic!("not an error of a form: {other}"),
        }
    }

    #[test]
    fn a_tree_string_nests_its_levels() {
        let spec = parse_tree("2,8,256_64,32,17", AttentionShape::default()).unwrap();
        let root = &spec.roots[0];
        assert_eq!((root.repeat, root.tokens), (2, 64));
        assert_eq!((root.children[0].repeat, root.children[0].tokens), (4, 32));
        assert_eq!((root.children[0].children[0].repeat, root.children[0].children[0].tokens), (32, 17));
        let batch = spec.build().unwrap();
        assert_eq!(batch.requests().len(), 256);
        assert!(batch.requests().iter().all(|request| request.kv.0 == 64 + 32 + 17));
    }

    #[test]
    fn a_tree_string_of_one_level_shares_nothing() {
        let batch = parse_tree("256_1024", AttentionShape::default()).unwrap().build().unwrap();
        assert_eq!(batch.requests().len(), 256);
        assert_eq!(batch.decode_tokens().0, 262144);
    }

    #[test]
    fn errors_of_a_tree_string_name_the_place_and_the_remedy() {
        let shape = AttentionShape::default();
        let (at, text) = place(parse_tree("1,4,255_32,256,32", shape));
        assert_eq!(at, 4);
        assert!(text.contains("multiple of 4") && text.contains("252 or 256"), "{text}");
        assert_eq!(place(parse_tree("1,4,256_32,256", shape)).0, 14);
        assert_eq!(place(parse_tree("1,4_32,256,7", shape)).0, 11);
        assert_eq!(place(parse_tree("1,x4_32,256", shape)).0, 2);
        assert_eq!(place(parse_tree("1,,4_32,256", shape)).0, 2);
        assert_eq!(place(parse_tree("1,4_0,256", shape)).0, 4);
        assert_eq!(place(parse_tree("1,4_33,256", shape)).0, 4);
        assert_eq!(place(parse_tree("1,4", shape)).0, 3);
        assert_eq!(place(parse_tree("1_4_5", shape)).0, 3);
        assert_eq!(place(parse_tree("99999999999999999999_4", shape)).0, 0);
        assert!(parse_tree("", shape).is_err());
        let levels = vec!["1"; 100_000].join(",");
        assert!(parse_tree(&format!("{levels}_{levels}"), shape).is_err());
    }

    #[test]
    fn a_tree_string_with_an_impossible_shape_is_refused_before_it_divides() {
        let shape = AttentionShape { block_size: 0, ..AttentionShape::default() };
        assert!(matches!(parse_tree("1,4_32,32", shape), Err(Error::Batch(_))));
    }

    #[test]
    fn the_other_forms_read_what_they_say() {
        assert_eq!(parse_decode("80x12288").unwrap(), RequestSpec::Decode { kv: 12288, count: 80 });
        assert_eq!(parse_prefill("1024@12288").unwrap(), RequestSpec::Prefill { chunk: 1024, kv: 12288 });
        assert_eq!(parse_heads("32/8").unwrap(), (32, 8));
        assert_eq!(parse_window("0:256").unwrap(), (0, 256));
    }

    #[test]
    fn a_message_repeats_little_of_what_was_typed() {
        for text in ["1x2\u{1b}[31m".to_owned() + &"9".repeat(5000), "1x".to_owned() + &"9".repeat(5000)] {
            let Err(Error::Form { problem, .. }) = parse_decode(&text) else { panic!("{text} was taken") };
            assert!(problem.len() < 120 && !problem.contains(char::is_control) && problem.contains('…'), "{problem}");
        }
    }

    #[test]
    fn the_other_forms_name_the_place() {
        assert_eq!(place(parse_decode("80*12288")).0, 8);
        assert_eq!(place(parse_decode("0x12")).0, 0);
        assert_eq!(place(parse_decode("8x-1")).0, 2);
        assert_eq!(place(parse_decode("5000000000x1")).0, 0);
        assert_eq!(place(parse_prefill("1024@512")).0, 5);
        assert_eq!(place(parse_heads("32/")).0, 3);
        assert_eq!(place(parse_heads("32/8/1")).0, 4);
        assert_eq!(place(parse_window("3:0")).0, 2);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_a_form_panic(text in "[0-9,_x@/:µ ]{0,24}|.{0,24}") {
            let spec = parse_tree(&text, AttentionShape::default());
            drop(spec.and_then(|spec| spec.build()));
            let decode = parse_decode(&text);
            let prefill = parse_prefill(&text);
            for request in [decode, prefill].into_iter().flatten() {
                let spec = BatchSpec { requests: vec![request], ..BatchSpec::empty(AttentionShape::default()) };
                drop(spec.build());
            }
            drop((parse_heads(&text), parse_window(&text)));
        }

        #[test]
        fn the_place_of_an_error_lies_in_the_text(text in "[0-9,_]{0,24}") {
            if let Err(Error::Form { at: Some(at), .. }) = parse_tree(&text, AttentionShape::default()) {
                proptest::prop_assert!(at <= text.len() && text.is_char_boundary(at));
            }
        }
    }
}
