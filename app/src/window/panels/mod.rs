//! The panels. Each gets a read-only frame, its own state and a way to send commands.

pub mod batch;
pub mod bubbles;
pub mod compare;
pub mod decisions;
pub mod differences;
pub mod figures;
pub mod inspector;
mod lanes;
pub mod log;
pub mod memory;
pub mod packs;
mod parts;
pub mod plan;
pub mod playback;
pub mod roofline;
pub mod steps;
pub mod sweep;
pub mod tiles;
pub mod timeline;
pub mod traffic;
pub mod tree;
