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

/// Which attention launches of a plan are one launch on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// Those whose tiles run on the same kernel.
    ByKernel,
    /// None: launch i of the plan is launch i on the GPU, to be counted by itself.
    Apart,
}

/// Lowers a plan of `batch`, whose block ids are places in the KV cache.
pub(super) fn lower(batch: &Batch, plan: &LaunchPlan, joined: Joined) -> Result<Lowered> {
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
    // The launch of each of the kernels' tiles, where launches are to stay apart.
    let mut of_launch: Vec<Option<usize>> = Vec::new();
    let launched = plan.launches.iter().enumerate();
    let packs = launched.flat_map(|(number, launch)| plan.packs_of(launch).iter().map(move |index| (number, index)));
    for (launch, index) in packs {
        let pack = plan.pack(*index);
        let (tile, launch) = (kernels[&pack.tile], (joined == Joined::Apart).then_some(launch));
        let same = |(t, l): (&KernelTile, &Option<usize>)| *t == tile && *l == launch;
        let tile = lowered.tiles.iter().zip(&of_launch).position(same).unwrap_or_else(|| {
            lowered.tiles.push(tile);
            of_launch.push(launch);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{self, PackInput, PackOptions};
    use crate::plan::{self, Launch, LaunchKind, PlanChoice};
    use crate::workload::{PrefixTree, parse_tree};
    use crate::{hw, tile};

    fn planned() -> (Batch, LaunchPlan) {
        let batch = parse_tree("1,8,64_256,512,64", AttentionShape::default()).unwrap().build().unwrap();
        let device = hw::find("h200-sxm").unwrap();
        let tree = PrefixTree::of(&batch);
        let tiles = tile::solve(device, batch.shape.head_dim, batch.shape.dtype);
        let scheduler = pack::find("pat").unwrap();
        let rule = scheduler.tile_rule();
        let input = PackInput {
            batch: &batch,
            tree: &tree,
            device,
            tiles: &tiles,
            max_rows: rule.max_rows(&tiles),
            fixed_tile: None,
            options: &PackOptions::default(),
            explain: false,
        };
        let packing = scheduler.pack(&input).unwrap();
        let choice = PlanChoice { scheduler: scheduler.name(), strategy: Strategy::Serial, rule, explain: false };
        let plan = plan::build(&input, &packing, &choice).unwrap();
        (batch, plan)
    }

    /// As [`planned`], the first launch cut in two: its first pack in tiles of 64×128, which run on the kernel of
    /// 64×64 as the others do.
    fn sharing() -> (Batch, LaunchPlan) {
        let (batch, mut plan) = planned();
        let (wide, first) = (Tile { m: 64, n: 128 }, plan.launches[0].clone());
        assert_eq!(first.kind, LaunchKind::Attention(Tile { m: 64, n: 64 }));
        assert!(first.packs_end - first.packs_begin > 1);
        let cut = first.packs_begin + 1;
        plan.packs[plan.order[first.packs_begin as usize].at()].tile = wide;
        plan.launches[0].packs_begin = cut;
        plan.launches.insert(0, Launch { kind: LaunchKind::Attention(wide), packs_end: cut, ..first });
        for launch in plan.launches.iter_mut().filter(|launch| !launch.after.is_empty()) {
            launch.after.iter_mut().for_each(|after| *after += 1);
            launch.after.insert(0, 0);
        }
        (batch, plan)
    }

    #[test]
    fn launches_that_share_a_kernel_are_one_when_timed_and_apart_when_counted() {
        let (batch, plan) = sharing();
        let together = lower(&batch, &plan, Joined::ByKernel).unwrap();
        let apart = lower(&batch, &plan, Joined::Apart).unwrap();
        let attention: Vec<&Launch> = plan.launches.iter().filter(|launch| !launch.kind.is_merge()).collect();
        assert_eq!((together.tiles.len(), apart.tiles.len()), (attention.len() - 1, attention.len()));
        assert_eq!(apart.tiles[0], apart.tiles[1]);
        for (number, launch) in attention.iter().enumerate() {
            let packs = &apart.packs[launch.packs_begin as usize..launch.packs_end as usize];
            assert!(!packs.is_empty() && packs.iter().all(|pack| pack.tile as usize == number));
        }
        // Nothing else differs: the same packs in the same order on the same kernels.
        assert_eq!(together.packs.len(), apart.packs.len());
        for (a, b) in together.packs.iter().zip(&apart.packs) {
            assert_eq!(together.tiles[a.tile as usize], apart.tiles[b.tile as usize]);
            assert_eq!(PackTask { tile: 0, ..*a }, PackTask { tile: 0, ..*b });
        }
        assert_eq!(
            (&together.query_index, &together.block_ids, &together.merge_slots),
            (&apart.query_index, &apart.block_ids, &apart.merge_slots)
        );
    }

    #[test]
    fn launches_of_different_kernels_are_the_plans_either_way() {
        let (batch, plan) = planned();
        let (together, apart) = (Joined::ByKernel, Joined::Apart);
        let [together, apart] = [together, apart].map(|joined| lower(&batch, &plan, joined).unwrap());
        assert_eq!((together.tiles, together.packs), (apart.tiles, apart.packs));
    }
}
