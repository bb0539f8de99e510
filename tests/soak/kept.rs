//! Cases that failed once: their inputs, and what was wrong. Every soak begins with them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::kinds::{Input, Kind};

/// A case that failed.
#[derive(Debug, Deserialize)]
pub(crate) struct Kept {
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
    /// What was wrong.
    #[expect(dead_code, reason = "for who reads the list")]
    was: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("soak/kept")
}

/// All of them, from `kept/list.ron`.
pub(crate) fn all() -> Result<Vec<Kept>> {
    let path = folder().join("list.ron");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    ron::from_str(&text).with_context(|| path.display().to_string())
}

/// The input of one of them.
pub(crate) fn read(kind: Kind, seed: u64) -> Result<Input> {
    let path = folder().join(file_name(kind, seed));
    Input::from_bytes(kind, fs::read(&path).with_context(|| path.display().to_string())?)
}

/// Name of the file of an input.
pub(crate) fn file_name(kind: Kind, seed: u64) -> String {
    format!("{}-{seed}.{}", kind.name(), kind.extension())
}
