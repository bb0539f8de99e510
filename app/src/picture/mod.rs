//! Pictures without a display, from the window's own layout.

pub mod animation;
pub mod bars;
pub mod plot;
pub mod png;
mod svg;
pub mod timeline;
