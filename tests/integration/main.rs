//! Integration tests of packscope, all in one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails by panicking"
)]

mod common;
mod golden;
mod plans;
