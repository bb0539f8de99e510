//! What a scheduler takes and gives.

use serde::{Deserialize, Serialize};

use crate::decision::DecisionLog;
use crate::error::Result;
use crate::hw::Device;
use crate::tile::{SIDE_BY_SIDE, Tile, TileRule, TileSet};
use crate::units::{NodeIdx, PackIdx, QueryIdx, Tokens};
use crate::workload::{Batch, PartialForm, PrefixTree};

/// A pack: queries that read one run of KV blocks together. One CTA a KV head computes it.
///
/// The blocks are `blocks_begin..blocks_end` of the block-table row of any of its queries: they
/// share that run, so the row of the first one serves.
///
/// A *subtree pack* goes on from there to the end of each of its queries: its CTA reads every node below that some of
/// them have once, and a mask keeps each query to its own. Its tokens are then those of all these blocks, filled or not.
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
    /// KV tokens; less than blocks × block size where the last block is partly filled, more in a subtree pack.
    pub tokens: Tokens,
}

impl Pack {
    /// Number of KV blocks.
    pub fn block_count(&self) -> u32 {
        self.blocks_end - self.blocks_begin
    }

    /// Whether it is a subtree pack.
    pub fn is_subtree(&self, block_size: u32) -> bool {
        self.tokens.0 > u64::from(self.block_count()) * u64::from(block_size)
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
    /// The launches that the system prescribes; without any, the strategy makes them.
    pub imposed: Option<Imposed>,
    /// Whether each CTA takes one KV head, also of packs for which there is a tile that takes several side by side: as many
    /// CTAs of fewer packs, and so of fewer partials.
    pub one_head: bool,
    /// Whether the scheduler has found that all CTAs are on the GPU at once.
    pub one_wave: bool,
    /// Why the packs are as they are.
    pub decisions: DecisionLog,
}

impl Packing {
    /// Queries of one pack.
    pub fn queries_of(&self, pack: &Pack) -> &[QueryIdx] {
        &self.queries[pack.queries_begin as usize..(pack.queries_begin + pack.queries_len) as usize]
    }

    /// Whether each CTA takes one KV head of one request.
    pub fn takes_requests_by_heads(&self) -> bool {
        self.one_head && self.packs.iter().all(|pack| pack.queries_len == 1)
    }

    /// What its packs move.
    pub fn moved(&self) -> Moved {
        Moved {
            tokens: Tokens(self.packs.iter().map(|pack| pack.tokens.0).sum()),
            slots: self.packs.iter().map(|pack| u64::from(pack.queries_len)).sum(),
        }
    }
}

/// What packs move, whatever computes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// KV tokens, read once by each pack.
    pub tokens: Tokens,
    /// Queries, counted in each pack: what is read of Q and written of partials.
    pub slots: u64,
}

/// Launches that a system prescribes, whatever the strategy: phases of packs one after another, and
/// how partials become outputs. A strategy still says whether the tile shapes of one phase stand on
/// one stream or on several; under `fused` there are no launches to prescribe, and only the packs
/// and their order are the system's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imposed {
    /// The phases in order; together they hold all packs.
    pub phases: Vec<Phase>,
    /// How partials become outputs.
    pub merge: MergeShape,
    /// Whether everything stands on one stream whatever the strategy.
    pub one_stream: bool,
}

/// Packs that are launched together, after everything of the phase before is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Past its last pack; it begins where the phase before ends.
    pub packs_end: u32,
    /// The tile of all its packs; without one, the scheduler's rule gives each its own.
    pub tile: Option<Tile>,
    /// How its CTAs map to packs and heads.
    pub order: CtaOrder,
}

/// Which CTA index of a launch computes which pack of which head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CtaOrder {
    /// CTA i computes pack `i mod packs` of KV head `i / packs`, as the grid of PAT does.
    #[default]
    PackFastest,
    /// CTA i computes pack `i / heads` of KV head `i mod heads`, so that the queue is longest first.
    HeadFastest,
    /// CTA i computes pack `i mod packs` of query head `i / packs`: the group is not folded into
    /// rows, so a pack has one row a query, and each query head reads the KV for itself.
    QueryHeads,
}

/// How the partials of a query become its output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MergeShape {
    /// One launch merges all partials of each query that has several.
    #[default]
    Gather,
    /// As `Gather`, with partials stored in a form of the system's own; with `always`, a query
    /// with one partial goes through it too.
    GatherOf {
        /// How partials are stored.
        form: PartialForm,
        /// Whether single partials are merged, that is copied, too.
        always: bool,
    },
    /// After each phase but the first, one launch that joins its results to the running ones, in
    /// the element type of the output. Where KV is split inside a phase, its fp32 partials are
    /// gathered first.
    Pairwise,
    /// Rounds in which neighbours join two by two: as many launches as the logarithm of the most
    /// partials.
    Halving {
        /// How partials are stored.
        form: PartialForm,
    },
    /// Rounds in which each query's running result takes in one partial more: as many launches as the
    /// most partials, less one.
    Chain {
        /// How partials are stored.
        form: PartialForm,
    },
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
    /// The one tile that a person asked for, which goes before a system's own.
    pub fixed_tile: Option<Tile>,
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

    /// How tiles are chosen by what is fastest on the device, for packs whose CTAs are to take one KV head or not. There may
    /// be too few heads to give each warp of a CTA its own; else it is `rule`.
    pub fn rule_for_heads(&self, rule: TileRule, one_head: bool) -> TileRule {
        let few = self.batch.shape.kv_heads < SIDE_BY_SIDE;
        if one_head || few { TileRule::OneHead } else { rule }
    }

    /// The tile of a system that has one: its own, unless a person asked for another.
    pub fn tile_or(&self, own: Tile) -> Tile {
        self.fixed_tile.unwrap_or(own)
    }
}

/// A choice that a person takes against the rule. One about what a tree or a packing has not is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Forced {
    /// A child is split off from its parent, or merged with it; for schedulers that decide child by child.
    Sharing {
        /// The child.
        child: NodeIdx,
        /// Split off.
        split: bool,
    },
    /// A pack gets this tile, where it holds the rows of the pack, and system and kernel leave the choice.
    Tile {
        /// The pack.
        pack: PackIdx,
        /// Its tile.
        tile: Tile,
    },
}

impl Forced {
    /// Whether both are about the same choice.
    pub fn is_about_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Sharing { child: own, .. }, Self::Sharing { child: other, .. }) => own == other,
            (Self::Tile { pack: own, .. }, Self::Tile { pack: other, .. }) => own == other,
            _ => false,
        }
    }
}

/// Constants of the schedulers' rules that a person may turn, and choices that go before the rules.
#[derive(Clone, Debug, PartialEq)]
pub struct PackOptions {
    /// `pat`: a child is split off when `split_constant · s_child < parent's tokens`. The paper has 4.
    pub split_constant: f64,
    /// Choices against the rules.
    pub forced: Vec<Forced>,
}

impl PackOptions {
    /// Whether a child is to be split off, where a person says so.
    pub fn forced_split(&self, of: NodeIdx) -> Option<bool> {
        self.forced.iter().find_map(|forced| match forced {
            Forced::Sharing { child, split } if *child == of => Some(*split),
            _ => None,
        })
    }

    /// The tile of a pack, where a person says so.
    pub fn forced_tile(&self, of: PackIdx) -> Option<Tile> {
        self.forced.iter().find_map(|forced| match forced {
            Forced::Tile { pack, tile } if *pack == of => Some(*tile),
            _ => None,
        })
    }
}

impl Default for PackOptions {
    fn default() -> Self {
        Self { split_constant: 4.0, forced: Vec::new() }
    }
}

/// A way of turning a prefix tree into packs.
pub trait Scheduler: Sync {
    /// Name on the command line.
    fn name(&self) -> &'static str;

    /// What it does, in one sentence.
    fn about(&self) -> &'static str;

    /// Which tile a pack gets under this scheduler.
    fn tile_rule(&self) -> TileRule {
        TileRule::Fitting
    }

    /// Whether the packs of a tree whose leaves get longer are the same but for their ends, because
    /// they depend on the lengths of inner nodes alone, and every pack ends where its node does.
    fn keeps_packs(&self) -> bool {
        false
    }

    /// The scheduler that makes the same packs where its tiles are as tall.
    fn packs_as(&self) -> &'static str {
        self.name()
    }

    /// Whether it ever puts several requests into one pack.
    fn shares(&self) -> bool {
        true
    }

    /// What its packs move at least, where that can be told without making them.
    fn least_moved(&self, _input: &PackInput<'_>) -> Option<Moved> {
        None
    }

    /// Makes the packs.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] naming the limit, where the system cannot take the batch.
    fn pack(&self, input: &PackInput<'_>) -> Result<Packing>;

    /// Packs that are as good by what the scheduler knows, those that it prefers first: of these the ones are taken whose run is
    /// shortest under the strategy by the simulator's rates. All systems but ours prescribe theirs.
    ///
    /// # Errors
    /// As [`Self::pack`].
    fn packings(&self, input: &PackInput<'_>) -> Result<Vec<Packing>> {
        Ok(vec![self.pack(input)?])
    }
}
