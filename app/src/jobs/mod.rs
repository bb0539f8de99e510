//! Work that the window waits for, each kind on a thread of its own.

pub(crate) mod engine;
pub mod machine;
pub(crate) mod measuring;
pub mod mishap;
pub mod planner;
pub(crate) mod run_files;
pub(crate) mod run_folder;
pub mod state;
pub mod studies;
