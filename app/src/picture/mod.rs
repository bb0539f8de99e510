//! Pictures without a display, from the window's own layout.

pub mod animation;
pub mod bars;
pub mod look;
pub mod plot;
pub mod png;
pub mod shapes;
mod svg;
pub mod timeline;
