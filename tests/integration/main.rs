//! Integration tests of packscope, all in one binary.

mod common;
mod golden;
mod plans;
