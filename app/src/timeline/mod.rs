//! Time and SMs as pure geometry, shared by pictures and panels.

pub mod axis;
pub mod bubbles;
pub mod colour;
pub mod counters;
pub mod folds;
pub mod gaps;
pub mod lanes;
pub mod layout;
pub mod looks;
pub mod marks;
pub mod moment;
pub mod only;
pub mod playback;
pub mod samples;
pub mod strips;
