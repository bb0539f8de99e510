//! The launch plan: plain data that every backend runs and every view draws.

use std::iter::{from_fn, repeat_n};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::decision::Decision;
use crate::pack::CtaOrder;
use crate::plan::{Dispatch, HybridKernel, PrefillKernel, PrefillPlan, PrefillTask};
use crate::tile::{DOUBLE, Tile};
use crate::units::{NodeIdx, PackIdx, QueryIdx, Tokens};
use crate::workload::{AttentionShape, Batch, PartialForm, PrefixTree};

/// How the CTAs of a plan reach the GPU. `serial`, `streams` and `fused` take any batch; the others put
/// prefill beside decode, so they need both in it.
///
/// Captures know a strategy by its place in this list, so new ones stand at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// One launch a tile shape, one after another on one stream, then the merge.
    Serial,
    /// One stream a tile shape, joined before the merge.
    #[default]
    Streams,
    /// Of decodes: one persistent launch that takes tasks from a queue and merges when a query's last
    /// partial arrives. With prefill: POD-Attention's kernel, whose CTAs choose by the SM they are on.
    Fused,
    /// Prefill and decode as warps of the same CTAs (HFuse).
    #[serde(rename = "hfuse")]
    HFuse,
    /// Prefill and decode as CTAs of one launch, in a fixed order.
    CtaParallel,
    /// Prefill on some SMs and decode on the others, as two persistent launches.
    Spatial,
    /// One persistent prefill kernel for all rows, decodes as short prefill items.
    Batched,
    /// A slim prefill CTA and lean decode CTAs on each SM, as two launches that fit beside each other.
    CoResident,
}

impl Strategy {
    /// All of them, in the order of menus.
    pub const ALL: [Self; 8] = [
        Self::Serial,
        Self::Streams,
        Self::Fused,
        Self::HFuse,
        Self::CtaParallel,
        Self::Spatial,
        Self::Batched,
        Self::CoResident,
    ];

    /// Those that take a batch without prefill, or without decode.
    pub const ANY_BATCH: [Self; 3] = [Self::Serial, Self::Streams, Self::Fused];

    /// Those that make sense for a batch.
    pub fn of(batch: &Batch) -> &'static [Self] {
        let hybrid = batch.prefills().next().is_some() && batch.decodes().next().is_some();
        if hybrid { &Self::ALL } else { &Self::ANY_BATCH }
    }

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Serial => "serial",
            Self::Streams => "streams",
            Self::Fused => "fused",
            Self::HFuse => "hfuse",
            Self::CtaParallel => "cta-parallel",
            Self::Spatial => "spatial",
            Self::Batched => "batched",
            Self::CoResident => "co-resident",
        }
    }

    /// What it does, in one sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::Serial => {
                "One launch per tile shape on one stream, prefill first, then the merge: simple, and every launch has its own tail."
            }
            Self::Streams => {
                "One stream per tile shape, joined before the merge (PAT section 6), and behind them one for prefill: tails overlap."
            }
            Self::Fused => {
                "One launch for all. Decodes alone: persistent workers take tasks from a queue, and the last to arrive at a query merges it, or workers that are done do where it has many partials; who is last may hang on little, so the time moves more with order and rates than under the others. With prefill: POD-Attention, where each CTA chooses prefill or decode by a ticket of its SM."
            }
            Self::HFuse => {
                "Prefill and decode as warps of the same CTAs (HFuse, POD section 3.1): always on one SM together, and each CTA waits for its slower half. Needs both."
            }
            Self::CtaParallel => {
                "Prefill and decode as CTAs of one launch in a fixed order (POD section 3.1): nothing says which SM gets what. Needs both."
            }
            Self::Spatial => {
                "Prefill on some SMs and decode on the others, side by side as two persistent launches (Bullet, DuetServe, MuxWise, Nexus): neither slows the other's SMs, and neither uses all. Needs both."
            }
            Self::Batched => {
                "One persistent prefill kernel for all rows, decodes as short items of it (FlashAttention-3's mixed call, FI_Batched of POD's Figure 11): decodes pay for a tile of 128 rows. Needs both."
            }
            Self::CoResident => {
                "A slim prefill CTA and lean decode CTAs on every SM, two launches that fit beside each other: decode starts once prefill is everywhere, and fills what prefill leaves. Needs both."
            }
        }
    }
}

impl std::str::FromStr for Strategy {
    type Err = crate::Error;

    fn from_str(text: &str) -> crate::Result<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == text).ok_or_else(|| crate::Error::UnknownName {
            kind: "strategy",
            name: text.to_owned(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}

/// A pack with its tile and its place among the partial results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedPack {
    /// The deepest tree node whose tokens it holds.
    pub node: NodeIdx,
    /// First of its queries in [`LaunchPlan::queries`]; also the slot of its first query's partial.
    pub slots_begin: u32,
    /// Number of its queries.
    pub queries_len: u32,
    /// First block, as a position in the row of any of its queries.
    pub blocks_begin: u32,
    /// Past the last block.
    pub blocks_end: u32,
    /// KV tokens that its CTA goes through; more than its blocks have in a subtree pack ([`crate::pack::Pack`]).
    pub tokens: Tokens,
    /// Tile that computes it.
    pub tile: Tile,
    /// KV heads that a CTA of this tile computes side by side.
    pub heads: u32,
}

impl PlannedPack {
    /// Whether it goes on below its node ([`crate::pack::Pack`]).
    pub fn is_subtree(&self, block_size: u32) -> bool {
        self.tokens.0 > u64::from(self.blocks_end - self.blocks_begin) * u64::from(block_size)
    }

    /// Whether it has the tile of packs of the same KV that are joined.
    pub fn is_joined(&self) -> bool {
        self.tile == DOUBLE
    }
}

/// What the CTAs of a launch do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LaunchKind {
    /// One CTA a (pack, KV head or run of them), all of one tile shape.
    Attention(Tile),
    /// One CTA a query with two or more partials, over all heads.
    Merge,
    /// A persistent grid of workers of the given tile shape that takes (pack, KV head) tasks from a
    /// queue. The worker that finishes the last partial of a (query, KV head) merges it.
    Persistent(Tile),
    /// One CTA a row of a merge that the system prescribes, by its place in [`MergePlan::rounds`].
    MergeRound(u32),
    /// One CTA a (prefill task, query head).
    Prefill(PrefillKernel),
    /// One CTA a prefill row with two or more partials, over all heads.
    MergePrefill,
    /// Prefill tasks and the launch's decode packs together.
    Hybrid(HybridKernel),
    /// A persistent grid of prefill CTAs that take (task, query head) items from a queue, in the order of
    /// [`LaunchPlan::ctas`]: KV head by KV head, in it longest first.
    PrefillQueue(PrefillKernel),
    /// The same with folded tasks, which have the query heads of a KV head as rows: its items are (task, KV head).
    FoldedPrefill(PrefillKernel),
}

impl LaunchKind {
    /// Whether its CTAs stay on their SMs, take decode tasks from a queue and merge what those complete.
    pub fn is_persistent(self) -> bool {
        matches!(self, Self::Persistent(_))
    }

    /// Whether its CTAs stay on their SMs and take items from a queue, whatever the items are.
    pub fn takes_from_queue(self) -> bool {
        match self {
            Self::Persistent(_) | Self::PrefillQueue(_) | Self::FoldedPrefill(_) => true,
            Self::Hybrid(kernel) => kernel.dispatch.is_queue(),
            _ => false,
        }
    }

    /// Whether it is a persistent grid for prefill tasks alone.
    pub fn is_prefill_queue(self) -> bool {
        matches!(self, Self::PrefillQueue(_) | Self::FoldedPrefill(_))
    }

    /// Whether its prefill tasks have the query heads of a KV head as rows.
    pub fn folds_heads(self) -> bool {
        match self {
            Self::FoldedPrefill(_) => true,
            Self::Hybrid(kernel) => kernel.dispatch == Dispatch::FoldedQueue,
            _ => false,
        }
    }

    /// Heads for which each of its prefill tasks is computed, a CTA each.
    pub fn prefill_heads(self, shape: &AttentionShape) -> u32 {
        if self.folds_heads() { shape.kv_heads } else { shape.query_heads }
    }

    /// First of the prefill tasks of its CTAs and past the last one; equal where it has none.
    pub fn tasks(self) -> (u32, u32) {
        match self {
            Self::Prefill(kernel) | Self::PrefillQueue(kernel) | Self::FoldedPrefill(kernel) => {
                (kernel.tasks_begin, kernel.tasks_end)
            }
            Self::Hybrid(kernel) => (kernel.tasks_begin, kernel.tasks_end),
            Self::Attention(_) | Self::Merge | Self::Persistent(_) | Self::MergeRound(_) | Self::MergePrefill => (0, 0),
        }
    }

    /// Whether its CTAs merge and compute no pack and no prefill task.
    pub fn is_merge(self) -> bool {
        matches!(self, Self::Merge | Self::MergeRound(_) | Self::MergePrefill)
    }
}

/// One kernel launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// What its CTAs do.
    pub kind: LaunchKind,
    /// The stream it is put on, from 0.
    pub stream: u32,
    /// Its packs in launch order, as a range of [`LaunchPlan::order`]; empty for the merge.
    pub packs_begin: u32,
    /// Past its last pack.
    pub packs_end: u32,
    /// How CTA indices map to (pack, head).
    pub order: CtaOrder,
    /// Launches that must be done before it starts (beside those before it on its stream).
    pub after: Vec<u32>,
    /// SMs that its persistent grid may use; `None` for all.
    ///
    /// This and the next field lie outside the launch's serial form, which captures of version 3 have had
    /// without them; see [`crate::plan::Placement`].
    #[serde(skip)]
    pub sms: Option<u32>,
    /// It may start once every CTA of the launch before it on its stream has started: CUDA's programmatic
    /// dependent launch. A launch behind it on the stream waits for both.
    #[serde(skip)]
    pub programmatic: bool,
}

/// Which partials make up each query's output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergePlan {
    /// Partials of request q are `slots[starts[q]..starts[q + 1]]`. One entry more than requests.
    pub starts: Vec<u32>,
    /// Slots, one a (pack, query); the order within a query is that of the packs.
    pub slots: Vec<u32>,
    /// Merges that a system prescribes, in the order of their launches. Without any, one gather
    /// (or the last-arriving CTA) merges all partials of a query.
    pub rounds: Vec<MergeRound>,
}

/// One merge launch that a system prescribes: each row joins the partials of one query, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeRound {
    /// Row r joins `slots[starts[r]..starts[r + 1]]`, at least one. One entry more than rows.
    pub starts: Vec<u32>,
    /// Slots of all rows; those of a row belong to one query.
    pub slots: Vec<u32>,
    /// Whether a row gives its query's output; if not, its result goes back into its first slot.
    pub finishes: Vec<bool>,
    /// How the partials that it reads are stored.
    pub reads: PartialForm,
    /// How the partials that it writes are stored.
    pub writes: PartialForm,
}

impl MergeRound {
    /// Number of rows, which is that of its CTAs.
    pub fn rows(&self) -> usize {
        self.finishes.len()
    }

    /// Slots that a row joins.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.slots[self.starts[row] as usize..self.starts[row + 1] as usize]
    }
}

impl MergePlan {
    /// Slots of one query's partials.
    pub fn of(&self, query: QueryIdx) -> &[u32] {
        &self.slots[self.starts[query.at()] as usize..self.starts[query.at() + 1] as usize]
    }

    /// Queries with two or more partials: those the merge has to do with.
    pub fn merged_queries(&self) -> impl Iterator<Item = QueryIdx> + '_ {
        self.starts.windows(2).enumerate().filter(|(_, pair)| pair[1] - pair[0] > 1).map(|(q, _)| QueryIdx::from(q))
    }

    /// Largest number of partials of one query.
    pub fn max_partials(&self) -> u32 {
        self.starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    }
}

/// Everything needed to run a batch, and nothing that depends on the backend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchPlan {
    /// Name of the scheduler that made the packs.
    pub scheduler: String,
    /// How the CTAs reach the GPU.
    pub strategy: Strategy,
    /// Key of the device it was made for.
    pub device: String,
    /// Attention shape.
    pub shape: AttentionShape,
    /// All packs, in the scheduler's order.
    pub packs: Vec<PlannedPack>,
    /// Queries of all packs; slot s holds the partial of `queries[s]`.
    pub queries: Vec<QueryIdx>,
    /// Packs of all launches, one launch after another.
    pub order: Vec<PackIdx>,
    /// Kernel launches in host order.
    pub launches: Vec<Launch>,
    /// Which partials make up each output.
    pub merge: MergePlan,
    /// The prefill chunks.
    pub prefill: PrefillPlan,
    /// Why packs and tiles are as they are; empty unless asked for. No part of the plan's digest; a capture
    /// keeps them beside the plan.
    #[serde(skip)]
    pub decisions: Vec<Decision>,
}

impl LaunchPlan {
    /// Whether some launch is persistent, so that its CTAs take tasks from a queue.
    pub fn has_queue(&self) -> bool {
        self.launches.iter().any(|launch| launch.kind.is_persistent())
    }

    /// How the partial in each slot is stored; `None` where the pack writes the output itself,
    /// because its query has nothing to be merged with.
    pub fn slot_forms(&self) -> Vec<Option<PartialForm>> {
        let mut forms = vec![None; self.queries.len()];
        if self.merge.rounds.is_empty() {
            for query in self.merge.merged_queries() {
                for slot in self.merge.of(query) {
                    forms[*slot as usize] = Some(self.partial_form());
                }
            }
        }
        // The first round that reads a slot says how the attention stores it.
        for round in self.merge.rounds.iter().rev() {
            for slot in &round.slots {
                forms[*slot as usize] = Some(round.reads);
            }
        }
        forms
    }

    /// How partials are stored that no prescribed round joins: those of a persistent kernel, which nobody else reads, in
    /// the element type of the batch.
    pub fn partial_form(&self) -> PartialForm {
        let persistent = self.has_queue();
        if persistent { PartialForm::Native } else { PartialForm::Fp32 }
    }

    /// The pack of each slot.
    pub fn packs_of_slots(&self) -> Vec<PackIdx> {
        let slots = |(at, pack): (usize, &PlannedPack)| repeat_n(PackIdx::from(at), pack.queries_len as usize);
        self.packs.iter().enumerate().flat_map(slots).collect()
    }

    /// The nodes that a pack reads, from its own up and then those below it, with the KV tokens of its requests that it
    /// reads of each.
    pub fn reach<'a>(
        &self,
        pack: &PlannedPack,
        tree: &'a PrefixTree,
    ) -> impl Iterator<Item = (NodeIdx, Range<u64>)> + use<'a> {
        let block = u64::from(self.shape.block_size);
        let begin = u64::from(pack.blocks_begin) * block;
        let subtree = pack.is_subtree(self.shape.block_size);
        let end = if subtree { u64::from(pack.blocks_end) * block } else { begin + pack.tokens.0 };
        let below = self.below(pack, tree).into_iter().map(move |idx| {
            let node = tree.node(idx);
            let first = u64::from(node.blocks.start) * block;
            (idx, first..first + node.tokens.0)
        });
        let mut at = Some(pack.node);
        let up = from_fn(move || {
            let idx = at?;
            let node = tree.node(idx);
            let first = u64::from(node.blocks.start) * block;
            at = node.parent.filter(|_| first > begin);
            let from = first.max(begin);
            Some((idx, from..(first + node.tokens.0).min(end).max(from)))
        });
        up.chain(below)
    }

    /// How many times each pack's KV is read per KV head: once, or by each query head of the group
    /// where the launch does not fold the group into rows.
    pub fn reads_of_packs(&self) -> Vec<u64> {
        let mut reads = vec![1; self.packs.len()];
        for launch in self.launches.iter().filter(|launch| launch.order == CtaOrder::QueryHeads) {
            for pack in self.packs_of(launch) {
                reads[pack.at()] = u64::from(self.shape.group());
            }
        }
        reads
    }

    /// Whether another plan launches the same, whatever it is called: one attention kernel is on one stream under `serial` and
    /// under `streams`.
    pub fn launches_as(&self, other: &Self) -> bool {
        (&self.shape, &self.packs, &self.queries, &self.order, &self.launches, &self.merge, &self.prefill)
            == (&other.shape, &other.packs, &other.queries, &other.order, &other.launches, &other.merge, &other.prefill)
    }

    /// Heads that number the CTAs of one pack of a launch: the KV heads, or the query heads.
    pub fn heads_of(&self, launch: &Launch) -> u32 {
        match launch.order {
            CtaOrder::PackFastest | CtaOrder::HeadFastest => self.shape.kv_heads,
            CtaOrder::QueryHeads => self.shape.query_heads,
        }
    }

    /// A pack.
    pub fn pack(&self, pack: PackIdx) -> &PlannedPack {
        &self.packs[pack.at()]
    }

    /// Queries of a pack.
    pub fn queries_of(&self, pack: PackIdx) -> &[QueryIdx] {
        self.queries_in(&self.packs[pack.at()])
    }

    fn queries_in(&self, pack: &PlannedPack) -> &[QueryIdx] {
        &self.queries[pack.slots_begin as usize..(pack.slots_begin + pack.queries_len) as usize]
    }

    /// Packs of a launch in launch order.
    pub fn packs_of(&self, launch: &Launch) -> &[PackIdx] {
        &self.order[launch.packs_begin as usize..launch.packs_end as usize]
    }

    /// Prefill tasks of a launch; each is computed once for each query head.
    pub fn tasks_of(&self, launch: &Launch) -> &[PrefillTask] {
        let (begin, end) = launch.kind.tasks();
        &self.prefill.tasks[begin as usize..end as usize]
    }

    /// How many packs go on below their nodes.
    pub fn subtree_packs(&self) -> u64 {
        self.packs.iter().filter(|pack| pack.is_subtree(self.shape.block_size)).count() as u64
    }

    /// The nodes below its own that a pack reads; none but of a subtree pack.
    pub fn below(&self, pack: &PlannedPack, tree: &PrefixTree) -> Vec<NodeIdx> {
        let subtree = pack.is_subtree(self.shape.block_size);
        if subtree { tree.below(pack.node, self.queries_in(pack)) } else { Vec::new() }
    }

    /// KV tokens read per KV head, re-reads counted.
    pub fn kv_tokens_read(&self) -> Tokens {
        self.packs.iter().zip(self.reads_of_packs()).map(|(pack, reads)| pack.tokens * reads).sum()
    }

    /// Tile shapes in use with the packs of each, largest tile first.
    pub fn tiles(&self) -> Vec<(Tile, u32)> {
        let mut counts = std::collections::BTreeMap::new();
        for pack in &self.packs {
            *counts.entry(pack.tile).or_insert(0) += 1;
        }
        counts.into_iter().rev().collect()
    }
}
