//! Opens the CUPTI library and fills the table of functions.

use std::path::{Path, PathBuf};

use libloading::Library;

use crate::{Api, Places};

/// File names of the library, from the newest major version. The last is a toolkit's own link.
const NAMES: [&str; 3] = ["libcupti.so.13", "libcupti.so.12", "libcupti.so"];

/// Libraries that CUPTI opens by their bare names on first use. It ships with them in one folder,
/// which the dynamic linker need not know; once open they are found by name.
const HELPERS: [&str; 2] = ["libnvperf_host.so", "libnvperf_target.so"];

/// The library, open.
pub struct Loaded {
    /// Its functions.
    pub api: Api,
    /// The file, or its bare name where the dynamic linker found it.
    pub path: PathBuf,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Why no library was opened.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is none in any place.
    #[error("no CUPTI library in any of {} places: {}", tried.len(), listed(tried))]
    Absent {
        /// Where it was looked for.
        tried: Vec<PathBuf>,
    },
    /// There is one, and it does not open or lacks a function.
    #[error("{} does not serve: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What the dynamic linker said; a missing function names itself.
        reason: String,
    },
}

fn listed(tried: &[PathBuf]) -> String {
    tried.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Opens the first library, in the order of [`Places`], that has all functions. One that lacks some
/// (a CUPTI before 12.6) is passed over, and named in the error if no other serves.
pub fn load(places: &Places) -> Result<Loaded, LoadError> {
    let mut unusable = None;
    let mut tried = Vec::new();
    for path in candidates(places, &mut tried) {
        match open(&path) {
            Ok(api) => return Ok(Loaded { api, path }),
            Err(e) => {
                let reason = e.to_string();
                unusable = unusable.or(Some(LoadError::Unusable { path, reason }));
            }
        }
    }
    if places.linker {
        tried.push("the dynamic linker's search".into());
        for name in NAMES {
            if let Ok(api) = open(Path::new(name)) {
                return Ok(Loaded { api, path: name.into() });
            }
        }
    }
    Err(unusable.unwrap_or(LoadError::Absent { tried }))
}

/// Files that exist, in order; adds the places to `tried`.
fn candidates(places: &Places, tried: &mut Vec<PathBuf>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    if let Some(named) = &places.named {
        if named.is_file() {
            files.push(named.clone());
        }
        files.extend(in_folder(named));
        tried.push(named.clone());
    }
    for folder in &places.folders {
        files.extend(in_folder(folder));
        tried.push(folder.clone());
    }
    files
}

fn in_folder(folder: &Path) -> impl Iterator<Item = PathBuf> {
    NAMES.iter().map(|name| folder.join(name)).filter(|file| file.is_file())
}

fn open(path: &Path) -> Result<Api, libloading::Error> {
    for helper in HELPERS {
        let file = path.with_file_name(helper);
        if file.is_file() {
            // SAFETY: a library of NVIDIA's whose initialisers only set up its own state. One that
            // does not open is found missing by CUPTI, which says so.
            if let Ok(library) = unsafe { Library::new(&file) } {
                // Stays open: CUPTI keeps pointers into it.
                std::mem::forget(library);
            }
        }
    }
    // SAFETY: CUPTI's initialisers only set up its own state; the types are those of its headers.
    unsafe { Api::from_library(Library::new(path)?) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_library_is_absent_and_the_error_names_the_place() {
        let places = Places { named: Some("/nowhere/libcupti.so".into()), ..Places::default() };
        let error = load(&places).unwrap_err();
        assert!(matches!(&error, LoadError::Absent { tried } if tried.len() == 1), "{error}");
        assert!(error.to_string().contains("/nowhere/libcupti.so"));
    }

    #[test]
    fn a_file_that_is_no_library_is_unusable() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("libcupti.so.13"), "not a library").unwrap();
        let error = load(&Places { folders: vec![folder.path().to_owned()], ..Places::default() }).unwrap_err();
        assert!(matches!(&error, LoadError::Unusable { path, .. } if path.ends_with("libcupti.so.13")), "{error}");
    }
}
