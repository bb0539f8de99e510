//! What goes wrong on the command line: one message with the place and the remedy, one exit code.

use std::io::{ErrorKind, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use engine::Error;
use miette::{LabeledSpan, MietteDiagnostic, Report};

use crate::cli::exit::{BAD_INPUT, FAILED, NO_HARDWARE};
use crate::cli::snippet::{self, Snippet};
use crate::cli::stderr;
use engine::shown;

/// A failure on its way to the person.
#[derive(Debug)]
pub(crate) struct Fault {
    code: u8,
    report: Report,
}

/// Result of a command.
pub(crate) type Outcome<T> = Result<T, Fault>;

impl Fault {
    /// Wrong usage or bad input, with its remedy.
    pub(crate) fn input(text: impl AsRef<str>, remedy: impl Into<String>) -> Self {
        Self { code: BAD_INPUT, report: message(text.as_ref()).with_help(remedy).into() }
    }

    /// Work that failed.
    pub(crate) fn failed(text: impl AsRef<str>) -> Self {
        Self { code: FAILED, report: message(text.as_ref()).into() }
    }

    /// Hardware that is not there, with the way around.
    pub(crate) fn hardware(text: impl AsRef<str>, remedy: impl Into<String>) -> Self {
        Self { code: NO_HARDWARE, report: message(text.as_ref()).with_help(remedy).into() }
    }

    /// Whether this is about hardware that is not there.
    pub(crate) fn is_hardware(&self) -> bool {
        self.code == NO_HARDWARE
    }

    /// An error of the engine about a file, pointing into its text, which is read again where it is not given.
    pub(crate) fn about(path: &Path, text: Option<&str>, error: Error) -> Self {
        let name = path.display().to_string();
        match error {
            Error::File { problem, line, column, offset } => {
                let told = message(&format!("{name}, line {line}, column {column}: {problem}"));
                let snippet = match text {
                    Some(text) => Some(Snippet::of(&name, text, offset)),
                    None => snippet::around(path, offset).map(|(before, after)| {
                        Snippet::of_line(&name, (&before, &after), line.saturating_sub(1), column.saturating_sub(1))
                    }),
                };
                let report = snippet.map_or_else(|| told.clone().into(), |snippet| pointing(told.clone(), snippet));
                Self { code: BAD_INPUT, report }
            }
            // These name the path themselves, or are not about the file.
            error @ (Error::Io { .. } | Error::Tensors { .. } | Error::Form { .. } | Error::Cancelled) => error.into(),
            other => Self { code: code_of(&other), report: message(&format!("{name}: {other}")).into() },
        }
    }

    /// Adds what a person can do about it.
    pub(crate) fn or_try(self, remedy: impl std::fmt::Display) -> Self {
        Self { code: self.code, report: self.report.context(remedy.to_string()) }
    }

    /// Writes the message to stderr and gives the exit code.
    pub(crate) fn tell(&self) -> ExitCode {
        stderr::report(&format!("{:?}", self.report));
        ExitCode::from(self.code)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let code = code_of(&error);
        let report = match &error {
            Error::Form { form, at, .. } => {
                // The form is the option and its text; the place counts within the text.
                let (option, text) = form.split_once(' ').unwrap_or((form, ""));
                let told = message(&error.to_string());
                match at {
                    Some(at) => pointing(told, Snippet::of(option, text, *at)),
                    None => told.into(),
                }
            }
            _ => match remedy(&error) {
                Some(remedy) => message(&error.to_string()).with_help(remedy).into(),
                None => message(&error.to_string()).into(),
            },
        };
        Self { code, report }
    }
}

/// Most characters of a message. What is longer quotes what it was given; the place is shown below it.
const MESSAGE: usize = 1200;

fn message(text: &str) -> MietteDiagnostic {
    MietteDiagnostic::new(shown::lines(&shown::clipped(text, MESSAGE)))
}

/// What a person can do where a file cannot be read or written.
fn remedy(error: &Error) -> Option<String> {
    let Error::Io { doing, source, path } = error else { return None };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).display();
    if !doing.starts_with("writing") {
        return (source.kind() == ErrorKind::PermissionDenied).then(|| "change its permissions".to_owned());
    }
    Some(match source.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => format!("make the folder {folder} first, or choose another"),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            format!("choose a folder that you may write to, or change the permissions of {folder}")
        }
        ErrorKind::IsADirectory => "give the name of a file in it".to_owned(),
        ErrorKind::FileTooLarge => "raise the file-size limit of this shell (ulimit -f)".to_owned(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space, or choose another disk".to_owned(),
        _ => return None,
    })
}

/// Breaks lines for a terminal only, so that a log or a script finds a message whole.
pub(crate) fn set_style() {
    let wrap = std::io::stderr().is_terminal();
    // Fails only where a style was set before, which is as good.
    let _ = miette::set_hook(Box::new(move |_| {
        Box::new(miette::MietteHandlerOpts::new().wrap_lines(wrap).terminal_links(false).build())
    }));
}

/// A report with a caret under the place.
fn pointing(diagnostic: MietteDiagnostic, snippet: Snippet) -> Report {
    let labelled = diagnostic.with_label(LabeledSpan::at_offset(snippet.caret(), "here"));
    Report::new(labelled).with_source_code(snippet)
}

fn code_of(error: &Error) -> u8 {
    match error {
        Error::Io { doing, .. } if doing.starts_with("writing") => FAILED,
        Error::Plan(_) | Error::Gpu(_) | Error::Cancelled => FAILED,
        Error::Hardware(_) => NO_HARDWARE,
        _ => BAD_INPUT,
    }
}
