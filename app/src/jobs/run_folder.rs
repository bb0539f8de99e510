//! Where the measured runs of a session lie: a folder beside its file, one capture for each.
//!
//! ```text
//! session.ron ──names──► session.runs/measured-….pscope     a run that lives in the window alone
//!      │      └─names──► /elsewhere/a.pscope                one that was opened from a file of the person's
//! session.lock: each window that keeps this session holds it, shared
//! ```
//!
//! A file that the session does not name any more is removed, unless another window keeps the same session: the last
//! that writes has its own runs in the file, and the other's are still looked at. What is not removed then is at the
//! next start of a window that is alone. A file of the person's is never touched.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use engine::{Error, Result};

/// How names of captures end.
const ENDING: &str = "pscope";

/// The folder, and that this window uses it.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
    session: PathBuf,
    /// Nothing where the system gives no lock: then nothing is known of other windows, and nothing is removed.
    lock: Option<File>,
}

fn locked(path: &Path) -> std::io::Result<File> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    // Refused for the moment in which another window, being alone, removes files: this one comes later than that.
    let _ = file.try_lock_shared();
    Ok(file)
}

impl RunFolder {
    /// That of the session in this file.
    pub(crate) fn beside(session: &Path) -> Self {
        Self {
            path: session.with_extension("runs"),
            session: session.to_owned(),
            lock: locked(&session.with_extension("lock")).ok(),
        }
    }

    /// Makes it where it is not there yet.
    ///
    /// # Errors
    /// [`Error::Io`] where it cannot be made.
    pub(crate) fn make(&self) -> Result<()> {
        fs::create_dir_all(&self.path).map_err(Error::io("making the folder of measured runs", &self.path))
    }

    /// Whether a file is one of ours.
    pub(crate) fn has(&self, file: &Path) -> bool {
        file.starts_with(&self.path)
    }

    /// A place for one more run. Names sort by time; two windows of one moment are two processes.
    pub(crate) fn place(&self, number: u64) -> PathBuf {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        self.path.join(format!("measured-{since:013}-{}-{number}.{ENDING}", std::process::id()))
    }

    /// A file as the session names it: ours from where the session is, so that the two can be moved together.
    pub(crate) fn name(&self, file: &Path) -> PathBuf {
        let home = self.session.parent().unwrap_or(Path::new(""));
        let own = file.strip_prefix(home).ok().filter(|_| self.has(file));
        own.unwrap_or(file).to_owned()
    }

    /// The file of a name.
    pub(crate) fn find(&self, name: &Path) -> PathBuf {
        self.session.parent().unwrap_or(Path::new("")).join(name)
    }

    /// All that are there, the oldest first.
    pub(crate) fn all(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let captures =
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|own| own == ENDING));
        let mut all: Vec<PathBuf> = captures.collect();
        all.sort_unstable();
        all
    }

    /// Those that were written after the session was: a window that was killed had no time to name them.
    pub(crate) fn newer(&self) -> Vec<PathBuf> {
        let changed = |path: &Path| fs::metadata(path).and_then(|there| there.modified()).ok();
        let Some(session) = changed(&self.session) else { return Vec::new() };
        self.all().into_iter().filter(|file| changed(file).is_some_and(|changed| changed >= session)).collect()
    }

    /// Removes ours but for those of a session.
    pub(crate) fn keep_only(&self, named: &[PathBuf]) {
        self.remove(self.all().into_iter().filter(|file| !named.contains(file)));
    }

    /// Removes those of them that are ours, if no other window keeps this session.
    pub(crate) fn remove(&self, files: impl Iterator<Item = PathBuf>) {
        let mut own = files.filter(|file| self.has(file)).peekable();
        let Some(lock) = self.lock.as_ref().filter(|_| own.peek().is_some()) else { return };
        if lock.try_lock().is_ok() {
            // One that stays costs its place on the disk alone, until the next time.
            own.for_each(|file| drop(fs::remove_file(file)));
        }
        let _ = lock.try_lock_shared();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_session_does_not_name_is_removed_by_a_window_that_is_alone() {
        let home = tempfile::tempdir().unwrap();
        let session = home.path().join("deep").join("session.ron");
        let folder = RunFolder::beside(&session);
        folder.make().unwrap();
        let files: Vec<PathBuf> = (0..4).map(|at| folder.place(at)).collect();
        let foreign = home.path().join("own.pscope");
        let aside = files[3].with_extension("pscope.unread");
        for file in files[..3].iter().chain([&foreign, &aside]) {
            fs::write(file, "run").unwrap();
        }
        assert_eq!(folder.all(), files[..3]);
        let other = RunFolder::beside(&session);
        folder.keep_only(&files[1..]);
        assert_eq!(folder.all().len(), 3, "another window keeps the session");
        drop(other);
        folder.keep_only(&files[1..]);
        assert_eq!(folder.all(), files[1..3]);
        folder.remove([files[1].clone(), foreign.clone()].into_iter());
        assert_eq!(folder.all(), files[2..3]);
        assert!(foreign.exists() && aside.exists());
    }

    #[test]
    fn a_run_is_named_from_where_the_session_is_and_a_file_of_the_persons_by_its_path() {
        let folder = RunFolder::beside(Path::new("/nowhere/deep/session.ron"));
        let (own, foreign) = (folder.place(7), Path::new("/nowhere/deep/own.pscope"));
        let name = folder.name(&own);
        assert!(name.starts_with("session.runs") && folder.find(&name) == own, "{}", name.display());
        assert_eq!((folder.name(foreign), folder.find(foreign)), (foreign.to_owned(), foreign.to_owned()));
    }
}
