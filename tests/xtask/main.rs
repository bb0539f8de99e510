//! `cargo xtask`: everything that must hold of the tree, in one command.
//!
//! Formatting, lints and documentation come from cargo's own tools; import directions and circles, sizes,
//! headers, the top level and forbidden dependencies are read from the sources here. The tests are
//! `cargo test --workspace`, as always.

mod circles;
mod dependencies;
mod imports;
mod layout;
mod sizes;
mod sources;

use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

use crate::sources::Source;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let root = sources::root()?;
    std::env::set_current_dir(&root).context("entering the workspace")?;
    let sources = sources::read(&root)?;
    let mut faults = imports::check(&sources);
    faults.extend(circles::check(&sources));
    faults.extend(sizes::check(&sources));
    faults.extend(layout::check(&root, &sources)?);
    faults.extend(dependencies::check()?);
    for fault in &faults {
        eprintln!("{fault}");
    }
    if !faults.is_empty() {
        bail!("{} faults in the tree", faults.len());
    }
    eprintln!("tree: {} source files, no faults", sources.len());
    cargo(&["fmt", "--all", "--check"], &[])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])?;
    cargo(&["doc", "--workspace", "--no-deps", "--document-private-items"], &[("RUSTDOCFLAGS", "-D warnings")])
}

/// Runs cargo and fails with what was run.
fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    eprintln!("cargo {}", arguments.join(" "));
    let status =
        Command::new("cargo").args(arguments).envs(environment.iter().copied()).status().context("starting cargo")?;
    if !status.success() {
        bail!("cargo {} failed", arguments.join(" "));
    }
    Ok(())
}

/// Something in the tree that must not be.
struct Fault {
    source: String,
    line: usize,
    text: String,
}

impl Fault {
    fn at(source: &Source, line: usize, text: impl Into<String>) -> Self {
        Self { source: source.path.clone(), line, text: text.into() }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.source, self.line, self.text)
    }
}
