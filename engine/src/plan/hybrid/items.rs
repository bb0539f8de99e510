//! Whose rows an item of packscope's own prefill kernels has: those of a query head, or of all query heads of a KV head.
//!
//! Where chunks are short, the rows of a query head leave most of a tile empty, and every query head of a KV head reads the
//! same KV by itself: chunks of 5 tokens, as a step of speculative decoding has them, fill 5 rows of 128. Folded, an item has
//! the rows of all query heads of a KV head, of as many query tokens as fit. It is taken where all items together take less
//! in that way. Long chunks gain nothing, and lose where the group leaves rows of the tile empty: 4,096 tokens of 40/8 heads
//! take 298 µs folded and 286 not (H200).
//!
//! ```text
//! of a query head   ⌈c / 128⌉ · query heads          folded   ⌈c / ⌊128 / group⌋⌉ · KV heads
//! ```
//!
//! Worked number, a chunk of 16 at 8,192 of 32/8 heads: 32 items of 16 rows, or 8 of 64.

use crate::decision::{Choice, Decision, Price, RuleConstant};
use crate::hw::PrefillResources;
use crate::pack::PackInput;
use crate::plan::hybrid::explain::{decision, timed};
use crate::workload::{Request, RequestKind};

/// Part of the time of items of a query head that folded ones may take. From 0.95 on some take longer (H200).
const FOLDED: f64 = 0.95;

/// Whose rows an item has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Items {
    /// The query heads of a KV head.
    pub(super) folded: bool,
    /// Query tokens of an item.
    pub(super) tokens: u32,
    /// Items of as many.
    pub(super) heads: u32,
}

impl Items {
    /// Those that take less all together.
    pub(super) fn of(input: &PackInput<'_>, prefill: &PrefillResources) -> Self {
        let whole = Self::of_query_heads(input, prefill);
        match Self::of_kv_heads(input, prefill) {
            Some(folded) if folded.all_ns(input, prefill) < FOLDED * whole.all_ns(input, prefill) => folded,
            _ => whole,
        }
    }

    fn of_query_heads(input: &PackInput<'_>, prefill: &PrefillResources) -> Self {
        Self { folded: false, tokens: prefill.m, heads: input.batch.shape.query_heads }
    }

    /// None where a KV head has one query head, or more than an item has rows.
    fn of_kv_heads(input: &PackInput<'_>, prefill: &PrefillResources) -> Option<Self> {
        let shape = &input.batch.shape;
        let tokens = prefill.m / shape.group().max(1);
        (shape.group() > 1 && tokens > 0).then_some(Self { folded: true, tokens, heads: shape.kv_heads })
    }

    /// Items of a chunk.
    pub(super) fn of_chunk(&self, chunk: u64) -> u64 {
        chunk.div_ceil(u64::from(self.tokens)) * u64::from(self.heads)
    }

    /// What those of a chunk take, ns: the causal bound climbs by an item's tokens from one to the next.
    fn chunk_ns(&self, input: &PackInput<'_>, prefill: &PrefillResources, (chunk, kv): (u64, u64)) -> f64 {
        let mean = kv as f64 - (chunk as f64 - f64::from(self.tokens)).max(0.0) / 2.0;
        self.of_chunk(chunk) as f64 * prefill.item_ns(input.device, &input.batch.shape, mean as u64)
    }

    pub(super) fn all_ns(&self, input: &PackInput<'_>, prefill: &PrefillResources) -> f64 {
        let chunks = input.batch.prefills().filter_map(|(_, request)| lengths(request));
        chunks.map(|chunk| self.chunk_ns(input, prefill, chunk)).sum()
    }

    pub(super) fn explain(&self, input: &PackInput<'_>, prefill: &PrefillResources) -> Option<Decision> {
        let folded = Self::of_kv_heads(input, prefill)?;
        let sms = f64::from(input.device.sm_count);
        let way = |what: String, items: &Self| timed(what, Price::one_kernel(items.all_ns(input, prefill) / sms));
        let whole = Self::of_query_heads(input, prefill);
        let considered = vec![
            way(format!("items of {} tokens of a query head", whole.tokens), &whole),
            way(format!("items of {} tokens of all query heads of a KV head", folded.tokens), &folded),
        ];
        let rule = "the query heads of a KV head are rows of one item where all items take less than this part of the time then";
        let constant = RuleConstant::new("part of the time", FOLDED, None);
        Some(decision(Choice::Tile, (considered, usize::from(self.folded)), rule, Some(constant)))
    }
}

/// Query and KV tokens of a prefill chunk.
pub(super) fn lengths(request: &Request) -> Option<(u64, u64)> {
    match request.kind {
        RequestKind::Prefill { chunk } => Some((chunk.0, request.kv.0)),
        RequestKind::Decode => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw;
    use crate::pack::testing::with_input;
    use crate::workload::{AttentionShape, BatchSpec, PrefixTree, RequestSpec};

    /// Of chunks of so many query and KV tokens on an H200.
    fn items(chunks: &[(u64, u64)], (query_heads, kv_heads): (u32, u32)) -> Items {
        let shape = AttentionShape { query_heads, kv_heads, ..AttentionShape::default() };
        let requests = chunks.iter().map(|(chunk, kv)| RequestSpec::Prefill { chunk: *chunk, kv: *kv }).collect();
        let batch = BatchSpec { requests, ..BatchSpec::empty(shape) }.build().unwrap();
        let full = hw::find("h200-sxm").unwrap().prefill_kernel.unwrap().full;
        with_input(&batch, &PrefixTree::of(&batch), ("h200-sxm", None), |input| Items::of(input, &full))
    }

    #[test]
    fn the_worked_number_holds() {
        let of = items(&[(16, 8192)], (32, 8));
        assert_eq!(of, Items { folded: true, tokens: 32, heads: 8 });
        assert_eq!(of.of_chunk(16), 8);
        assert_eq!(Items { folded: false, tokens: 128, heads: 32 }.of_chunk(16), 32);
    }

    #[test]
    fn short_chunks_are_folded_and_long_ones_are_not() {
        for (chunk, heads, folded) in [
            ((64, 8192), (48, 8), true),
            ((5, 300), (16, 2), true),
            ((200, 6000), (32, 8), true),
            ((128, 8192), (32, 8), false),
            ((4096, 4096), (40, 8), false),
            ((1024, 16_384), (96, 8), false),
        ] {
            assert_eq!(items(&[chunk], heads).folded, folded, "{chunk:?} at {heads:?}");
        }
        let mut several = vec![(5, 8000); 4];
        assert!(items(&several, (40, 8)).folded);
        several.push((16_384, 16_384));
        assert!(!items(&several, (40, 8)).folded, "the long one decides");
    }

    #[test]
    fn a_group_of_one_is_not_folded_and_the_largest_is() {
        assert!(!items(&[(5, 8000)], (8, 8)).folded);
        assert_eq!(items(&[(5, 8000)], (64, 1)), Items { folded: true, tokens: 2, heads: 1 });
    }
}
