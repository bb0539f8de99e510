//! What a scheduler takes and gives.

use crate::decision::DecisionLog;
use crate::error::Result;
use crate::hw::Device;
use crate::tile::TileSet;
use crate::units::{NodeIdx, QueryIdx, Tokens};
use crate::workload::{Batch, PrefixTree};

/// A pack: queries that read one run of KV blocks together. One CTA a KV head computes it.
///
/// The blocks are `blocks_begin..blocks_end` of the block-table row of any of its queries: they
/// share that run, so the row of the first one serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pack {
    /// The deepest tree node whose tokens it holds.
    pub node: NodeIdx,
    /// First of its queries in [`Packing::queries`].
    pub queries_begin: u32,
    /// Number of its queries.
    pub queries_len: u32,
    /// First block, as a position in the row.
    pub blocks_begin: u32,
    /// Past the last block.
    pub blocks_end: u32,
    /// KV tokens; less than blocks × block size where the last block is partly filled.
    pub tokens: Tokens,
}

impl Pack {
    /// Number of KV blocks.
    pub fn block_count(&self) -> u32 {
        self.blocks_end - self.blocks_begin
    }

    /// Query rows at group size `group`.
    pub fn rows(&self, group: u32) -> u32 {
        self.queries_len * group
    }
}

/// All packs of a batch.
#[derive(Clone, Debug, Default)]
pub struct Packing {
    /// The packs in the scheduler's order of emission.
    pub packs: Vec<Pack>,
    /// Queries of all packs; each pack has a run of it.
    pub queries: Vec<QueryIdx>,
    /// Why the packs are as they are.
    pub decisions: DecisionLog,
}

impl Packing {
    /// Queries of one pack.
    pub fn queries_of(&self, pack: &Pack) -> &[QueryIdx] {
        &self.queries[pack.queries_begin as usize..(pack.queries_begin + pack.queries_len) as usize]
    }
}

/// Everything a scheduler may look at.
#[derive(Clone, Copy, Debug)]
pub struct PackInput<'a> {
    /// The batch.
    pub batch: &'a Batch,
    /// Its prefix tree.
    pub tree: &'a PrefixTree,
    /// The device that the plan is for.
    pub device: &'a Device,
    /// Tiles that the device runs well.
    pub tiles: &'a TileSet,
    /// Query rows of the tallest tile in use; wider packs are cut.
    pub max_rows: u32,
    /// Rule constants.
    pub options: &'a PackOptions,
    /// Whether decisions are written down.
    pub explain: bool,
}

impl PackInput<'_> {
    /// Most queries of one pack: `max(1, floor(max_rows / g))`.
    pub fn max_queries(&self) -> u32 {
        (self.max_rows / self.batch.shape.group()).max(1)
    }
}

/// Constants of the schedulers' rules that a person may turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PackOptions {
    /// `pat`: a child is split off when `split_constant · s_child < parent's tokens`. The paper has 4.
    pub split_constant: f64,
}

impl Default for PackOptions {
    fn default() -> Self {
        Self { split_constant: 4.0 }
    }
}

/// A way of turning a prefix tree into packs.
pub trait Scheduler: Sync {
    /// Name on the command line.
    fn name(&self) -> &'static str;

    /// What it does, in one sentence.
    fn about(&self) -> &'static str;

    /// Which tile a pack gets under this scheduler.
    fn tile_rule(&self) -> crate::tile::TileRule {
        crate::tile::TileRule::Fitting
    }

    /// Makes the packs.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] naming the limit, where the system cannot take the batch.
    fn pack(&self, input: &PackInput<'_>) -> Result<Packing>;
}
