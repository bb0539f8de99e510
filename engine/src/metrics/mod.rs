//! Figures from a plan and its capture; never from a backend, so that measured and simulated runs
//! go through the same code.

mod bandwidth;
mod bubbles;
mod traffic;

pub use bandwidth::{Bandwidth, bandwidth};
pub use bubbles::{BubbleReport, bubbles};
pub use traffic::{NodeTraffic, Traffic, node_traffic, traffic};
