//! From a launch plan to the arrays that the kernels take: launch i of the plan is launch i on the GPU.
//!
//! Packs go down with their query and block lists; slots, merges, order, streams and waits are those of the plan. Only
//! three things may differ, and then a warning says so: the tile, since some shapes have no kernel and a persistent
//! kernel holds one n for each m; the kernel of packs with more rows than their tile, which are computed as prefill rows
//! without a mask; and the form in which partials are stored. What no kernel runs at all is refused.

mod tasks;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kernels::{
    CtaRoles, DecodeShape, Dtype as KernelDtype, HybridSpec, HybridWork, KernelSpec, Launch as KernelLaunch, MergeRows,
    PackTask, PlanArrays, PrefillTask, Sight, Tile as KernelTile, Work as KernelWork,
};

use crate::backend::cuda::lower::tasks::{Gathered, Rows};
use crate::capture::Warning;
use crate::error::{Error, Result};
use crate::pack::{CtaOrder, SubtreeLayout};
use crate::plan::{Dispatch, HybridKernel, Launch, LaunchKind, LaunchPlan, MergeRound, PlannedPack, Strategy};
use crate::tile::Tile;
use crate::units::PackIdx;
use crate::workload::{AttentionShape, Batch, Dtype, PartialForm};

/// Most rows of a decode kernel's tile where it shares its SM with prefill.
const TALL_ROWS: u32 = 16;

/// What a prefill task of the kernels computes of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskOf {
    /// A prefill task of the plan.
    Prefill(u32),
    /// Rows of the pack at this place of the plan's order.
    Pack(u32),
}

/// The arrays of a plan.
#[derive(Debug, Default)]
pub(super) struct Lowered {
    tiles: Vec<KernelTile>,
    packs: Vec<PackTask>,
    query_index: Vec<u32>,
    block_ids: Vec<u32>,
    masks: Vec<u64>,
    merge_offsets: Vec<u32>,
    merge_slots: Vec<u32>,
    tasks: Vec<PrefillTask>,
    prefill_rows: u32,
    prefill_slots: u32,
    launches: Vec<KernelLaunch>,
    /// Place in the plan's order of each pack.
    pub(super) place_of: Vec<u32>,
    /// What each task is.
    pub(super) task_of: Vec<TaskOf>,
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
            masks: &self.masks,
            merge_offsets: &self.merge_offsets,
            merge_slots: &self.merge_slots,
            num_queries: self.merge_offsets.len() as u32 - 1,
            num_slots: self.query_index.len() as u32,
            tasks: &self.tasks,
            prefill_rows: self.prefill_rows,
            prefill_slots: self.prefill_slots,
            launches: &self.launches,
        }
    }

    /// Whether the CTAs of a launch stay on their SMs and take their work from a queue.
    pub(super) fn stays(&self, launch: u32) -> bool {
        let work = self.launches.get(launch as usize).map(|launch| &launch.work);
        matches!(work, Some(KernelWork::Queue(_) | KernelWork::Prefill(_)))
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
            who: format!("{} under {} on the GPU", plan.scheduler, plan.strategy.name()),
            limit: format!("{what}, which no kernel here runs; simulate it, or choose another strategy or scheduler"),
        })
    };
    for launch in &plan.launches {
        match launch.kind {
            LaunchKind::Hybrid(kernel) if !launch.kind.takes_from_queue() => {
                if let Some(what) = unlike_ours(plan, &kernel) {
                    return refuse(what);
                }
            }
            LaunchKind::Persistent(_) => {
                let rows = |pack: &PlannedPack| pack.queries_len * plan.shape.group();
                let mut packs = plan.packs_of(launch).iter().map(|pack| plan.pack(*pack));
                if let Some(pack) = packs.find(|pack| rows(pack) > pack.tile.m) {
                    let (tile, rows) = (pack.tile, rows(pack));
                    return refuse(format!("a CTA of {tile} has {rows} query rows, in several passes over its KV"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// How the CTAs of a hybrid kernel get their items, in the kernels' terms.
fn roles(dispatch: Dispatch) -> CtaRoles {
    match dispatch {
        Dispatch::Static | Dispatch::Queue | Dispatch::FoldedQueue => CtaRoles::Index,
        Dispatch::Paired => CtaRoles::Paired,
        Dispatch::Tickets(tickets) => CtaRoles::Tickets { period: tickets.period, prefill: tickets.prefill },
    }
}

/// What of a kernel that computes prefill and decode in one launch is not as ours has it.
fn unlike_ours(plan: &LaunchPlan, kernel: &HybridKernel) -> Option<String> {
    let most = HybridSpec::rows_of(roles(kernel.dispatch).into());
    let tasks = &plan.prefill.tasks[kernel.tasks_begin as usize..kernel.tasks_end as usize];
    if let Some(task) = tasks.iter().find(|task| task.rows() > most) {
        return Some(format!("a CTA computes prefill of tile {} beside decode; ours takes {most} rows", task.tile));
    }
    if kernel.prefill_warps * 16 != most {
        return Some(format!("a CTA has {} warps for prefill; ours has {}", kernel.prefill_warps, most / 16));
    }
    let lean = KernelTile::LEAN;
    let decodes = plan.packs.iter().find(|pack| pack.tile.m > TALL_ROWS);
    if let Some(pack) = decodes {
        return Some(format!(
            "decode of tile {} shares CTAs with prefill; ours takes {} or 16 rows",
            pack.tile, lean.m
        ));
    }
    (kernel.decodes_per_cta > lean.heads_together())
        .then(|| format!("{} decodes share a CTA; ours takes {}", kernel.decodes_per_cta, lean.heads_together()))
}

/// Which rows of its packs a launch computes as prefill, if it does.
fn gathers(plan: &LaunchPlan, launch: &Launch) -> Option<Rows> {
    let rows = if launch.order == CtaOrder::QueryHeads { Rows::OfQueries } else { Rows::OfHeads };
    plan.is_gathered(launch).then_some(rows)
}

/// Lowers a plan of `batch`, whose block ids are places in the KV cache.
pub(super) fn lower(batch: &Batch, plan: &LaunchPlan) -> Result<Lowered> {
    check(plan)?;
    let kernels = kernel_tiles(plan)?;
    let mut lowering = Lowering { batch, plan, kernels, chunk_blocks: Vec::new(), lowered: Lowered::default() };
    let lowered = &mut lowering.lowered;
    lowered.query_index = plan.queries.iter().map(|query| query.0).collect();
    lowered.merge_offsets.clone_from(&plan.merge.starts);
    lowered.merge_slots.clone_from(&plan.merge.slots);
    lowered.prefill_rows = plan.prefill.rows() as u32;
    lowered.prefill_slots = plan.prefill.slots;
    lowered.tiles = persistent_tiles(&lowering.kernels);
    lowering.chunk_blocks();
    for launch in &plan.launches {
        let work = lowering.work(launch)?;
        lowering.lowered.launches.push(KernelLaunch {
            work,
            stream: launch.stream,
            after: launch.after.clone(),
            programmatic: launch.programmatic,
            beside: beside(plan) && (launch.kind.is_persistent() || launch.kind.is_prefill_queue()),
            sms: launch.sms,
            pack_fastest: launch.order == CtaOrder::PackFastest,
        });
    }
    let mut lowered = lowering.lowered;
    lowered.warnings = substitutions(plan, &lowering.kernels);
    lowered.warnings.extend(tasks::other_kernel(plan));
    lowered.warnings.extend(other_forms(plan));
    Ok(lowered)
}

/// A plan on its way down.
struct Lowering<'a> {
    batch: &'a Batch,
    plan: &'a LaunchPlan,
    kernels: BTreeMap<Tile, KernelTile>,
    /// Where the block list of each chunk begins.
    chunk_blocks: Vec<u32>,
    lowered: Lowered,
}

impl Lowering<'_> {
    /// What a launch does, in the kernels' terms.
    fn work(&mut self, launch: &Launch) -> Result<KernelWork> {
        let plan = self.plan;
        if let Some(rows) = gathers(plan, launch) {
            let mut tasks = self.prefill_tasks(launch);
            tasks.extend(self.gathered_tasks(launch, rows)?);
            return Ok(KernelWork::Prefill(tasks));
        }
        Ok(match launch.kind {
            LaunchKind::Attention(_) => KernelWork::Packs(self.packs(launch)?),
            LaunchKind::Persistent(_) => KernelWork::Queue(self.packs(launch)?),
            LaunchKind::Prefill(_) | LaunchKind::PrefillQueue(_) | LaunchKind::FoldedPrefill(_) => {
                KernelWork::Prefill(self.prefill_tasks(launch))
            }
            LaunchKind::Hybrid(kernel) => KernelWork::Hybrid(HybridWork {
                tasks: self.prefill_tasks(launch),
                packs: self.packs(launch)?,
                heads: kernel.decodes_per_cta,
                roles: roles(kernel.dispatch),
            }),
            LaunchKind::Merge => KernelWork::Merge(gather(plan)),
            LaunchKind::MergeRound(at) => {
                let round = plan.merge.rounds.get(at as usize);
                KernelWork::Merge(round.map(|round| rows(plan, round)).unwrap_or_default())
            }
            LaunchKind::MergePrefill => KernelWork::Merge(self.prefill_merge()),
        })
    }

    /// Packs of a launch, in its order.
    fn packs(&mut self, launch: &Launch) -> Result<Vec<u32>> {
        let mut packs = Vec::new();
        for (place, index) in (launch.packs_begin..launch.packs_end).zip(self.plan.packs_of(launch)) {
            let pack = self.plan.pack(*index);
            let tile = self.kernels[&pack.tile];
            let (block_begin, masks) = self.blocks_and_masks(*index)?;
            let lowered = &mut self.lowered;
            packs.push(lowered.packs.len() as u32);
            lowered.place_of.push(place);
            lowered.packs.push(PackTask {
                query_begin: pack.slots_begin,
                num_queries: pack.queries_len,
                block_begin,
                kv_tokens: pack.tokens.0 as u32,
                slot_begin: pack.slots_begin,
                tile: lowered.tiles.iter().position(|other| *other == tile).unwrap_or(0) as u32,
                masks,
            });
        }
        Ok(packs)
    }

    /// Adds a pack's blocks to the list, and what its queries see of a subtree, and tells where both begin.
    fn blocks_and_masks(&mut self, index: PackIdx) -> Result<(u32, Option<u32>)> {
        let (plan, pack) = (self.plan, self.plan.pack(index));
        if !pack.is_subtree(plan.shape.block_size) {
            return Ok((self.blocks_of(index)?, None));
        }
        let persistent = plan.has_queue();
        let shared = pack.blocks_begin..pack.blocks_end;
        let layout = SubtreeLayout::of(self.batch, shared, plan.queries_of(index), persistent);
        if layout.tokens() != pack.tokens {
            return Err(Error::Plan(format!(
                "pack {} goes through {} tokens of {}",
                index.0,
                pack.tokens,
                layout.tokens()
            )));
        }
        let begins = (self.lowered.block_ids.len() as u32, Some(self.lowered.masks.len() as u32));
        self.lowered.block_ids.extend(layout.blocks().map(|block| block.0));
        let tile = KernelTile { m: pack.tile.m, n: pack.tile.n };
        let masks = tile.masks(&layout.masks(pack.tile), pack.queries_len, plan.shape.group());
        self.lowered.masks.extend(masks);
        Ok(begins)
    }

    /// Adds a pack's blocks to the list, and tells where they begin.
    ///
    /// Packs of the same KV read it in the same order and mostly at the same time, so that HBM is asked for it once. Where each
    /// begins at a place of its own, L2 has lost by then what the others read: with four packs a quarter apart configuration 7
    /// of PAT at 32/8 reads 682 MB in place of 618 and takes 11 % longer, and four trees 4 to 30 % (H200).
    fn blocks_of(&mut self, index: PackIdx) -> Result<u32> {
        let (plan, pack) = (self.plan, self.plan.pack(index));
        let Some(first) = plan.queries_of(index).first() else {
            return Err(Error::Plan(format!("pack {} has no queries", index.0)));
        };
        let begin = self.lowered.block_ids.len() as u32;
        let row = &self.batch.tables().row(*first)[pack.blocks_begin as usize..pack.blocks_end as usize];
        self.lowered.block_ids.extend(row.iter().map(|block| block.0));
        Ok(begin)
    }

    /// Packs of a launch as prefill tasks.
    fn gathered_tasks(&mut self, launch: &Launch, rows: Rows) -> Result<Vec<u32>> {
        let merged: Vec<bool> = self.plan.slot_forms().iter().map(Option::is_some).collect();
        let mut numbers = Vec::new();
        for (place, index) in (launch.packs_begin..launch.packs_end).zip(self.plan.packs_of(launch)) {
            let gathered = Gathered { pack: *self.plan.pack(*index), block_begin: self.blocks_of(*index)?, rows };
            for task in gathered.tasks(self.plan.shape.group(), &merged) {
                numbers.push(self.push_task(task, TaskOf::Pack(place)));
            }
        }
        Ok(numbers)
    }

    fn push_task(&mut self, task: PrefillTask, of: TaskOf) -> u32 {
        self.lowered.tasks.push(task);
        self.lowered.task_of.push(of);
        self.lowered.tasks.len() as u32 - 1
    }
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

/// The shapes of the persistent kernel, largest first whatever the plan begins with: each list is one kernel to compile.
fn persistent_tiles(kernels: &BTreeMap<Tile, KernelTile>) -> Vec<KernelTile> {
    let mut tiles: Vec<KernelTile> = kernels.values().copied().collect();
    tiles.sort_unstable_by_key(|tile| Reverse((tile.m, tile.n)));
    tiles.dedup();
    tiles
}

/// Whether decodes are taken from a queue.
fn is_persistent(plan: &LaunchPlan) -> bool {
    plan.launches.iter().any(|launch| launch.kind.is_persistent() && launch.packs_end > launch.packs_begin)
}

/// Whether decodes run on the same SMs as prefill, a CTA of each.
fn beside(plan: &LaunchPlan) -> bool {
    plan.strategy == Strategy::CoResident
}

/// Whether decodes and prefill are computed by the CTAs of one launch, each with a tile of its own.
fn in_one_launch(plan: &LaunchPlan) -> bool {
    let shares = |kind: LaunchKind| matches!(kind, LaunchKind::Hybrid(_)) && !kind.takes_from_queue();
    plan.launches.iter().any(|launch| shares(launch.kind))
}

/// The tile of packs with more rows than [`KernelTile::LEAN`] where decodes run beside prefill. Blocks that are fetched
/// token by token leave registers for fewer tokens.
fn tall_beside(block_size: u32) -> KernelTile {
    KernelTile { m: 16, n: if block_size < DecodeShape::BULK_BLOCK { 32 } else { 64 } }
}

/// The decode kernel that each tile of the plan runs on.
fn kernel_tiles(plan: &LaunchPlan) -> Result<BTreeMap<Tile, KernelTile>> {
    let beside = beside(plan) || in_one_launch(plan);
    let mut side_by_side = BTreeMap::new();
    for launch in plan.launches.iter().filter(|launch| gathers(plan, launch).is_none()) {
        for pack in plan.packs_of(launch).iter().map(|pack| plan.pack(*pack)) {
            *side_by_side.entry(pack.tile).or_insert(true) &= pack.heads > 1;
        }
    }
    let mixed = is_persistent(plan) && side_by_side.len() > 1;
    let kernel_of = |(tile, heads): (Tile, bool)| {
        let few = plan.most_rows_of(tile) <= KernelTile::LEAN.m;
        let kernel = match beside {
            true if few => KernelTile::LEAN,
            true => tall_beside(plan.shape.block_size),
            false => kernel_tile(tile, (heads, few), mixed, plan.shape.head_dim),
        };
        (tile, kernel)
    };
    let kernels = side_by_side.into_iter().map(kernel_of).collect();
    check_kernels(plan, &kernels, is_persistent(plan) && !beside)?;
    Ok(kernels)
}

/// Refuses what no kernel computes. Of a plan whose decodes are taken from a queue one has all tiles `together`.
fn check_kernels(plan: &LaunchPlan, kernels: &BTreeMap<Tile, KernelTile>, together: bool) -> Result<()> {
    let tiles = persistent_tiles(kernels);
    let sets = tiles.chunks(if together { tiles.len().max(1) } else { 1 });
    let has_masks = plan.packs.iter().any(|pack| pack.is_subtree(plan.shape.block_size));
    for tiles in sets {
        let mut spec = KernelSpec::new(tiles, plan.shape.head_dim, KernelDtype::F16, together, false);
        spec.copies = shape(&plan.shape).copies(DecodeShape::BULK_BLOCK);
        if has_masks && tiles.contains(&KernelTile::MASKED) {
            spec.sight = Sight::Masked;
        }
        let refuse =
            |error: kernels::KernelError| Error::Unsupported { who: "the GPU".to_owned(), limit: error.to_string() };
        spec.check().map_err(refuse)?;
    }
    Ok(())
}

/// 64×128 at d 128, and 32×128 too at d 256, spill registers and run with 64 tokens. The kernel of 16×16 takes four heads a CTA; a plan
/// whose 16×16 takes one runs on 16×32. In a persistent kernel of several shapes, each m has one n, but for
/// 16×16, whose CTAs are cut differently. For packs of few rows, as leaves are, the lean kernel is in its place: the same
/// tokens and heads a CTA with half the products, 0 to 3 % less on PAT's Figure 10 (H200). It has no registers for more
/// dimensions.
fn kernel_tile(tile: Tile, (side_by_side, few): (bool, bool), mixed: bool, head_dim: u32) -> KernelTile {
    let n = match (tile.m, tile.n) {
        (16, 16) if side_by_side && few && head_dim <= 128 => return KernelTile::LEAN,
        (16, 16) if side_by_side => 16,
        (m, n) if (m, n) == (KernelTile::TALL.m, KernelTile::TALL.n) => n,
        _ if mixed => 64,
        (16, 16) => 32,
        (m, 128) if m * head_dim > 4096 => 64,
        (_, n) => n,
    };
    KernelTile { m: tile.m, n }
}

fn substitutions(plan: &LaunchPlan, kernels: &BTreeMap<Tile, KernelTile>) -> Vec<Warning> {
    let mut tiles: BTreeMap<Reverse<Tile>, u32> = BTreeMap::new();
    for launch in plan.launches.iter().filter(|launch| gathers(plan, launch).is_none()) {
        plan.packs_of(launch).iter().for_each(|pack| *tiles.entry(Reverse(plan.pack(*pack).tile)).or_default() += 1);
    }
    let differing = tiles.into_iter().filter_map(|(Reverse(tile), packs)| {
        let kernel = kernels.get(&tile)?;
        (kernel.n != tile.n && !beside(plan)).then(|| Warning {
            text: format!(
                "{packs} packs of tile {tile} ran on the {}×{} kernel: {}",
                kernel.m,
                kernel.n,
                if is_persistent(plan) && kernels.len() > 1 {
                    "a persistent kernel of several shapes holds one n for each m"
                } else {
                    "there is no kernel of that shape here (its registers spill, or its CTA takes other heads)"
                }
            ),
        })
    });
    differing.collect()
}
