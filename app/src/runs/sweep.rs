//! The rows of a sweep, as its file has them.

use std::path::PathBuf;

use engine::sweep::Row;

/// A sweep that was opened.
#[derive(Debug)]
pub struct Sweep {
    /// Its file.
    pub path: PathBuf,
    /// One row for each point of the grid that is done.
    pub rows: Vec<Row>,
}

impl Sweep {
    /// Its file, in a line.
    pub fn title(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}
