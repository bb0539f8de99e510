//! Raw bindings to NVIDIA CUPTI, loaded at run time.
//!
//! The package has its place in the workspace; the bindings come with hardware counters.
