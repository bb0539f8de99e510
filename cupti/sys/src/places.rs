//! Where the CUPTI library is looked for, in this order:
//!
//! 1. the file or folder that the environment variable `PACKSCOPE_CUPTI` names; if it is set,
//!    nothing else is tried, so that a wrong path is an error and not a surprise;
//! 2. folders of CUDA toolkits: `$CUDA_HOME`, `$CUDA_PATH`, `/usr/local/cuda`, then
//!    `/usr/local/cuda-*` from the newest, and in each `extras/CUPTI/lib64` before `lib64`;
//! 3. folders of Python wheels (`nvidia/*/lib` in a `site-packages`): those on `$PYTHONPATH`, of
//!    `$VIRTUAL_ENV`, of `$CONDA_PREFIX`, of each `python3` on `$PATH`, of `~/.local`;
//! 4. the dynamic linker's own search, which includes `LD_LIBRARY_PATH`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Names the library file, or the folder that it lies in.
pub const LIBRARY_VARIABLE: &str = "PACKSCOPE_CUPTI";

/// Where to look, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// A file or folder that a person named. Where given, the only place.
    pub named: Option<PathBuf>,
    /// Folders to look in.
    pub folders: Vec<PathBuf>,
    /// Whether to ask the dynamic linker at the end.
    pub linker: bool,
}

impl Places {
    /// The places of this process.
    pub fn of_process() -> Self {
        Self::with(&|name| std::env::var_os(name))
    }

    /// The same from any set of environment variables.
    pub fn with(variable: &dyn Fn(&str) -> Option<OsString>) -> Self {
        if let Some(named) = variable(LIBRARY_VARIABLE).filter(|value| !value.is_empty()) {
            return Self { named: Some(named.into()), ..Self::default() };
        }
        let mut folders = Vec::new();
        for toolkit in toolkits(variable) {
            folders.extend(["extras/CUPTI/lib64", "lib64"].map(|folder| toolkit.join(folder)));
        }
        for packages in site_packages(variable) {
            folders.extend(children(&packages.join("nvidia"), "").into_iter().map(|wheel| wheel.join("lib")));
        }
        folders.retain(|folder| folder.is_dir());
        Self { named: None, folders: without_repeats(folders), linker: true }
    }
}

fn toolkits(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(|n| variable(n)).map(Into::into).collect();
    found.push("/usr/local/cuda".into());
    found.extend(children(Path::new("/usr/local"), "cuda-").into_iter().rev());
    found
}

fn site_packages(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let split =
        |name| variable(name).map(|value| std::env::split_paths(&value).collect::<Vec<_>>()).unwrap_or_default();
    let mut found = split("PYTHONPATH");
    let mut prefixes: Vec<PathBuf> =
        ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|n| variable(n)).map(Into::into).collect();
    prefixes.extend(split("PATH").into_iter().filter(|bin| bin.join("python3").exists()).filter_map(|bin| {
        // `bin` of a virtual environment or of a prefix: packages lie beside it.
        bin.parent().map(Path::to_owned)
    }));
    prefixes.extend(variable("HOME").map(|home| Path::new(&home).join(".local")));
    for prefix in prefixes {
        for python in children(&prefix.join("lib"), "python3").into_iter().rev() {
            found.extend(["site-packages", "dist-packages"].map(|packages| python.join(packages)));
        }
    }
    found
}

/// Folders in `folder` whose names begin with `start`, by name; none where there is no such folder.
fn children(folder: &Path, start: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|e| e.file_name().to_string_lossy().starts_with(start))
        .map(|e| folder.join(e.file_name()))
        .collect();
    found.sort();
    found
}

fn without_repeats(folders: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut kept: Vec<PathBuf> = Vec::new();
    for folder in folders {
        if !kept.contains(&folder) {
            kept.push(folder);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(root: &Path, folders: &[&str]) {
        for folder in folders {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
    }

    #[test]
    fn a_named_place_is_the_only_one() {
        let places = Places::with(&|name| (name == LIBRARY_VARIABLE).then(|| "/nowhere".into()));
        assert_eq!(places, Places { named: Some("/nowhere".into()), folders: Vec::new(), linker: false });
    }

    #[test]
    fn toolkits_come_before_wheels_and_the_linker_is_last() {
        let root = tempfile::tempdir().unwrap();
        let packages = "venv/lib/python3.12/site-packages/nvidia";
        made(
            root.path(),
            &[
                "toolkit/lib64",
                "toolkit/extras/CUPTI/lib64",
                "venv/bin",
                "path/nvidia/cuda_cupti/lib",
                "path/nvidia/nccl",
            ],
        );
        made(root.path(), &[&format!("{packages}/cu13/lib"), &format!("{packages}/cudnn/lib")]);
        std::fs::write(root.path().join("venv/bin/python3"), "").unwrap();
        let at = |name: &str| root.path().join(name);
        let places = Places::with(&|name| match name {
            "CUDA_HOME" => Some(at("toolkit").into()),
            "PATH" => Some(at("venv/bin").into()),
            "PYTHONPATH" => Some(at("path").into()),
            _ => None,
        });
        let own: Vec<&PathBuf> = places.folders.iter().filter(|folder| folder.starts_with(root.path())).collect();
        let expected = [
            at("toolkit/extras/CUPTI/lib64"),
            at("toolkit/lib64"),
            at("path/nvidia/cuda_cupti/lib"),
            at(packages).join("cu13/lib"),
            at(packages).join("cudnn/lib"),
        ];
        assert_eq!(own, expected.iter().collect::<Vec<_>>());
        assert!(places.linker && places.named.is_none());
    }
}
