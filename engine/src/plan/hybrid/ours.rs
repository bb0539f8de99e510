//! Our choice of POD's way and prefill splits: the least time by its bounds, where that is clearly
//! less than that of the released choice.
//!
//! For each way (2 or 4 CTAs an SM, policy) and each number of prefill splits up to POD's two waves:
//!
//! ```text
//! compute    all prefill FLOP at the rate of full SMs
//! memory     all decode KV, prefill partials and one read of the prefill KV at the rate of HBM
//! chain      the CTAs of each prefill lane one after another: ⌈P / (SMs · lanes)⌉ · t
//! waves      the decode CTAs one wave after another, at two tiles a latency each
//! cost       the largest of them, half a prefill CTA where a tail is left, and a merge kernel
//! ```
//!
//! `lanes` is what the tickets give to prefill of an SM's CTAs, at least one, and t the time of one
//! prefill CTA when that many share the tensor cores. Splits make t shorter and P larger, so they
//! pay where the chain bounds, which POD's rule sees only by counting CTAs.
//!
//! Worked number, C0 on the A100 (a chunk of 1,024 at 12,288, 16/4 heads; 80 decodes): compute is
//! 0.49 ms, memory 1.15 ms. Two CTAs an SM and no split: 128 prefill CTAs on 108 SMs are a chain of
//! two of 0.50 ms, 1.0 ms, below the memory, so the memory decides: 1.15 ms and a tail of 0.25 ms.

use crate::hw::Device;
use crate::plan::Strategy;
use crate::plan::hybrid::auto::{PodWay, Question};
use crate::plan::hybrid::{Answer, has_four, kernels, released};
use crate::workload::AttentionShape;

/// What the choice looks at beside POD's question.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work<'a> {
    pub(super) device: &'a Device,
    pub(super) shape: &'a AttentionShape,
    pub(super) question: Question,
    /// (row, KV token) pairs of all chunks, per query head.
    pub(super) pairs: f64,
    /// KV tokens of all decode packs.
    pub(super) decode_tokens: f64,
    /// KV tokens of the decodes, each counted once however many packs read it.
    pub(super) unique_tokens: f64,
    /// KV tokens at the ends of all chunks.
    pub(super) prefill_tokens: f64,
}

/// One way with its estimate, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) answer: Answer,
    pub(super) time: f64,
}

/// What the estimate must promise over the released choice before that is left: the estimate knows
/// bounds, not how CTAs fall on SMs, and is off by a few per cent.
pub(super) const MARGIN: f64 = 0.97;

/// The way with the least estimate, or the released choice where that is nearly as good.
pub(super) fn choose(work: &Work<'_>) -> Estimate {
    // Our own kernel has two.
    let own = kernels::is_own(work.device, work.shape, Strategy::Fused);
    let made = |way: &PodWay| !way.four || (!own && has_four(work.device, work.shape.head_dim));
    let released_way = released(&work.question, None);
    let answer = if made(&released_way.way) { released_way } else { released(&work.question, Some(PodWay::TWO)) };
    let theirs = Estimate { answer, time: estimate(work, &answer) };
    let ways = PodWay::ALL.into_iter().filter(made).map(|way| best_of(work, way));
    let best = ways.min_by(|a, b| a.time.total_cmp(&b.time)).filter(|best| best.time < MARGIN * theirs.time);
    best.unwrap_or(theirs)
}

/// A way with the prefill splits that have the least estimate; of equals the fewest.
pub(super) fn best_of(work: &Work<'_>, way: PodWay) -> Estimate {
    let q = &work.question;
    let decode_splits = released(q, Some(way)).decode_splits;
    let of = |prefill_splits: u32| {
        let answer = Answer { way, prefill_splits, decode_splits };
        Estimate { answer, time: estimate(work, &answer) }
    };
    let mut best = of(1);
    for prefill_splits in 2..=q.prefill_cap() {
        let one = of(prefill_splits);
        if one.time < best.time {
            best = one;
        }
    }
    best
}

/// Estimated time of FlashAttention's prefill kernel alone, ns.
pub(super) fn prefill_alone(work: &Work<'_>, splits: u32) -> f64 {
    let (device, q) = (work.device, &work.question);
    let kernel = kernels::prefill(device, work.shape, splits > 1);
    let ctas = q.prefill_ctas(kernel.prefill_tile.m) * splits;
    let (compute, sms) = (work.compute(), f64::from(device.sm_count));
    // Two CTAs share an SM, so each of a wave takes twice its share.
    let chain = (f64::from(ctas) / (2.0 * sms)).ceil() * 2.0 * compute * sms / f64::from(ctas.max(1));
    compute.max(chain) + if splits > 1 { work.merge() } else { 0.0 }
}

/// Estimated time of the decodes alone, ns: their KV at the rate of HBM, and a launch.
pub(super) fn decode_alone(work: &Work<'_>) -> f64 {
    let bytes = work.decode_tokens * work.shape.kv_bytes_per_token().as_f64();
    bytes / (work.device.reachable_bytes_per_s() * 1e-9) + work.merge()
}

/// Time that no strategy stays below, ns: all products at the rate of the fastest prefill kernel on full SMs, and each KV once
/// at that of HBM.
pub(super) fn bound(work: &Work<'_>) -> f64 {
    let fastest = work.device.sim.prefill_efficiency / work.device.best_prefill_efficiency();
    (work.compute() * fastest).max(work.memory(work.unique_tokens, 0.0))
}

impl Work<'_> {
    /// So much decode KV, one read of the prefill KV and `partials` bytes at the rate of HBM, ns.
    fn memory(&self, decode_tokens: f64, partials: f64) -> f64 {
        let kv = (decode_tokens + self.prefill_tokens) * self.shape.kv_bytes_per_token().as_f64();
        (kv + partials) / (self.device.reachable_bytes_per_s() * 1e-9)
    }

    /// All prefill FLOP at the rate of full SMs, ns.
    fn compute(&self) -> f64 {
        let flop = 4.0 * f64::from(self.shape.head_dim) * self.pairs * f64::from(self.shape.query_heads);
        flop / (self.device.tensor_flops as f64 * self.device.sim.prefill_efficiency * 1e-9)
    }

    /// What one more kernel costs, ns.
    fn merge(&self) -> f64 {
        (self.device.sim.kernel_gap + self.device.sim.cta_prologue).as_f64()
    }
}

/// Estimated time of an answer, ns.
pub(super) fn estimate(work: &Work<'_>, answer: &Answer) -> f64 {
    let (device, shape, q) = (work.device, work.shape, &work.question);
    let split = (answer.prefill_splits > 1, answer.decode_splits > 1);
    let kernel = kernels::pod(device, shape, answer.way.four, split);
    let (sms, compute) = (f64::from(device.sm_count), work.compute());
    let rows = f64::from(q.rows * q.chunks);
    let partials = if split.0 { 2.0 * f64::from(answer.prefill_splits) * rows } else { 0.0 };
    let memory = work.memory(work.decode_tokens, partials * shape.partial_bytes().as_f64());
    let ctas = q.prefill_ctas(kernel.prefill_tile.m) * answer.prefill_splits;
    let slots = (q.decode_ctas() * answer.decode_splits).div_ceil(kernel.decodes_per_cta);
    let tickets = answer.way.policy.tickets(ctas, slots);
    let per_sm = if answer.way.four && !(split.0 || split.1) { 4.0 } else { 2.0 };
    let lanes = (per_sm * f64::from(tickets.prefill) / f64::from(tickets.period)).round().clamp(1.0, per_sm);
    // Time of one CTA: of its own quarters of an SM, or of its share of a full one.
    let share = compute * sms / f64::from(ctas.max(1));
    let alone = share * 4.0 / f64::from(kernel.prefill_warps);
    let one = alone.max(share * lanes);
    let chain = (f64::from(ctas) / (sms * lanes)).ceil() * one;
    let tile = shape.head_bytes() * u64::from(kernel.decode_tile.n);
    let steps = (f64::from(q.decode_kv) / f64::from(answer.decode_splits * kernel.decode_tile.n)).ceil();
    let waves = (f64::from(slots) / (sms * per_sm)).ceil() * 2.0 * steps * device.tile_latency(tile.as_f64());
    let merge = if split.0 || split.1 { work.merge() } else { 0.0 };
    let longest = compute.max(memory).max(waves).max(chain);
    // Where something else bounds, prefill ends inside it.
    let tail = if longest > chain { (chain + one / 2.0 - longest).max(0.0) } else { one / 2.0 };
    longest + tail + merge
}
