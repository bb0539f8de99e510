//! Where files of the program live.

use std::path::PathBuf;

/// Where compiled kernels are kept; without a home folder they are compiled each time.
pub fn kernel_cache() -> Option<PathBuf> {
    directories::ProjectDirs::from("", "", "packscope").map(|dirs| dirs.cache_dir().join("kernels"))
}

/// Where the window keeps what is worked on; without a home folder it keeps nothing.
pub fn session() -> Option<PathBuf> {
    directories::ProjectDirs::from("", "", "packscope").map(|dirs| dirs.data_local_dir().join("session.ron"))
}
