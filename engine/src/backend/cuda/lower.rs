//! From a launch plan to the arrays that the kernels take.
//!
//! Packs go down in launch order with their query and block lists; slots, phases, merges and the order of
//! tasks are those of the plan. Only two things may differ, and then a warning says so: the tile, since some
//! shapes have no kernel and a persistent kernel holds one n for each m, and the form in which partials are
//! stored. What no kernel runs at all is refused.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kernels::{
    DecodeShape, Dtype as KernelDtype, KernelSpec, MergeRows, PackTask, Phase, PlanArrays, Strategy as KernelStrategy,
    Tile as KernelTile,
};

use crate::capture::Warning;
use crate::error::{Error, Result};
use crate::pack::CtaOrder;
use crate::plan::{LaunchKind, LaunchPlan, MergeRound, PlannedPack, Strategy};
use crate::tile::Tile;
use crate::workload::{AttentionShape, Batch, Dtype, PartialForm};

/// The arrays of a plan.
#[derive(Debug)]
pub(super) struct Lowered {
    tiles: Vec<KernelTile>,
    packs: Vec<PackTask>,
    query_index: Vec<u32>,
    block_ids: Vec<u32>,
    merge_offsets: Vec<u32>,
    merge_slots: Vec<u32>,
    phases: Vec<Phase>,
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
            phases: &self.phases,
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

/// Refuses what no kernel runs as the system prescribes it.
pub(super) fn check(plan: &LaunchPlan) -> Result<()> {
    kernel_tiles(plan)?;
    let refuse = |what: String| {
        Err(Error::Unsupported {
            who: format!("{} on the GPU", plan.scheduler),
            limit: format!("{what}, which no kernel here runs; simulate it, or choose another scheduler"),
        })
    };
    let prefills = |kind| matches!(kind, LaunchKind::Prefill(_) | LaunchKind::Hybrid(_) | LaunchKind::MergePrefill);
    if plan.launches.iter().any(|launch| prefills(launch.kind)) {
        return refuse("it prefills".to_owned());
    }
    if plan.launches.iter().any(|launch| launch.order == CtaOrder::QueryHeads) {
        return refuse("it has one CTA a query head".to_owned());
    }
    let rows = |pack: &PlannedPack| pack.queries_len * plan.shape.group();
    match plan.packs.iter().find(|pack| rows(pack) > pack.tile.m) {
        Some(pack) => {
            refuse(format!("a CTA of {} has {} query rows, in several passes over its KV", pack.tile, rows(pack)))
        }
        None => Ok(()),
    }
}

/// Launches in series: tile shapes of a phase, then its merges. Empty for a persistent launch.
fn phases(plan: &LaunchPlan) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    let mut waits_for: Option<&[u32]> = None;
    for launch in &plan.launches {
        match launch.kind {
            LaunchKind::Persistent(_) => return Vec::new(),
            // Attention launches that wait for the same ones are of one phase.
            LaunchKind::Attention(_) if waits_for != Some(launch.after.as_slice()) => {
                waits_for = Some(&launch.after);
                phases.push(Phase::default());
            }
            _ => {}
        }
        let Some(phase) = phases.last_mut() else { continue };
        match launch.kind {
            LaunchKind::Merge => phase.merges.push(gather(plan)),
            LaunchKind::MergeRound(at) => {
                phase.merges.extend(plan.merge.rounds.get(at as usize).map(|r| rows(plan, r)));
            }
            LaunchKind::Attention(_) => phase.packs_end = launch.packs_end,
            _ => {}
        }
    }
    phases
}

/// The one merge of all queries with two or more partials.
fn gather(plan: &LaunchPlan) -> MergeRows {
    let mut rows = MergeRows::default();
    for query in plan.merge.merged_queries() {
        rows.push(plan.merge.of(query), query.0);
    }
    rows
}

fn rows(plan: &LaunchPlan, round: &MergeRound) -> MergeRows {
    let mut rows = MergeRows::default();
    for (at, finishes) in round.finishes.iter().enumerate() {
        let slots = round.row(at);
        let Some(first) = slots.first() else { continue };
        let target = if *finishes { plan.queries[*first as usize].0 } else { MergeRows::TO_SLOT | first };
        rows.push(slots, target);
    }
    rows
}

/// Partials are stored in one way here; where the system has another, the bytes differ.
fn other_forms(plan: &LaunchPlan) -> Option<Warning> {
    let rounds = plan.merge.rounds.iter();
    let form = rounds.flat_map(|round| [round.reads, round.writes]).find(|form| *form != PartialForm::Fp32)?;
    let what = match form {
        PartialForm::Native => "in the element type of the output",
        PartialForm::Fp32MaxSum => "with maximum and sum apart",
        PartialForm::Fp32 => return None,
    };
    Some(Warning {
        text: format!(
            "{} stores partials {what}; here they ran in fp32 with a log-sum-exp, so the bytes of its merges differ",
            plan.scheduler
        ),
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
    check(plan)?;
    let kernels = kernel_tiles(plan)?;
    let mut lowered = Lowered {
        tiles: if plan.strategy == Strategy::Fused { persistent_tiles(&kernels) } else { Vec::new() },
        packs: Vec::with_capacity(plan.order.len()),
        query_index: plan.queries.iter().map(|query| query.0).collect(),
        block_ids: Vec::new(),
        merge_offsets: plan.merge.starts.clone(),
        merge_slots: plan.merge.slots.clone(),
        phases: phases(plan),
        warnings: substitutions(plan, &kernels).into_iter().chain(other_forms(plan)).collect(),
    };
    // The launch of each of the kernels' tiles, where launches are to stay apart; a persistent kernel is one.
    let apart = joined == Joined::Apart && plan.strategy != Strategy::Fused;
    let mut of_launch: Vec<Option<usize>> = vec![None; lowered.tiles.len()];
    let launched = plan.launches.iter().enumerate();
    let packs = launched.flat_map(|(number, launch)| plan.packs_of(launch).iter().map(move |index| (number, index)));
    for (launch, index) in packs {
        let pack = plan.pack(*index);
        let (tile, launch) = (kernels[&pack.tile], apart.then_some(launch));
        let same = |(t, l): (&KernelTile, &Option<usize>)| *t == tile && *l == launch;
        let tile = lowered.tiles.iter().zip(&of_launch).position(same).unwrap_or_else(|| {
            lowered.tiles.push(tile);
            of_launch.push(launch);
            lowered.tiles.len() - 1
        });
        let Some(first) = plan.queries_of(*index).first() else {
            return Err(Error::Plan(format!("pack {} has no queries", index.0)));
        };
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

/// The shapes of the persistent kernel, largest first whatever the plan begins with: each list is one kernel to compile.
fn persistent_tiles(kernels: &BTreeMap<Tile, KernelTile>) -> Vec<KernelTile> {
    let mut tiles: Vec<KernelTile> = kernels.values().copied().collect();
    tiles.sort_unstable_by_key(|tile| Reverse((tile.m, tile.n)));
    tiles.dedup();
    tiles
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
    use crate::plan::{self, Launch, PlanChoice};
    use crate::tile::TileRule;
    use crate::workload::{PrefixTree, parse_tree};
    use crate::{hw, tile};

    fn planned(
        text: &str,
        (query_heads, kv_heads): (u32, u32),
        scheduler: &str,
        strategy: Strategy,
    ) -> (Batch, Result<LaunchPlan>) {
        let shape = AttentionShape { query_heads, kv_heads, block_size: 16, ..AttentionShape::default() };
        let batch = parse_tree(text, shape).unwrap().build().unwrap();
        let tree = PrefixTree::of(&batch);
        let device = hw::find("h200-sxm").unwrap();
        let tiles = tile::solve(device, shape.head_dim, shape.dtype);
        let scheduler = pack::find(scheduler).unwrap();
        let rule: TileRule = scheduler.tile_rule();
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
        let choice = PlanChoice { scheduler: scheduler.name(), strategy, rule, explain: false };
        let plan = scheduler.pack(&input).and_then(|packing| plan::build(&input, &packing, &choice));
        (batch, plan)
    }

    fn small() -> (Batch, LaunchPlan) {
        let (batch, plan) = planned("1,8,64_256,512,64", (32, 8), "pat", Strategy::Serial);
        (batch, plan.unwrap())
    }

    /// As [`small`], the first launch cut in two: its first pack in tiles of 64×128, which run on the kernel of
    /// 64×64 as the others do.
    fn sharing() -> (Batch, LaunchPlan) {
        let (batch, mut plan) = small();
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
        let (batch, plan) = small();
        let (together, apart) = (Joined::ByKernel, Joined::Apart);
        let [together, apart] = [together, apart].map(|joined| lower(&batch, &plan, joined).unwrap());
        assert_eq!((together.tiles, together.packs), (apart.tiles, apart.packs));
    }

    #[test]
    fn plans_of_the_same_shapes_share_a_persistent_kernel_whichever_comes_first() {
        let (batch, plan) = planned("1,8,64_256,512,64", (32, 8), "min-traffic", Strategy::Fused);
        let mut plan = plan.unwrap();
        let forward = lower(&batch, &plan, Joined::ByKernel).unwrap();
        plan.order.reverse();
        let backward = lower(&batch, &plan, Joined::ByKernel).unwrap();
        assert!(forward.tiles.len() > 1 && forward.packs[0].tile != backward.packs[0].tile, "{:?}", forward.tiles);
        assert_eq!(forward.tiles, backward.tiles);
    }

    /// Follows the merges without numbers: which partials have gone into which slot, and into each output.
    fn assert_all_merged(plan: &LaunchPlan, lowered: &Lowered) {
        let mut holds: Vec<Vec<u32>> = (0..plan.queries.len() as u32).map(|slot| vec![slot]).collect();
        let mut outputs: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for rows in lowered.phases.iter().flat_map(|phase| &phase.merges) {
            for (run, target) in rows.offsets.windows(2).zip(&rows.targets) {
                let slots = &rows.slots[run[0] as usize..run[1] as usize];
                let joined: Vec<u32> = slots.iter().flat_map(|slot| holds[*slot as usize].clone()).collect();
                if target & MergeRows::TO_SLOT == 0 {
                    assert!(outputs.insert(*target, joined).is_none(), "query {target} has two outputs");
                } else {
                    holds[(target & !MergeRows::TO_SLOT) as usize] = joined;
                }
            }
        }
        for query in 0..plan.merge.starts.len() - 1 {
            let mut wanted = plan.merge.of(crate::units::QueryIdx::from(query)).to_vec();
            let mut got = outputs.remove(&(query as u32)).unwrap_or_else(|| {
                assert_eq!(wanted.len(), 1, "{}: the partials of query {query} are not joined", plan.scheduler);
                wanted.clone()
            });
            wanted.sort_unstable();
            got.sort_unstable();
            assert_eq!(got, wanted, "query {query}");
        }
    }

    #[test]
    fn every_system_is_lowered_whole_or_refused_by_name() {
        let mut ran = std::collections::BTreeSet::new();
        for (text, heads) in [
            ("1,4,16_256,64,48", (8, 8)),
            ("1,4,16_4096,64,48", (32, 8)),
            ("2,6_64,2000", (4, 4)),
            ("1,32_1024,32", (32, 8)),
        ] {
            for scheduler in pack::schedulers().iter().map(|scheduler| scheduler.name()) {
                for strategy in Strategy::ANY_BATCH {
                    let (batch, Ok(plan)) = planned(text, heads, scheduler, strategy) else { continue };
                    let lowered = match lower(&batch, &plan, Joined::ByKernel) {
                        Ok(lowered) => lowered,
                        Err(Error::Unsupported { limit, .. }) => {
                            assert!(!limit.is_empty());
                            continue;
                        }
                        Err(error) => panic!("{scheduler}: {error}"),
                    };
                    let blocks = batch.tables().all().iter().map(|block| block.0 + 1).max().unwrap();
                    lowered.arrays().check(&shape(&batch.shape), blocks).unwrap();
                    let merges: usize = lowered.phases.iter().map(|phase| phase.merges.len()).sum();
                    assert_eq!(
                        merges,
                        plan.launches.iter().filter(|launch| launch.kind.is_merge()).count(),
                        "{scheduler}"
                    );
                    if strategy != Strategy::Fused {
                        assert_all_merged(&plan, &lowered);
                        ran.insert(scheduler);
                    }
                }
            }
        }
        for scheduler in ["pat", "query-centric", "flashinfer-decode", "fasttree", "cascade", "flashforge"] {
            assert!(ran.contains(scheduler), "{scheduler} runs on the GPU, of {ran:?}");
        }
        assert!(!ran.contains("hydragen"), "no kernel has one CTA a query head");
    }
}
