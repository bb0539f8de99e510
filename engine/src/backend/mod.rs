//! Backends: the same plan on the simulator or on a real GPU, each giving a capture.

#[cfg(feature = "cuda")]
pub mod cuda;
pub mod sim;

pub use crate::cancel::Cancel;
