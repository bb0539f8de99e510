//! Tiles: which (m, n) shapes of the attention kernel a device can run well, and which of them a
//! pack gets.

mod lane;
mod paper;
mod prefill;
mod selector;
mod solver;
mod time;

pub use lane::LaneTime;
pub use paper::{Difference, differences, reported};
pub use selector::{TileChoice, TileRule, select};
pub use solver::{
    BULK_BLOCK, Constraint, CtaShape, DOUBLE, FEW_ROWS, Feasibility, SIDE_BY_SIDE, TileKernel, TileSet, compiled,
    has_kernel, kernel, occupancy, one_buffer_bytes, resident, solve,
};
pub use time::{MERGE_IN_FLIGHT, WARPS_FOR_FULL_TENSOR_RATE, pack_time};

use serde::{Deserialize, Serialize};

/// A tile of the attention kernel: `m` query rows (queries × group) by `n` KV tokens a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tile {
    /// Query rows.
    pub m: u32,
    /// KV tokens of one step of the main loop.
    pub n: u32,
}

impl Tile {
    /// Of a text like `64x128`, or `64×128` as it is shown: query rows, `x`, KV tokens.
    pub fn parse(text: &str) -> Option<Self> {
        let (m, n) = text.split_once(['x', '×'])?;
        Some(Self { m: m.parse().ok()?, n: n.parse().ok()? })
    }
}

impl std::fmt::Display for Tile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}×{}", self.m, self.n)
    }
}
