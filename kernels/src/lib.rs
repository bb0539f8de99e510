//! CUDA C++ attention kernels and the thin, checked Rust that compiles and launches them.
//!
//! The package has its place in the workspace; the sources come with the CUDA backend.
