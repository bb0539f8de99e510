//! Writing a file whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Writes `bytes` to `path` as [`write_atomically_with`].
///
/// # Errors
/// [`Error::Io`] as there.
pub fn write_atomically(path: &Path, doing: &'static str, bytes: &[u8]) -> Result<()> {
    write_atomically_with(path, doing, |file| file.write_all(bytes))
}

/// Writes what `fill` gives to `path` through a temporary file beside it, so that a reader sees the old file
/// or the new one and an error leaves nothing behind.
///
/// A pipe or device, such as `/dev/stdout`, is written directly: there is nothing to replace.
///
/// # Errors
/// [`Error::Io`] with `doing` and the path: no such folder, no permission, a full disk, a directory.
pub fn write_atomically_with(
    path: &Path,
    doing: &'static str,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let failed = || Error::io(doing, path);
    // A link keeps pointing where it does; its target is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Ok(there) = fs::metadata(&target) {
        if there.is_dir() {
            return Err(failed()(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        if !there.is_file() {
            let mut file = BufWriter::new(File::options().write(true).open(&target).map_err(failed())?);
            return fill(&mut file).and_then(|()| file.flush()).map_err(failed());
        }
    }
    let temporary = beside(&target).map_err(failed())?;
    let mut file = BufWriter::new(temporary.as_file());
    fill(&mut file).and_then(|()| file.flush()).map_err(failed())?;
    drop(file);
    temporary.as_file().sync_all().map_err(failed())?;
    temporary.persist(&target).map_err(|error| failed()(error.error))?;
    Ok(())
}

/// A temporary file in the folder of `target`; it is removed when dropped.
fn beside(target: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".packscope-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Less the process's mask, as for any new file.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_no_temporary_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        write_atomically(&path, "writing", b"one").unwrap();
        write_atomically(&path, "writing", b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_and_a_missing_folder_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let text = write_atomically(folder.path(), "writing the capture", b"x").unwrap_err().to_string();
        assert!(text.contains("writing the capture") && text.contains("directory"), "{text}");
        assert!(write_atomically(&folder.path().join("no/such"), "writing", b"x").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error() {
        let text = write_atomically(Path::new("/dev/full"), "writing the capture", b"x").unwrap_err().to_string();
        assert!(text.contains("No space left"), "{text}");
        assert!(!fs::metadata("/dev/full").unwrap().is_file(), "a device is written, not replaced");
    }
}
