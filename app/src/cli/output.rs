//! Where text goes: results to stdout, everything else to stderr. A reader that has gone away
//! (`packscope … | head`) is no error.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::cli::fault::{Fault, Outcome};
use crate::cli::interrupt;
pub(crate) use crate::cli::stderr::note;
use engine::shown;

/// Writes a result to stdout.
pub(crate) fn print(text: &str) -> Outcome<()> {
    print_raw(&shown::lines(text))
}

fn print_raw(text: &str) -> Outcome<()> {
    interrupt::cancel().check()?;
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| if text.ends_with('\n') { Ok(()) } else { stdout.write_all(b"\n") });
    match written.and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(engine::Error::io("writing the result", "stdout")(error).into())
        }
        _ => Ok(()),
    }
}

/// Writes a result to stdout as one JSON object.
pub(crate) fn print_json(value: &impl Serialize) -> Outcome<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Fault::input(format!("the result cannot be written as JSON: {error}"), "please report it"))?;
    print_raw(&text)
}

/// A path in a result. One that is not Unicode is told as nearly as text can.
pub(crate) fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A bar for work of `steps` steps; shown on a terminal only.
pub(crate) fn progress(steps: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len}") {
        bar.set_style(style);
    }
    shown(bar, what)
}

/// The same for a file that is being read.
pub(crate) fn progress_of_bytes(what: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes} {eta}") {
        bar.set_style(style);
    }
    shown(bar, what)
}

/// The same for work whose end nobody can tell before.
pub(crate) fn working(what: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    shown(bar, what)
}

fn shown(bar: ProgressBar, what: &str) -> ProgressBar {
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
