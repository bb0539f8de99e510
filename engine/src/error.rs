//! The one error type of the engine. Each case says what is wrong, with the numbers in it.

use std::path::PathBuf;

use crate::shown::{brief, quoted};

/// Shorthand for results of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Most characters of a typed form that a message repeats.
const FORM: usize = 120;

/// What can go wrong in the engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A batch that cannot be: heads that do not divide, a length of zero, a block twice in one request.
    #[error("the batch is not valid: {0}")]
    Batch(String),
    /// Text of a batch form that does not parse; `at` is the byte offset where it stops making sense.
    #[error("{}: {problem}", brief(form, FORM))]
    Form {
        /// The form that was read, such as `--tree`.
        form: String,
        /// What is wrong and how to put it right.
        problem: String,
        /// Byte offset into the text, where known.
        at: Option<usize>,
    },
    /// A batch or device file whose text is wrong at a place.
    #[error("line {line}, column {column}: {problem}")]
    File {
        /// What is wrong and how to put it right.
        problem: String,
        /// 1-based line.
        line: usize,
        /// 1-based column.
        column: usize,
        /// Byte offset of the place.
        offset: usize,
    },
    /// A file of binary records of which one is wrong.
    #[error("{what} {number}, at byte {offset}: {problem}")]
    Record {
        /// What a record is: `message`.
        what: &'static str,
        /// Its number, from 0.
        number: u64,
        /// Byte of the file at which it begins.
        offset: u64,
        /// What is wrong and how to put it right.
        problem: String,
    },
    /// A file of tensors or records that does not hold what is needed, one of several or of a folder.
    #[error("{}: {problem}", path.display())]
    Tensors {
        /// The file.
        path: PathBuf,
        /// What is wrong and how to put it right.
        problem: String,
    },
    /// A name that no list has.
    #[error("there is no {kind} named '{}'; known: {known}", quoted(name))]
    UnknownName {
        /// `scheduler`, `strategy`, `device`, …
        kind: &'static str,
        /// The name that was given.
        name: String,
        /// The names that exist, comma-separated.
        known: String,
    },
    /// A scheduler or strategy that cannot take this batch, naming its limit.
    #[error("{who} cannot take this batch: {limit}")]
    Unsupported {
        /// The scheduler or strategy.
        who: String,
        /// The limit it meets.
        limit: String,
    },
    /// A plan that breaks an invariant. This is a fault of packscope, not of the input.
    #[error("the plan is wrong: {0}; this is a fault of packscope, please report it with the batch")]
    Plan(String),
    /// A capture file that is not one, is newer, or is damaged past use.
    #[error("{0}")]
    Capture(String),
    /// A device that does not fit the work or a device file with impossible figures.
    #[error("the device is not usable: {0}")]
    Device(String),
    /// The GPU failed while it ran the plan, or has too little memory for it.
    #[error("the GPU could not run the plan: {0}")]
    Gpu(String),
    /// The hardware that was asked for is not there.
    #[error("{0}")]
    Hardware(String),
    /// Reading or writing failed.
    #[error("{doing} failed: {source}: {path}")]
    Io {
        /// What was being done: `reading the batch`.
        doing: &'static str,
        /// The reason.
        source: std::io::Error,
        /// The file.
        path: PathBuf,
    },
    /// The work was cancelled by the person.
    #[error("cancelled")]
    Cancelled,
}

impl Error {
    /// A closure that wraps an I/O error with what was being done and the path.
    pub fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, source, path }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_repeats_little_of_a_name_or_form() {
        let long = format!("pat\u{1b}[31m{}", "long".repeat(70_000));
        let unknown = Error::UnknownName { kind: "scheduler", name: long.clone(), known: "pat, naive".to_owned() };
        let form = Error::Form { form: format!("--tree {long}"), problem: "there is no '_'".to_owned(), at: None };
        for (error, says) in [(unknown, "known: pat, naive"), (form, "there is no '_'")] {
            let text = error.to_string();
            assert!(text.len() < 200 && text.contains("pat␛[31mlong") && text.ends_with(says), "{text:.300}");
        }
    }
}
