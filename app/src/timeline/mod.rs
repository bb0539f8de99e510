//! Time and SMs as pure geometry, shared by pictures and panels.

pub mod axis;
pub mod bubbles;
pub mod colour;
pub mod counters;
pub mod gaps;
pub mod lanes;
pub mod layout;
pub mod marks;
pub mod playback;
pub mod strips;
