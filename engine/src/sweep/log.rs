//! Rows as they come: lines of JSON in a folder, one file a shard, each line whole before its point counts as done.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::error::{Error, Result};
use crate::sweep::{Row, Shard};

/// The folder of a sweep's logs.
#[derive(Clone, Debug)]
pub struct Logs {
    folder: PathBuf,
}

impl Logs {
    /// The logs of the sweep in `folder`, which is made where it is not there.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn of(folder: &Path) -> Result<Self> {
        let folder = folder.join("parts");
        fs::create_dir_all(&folder).map_err(Error::io("writing the sweep's folder", &folder))?;
        Ok(Self { folder })
    }

    /// All rows that came, those of cut lines left out, in the order of the grid and each point once.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`] for a line that is whole and no row.
    pub fn rows(&self) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for path in self.files()? {
            let text = fs::read(&path).map_err(Error::io("reading the sweep's rows", &path))?;
            rows.extend(rows_of(&text)?);
        }
        rows.sort_by_key(|row: &Row| (row.number, row.key));
        rows.dedup_by_key(|row| row.key);
        Ok(rows)
    }

    /// Keys of the points that are done.
    pub(super) fn keys(&self) -> Result<HashSet<u64>> {
        Ok(self.rows()?.iter().map(|row| row.key).collect())
    }

    fn files(&self) -> Result<Vec<PathBuf>> {
        let failed = || Error::io("reading the sweep's folder", &self.folder);
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed())? {
            let path = entry.map_err(failed())?.path();
            if path.extension().is_some_and(|extension| extension == "jsonl") {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    /// Whoever adds to the log of a shard. A line that was cut when its writer was killed is taken away.
    pub(super) fn writer(&self, shard: Shard) -> Result<Writer> {
        let path = self.folder.join(format!("{:05}-of-{:05}.jsonl", shard.number, shard.of));
        let failed = || Error::io("writing the sweep's rows", &path);
        let mut file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).map_err(failed())?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed())?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        file.set_len(whole as u64).map_err(failed())?;
        file.seek(SeekFrom::Start(whole as u64)).map_err(failed())?;
        Ok(Writer { file: Mutex::new(file), path })
    }
}

/// The rows of whole lines.
fn rows_of(text: &[u8]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut offset = 0;
    for (line, bytes) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if bytes.ends_with(b"\n") {
            rows.push(serde_json::from_slice(bytes).map_err(|error| Error::File {
                problem: format!(
                    "not a row of a sweep of this version: {error}; remove the file, or sweep into another folder"
                ),
                line: line + 1,
                column: 1,
                offset,
            })?);
        }
        offset += bytes.len();
    }
    Ok(rows)
}

/// Adds rows to a log.
#[derive(Debug)]
pub(super) struct Writer {
    file: Mutex<File>,
    path: PathBuf,
}

impl Writer {
    /// Adds a row as one line, in one write.
    pub(super) fn add(&self, row: &Row) -> Result<()> {
        let failed = || Error::io("writing the sweep's rows", &self.path);
        let mut line = serde_json::to_vec(row).map_err(|error| failed()(error.into()))?;
        line.push(b'\n');
        // A writer that panicked left a whole line or a cut one, as one that was killed.
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.write_all(&line).map_err(failed())
    }
}
