//! Where files of the program live.

use std::path::PathBuf;

/// Where compiled kernels are kept; without a home folder they are compiled each time.
pub fn kernel_cache() -> Option<PathBuf> {
    directories::ProjectDirs::from("", "", "packscope").map(|dirs| dirs.cache_dir().join("kernels"))
}
