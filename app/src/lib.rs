//! packscope's two faces over one engine: the desktop window and the command line.
//!
//! Each room uses only those above it:
//!
//! ```text
//! paths samples theme    where files live, the batches that come with it, colours and type
//! document               what a person works on, with its history
//! timeline               lanes, gaps, layout, colours: pure geometry
//! runs                   what came back: run, shown, measurement, compared
//! picture                the same geometry as SVG and PNG, without a display
//! jobs                   threads that plan, simulate and measure
//! window                 panels, commands, two passes
//! cli                    arguments, commands, benches
//! ```
#![forbid(unsafe_code)]

pub mod cli;
pub mod document;
pub mod jobs;
pub mod paths;
pub mod picture;
pub mod runs;
pub mod samples;
pub mod theme;
pub mod timeline;
pub mod window;
