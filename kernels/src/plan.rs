//! The plain arrays that a launch is made of, and the one place where they are checked.

use crate::error::KernelError;
use crate::spec::{Copies, Groups};

/// Element type of Q, K, V and the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
}

/// Rows (queries times group) and KV tokens that a CTA holds at a time.
///
/// Tiles 16 x 16 and 8 x 16 are special: their CTA takes four KV heads side by side, one warp each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tile {
    /// Rows: 16, 32 or 64, 8 for [`Self::LEAN`], or 128 for [`Self::DOUBLE`] and [`Self::TALL`].
    pub m: u32,
    /// KV tokens: 16, 32, 64 or 128.
    pub n: u32,
}

impl Tile {
    /// Few rows, in few registers: for packs of no more, and for decode beside prefill.
    pub const LEAN: Self = Self { m: 8, n: 16 };

    /// The one whose packs may have masks, beside [`Self::TALL`].
    pub const MASKED: Self = Self { m: 64, n: 64 };
    /// Twice the rows from one reading of K and V, in a kernel of its own: eight warps, of which each computes of tokens
    /// that few see only those of its own rows.
    pub const TALL: Self = Self { m: 128, n: 128 };
    /// Twice the rows from one reading of K and V without masks: a warpgroup takes them in two blocks, in turn.
    pub const DOUBLE: Self = Self { m: 128, n: 64 };
    /// Largest head dimension at which they may: beyond, registers are short.
    pub const MASKED_DIM: u32 = 128;

    /// Whether packs of it may have masks.
    pub fn takes_masks(&self) -> bool {
        *self == Self::MASKED || *self == Self::TALL
    }

    /// Warpgroups that take 64 rows each: one, or two of [`Self::TALL`].
    pub(crate) fn teams(self) -> u32 {
        if self == Self::TALL { 2 } else { 1 }
    }

    /// KV heads that a CTA takes together: 4 for tiles 16 x 16 and 8 x 16, else 1.
    pub fn heads_together(&self) -> u32 {
        if self.m <= 16 && self.n == 16 { 4 } else { 1 }
    }
}

/// Shape of the attention call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecodeShape {
    /// Query heads.
    pub q_heads: u32,
    /// KV heads; divides `q_heads`, the quotient being at most [`Self::LARGEST_GROUP`].
    pub kv_heads: u32,
    /// Head dimension, 64, 128 or 256.
    pub head_dim: u32,
    /// Element type.
    pub dtype: Dtype,
    /// Tokens per KV block: a power of two, at most 256.
    pub block_size: u32,
    /// Softmax scale, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
}

impl DecodeShape {
    /// Most query heads per KV head: the rows of the tallest decode tile.
    pub const LARGEST_GROUP: u32 = 64;

    /// Fewest tokens of a block that decode fetches by bulk copies: a warp issues them one by one.
    pub const BULK_BLOCK: u32 = 16;
    /// Likewise for prefill, where two warps do and a tile is computed for longer.
    pub const PREFILL_BULK_BLOCK: u32 = 8;

    /// Bytes of a token of a KV head: a row of K and one of V, of 16-bit values.
    pub(crate) fn token_bytes(&self) -> u64 {
        u64::from(self.head_dim) * 4
    }

    /// How tiles come from the blocks, where those of fewer than `least` tokens are too small for bulk copies.
    pub fn copies(&self, least: u32) -> Copies {
        if self.block_size < least { Copies::Tokens } else { Copies::Bulk }
    }

    /// Groups of the decode kernels that take this one.
    pub(crate) fn groups(&self) -> Groups {
        if self.group().is_power_of_two() && self.group() <= 16 { Groups::PowersOfTwo } else { Groups::Any }
    }

    /// By what the decode kernels divide by the group: 16 bits of its inverse, rounded up, or its logarithm.
    pub(crate) fn group_by(&self) -> u32 {
        match self.groups() {
            Groups::PowersOfTwo => self.group().trailing_zeros(),
            Groups::Any => 65_536_u32.div_ceil(self.group().max(1)),
        }
    }

    /// Query heads per KV head.
    pub fn group(&self) -> u32 {
        self.q_heads / self.kv_heads.max(1)
    }

    /// What every kernel asks for.
    pub(crate) fn check(&self) -> Result<(), KernelError> {
        let bad = |what: String| Err(KernelError::Unsupported(what));
        let divides = self.kv_heads > 0 && self.q_heads > 0 && self.q_heads.is_multiple_of(self.kv_heads);
        if !divides || self.group() > Self::LARGEST_GROUP {
            return bad(format!("{} query heads over {} KV heads", self.q_heads, self.kv_heads));
        }
        if !matches!(self.head_dim, 64 | 128 | 256) {
            return bad(format!("head dimension {}; 64, 128 and 256 exist", self.head_dim));
        }
        if !self.block_size.is_power_of_two() || self.block_size > 256 {
            return bad(format!("KV blocks of {} tokens; powers of two from 1 to 256 exist", self.block_size));
        }
        Ok(())
    }
}

/// One pack: some queries over one run of KV blocks. A CTA computes it for one KV head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackTask {
    /// First entry in [`PlanArrays::query_index`].
    pub query_begin: u32,
    /// Queries of the pack; times the group at most the tile's `m`.
    pub num_queries: u32,
    /// First entry in [`PlanArrays::block_ids`].
    pub block_begin: u32,
    /// Tokens from the start of that block on; the last block may be partly filled. May be 0.
    pub kv_tokens: u32,
    /// Partial slot of the pack's first query; query `i` of the pack has slot `slot_begin + i`.
    pub slot_begin: u32,
    /// Index into [`PlanArrays::tiles`].
    pub tile: u32,
    /// First entry in [`PlanArrays::masks`], where some of its tokens are of some of its queries alone: what [`Tile::masks`]
    /// makes of them. Such a pack has a tile that [takes masks](Tile::takes_masks), whole blocks and a run of the list for
    /// itself. All its queries see one of its first 64 tokens, and what nobody sees of a block is behind what some query does.
    pub masks: Option<u32>,
}

/// One merge launch: each row joins partials of one query, in order, on a CTA of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeRows {
    /// Row r joins `slots[offsets[r]..offsets[r + 1]]`, at least one.
    pub offsets: Vec<u32>,
    /// Slots of all rows.
    pub slots: Vec<u32>,
    /// Where each row's result goes: a query's output, or [`Self::TO_SLOT`] with the slot of a partial.
    pub targets: Vec<u32>,
}

impl MergeRows {
    /// A target with this bit is a slot.
    pub const TO_SLOT: u32 = 1 << 31;

    /// Adds a row.
    pub fn push(&mut self, slots: &[u32], target: u32) {
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        self.slots.extend_from_slice(slots);
        self.offsets.push(self.slots.len() as u32);
        self.targets.push(target);
    }

    /// Slots of each row with its target.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&[u32], u32)> {
        let slots = |run: &[u32]| self.slots.get(run[0] as usize..run[1] as usize).unwrap_or(&[]);
        self.offsets.windows(2).map(slots).zip(self.targets.iter().copied())
    }
}

/// Some query rows over a range of KV: a block of a prefill chunk, or rows that share a range of KV. Computed once a query
/// head, or once a KV head where it folds that one's query heads into rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefillTask {
    /// Which rows of Q and of the output.
    pub rows: TaskRows,
    /// Rows, at most [`crate::PrefillSpec::ROWS`]; where heads are folded, those of all query heads of a KV head.
    pub num_rows: u32,
    /// Whether a row is a query head of the KV head that the task is at: query after query, in it head after head.
    pub folded: bool,
    /// Entry in [`PlanArrays::block_ids`] of the block that holds the first token.
    pub block_begin: u32,
    /// First KV token, counted from that block on: a multiple of the smaller of 128 and the block, unless the range is
    /// empty.
    pub kv_begin: u32,
    /// Past the last one. Equal to `kv_begin` where there is nothing to read.
    pub kv_end: u32,
    /// Row (or query, where heads are folded) r of the task sees the tokens before `position + r + 1`; where that is past
    /// `kv_end` there is no mask.
    pub position: u32,
    /// Where the partials of its rows go; `None` where it has all that its rows see, and writes their output.
    pub slots: Option<RowSlots>,
}

/// Rows of a task; where heads are folded, its queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskRows {
    /// From this row on, one after the other.
    From(u32),
    /// From this entry of [`PlanArrays::query_index`] on, one query after the other.
    Listed(u32),
}

impl Default for TaskRows {
    fn default() -> Self {
        Self::From(0)
    }
}

/// Slots of the partials of a task's rows: row (or query, where heads are folded) r has `begin + r * step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowSlots {
    /// Slot of the first row.
    pub begin: u32,
    /// From one row's slot to the next one's.
    pub step: u32,
}

/// What one launch does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// These packs, all of one tile, a CTA each for every KV head, or run of them.
    Packs(Vec<u32>),
    /// These packs by a persistent grid that takes them in their order, and merges what is complete.
    Queue(Vec<u32>),
    /// These prefill tasks by a persistent grid, KV head by KV head and in it the longest first.
    Prefill(Vec<u32>),
    /// Packs and prefill tasks by the CTAs of one launch.
    Hybrid(HybridWork),
    /// Merges, a CTA a row.
    Merge(MergeRows),
}

/// Prefill tasks and packs, all of one tile, of one launch. Items are numbered task by task for one query head, then for
/// the next; and pack by pack, in each by runs of KV heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HybridWork {
    /// The tasks, in the order of their CTAs.
    pub tasks: Vec<u32>,
    /// The packs, likewise.
    pub packs: Vec<u32>,
    /// KV heads of a pack that a CTA takes.
    pub heads: u32,
    /// How a CTA gets its items.
    pub roles: CtaRoles,
}

/// How the CTAs of a hybrid launch get their items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtaRoles {
    /// One each, by the index of the CTA: prefill first.
    Index,
    /// CTA i has prefill item i and decode item i, while there are such.
    Paired,
    /// One each, by tickets of the SM: of each `period` the first `prefill` are prefill.
    Tickets {
        /// Tickets after which the pattern begins again.
        period: u32,
        /// How many of them are prefill.
        prefill: u32,
    },
}

/// One launch of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// What it does.
    pub work: Work,
    /// The stream it is on; 0 is the caller's.
    pub stream: u32,
    /// Launches before it that must be done when it starts, beside those before it on its stream.
    pub after: Vec<u32>,
    /// Starts as soon as each CTA of the launch before it on its stream has started.
    pub programmatic: bool,
    /// Runs on the same SMs as another launch at the same time: prefill whose CTAs leave room for one of decode, or a
    /// queue of decodes that takes that room.
    pub beside: bool,
    /// SMs that a persistent grid is for; all where none.
    pub sms: Option<u32>,
    /// CTAs of [`Work::Packs`] go through all packs with one KV head, or run of them, before the next, instead of through
    /// all heads of a pack.
    pub pack_fastest: bool,
}

impl Launch {
    /// A launch on the caller's stream, after all that is there.
    pub fn new(work: Work) -> Self {
        Self { work, stream: 0, after: Vec::new(), programmatic: false, beside: false, sms: None, pack_fastest: false }
    }
}

/// A whole plan as arrays. Rows of Q and of the output are the queries, then the rows of prefill chunks; slots are those
/// of the queries, then those of the prefill rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanArrays<'a> {
    /// Tiles that the packs use.
    pub tiles: &'a [Tile],
    /// The packs.
    pub packs: &'a [PackTask],
    /// Query numbers of the packs, one run per pack.
    pub query_index: &'a [u32],
    /// KV block numbers of the packs and of the prefill tasks, in runs.
    pub block_ids: &'a [u32],
    /// What the queries of packs see, where not all see all.
    pub masks: &'a [u64],
    /// Where each query's run in `merge_slots` begins; one entry more than there are queries.
    pub merge_offsets: &'a [u32],
    /// Slots of each query, in merge order. Each slot below `num_slots` occurs once, at its own query.
    pub merge_slots: &'a [u32],
    /// Queries of the batch. One without a slot is computed by nobody: a prefill chunk has rows of its own.
    pub num_queries: u32,
    /// Partial slots of queries.
    pub num_slots: u32,
    /// Prefill tasks.
    pub tasks: &'a [PrefillTask],
    /// Rows of prefill chunks.
    pub prefill_rows: u32,
    /// Partial slots of prefill rows.
    pub prefill_slots: u32,
    /// The launches, in the order in which the host queues them.
    pub launches: &'a [Launch],
}

impl PlanArrays<'_> {
    /// Rows of Q and of the output.
    pub fn rows(&self) -> u32 {
        self.num_queries + self.prefill_rows
    }

    /// Places of the trace: one a (pack, KV head), then one a merged row, then one a (prefill task, query head), then one for
    /// each KV head of the queries, which CTAs without tasks may merge.
    pub fn trace_places(&self, shape: &DecodeShape) -> u32 {
        let watched = if self.launches.iter().any(Launch::is_queue) { self.num_queries * shape.kv_heads } else { 0 };
        self.watch_places(shape) + watched
    }

    /// Place of the first record of a merge by a CTA without tasks.
    pub(crate) fn watch_places(&self, shape: &DecodeShape) -> u32 {
        self.merge_places(shape)
            + self.launches.iter().map(Launch::merge_rows).sum::<u32>()
            + self.tasks.len() as u32 * shape.q_heads
    }

    /// Place of the first merge's first record.
    pub(crate) fn merge_places(&self, shape: &DecodeShape) -> u32 {
        self.packs.len() as u32 * shape.kv_heads
    }
}

impl Launch {
    fn is_queue(&self) -> bool {
        matches!(self.work, Work::Queue(_))
    }

    /// Its merge, if it is one.
    pub(crate) fn merge(&self) -> Option<&MergeRows> {
        if let Work::Merge(rows) = &self.work { Some(rows) } else { None }
    }

    /// Rows that it merges.
    pub(crate) fn merge_rows(&self) -> u32 {
        self.merge().map_or(0, |rows| rows.targets.len() as u32)
    }
}
