//! Figures from a plan and its capture; never from a backend, so that measured and simulated runs
//! go through the same code.

mod bandwidth;
mod bubbles;
mod lanes;
mod traffic;

pub use bandwidth::{Bandwidth, bandwidth, bandwidth_over_time};
pub use bubbles::{Bubble, BubbleCause, BubbleReport, bubbles};
pub use traffic::{NodeTraffic, Traffic, node_traffic, traffic};
