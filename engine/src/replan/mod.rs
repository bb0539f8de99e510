//! Lazy update (PAT 5.1): a plan is carried from decode step to decode step, and only what changed is
//! made anew.
//!
//! ```text
//! changes ─► tables, tree in place ─┬─ only longer leaves: packs keep their queries ─┬─► tiles, order,
//!                                   └─ otherwise: the scheduler packs the tree ──────┘   slots, merge
//! ```
//!
//! The plan is always the one that planning anew would give. The tree is equal by [`LiveBatch`]; a
//! scheduler is a function of batch and tree; and a scheduler may keep its packs under longer leaves
//! only where it says so ([`crate::pack::Scheduler::keeps_packs`]), because its choices look at inner
//! nodes alone. Where even the tree had to be built anew, that is counted.

mod thread;

pub use thread::PlanningThread;

use std::time::{Duration, Instant};

use crate::error::Result;
use crate::pack::{self, PackInput, Packing};
use crate::plan::{self, LaunchPlan, PlanChoice};
use crate::session::{self, PlanOptions};
use crate::tile::{self, TileRule, TileSet};
use crate::units::Tokens;
use crate::workload::{Batch, Change, Extent, LiveBatch, PrefixTree};

/// How the plan of a step was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// The packs are those of the step before, with longer ends.
    Lengthened,
    /// The tree was changed in place, and the scheduler packed it.
    Repacked,
    /// Tree and packs were made anew.
    Anew,
}

impl How {
    /// All of them, cheapest first.
    pub const ALL: [Self; 3] = [Self::Lengthened, Self::Repacked, Self::Anew];

    /// In a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lengthened => "packs kept",
            Self::Repacked => "tree kept",
            Self::Anew => "anew",
        }
    }
}

/// The plan of a step.
#[derive(Clone, Debug)]
pub struct Replanned {
    /// The plan.
    pub plan: LaunchPlan,
    /// How it was made.
    pub how: How,
    /// Time for tree, packs and plan; writing the block tables, which a serving engine does for
    /// itself, is not in it.
    pub time: Duration,
}

/// A batch and its plan, from step to step.
#[derive(Clone, Debug)]
pub struct Replanner {
    live: LiveBatch,
    options: PlanOptions,
    tiles: TileSet,
    packing: Packing,
}

impl Replanner {
    /// Plans a batch for the first time. Decisions are not recorded, whatever the options say.
    ///
    /// # Errors
    /// As [`crate::session::plan_batch`]; [`crate::Error::Unsupported`] for prefill chunks.
    pub fn new(batch: Batch, options: &PlanOptions) -> Result<Self> {
        options.device.validate()?;
        plan::hybrid::check_strategy(&batch, options.strategy)?;
        let tiles = tile::solve(&options.device, batch.shape.head_dim, batch.shape.dtype);
        let live = LiveBatch::new(batch)?;
        let options = PlanOptions { explain: false, ..options.clone() };
        let packing = pack_tree(live.batch(), live.tree(), &tiles, &options)?;
        Ok(Self { live, options, tiles, packing })
    }

    /// The batch as it stands.
    pub fn batch(&self) -> &Batch {
        self.live.batch()
    }

    /// Tiles of the device at its head dimension.
    pub fn tiles(&self) -> &TileSet {
        &self.tiles
    }

    /// Its prefix tree.
    pub fn tree(&self) -> &PrefixTree {
        self.live.tree()
    }

    /// Makes the changes of a step and plans it.
    ///
    /// # Errors
    /// [`crate::Error::Batch`] for a change that cannot be; what the scheduler refuses.
    pub fn step(&mut self, changes: &[Change]) -> Result<Replanned> {
        let start = Instant::now();
        let extent = self.live.change(changes);
        let changed = start.elapsed();
        self.live.write_tables();
        let start = Instant::now();
        self.live.lay_out_for(extent.as_ref().copied().unwrap_or(Extent::Anew));
        let extent = extent?;
        let keeps = pack::find(&self.options.scheduler)?.keeps_packs();
        let how = match extent {
            Extent::Lengths if keeps => How::Lengthened,
            Extent::Lengths | Extent::Tree => How::Repacked,
            Extent::Anew => How::Anew,
        };
        if how == How::Lengthened {
            self.lengthen();
        } else {
            self.packing = pack_tree(self.live.batch(), self.live.tree(), &self.tiles, &self.options)?;
        }
        let plan = build(self.live.batch(), self.live.tree(), &self.tiles, &self.options, &self.packing)?;
        Ok(Replanned { plan, how, time: changed + start.elapsed() })
    }

    /// Leads every pack to the present end of its node.
    fn lengthen(&mut self) {
        let tree = self.live.tree();
        let block = u64::from(self.live.batch().shape.block_size);
        for pack in &mut self.packing.packs {
            let node = tree.node(pack.node);
            pack.blocks_end = node.blocks.end;
            pack.tokens = Tokens(u64::from(node.blocks.start - pack.blocks_begin) * block) + node.tokens;
        }
    }
}

fn rule(options: &PlanOptions) -> Result<TileRule> {
    Ok(match options.tile {
        Some(tile) => TileRule::Fixed(tile),
        None => pack::find(&options.scheduler)?.tile_rule(),
    })
}

fn input<'a>(
    batch: &'a Batch,
    tree: &'a PrefixTree,
    tiles: &'a TileSet,
    options: &'a PlanOptions,
) -> Result<PackInput<'a>> {
    let max_rows = rule(options)?.max_rows(tiles);
    Ok(PackInput {
        batch,
        tree,
        device: &options.device,
        tiles,
        max_rows,
        fixed_tile: options.tile,
        options: &options.pack,
        explain: false,
    })
}

fn pack_tree(batch: &Batch, tree: &PrefixTree, tiles: &TileSet, options: &PlanOptions) -> Result<Packing> {
    let scheduler = pack::find(&options.scheduler)?;
    session::shortest(&input(batch, tree, tiles, options)?, scheduler, (options.strategy, rule(options)?))
}

fn build(
    batch: &Batch,
    tree: &PrefixTree,
    tiles: &TileSet,
    options: &PlanOptions,
    packing: &Packing,
) -> Result<LaunchPlan> {
    let scheduler = pack::find(&options.scheduler)?.name();
    let choice = PlanChoice { scheduler, strategy: options.strategy, rule: rule(options)?, explain: false };
    plan::build(&input(batch, tree, tiles, options)?, packing, &choice)
}

/// Plans a batch from its block tables alone, as a step without lazy update does, and tells the time.
///
/// # Errors
/// What the scheduler refuses.
pub fn plan_anew(batch: &Batch, options: &PlanOptions) -> Result<Replanned> {
    let tiles = tile::solve(&options.device, batch.shape.head_dim, batch.shape.dtype);
    let start = Instant::now();
    let tree = PrefixTree::of(batch);
    let packing = pack_tree(batch, &tree, &tiles, options)?;
    let plan = build(batch, &tree, &tiles, options, &packing)?;
    Ok(Replanned { plan, how: How::Anew, time: start.elapsed() })
}

#[cfg(test)]
mod tests;
