//! From a launch plan to the arrays that the kernels take.
//!
//! Packs go down in launch order with their query and block lists; slots, merge lists and the order of
//! tasks are those of the plan. Only the tile may differ: some shapes have no kernel, and a persistent
//! kernel holds one n for each m. Where it differs, a warning says so.

use std::collections::BTreeMap;

use kernels::{
    DecodeShape, Dtype as KernelDtype, KernelSpec, PackTask, PlanArrays, Strategy as KernelStrategy, Tile as KernelTile,
};

use crate::capture::Warning;
use crate::error::{Error, Result};
use crate::pack::CtaOrder;
use crate::plan::{LaunchPlan, Strategy};
use crate::tile::Tile;
use crate::workload::{AttentionShape, Batch, Dtype};

/// The arrays of a plan.
#[derive(Debug)]
pub(super) struct Lowered {
    tiles: Vec<KernelTile>,
    packs: Vec<PackTask>,
    query_index: Vec<u32>,
    block_ids: Vec<u32>,
    merge_offsets: Vec<u32>,
    merge_slots: Vec<u32>,
    /// Where the run differs from the plan.
    pub(super) warnings: Vec<Warning>,
}

impl Lowered {
    /// What the kernels take.
    pub(super) fn arrays(&self) -> PlanArrays<'_> {
        PlanArrays {
            tiles: &self.tiles,
            packs: &self.packs,
            query_index: &self.query_index,
            block_ids: &self.block_ids,
            merge_offsets: &self.merge_offsets,
            merge_slots: &self.merge_slots,
            num_queries: self.merge_offsets.len() as u32 - 1,
            num_slots: self.query_index.len() as u32,
        }
    }
}

/// The attention shape as the kernels name it.
pub(super) fn shape(shape: &AttentionShape) -> DecodeShape {
    DecodeShape {
        q_heads: shape.query_heads,
        kv_heads: shape.kv_heads,
        head_dim: shape.head_dim,
        dtype: match shape.dtype {
            Dtype::F16 => KernelDtype::F16,
            Dtype::Bf16 => KernelDtype::Bf16,
        },
        block_size: shape.block_size,
        scale: (f64::from(shape.head_dim).sqrt().recip()) as f32,
    }
}

/// Refuses launches that the kernels do not run as the system prescribes them.
pub(super) fn check_launches(plan: &LaunchPlan) -> Result<()> {
    let attention = || plan.launches.iter().filter(|launch| !launch.kind.is_merge());
    let what = if !plan.merge.rounds.is_empty() {
        "merges in rounds or in a form of the system's own"
    } else if attention().any(|launch| launch.order == CtaOrder::QueryHeads) {
        "one CTA a query head"
    } else if attention().any(|launch| !launch.after.is_empty()) {
        "phases of attention launches that wait for each other"
    } else if plan.packs.iter().any(|pack| pack.queries_len * plan.shape.group() > pack.tile.m) {
        "packs of more query rows than their tile has, in several passes over the KV"
    } else {
        return Ok(());
    };
    Err(Error::Unsupported {
        who: format!("{} on the GPU", plan.scheduler),
        limit: format!("it prescribes {what}, which no kernel here runs yet; simulate it, or choose another scheduler"),
    })
}

/// How the launches follow each other: a system may put on one stream what its strategy would not.
pub(super) fn strategy(plan: &LaunchPlan) -> KernelStrategy {
    match plan.strategy {
        Strategy::Fused => KernelStrategy::Fused,
        _ if plan.launches.iter().any(|launch| launch.stream > 0) => KernelStrategy::Streams,
        _ => KernelStrategy::Serial,
    }
}

/// Lowers a plan of `batch`, whose block ids are places in the KV cache.
pub(super) fn lower(batch: &Batch, plan: &LaunchPlan) -> Result<Lowered> {
    check_launches(plan)?;
    let kernels = kernel_tiles(plan)?;
    let mut lowered = Lowered {
        tiles: Vec::new(),
        packs: Vec::with_capacity(plan.order.len()),
        query_index: plan.queries.iter().map(|query| query.0).collect(),
        block_ids: Vec::new(),
        merge_offsets: plan.merge.starts.clone(),
        merge_slots: plan.merge.slots.clone(),
        warnings: substitutions(plan, &kernels),
    };
    for index in &plan.order {
        let pack = plan.pack(*index);
        let tile = kernels[&pack.tile];
        let tile = lowered.tiles.iter().position(|t| *t == tile).unwrap_or_else(|| {
            lowered.tiles.push(tile);
            lowered.tiles.len() - 1
        });
        let Some(first) = plan.queries_of(*index).first() else { continue };
        let block_begin = lowered.block_ids.len() as u32;
        let row = &batch.tables().row(*first)[pack.blocks_begin as usize..pack.blocks_end as usize];
        lowered.block_ids.extend(row.iter().map(|block| block.0));
        lowered.packs.push(PackTask {
            query_begin: pack.slots_begin,
            num_queries: pack.queries_len,
            block_begin,
            kv_tokens: pack.tokens.0 as u32,
            slot_begin: pack.slots_begin,
            tile: tile as u32,
        });
    }
    Ok(lowered)
}

/// The kernel that each tile of the plan runs on.
fn kernel_tiles(plan: &LaunchPlan) -> Result<BTreeMap<Tile, KernelTile>> {
    let mut side_by_side = BTreeMap::new();
    for pack in &plan.packs {
        *side_by_side.entry(pack.tile).or_insert(true) &= pack.heads > 1;
    }
    let mixed = plan.strategy == Strategy::Fused && side_by_side.len() > 1;
    side_by_side
        .into_iter()
        .map(|(tile, heads)| {
            let kernel = kernel_tile(tile, heads, mixed, plan.shape.head_dim);
            let spec = KernelSpec::new(&[kernel], plan.shape.head_dim, KernelDtype::F16, false, false);
            match spec.check() {
                Ok(()) => Ok((tile, kernel)),
                Err(error) => Err(Error::Unsupported { who: "the GPU".to_owned(), limit: error.to_string() }),
            }
        })
        .collect()
}

/// 64×128 at d 128 spills registers and runs as 64×64. The kernel of 16×16 takes four heads a CTA; a plan
/// whose 16×16 takes one runs on 16×32. In a persistent kernel of several shapes, each m has one n, but for
/// 16×16, whose CTAs are cut differently.
fn kernel_tile(tile: Tile, side_by_side: bool, mixed: bool, head_dim: u32) -> KernelTile {
    let n = match (tile.m, tile.n) {
        (16, 16) if side_by_side => 16,
        _ if mixed => 64,
        (16, 16) => 32,
        (64, 128) if head_dim == 128 => 64,
        (_, n) => n,
    };
    KernelTile { m: tile.m, n }
}

fn substitutions(plan: &LaunchPlan, kernels: &BTreeMap<Tile, KernelTile>) -> Vec<Warning> {
    let differing = plan.tiles().into_iter().filter_map(|(tile, packs)| {
        let kernel = kernels.get(&tile)?;
        (kernel.n != tile.n).then(|| Warning {
            text: format!(
                "{packs} packs of tile {tile} ran on the {}×{} kernel: {}",
                kernel.m,
                kernel.n,
                if plan.strategy == Strategy::Fused && kernels.len() > 1 {
                    "a persistent kernel of several shapes holds one n for each m"
                } else {
                    "there is no kernel of that shape here (its registers spill, or its CTA takes other heads)"
                }
            ),
        })
    });
    differing.collect()
}
