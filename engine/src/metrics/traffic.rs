//! Bytes that a plan moves: as issued by its CTAs, and the least that any plan must move.
//!
//! Formulas of the traffic model: with `kv1` bytes of K and V a token, `q1` a query, `p1` an fp32
//! partial and `o1` an output row over all heads,
//!
//! ```text
//! KV read          Σ packs tokens · kv1
//! Q read           Σ packs queries · q1
//! partials         Σ packs queries · p1 written, and the same read, where any query has two
//! output           B · o1
//!
//! with prescribed merges: a partial written for each slot that a round reads and each row that does
//! not finish, and one read for each slot of each row, each in the form that the round says
//!
//! compulsory       unique tokens · kv1 + B · q1 + B · o1
//! ```
//!
//! Of a prefill chunk of c tokens that ends at KV length K in s splits, with every query head reading
//! for itself,
//!
//! ```text
//! KV read          Hq · Σ row blocks (tokens up to the causal bound of the block) · 2·d·b
//! Q read           s · c · q1            partials  s · c · p1 written, and read, where s > 1
//! output           c · o1                compulsory  K · kv1 + c · q1 + c · o1
//! ```
//!
//! Issued bytes are what the CTAs load; L2 absorbs part of a re-read, so DRAM bytes lie between
//! compulsory and issued. Worked number (32/8, d 128, f16): configuration 9 of PAT reads 16,896
//! tokens × 4,096 B = 69,206,016 B of KV and writes 512 partials × 16,512 B = 8,454,144 B.

use crate::plan::LaunchPlan;
use crate::units::{Bytes, Tokens};
use crate::workload::{Batch, PrefixTree};

/// Bytes by kind, over all heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// K and V loaded by CTAs, re-reads counted.
    pub kv_read: Bytes,
    /// Queries loaded.
    pub q_read: Bytes,
    /// fp32 partials written.
    pub partial_write: Bytes,
    /// fp32 partials read back by the merge.
    pub partial_read: Bytes,
    /// Final outputs written.
    pub output_write: Bytes,
    /// The least any plan moves: unique KV, Q and the output.
    pub compulsory: Bytes,
}

impl Traffic {
    /// All issued bytes.
    pub fn issued(&self) -> Bytes {
        self.kv_read + self.q_read + self.partial_write + self.partial_read + self.output_write
    }

    /// Kinds with their bytes, in the order of tables.
    pub fn kinds(&self) -> [(&'static str, Bytes); 5] {
        [
            ("KV read", self.kv_read),
            ("Q read", self.q_read),
            ("partials written", self.partial_write),
            ("partials read", self.partial_read),
            ("output written", self.output_write),
        ]
    }
}

/// Traffic of a plan.
pub fn traffic(plan: &LaunchPlan, batch: &Batch, tree: &PrefixTree) -> Traffic {
    let shape = &plan.shape;
    let slots = plan.queries.len() as u64;
    let (partial_write, partial_read) = partials(plan);
    let decodes = batch.decodes().count() as u64;
    let outputs = shape.query_bytes() * decodes;
    let prefill = prefill_traffic(plan);
    Traffic {
        kv_read: shape.kv_bytes_per_token() * plan.kv_tokens_read().0 + prefill.kv_read,
        q_read: shape.query_bytes() * slots + prefill.q_read,
        partial_write: partial_write + prefill.partial_write,
        partial_read: partial_read + prefill.partial_read,
        output_write: outputs + prefill.output_write,
        compulsory: shape.kv_bytes_per_token() * tree.unique_tokens().0 + outputs + outputs + prefill.compulsory,
    }
}

/// Traffic of the prefill chunks alone.
fn prefill_traffic(plan: &LaunchPlan) -> Traffic {
    let (shape, prefill) = (&plan.shape, &plan.prefill);
    let rows: u64 = prefill.tasks.iter().map(|task| u64::from(task.rows())).sum();
    let kv: u64 = prefill.chunks.iter().map(|chunk| u64::from(chunk.kv)).sum();
    let partials = shape.partial_bytes() * u64::from(prefill.slots);
    let outputs = shape.query_bytes() * prefill.rows();
    Traffic {
        kv_read: shape.kv_bytes_per_token_head() * (prefill.tokens_read().0 * u64::from(plan.ctas_of_prefill())),
        q_read: shape.query_bytes() * rows,
        partial_write: partials,
        partial_read: partials,
        output_write: outputs,
        compulsory: shape.kv_bytes_per_token() * kv + outputs + outputs,
    }
}

/// Partials written and read back.
fn partials(plan: &LaunchPlan) -> (Bytes, Bytes) {
    let shape = &plan.shape;
    if plan.merge.rounds.is_empty() {
        let some = plan.merge.max_partials() > 1;
        let partial = shape.partial_bytes_as(plan.partial_form());
        let bytes = if some { partial * plan.queries.len() as u64 } else { Bytes::ZERO };
        return (bytes, bytes);
    }
    let mut written: Bytes = plan.slot_forms().into_iter().flatten().map(|form| shape.partial_bytes_as(form)).sum();
    let mut read = Bytes::ZERO;
    for round in &plan.merge.rounds {
        let unfinished = round.finishes.iter().filter(|finishes| !**finishes).count() as u64;
        written += shape.partial_bytes_as(round.writes) * unfinished;
        read += shape.partial_bytes_as(round.reads) * round.slots.len() as u64;
    }
    (written, read)
}

/// What one tree node costs in a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeTraffic {
    /// Tokens of the node, stored once.
    pub tokens: Tokens,
    /// Tokens of the node that CTAs read per KV head, re-reads counted.
    pub tokens_read: Tokens,
}

impl NodeTraffic {
    /// Tokens that are read beyond once each.
    pub fn wasted(&self) -> Tokens {
        self.tokens_read.saturating_sub(self.tokens)
    }

    /// How many times the node is read.
    pub fn redundancy(&self) -> f64 {
        if self.tokens.0 == 0 { 0.0 } else { self.tokens_read.as_f64() / self.tokens.as_f64() }
    }
}

/// Tokens read of each node: a pack reads its node and those above it down from its first block.
pub fn node_traffic(plan: &LaunchPlan, tree: &PrefixTree) -> Vec<NodeTraffic> {
    let mut nodes: Vec<NodeTraffic> =
        tree.nodes.iter().map(|node| NodeTraffic { tokens: node.tokens, tokens_read: Tokens::ZERO }).collect();
    for (pack, reads) in plan.packs.iter().zip(plan.reads_of_packs()) {
        for (node, tokens) in plan.reach(pack, tree) {
            nodes[node.at()].tokens_read += Tokens((tokens.end - tokens.start) * reads);
        }
    }
    nodes
}
