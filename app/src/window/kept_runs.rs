//! Measured runs of a session: which it names, in their order, and which are still to be read.
//!
//! ```text
//! start ──► order (as the session names them) ──► waiting ──read, the newest first──► kept, each in its place
//! keep_now ──► kept that are in no file ──► written ──► named by the session from the moment they are asked for
//! ```
//!
//! A run that waits is named as one that is there: a window that is killed while it reads loses none. One that was
//! opened on a batch or a capture reads none, and hands them all on to the next.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::capture::Source;

use crate::jobs::run_files::{Ask, RunFiles, Told};
use crate::jobs::run_folder::RunFolder;
use crate::runs::damage::Damage;
use crate::runs::measurement::{Filed, KEPT, Measurement};

/// The runs of a session, and the thread that writes and reads them.
#[derive(Debug)]
pub(super) struct KeptRuns {
    folder: Arc<RunFolder>,
    files: RunFiles,
    /// Files that the session named at the start, the oldest first.
    pub(super) order: Vec<PathBuf>,
    /// Those of them that are not read.
    waiting: Vec<PathBuf>,
    is_reading: bool,
    /// How many were asked to be written.
    written: u64,
}

impl KeptRuns {
    /// With the files that a session names; what it does not name is removed from its folder.
    pub(super) fn start(
        folder: Arc<RunFolder>,
        mut named: Vec<PathBuf>,
        wake: impl Fn() + Send + 'static,
    ) -> std::io::Result<Self> {
        named.extend(folder.newer().into_iter().filter(|file| !named.contains(file)).collect::<Vec<_>>());
        named.drain(..named.len().saturating_sub(KEPT));
        folder.keep_only(&named);
        let files = RunFiles::start(Arc::clone(&folder), wake)?;
        Ok(Self { folder, files, waiting: named.clone(), order: named, is_reading: false, written: 0 })
    }

    /// Reads those that wait, but for what is kept already and what `is_gone`; the newest first, since the run of the
    /// document is one of the last.
    pub(super) fn read(&mut self, kept: &[Measurement], is_gone: impl Fn(&Path) -> bool) {
        self.waiting.retain(|file| !is_gone(file) && !has(kept, file));
        self.is_reading = true;
        for file in self.waiting.iter().rev() {
            self.files.ask(Ask::Read(file.clone()));
        }
    }

    /// Whether some are still to come.
    pub(super) fn is_reading(&self) -> bool {
        self.is_reading && !self.waiting.is_empty()
    }

    /// What the thread has told.
    pub(super) fn told(&mut self) -> Vec<Told> {
        let told: Vec<Told> = self.files.events.try_iter().collect();
        for one in &told {
            if let Told::Read(file, _) = one {
                self.waiting.retain(|other| other != file);
            }
        }
        told
    }

    /// Where among the kept ones a run belongs that was read: after those before it in the session, and before those
    /// that were measured since.
    pub(super) fn place(&self, kept: &[Measurement], file: &Path) -> usize {
        let rank = |file: &Path| self.order.iter().position(|own| own == file).unwrap_or(usize::MAX);
        let is_later = |other: &Measurement| other.file().is_none_or(|other| rank(other) > rank(file));
        kept.iter().position(is_later).unwrap_or(kept.len())
    }

    /// Has those written that live in the window alone. One whose file had lost something is as that file told it:
    /// written again it would pass for whole.
    pub(super) fn write(&mut self, kept: &mut [Measurement]) {
        for one in kept {
            let run = &one.way.run;
            if one.filed == Filed::No && run.damage == Damage::default() && run.source() == Source::Measured {
                let place = self.folder.place(self.written);
                if self.files.ask(Ask::Write(Arc::clone(run), place.clone())) {
                    self.written += 1;
                    one.filed = Filed::Asked(place);
                }
            }
        }
    }

    /// What the session names, the oldest first.
    pub(super) fn names(&self, kept: &[Measurement]) -> Vec<PathBuf> {
        let before = self.order.iter().filter(|file| self.waiting.contains(file) || has(kept, file));
        let mut files: Vec<&Path> = before.map(PathBuf::as_path).collect();
        for file in kept.iter().filter_map(Measurement::file) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
        let over = files.len().saturating_sub(KEPT);
        files[over..].iter().map(|file| self.folder.name(file)).collect()
    }
}

fn has(kept: &[Measurement], file: &Path) -> bool {
    kept.iter().any(|one| one.file() == Some(file))
}
