//! `view`, and packscope without a command: the window, where there is a display.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::args::{BatchArgs, Cli, Command, ViewArgs};
use crate::cli::commands::{convert, demo};
use crate::cli::fault::{Fault, Outcome};
use crate::cli::{input, output};
use crate::window::{self, Opening};

/// Without a command: the window on the example, or the demo where no window can be.
pub(crate) fn no_command() -> Outcome<ExitCode> {
    let reason = if has_display() {
        match window::open(Opening::Example, None, None) {
            Ok(()) => return Ok(ExitCode::SUCCESS),
            Err(error) => format!("the window did not open: {error:#}"),
        }
    } else {
        "there is no display for the window".to_owned()
    };
    output::note(&format!("{reason}; doing 'packscope demo' instead\n"));
    match Cli::try_parse_from(["packscope", "demo"]) {
        Ok(Cli { command: Some(Command::Demo(args)) }) => demo::demo(&args),
        _ => Err(Fault::input("the demo has no defaults", "please report it")),
    }
}

/// `view`.
pub(crate) fn view(args: &ViewArgs) -> Outcome<ExitCode> {
    let path = args.file.as_path();
    let opening = if is_capture(path) {
        Opening::Capture(Box::new(convert::load(path)?))
    } else {
        let batch = BatchArgs { file: Some(args.file.clone()), ..BatchArgs::default() };
        Opening::Batch(Box::new(input::batch(&batch)?))
    };
    if !has_display() {
        return Err(Fault::hardware(
            "there is no display for the window",
            "use 'packscope plan' or 'packscope run' on this file",
        ));
    }
    let capture = is_capture(path).then(|| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    window::open(opening, capture, args.at)
        .map_err(|error| Fault::failed(format!("the window did not open: {error:#}")))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a file is or was meant to be a capture.
fn is_capture(path: &Path) -> bool {
    let mut magic = [0; 7];
    let starts = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok();
    (starts && &magic == b"\x89PSCOPE") || path.extension().is_some_and(|extension| extension == "pscope")
}

/// Whether a window can be opened.
fn has_display() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(not(target_os = "linux")) || set("WAYLAND_DISPLAY") || set("WAYLAND_SOCKET") || set("DISPLAY")
}
