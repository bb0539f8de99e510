//! A safe session over NVIDIA CUPTI: kernel activity records, range counters and PM sampling.
//!
//! The package has its place in the workspace; its code comes with hardware counters. Until then
//! `measured` figures in reports are `null`, and a run says so.
