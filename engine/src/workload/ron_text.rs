//! Reading and writing RON: how deep it nests, and what is wrong with it in words of ours.

use std::thread;

use ron::error::SpannedError;
use ron::extensions::Extensions;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::shown::{quoted, reason};
use crate::units::grouped;
use crate::workload::Limits;

/// How deeply a batch file may nest: a node takes four levels at most, and the file around them a few.
const NESTING: usize = 4 * Limits::DEPTH + 16;
/// Brackets inside one another that any thread's stack has room for.
const SHALLOW: usize = 64;
/// Stack for reading and writing what nests more deeply; a level takes 2 to 6 KiB of it.
const STACK: usize = 96 << 20;

/// Optional fields are written plainly: `requests: 2`.
fn format() -> ron::Options {
    ron::Options::default().with_recursion_limit(NESTING).with_default_extension(Extensions::IMPLICIT_SOME)
}

/// Reads a value.
///
/// # Errors
/// [`Error::File`] with the line and column of what does not fit.
pub(crate) fn read<T: DeserializeOwned + Send>(text: &str) -> Result<T, Error> {
    let read = || format().from_str(text);
    let value = if nesting(text) <= SHALLOW { read() } else { on_large_stack(read) };
    value.map_err(|error| ron_error(text, &error))
}

/// The text of a value of so many nodes below one another.
pub(super) fn write<T: Serialize + Sync>(value: &T, depth: usize) -> ron::Result<String> {
    let write = || {
        let pretty = ron::ser::PrettyConfig::new().depth_limit(6).struct_names(false);
        format().to_string_pretty(value, pretty)
    };
    if 4 * depth <= SHALLOW { write() } else { on_large_stack(write) }
}

/// Most brackets inside one another; those in strings and comments may count as well.
fn nesting(text: &str) -> usize {
    let (mut depth, mut most) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        most = most.max(depth);
    }
    most
}

/// Does recursive work where it has room. Without a thread to spare it is done here.
fn on_large_stack<T: Send>(work: impl Fn() -> T + Sync) -> T {
    let done = thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, &work);
        thread.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    done.unwrap_or_else(|_| work())
}

/// Turns the error of the RON parser into ours, with the place. The parser counts characters in a line.
pub fn ron_error(text: &str, error: &SpannedError) -> Error {
    let start = error.span.start;
    let above: usize = text.split_inclusive('\n').take(start.line.saturating_sub(1)).map(str::len).sum();
    let within = text[above..].chars().take(start.col.saturating_sub(1)).map(char::len_utf8).sum::<usize>();
    Error::File { problem: problem(&error.code), line: start.line, column: start.col, offset: above + within }
}

/// What is wrong, without the names that types have in the code.
fn problem(error: &ron::Error) -> String {
    let list = |names: &[&str]| names.join(", ");
    match error {
        ron::Error::ExceededRecursionLimit => format!(
            "nested too deeply to read; at most {} nodes may stand below one another",
            grouped(Limits::DEPTH as u64)
        ),
        ron::Error::NoSuchStructField { expected, found, .. } => {
            format!("there is no field '{}' here; the fields are {}", quoted(found), list(expected))
        }
        ron::Error::MissingStructField { field, .. } => format!("the field '{field}' is missing"),
        ron::Error::DuplicateStructField { field, .. } => format!("the field '{field}' stands here twice"),
        ron::Error::NoSuchEnumVariant { expected, found, .. } => {
            format!("there is no '{}' here; choose one of {}", quoted(found), list(expected))
        }
        ron::Error::InvalidValueForType { expected, found } => {
            // The names of types are those of the code.
            let expected = if expected.starts_with("struct ") { "a group of fields in '(' and ')'" } else { expected };
            format!("{} stands where {expected} is needed", quoted(found))
        }
        ron::Error::ExpectedStructLike
        | ron::Error::ExpectedNamedStructLike(_)
        | ron::Error::ExpectedDifferentStructName { .. }
        | ron::Error::ExpectedStructName(_) => "a group of fields in '(' and ')' is needed here".to_owned(),
        ron::Error::Eof => "the text ends here, in the middle".to_owned(),
        ron::Error::TrailingCharacters => "nothing more may follow here".to_owned(),
        other => {
            let text = other.to_string().replace('`', "'");
            let mut letters = text.chars();
            let lower: String =
                letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect());
            reason(&lower)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::BatchSpec;

    #[test]
    fn the_place_of_an_error_counts_bytes_behind_letters_of_several() {
        let text = "(schema: 1, name: \"µµ日本\", rots: [])";
        let Error::File { offset, column, problem, .. } = BatchSpec::from_ron(text).unwrap_err() else { panic!() };
        assert_eq!((&text[offset..][..4], column), ("rots", text[..offset].chars().count() + 1));
        assert!(
            problem.contains("no field 'rots'") && problem.contains("roots") && !problem.contains("Spec"),
            "{problem}"
        );
    }

    #[test]
    fn a_problem_repeats_little_of_the_text() {
        let long = "long".repeat(70_000);
        for text in [
            format!("(schema: 1, {long}: 3)"),
            format!("(schema: 1, requests: [{long}(kv: 3)])"),
            format!("(schema: \"{long}\")"),
            format!("(schema: b\"{long}\")"),
            format!("#![enable({long})] (schema: 1)"),
            format!("(schema: 1, {long}-{long}: 3)"),
            format!("(schema: 1, r#{long}: 3)"),
            format!("(schema: 1, shape: (dtype: {long}))"),
            format!("{long}(schema: 1)"),
        ] {
            let problem = BatchSpec::from_ron(&text).unwrap_err().to_string();
            assert!(problem.len() < 400, "{} bytes of {} are repeated: {problem:.200}", problem.len(), text.len());
        }
    }

    #[test]
    fn no_problem_names_a_type_of_the_code() {
        for text in
            ["(schema: 1, roots: [3])", "(schema: 1, roots: 3)", "[", "3", "(schema: 1, schema: 1)", "Node(schema: 1)"]
                .into_iter()
                .chain([
                    "(schema: 1, requests: [Prefil(kv: 3)])",
                    "(schema: 1, requests: [Decode(3)])",
                    "(roots: [])",
                    "(",
                ])
                .chain([
                    "(schema: 1, roots: [(children: [])])",
                    "(schema: \"1\")",
                    "(schema: 1))",
                    "(schema: 1, shape: 4)",
                ])
        {
            let problem = BatchSpec::from_ron(text).unwrap_err().to_string();
            for name in ["Spec", "Shape", "struct ", "enum ", "Bracket", "`"] {
                assert!(!problem.contains(name), "{text}: {problem}");
            }
        }
    }
}
