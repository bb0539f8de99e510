//! The top level is fixed, each Rust module says what it is for, and nothing names a machine.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::Fault;
use crate::sources::Source;

const TOP_LEVEL: [&str; 12] = [
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "app",
    "cupti",
    "engine",
    "kernels",
    "sample_batches",
    "tests",
];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: [&str; 3] = ["/home/", concat!("/ro", "ot/"), concat!("/wo", "rk/")];

pub(crate) fn check(root: &Path, sources: &[Source]) -> Result<Vec<Fault>> {
    let mut faults = top_level(root)?;
    for source in sources {
        if source.is_rust() && !source.is_generated() && !opens_with_documentation(&source.text) {
            faults.push(Fault::at(source, 1, "the file does not open with `//!` and what it is for"));
        }
        for (number, line) in source.text.lines().enumerate() {
            if source.path != "tests/xtask/layout.rs" && MACHINE_PATHS.iter().any(|path| line.contains(path)) {
                faults.push(Fault::at(source, number + 1, "a path of one machine"));
            }
        }
    }
    Ok(faults)
}

fn opens_with_documentation(text: &str) -> bool {
    text.lines().next().is_some_and(|line| line.starts_with("//!"))
}

fn top_level(root: &Path) -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    for entry in std::fs::read_dir(root).context("listing the workspace")? {
        let name = entry.context("listing the workspace")?.file_name().to_string_lossy().into_owned();
        let made_by_running = ["target", "packscope-out"].contains(&name.as_str());
        if !name.starts_with('.') && !made_by_running && !TOP_LEVEL.contains(&name.as_str()) {
            faults.push(Fault { source: name, line: 1, text: "does not belong on the top level".to_owned() });
        }
    }
    faults.sort_by(|a, b| a.source.cmp(&b.source));
    Ok(faults)
}
