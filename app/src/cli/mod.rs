//! The command line.
//!
//! ```text
//! arguments ─► args (clap) ─► input: batch, device, choice ─► engine::session ─► text or --json on stdout
//!                                      │                            │
//!                                      └──────── fault ◄────────────┘ one message on stderr, exit code 1, 2 or 3
//! ```

mod args;
mod bench;
mod commands;
mod exit;
mod fault;
mod figures;
mod files;
mod from;
mod input;
mod interrupt;
mod measured_runs;
mod output;
mod published;
mod sets;
mod shape;
mod snippet;
mod stderr;
mod table;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use commands::{calibrate, compare, convert, demo, list, plan, record, replay, run, sweep, verify, view};
use fault::Outcome;

/// Reads the arguments and does what they say.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to stdout with code 0, wrong usage to stderr with code 2; a closed stream is no error.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::BAD_INPUT));
        }
    };
    fault::set_style();
    start_log();
    interrupt::listen();
    let outcome = dispatch(cli.command);
    interrupt::exit_code().unwrap_or_else(|| outcome.unwrap_or_else(|fault| fault.tell()))
}

/// Logs to stderr; `PACKSCOPE_LOG=debug` shows more.
fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PACKSCOPE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("error"));
    // Fails only where a log was started before, which is as good.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
}

fn dispatch(command: Option<Command>) -> Outcome<ExitCode> {
    match command {
        None => view::no_command(),
        Some(Command::Demo(args)) => demo::demo(&args),
        Some(Command::Plan(args)) => plan::plan(&args),
        Some(Command::Run(args)) => run::run(&args),
        Some(Command::Compare(args)) => compare::compare(&args),
        Some(Command::Import(args)) => convert::import(&args),
        Some(Command::Replay(args)) => replay::replay(&args),
        Some(Command::Sweep(args)) => sweep::sweep(&args),
        Some(Command::Record(args)) => record::record(&args),
        Some(Command::Export(args)) => convert::export(&args),
        Some(Command::Verify(args)) => verify::verify(&args),
        Some(Command::View(args)) => view::view(&args),
        Some(Command::Bench(args)) => bench::bench(&args),
        Some(Command::Calibrate(args)) => calibrate::calibrate(&args),
        Some(Command::List(args)) => list::list(&args),
    }
}
