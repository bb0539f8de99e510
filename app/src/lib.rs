//! packscope's two faces over one engine: the desktop window and the command line.
#![forbid(unsafe_code)]

pub mod chart;
pub mod cli;
pub mod damage;
pub mod headline;
pub mod picture;
pub mod plot;
pub mod samples;
pub mod window;
