//! Kernels that compute prefill, alone or together with decode, as plain data.
//!
//! ```text
//! Static    CTA i: prefill i while there is one, then decode                  (CTA-parallel)
//! Paired    CTA i: prefill i in some warps and decode i in others             (warp-parallel, HFuse)
//! Tickets   a CTA asks, once it is on an SM, what the SM's next ticket says   (SM-aware, POD)
//! Queue     persistent CTAs take prefill and decode items, the longest first  (one kernel for all rows)
//! ```
//!
//! A queue's prefill tasks may be folded: computed once a KV head, with its query heads as rows.
//!
//! CTA indices of `Static`, `Tickets` and queues number the work, not the order of dispatch: first all
//! prefill CTAs, head by head, then decode CTAs. Which SM computes which is for the run to say.

use serde::{Deserialize, Serialize};

use crate::plan::LaunchKind;
use crate::tile::CtaShape;
use crate::workload::AttentionShape;

/// A launch that computes prefill tasks alone: one CTA, or one item of a persistent grid, a (task, query head), or a
/// (task, KV head) where they are folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefillKernel {
    /// First of its tasks.
    pub tasks_begin: u32,
    /// Past the last one.
    pub tasks_end: u32,
    /// What a CTA takes of an SM.
    pub cta: CtaShape,
}

/// A launch that computes prefill tasks and the decode packs of its launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HybridKernel {
    /// First of its prefill tasks.
    pub tasks_begin: u32,
    /// Past the last one.
    pub tasks_end: u32,
    /// What a CTA takes of an SM, whatever it computes.
    pub cta: CtaShape,
    /// Warps that compute prefill in a CTA that does.
    pub prefill_warps: u32,
    /// Decode (pack, KV head) pairs that one CTA computes side by side: virtual CTAs of a warp each.
    pub decodes_per_cta: u32,
    /// How CTAs get their work.
    pub dispatch: Dispatch,
}

/// How the CTAs of a hybrid kernel get their work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dispatch {
    /// By the index of the CTA: prefill first, then decode.
    Static,
    /// CTA i has prefill CTA i and decode CTA i, while there are such; it ends with the later one.
    Paired,
    /// By a ticket of the SM that the CTA finds itself on.
    Tickets(Tickets),
    /// From one queue of all items: a persistent grid, for which decodes are short prefill items. In the
    /// order of [`crate::plan::LaunchPlan::ctas`].
    Queue,
    /// The same, with folded prefill tasks.
    FoldedQueue,
}

impl Dispatch {
    /// Whether CTAs take their work from one queue of all items.
    pub fn is_queue(self) -> bool {
        matches!(self, Self::Queue | Self::FoldedQueue)
    }
}

/// What an SM's tickets say: of each `period` tickets the first `prefill` are prefill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tickets {
    /// Tickets after which the pattern begins again.
    pub period: u32,
    /// How many of them, from the first, are prefill.
    pub prefill: u32,
}

impl Tickets {
    /// Whether ticket number `ticket` of an SM is prefill. Where that operation has no CTA left,
    /// the CTA takes the other.
    pub fn is_prefill(self, ticket: u32) -> bool {
        ticket % self.period.max(1) < self.prefill
    }
}

impl HybridKernel {
    /// Prefill CTAs: one a (task, query head), or (task, KV head) where tasks are folded.
    pub fn prefill_ctas(&self, shape: &AttentionShape) -> u32 {
        (self.tasks_end - self.tasks_begin) * LaunchKind::Hybrid(*self).prefill_heads(shape)
    }

    /// CTAs that host `decodes` (pack, KV head) pairs.
    pub fn decode_slots(&self, decodes: u32) -> u32 {
        decodes.div_ceil(self.decodes_per_cta.max(1))
    }

    /// CTAs in all.
    pub fn grid(&self, shape: &AttentionShape, decodes: u32) -> u32 {
        let (prefill, decode) = (self.prefill_ctas(shape), self.decode_slots(decodes));
        if self.dispatch == Dispatch::Paired { prefill.max(decode) } else { prefill + decode }
    }
}
