//! Figures from a plan and its capture; never from a backend, so that measured and simulated runs
//! go through the same code.

mod bandwidth;
mod beside;
mod bubble_rules;
mod bubbles;
mod differences;
mod floor;
mod lanes;
mod memory;
mod phases;
mod roofline;
mod traffic;

pub use bandwidth::{Bandwidth, bandwidth, bandwidth_over_time};
pub use beside::{CoRun, co_run, side_by_side};
pub use bubble_rules::BubbleCause;
pub use bubbles::{Bubble, BubbleReport, Gap, bounded_by, bubbles, bubbles_and, gaps};
pub use differences::{Differences, Twin};
pub use floor::{Floor, Limits, ReadSpread};
pub(crate) use lanes::on_lanes;
pub use memory::{BytesBeside, LEAST_POSSIBLE, MemoryFlow, bytes_beside, bytes_within, mean_within};
pub use roofline::{BytesFrom, RooflinePoint, Subject, roofline, roofs};
pub use traffic::{NodeTraffic, Traffic, node_traffic, traffic};
