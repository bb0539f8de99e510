//! Writing files whole or not at all, one alone or several as a group.
//!
//! ```text
//! add ─► .packscope-XXXXXX beside each place ─► commit: all are renamed, under one lock
//!             │                                     └─ one cannot be: those before it are put back
//!             └─ dropped, or abandon(): removed, with the folders that were made for them
//! ```

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// Begin of the name of a file that is not in its place yet.
const PREFIX: &str = ".packscope-";

/// What this process has begun to write and not put in place. Held while files are made and renamed, so that
/// [`abandon`] finds all of a group beside its places, or in them.
static UNDERWAY: Mutex<Underway> =
    Mutex::new(Underway { over: false, files: BTreeSet::new(), folders: BTreeSet::new() });

struct Underway {
    /// Whether nothing is begun or put in place any more.
    over: bool,
    /// Temporary files.
    files: BTreeSet<PathBuf>,
    /// Folders that were made for them.
    folders: BTreeSet<PathBuf>,
}

fn underway() -> MutexGuard<'static, Underway> {
    UNDERWAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`underway`], unless [`abandon`] was called.
fn still_underway() -> Result<MutexGuard<'static, Underway>> {
    let underway = underway();
    if underway.over { Err(Error::Cancelled) } else { Ok(underway) }
}

/// Removes what is begun and not in place, and lets nothing be begun or put in place from now on: what is
/// tried later gives [`Error::Cancelled`]. For a process that a signal ends.
pub fn abandon() {
    let mut underway = underway();
    underway.over = true;
    // What cannot be removed is not ours any more. A folder sorts before those in it.
    for file in &underway.files {
        let _ = fs::remove_file(file);
    }
    for folder in underway.folders.iter().rev() {
        let _ = fs::remove_dir(folder);
    }
}

/// Writes `bytes` to `path`, whole or not at all.
///
/// # Errors
/// As [`Outputs::add`] and [`Outputs::commit`].
pub fn write_atomically(path: &Path, doing: &'static str, bytes: &[u8]) -> Result<()> {
    let mut outputs = Outputs::default();
    outputs.add(path, doing, bytes)?;
    outputs.commit().map(drop)
}

/// Files that appear together or not at all.
///
/// Each is written to a temporary file beside its place, so that a reader sees the old file or the new one.
/// A file that is replaced keeps its mode, and its owner and group where this user may set them. A link keeps
/// pointing where it does, even where nothing is there yet. A pipe or device, such as `/dev/stdout`, is
/// written directly when the others are ready: there is nothing to replace.
#[derive(Debug, Default)]
pub struct Outputs {
    files: Vec<Output>,
    /// Folders that were not there before, the outer ones first.
    folders: Vec<PathBuf>,
}

/// One file.
#[derive(Debug)]
struct Output {
    doing: &'static str,
    /// As it was asked for.
    path: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// A file, with what is to become it until it has.
    File { target: PathBuf, temporary: Option<NamedTempFile> },
    /// A pipe or device, with what goes there.
    Direct(Vec<u8>),
}

impl Outputs {
    /// Adds a file of these bytes.
    ///
    /// # Errors
    /// [`Error::Io`] with `doing` and the path: no such folder, no permission, a full disk, a directory, a
    /// path that the group has already. [`Error::Cancelled`] after [`abandon`].
    pub fn add(&mut self, path: &Path, doing: &'static str, bytes: &[u8]) -> Result<()> {
        self.add_with(path, doing, |file| file.write_all(bytes))
    }

    /// Adds a file of what `fill` writes.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_with(
        &mut self,
        path: &Path,
        doing: &'static str,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        let failed = || Error::io(doing, path);
        let there = fs::metadata(path).ok();
        if there.as_ref().is_some_and(Metadata::is_dir) {
            return Err(failed()(io::ErrorKind::IsADirectory.into()));
        }
        if there.as_ref().is_some_and(|there| !there.is_file()) {
            let mut bytes = Vec::new();
            fill(&mut bytes).map_err(failed())?;
            self.files.push(Output { doing, path: path.to_owned(), place: Place::Direct(bytes) });
            return Ok(());
        }
        let target = target_of(path).map_err(failed())?;
        if self.has(&target) {
            return Err(failed()(io::Error::other("two outputs would go to this one file")));
        }
        let temporary = beside(&target, there.as_ref(), &mut *still_underway()?).map_err(failed())?;
        let filled = fill_file(temporary.as_file(), fill);
        // It belongs to the group before anything can go wrong, so that it is removed with it.
        let place = Place::File { target, temporary: Some(temporary) };
        self.files.push(Output { doing, path: path.to_owned(), place });
        filled.map_err(failed())
    }

    /// Makes a folder for the files, unless it is there. It goes again if the group does not appear.
    ///
    /// # Errors
    /// [`Error::Io`] where it cannot be made; [`Error::Cancelled`] after [`abandon`].
    pub fn folder(&mut self, path: &Path, doing: &'static str) -> Result<()> {
        let missing: Vec<&Path> = path.ancestors().take_while(|folder| is_missing(folder)).collect();
        let mut underway = still_underway()?;
        for folder in missing.into_iter().rev() {
            fs::create_dir(folder).map_err(Error::io(doing, folder))?;
            underway.folders.insert(folder.to_owned());
            self.folders.push(folder.to_owned());
        }
        if path.is_dir() { Ok(()) } else { Err(Error::io(doing, path)(io::ErrorKind::NotADirectory.into())) }
    }

    /// Puts all files in their places and says which they are, in the order in which they were added.
    ///
    /// # Errors
    /// [`Error::Io`] where one cannot be put there, [`Error::Cancelled`] after [`abandon`]; the files that were
    /// there before are there again then.
    pub fn commit(mut self) -> Result<Vec<PathBuf>> {
        // A pipe may be full, which nobody else should wait for.
        for output in &self.files {
            if let Place::Direct(bytes) = &output.place {
                let file = File::options().write(true).open(&output.path);
                file.and_then(|mut file| file.write_all(bytes)).map_err(Error::io(output.doing, &output.path))?;
            }
        }
        let mut underway = still_underway()?;
        self.put_in_place(&mut underway)?;
        for folder in self.folders.drain(..) {
            underway.folders.remove(&folder);
        }
        Ok(self.files.iter().map(|output| output.path.clone()).collect())
    }

    fn has(&self, asked: &Path) -> bool {
        self.files.iter().any(|output| matches!(&output.place, Place::File { target, .. } if target == asked))
    }

    fn put_in_place(&mut self, underway: &mut Underway) -> Result<()> {
        let alone = self.files.len() == 1;
        let mut done: Vec<(&Path, Option<NamedTempFile<()>>)> = Vec::new();
        for output in &mut self.files {
            let Place::File { target, temporary } = &mut output.place else { continue };
            let Some(file) = temporary.take() else { continue };
            let older = if alone { None } else { second_name(target) };
            underway.files.remove(file.path());
            if let Err(error) = file.persist(&*target) {
                put_back(done);
                return Err(Error::io(output.doing, &output.path)(error.error));
            }
            done.push((target, older));
        }
        Ok(())
    }
}

impl Drop for Outputs {
    /// What is not in its place goes.
    fn drop(&mut self) {
        let mut underway = underway();
        for output in &mut self.files {
            if let Place::File { temporary, .. } = &mut output.place
                && let Some(file) = temporary.take()
            {
                underway.files.remove(file.path());
            }
        }
        for folder in self.folders.drain(..).rev() {
            // Others may have put something into it by now.
            let _ = fs::remove_dir(&folder);
            underway.folders.remove(&folder);
        }
    }
}

/// Whether nothing has this name; the empty path is where we are.
fn is_missing(folder: &Path) -> bool {
    !folder.as_os_str().is_empty() && fs::symlink_metadata(folder).is_err()
}

/// The file to which a write to `path` goes: through links, also those that point at nothing yet.
fn target_of(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    let mut target = path.to_owned();
    // The system follows as many at most, and has refused a ring above.
    for _ in 0..40 {
        match fs::read_link(&target) {
            Ok(next) => target = folder_of(&target).join(next),
            Err(_) => break,
        }
    }
    let name = target.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    Ok(fs::canonicalize(folder_of(&target))?.join(name))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A temporary file in the folder of `target`, with the mode and owner of what is there.
fn beside(target: &Path, there: Option<&Metadata>, underway: &mut Underway) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // A new file gets this less the process's mask; nobody else sees what replaces a private one.
        builder.permissions(fs::Permissions::from_mode(if there.is_some() { 0o600 } else { 0o666 }));
    }
    let file = builder.tempfile_in(folder_of(target)).map_err(plain)?;
    underway.files.insert(file.path().to_owned());
    if let Some(there) = there {
        resemble(file.as_file(), there);
    }
    Ok(file)
}

/// Gives a file the owner, group and mode of another as far as this user may.
#[cfg(unix)]
fn resemble(file: &File, there: &Metadata) {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    // Only root gives files away; a group of one's own may be set by anybody.
    let _ = fchown(file, Some(there.uid()), Some(there.gid())).or_else(|_| fchown(file, None, Some(there.gid())));
    let _ = file.set_permissions(fs::Permissions::from_mode(there.mode() & 0o777));
}

#[cfg(not(unix))]
fn resemble(_file: &File, _there: &Metadata) {}

/// The error of the system itself, without the name of the temporary file.
fn plain(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|outer| outer.source()).and_then(|inner| inner.downcast_ref::<io::Error>());
    inner.and_then(io::Error::raw_os_error).map_or(error, io::Error::from_raw_os_error)
}

fn fill_file(file: &File, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut buffered = BufWriter::new(file);
    fill(&mut buffered)?;
    buffered.flush()?;
    file.sync_all()
}

/// A second name of a file that is about to be replaced; none where there is no file, or where the file
/// system knows no second names.
fn second_name(target: &Path) -> Option<NamedTempFile<()>> {
    let link = |name: &Path| fs::hard_link(target, name);
    tempfile::Builder::new().prefix(PREFIX).make_in(folder_of(target), link).ok()
}

/// Undoes what was put in place before another file could not be.
fn put_back(done: Vec<(&Path, Option<NamedTempFile<()>>)>) {
    for (target, older) in done {
        // The error that is told is the one that led here.
        match older {
            Some(older) => drop(older.persist(target)),
            None => drop(fs::remove_file(target)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_whole_and_no_temporary_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        write_atomically(&path, "writing", b"one").unwrap();
        write_atomically(&path, "writing", b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn a_directory_and_a_missing_folder_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let text = write_atomically(folder.path(), "writing the capture", b"x").unwrap_err().to_string();
        assert!(text.contains("writing the capture") && text.contains("directory"), "{text}");
        assert!(write_atomically(&folder.path().join("no/such"), "writing", b"x").is_err());
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_group_that_cannot_appear_leaves_everything_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("old"), b"older").unwrap();
        let mut outputs = Outputs::default();
        outputs.folder(&at("new/tables"), "making").unwrap();
        outputs.add(&at("old"), "writing", b"newer").unwrap();
        outputs.add(&at("new/tables/a"), "writing", b"a").unwrap();
        outputs.add(&at("blocked"), "writing", b"b").unwrap();
        // Somebody takes the name of the last one in the meantime.
        fs::create_dir(at("blocked")).unwrap();
        outputs.commit().unwrap_err();
        assert_eq!(
            (names(folder.path()), fs::read(at("old")).unwrap()),
            (vec!["blocked".into(), "old".into()], b"older".to_vec())
        );
    }

    #[test]
    fn a_group_appears_together_with_its_folders() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("old"), b"older").unwrap();
        let mut outputs = Outputs::default();
        outputs.folder(&at("new/tables"), "making").unwrap();
        outputs.add(&at("new/tables/a"), "writing", b"a").unwrap();
        outputs.add(&at("old"), "writing", b"newer").unwrap();
        assert_eq!(fs::read(at("old")).unwrap(), b"older", "nothing is in place before all of it is");
        let text = outputs.add(&at("./old"), "writing", b"twice").unwrap_err().to_string();
        assert!(text.contains("one file"), "{text}");
        assert_eq!(outputs.commit().unwrap(), [at("new/tables/a"), at("old")]);
        assert_eq!(
            (fs::read(at("new/tables/a")).unwrap(), fs::read(at("old")).unwrap()),
            (b"a".to_vec(), b"newer".to_vec())
        );
        assert_eq!(
            (names(folder.path()), names(&at("new/tables"))),
            (vec!["new".into(), "old".into()], vec!["a".into()])
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_replaced_file_keeps_its_mode_and_a_link_its_place() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
        for kept in [0o600, 0o640, 0o755, 0o444] {
            fs::write(at("private"), b"one").unwrap();
            fs::set_permissions(at("private"), fs::Permissions::from_mode(kept)).unwrap();
            write_atomically(&at("private"), "writing", b"two").unwrap();
            assert_eq!((mode("private"), fs::read(at("private")).unwrap()), (kept, b"two".to_vec()));
            fs::remove_file(at("private")).unwrap();
        }
        fs::create_dir(at("elsewhere")).unwrap();
        symlink("elsewhere/later", at("dangling")).unwrap();
        symlink("dangling", at("twice")).unwrap();
        write_atomically(&at("twice"), "writing", b"through").unwrap();
        assert_eq!(fs::read(at("elsewhere/later")).unwrap(), b"through");
        assert!(fs::symlink_metadata(at("twice")).unwrap().is_symlink());
        assert!(fs::symlink_metadata(at("dangling")).unwrap().is_symlink());
        symlink("ring", at("ring")).unwrap();
        assert!(write_atomically(&at("ring"), "writing", b"x").is_err(), "a ring of links leads nowhere");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error() {
        let text = write_atomically(Path::new("/dev/full"), "writing the capture", b"x").unwrap_err().to_string();
        assert!(text.contains("No space left"), "{text}");
        assert!(!fs::metadata("/dev/full").unwrap().is_file(), "a device is written, not replaced");
    }
}
