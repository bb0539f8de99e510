//! What goes wrong on the command line: one message with the place and the remedy, one exit code.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use engine::Error;
use miette::{LabeledSpan, MietteDiagnostic, NamedSource, Report};

/// Exit code: the work itself failed.
pub(crate) const FAILED: u8 = 1;
/// Exit code: wrong usage or bad input.
pub(crate) const BAD_INPUT: u8 = 2;
/// Exit code: the asked hardware is not there.
pub(crate) const NO_HARDWARE: u8 = 3;

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
    pub(crate) fn input(text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { code: BAD_INPUT, report: MietteDiagnostic::new(text).with_help(remedy).into() }
    }

    /// Work that failed.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self { code: FAILED, report: MietteDiagnostic::new(text).into() }
    }

    /// Hardware that is not there, with the way around.
    pub(crate) fn hardware(text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { code: NO_HARDWARE, report: MietteDiagnostic::new(text).with_help(remedy).into() }
    }

    /// Whether this is about hardware that is not there.
    pub(crate) fn is_hardware(&self) -> bool {
        self.code == NO_HARDWARE
    }

    /// An error of the engine about a file, pointing into its text where it has one.
    pub(crate) fn about(path: &Path, text: Option<&str>, error: Error) -> Self {
        let name = path.display();
        match error {
            Error::File { problem, line, column, offset } => {
                let diagnostic = MietteDiagnostic::new(format!("{name}, line {line}, column {column}: {problem}"));
                let report = match text {
                    Some(text) => pointing(diagnostic, text, offset, &name.to_string()),
                    None => diagnostic.into(),
                };
                Self { code: BAD_INPUT, report }
            }
            // These name the path themselves.
            error @ Error::Io { .. } => error.into(),
            other => Self { code: code_of(&other), report: MietteDiagnostic::new(format!("{name}: {other}")).into() },
        }
    }

    /// Adds what a person can do about it.
    pub(crate) fn or_try(self, remedy: impl std::fmt::Display) -> Self {
        Self { code: self.code, report: self.report.context(remedy.to_string()) }
    }

    /// Writes the message to stderr and gives the exit code.
    pub(crate) fn tell(&self) -> ExitCode {
        super::output::note(&format!("{:?}", self.report));
        ExitCode::from(self.code)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let code = code_of(&error);
        let report = match &error {
            Error::Form { form, at: Some(at), .. } => {
                // The form is the option and its text; the place counts within the text.
                let (option, text) = form.split_once(' ').unwrap_or((form, ""));
                pointing(MietteDiagnostic::new(error.to_string()), text, *at, option)
            }
            _ => MietteDiagnostic::new(error.to_string()).into(),
        };
        Self { code, report }
    }
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
fn pointing(diagnostic: MietteDiagnostic, text: &str, offset: usize, name: &str) -> Report {
    let mut at = offset.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let labelled = diagnostic.with_label(LabeledSpan::at_offset(at, "here"));
    Report::new(labelled).with_source_code(NamedSource::new(name, text.to_owned()))
}

fn code_of(error: &Error) -> u8 {
    match error {
        Error::Io { doing, .. } if doing.starts_with("writing") => FAILED,
        Error::Plan(_) | Error::Gpu(_) | Error::Cancelled => FAILED,
        Error::Hardware(_) => NO_HARDWARE,
        _ => BAD_INPUT,
    }
}
