//! The source files that git knows, with their text.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// One file.
pub(crate) struct Source {
    /// Path from the workspace root, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(crate) fn is_cuda(&self) -> bool {
        self.path.ends_with(".cu") || self.path.ends_with(".cuh")
    }

    /// Files that a program wrote.
    pub(crate) fn is_generated(&self) -> bool {
        self.path.contains("bindings") || self.path.contains("generated")
    }
}

/// The workspace root: where this package's folder lies.
pub(crate) fn root() -> Result<PathBuf> {
    // Asked for when it runs: a build that several checkouts share would name the one that compiled it.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").context("run it as `cargo xtask`")?;
    let package = Path::new(&package);
    package.parent().map(Path::to_owned).context("this package has no folder above it")
}

/// All tracked and new files of source and build kinds.
pub(crate) fn read(root: &Path) -> Result<Vec<Source>> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("starting git")?;
    if !listed.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&listed.stderr));
    }
    let mut sources = Vec::new();
    for path in String::from_utf8_lossy(&listed.stdout).lines() {
        let kind = Path::new(path).extension().and_then(|e| e.to_str()).unwrap_or_default();
        if ["rs", "cu", "cuh", "toml", "ron", "md"].contains(&kind) && root.join(path).is_file() {
            let text = std::fs::read_to_string(root.join(path)).with_context(|| format!("reading {path}"))?;
            sources.push(Source { path: path.to_owned(), text });
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}
