//! FlashDecoding: one request a pack, split along the KV when the batch alone does not fill the GPU.

use crate::decision::{Considered, Decision, RuleConstant, Subject};
use crate::error::Result;
use crate::pack::splits::push_pieces;
use crate::pack::{Pack, PackInput, Packing, Scheduler};
use crate::tile::{Tile, TileRule};
use crate::units::NodeIdx;

/// Rows and KV tokens of FlashAttention's decode tile at head dimension 128.
const TILE: Tile = Tile { m: 64, n: 128 };
/// No more splits than this.
const MOST_SPLITS: u32 = 128;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueryCentric;

impl Scheduler for QueryCentric {
    fn name(&self) -> &'static str {
        "query-centric"
    }

    fn about(&self) -> &'static str {
        "FlashDecoding: every request reads its whole KV alone, split by FlashAttention's wave heuristic; shared prefixes are read again by each."
    }

    fn tile_rule(&self) -> TileRule {
        TileRule::Fixed(TILE)
    }

    fn pack(&self, input: &PackInput<'_>) -> Result<Packing> {
        let mut packing = Packing::default();
        let shape = &input.batch.shape;
        let Some(longest) = input.batch.decodes().map(|(_, request)| request.kv.0).max() else {
            return Ok(packing);
        };
        let question = SplitQuestion {
            requests: input.batch.decodes().count() as u32,
            kv_heads: shape.kv_heads,
            rows: shape.group(),
            longest_kv: longest,
            head_dim: shape.head_dim,
            sm_count: input.device.sm_count,
        };
        let splits = split_count(&question);
        if input.explain {
            packing.decisions.push(explain(&question, splits));
        }
        let tile_tokens = u64::from(tokens_per_step(shape.head_dim));
        let piece_tokens = longest.div_ceil(tile_tokens).div_ceil(u64::from(splits)) * tile_tokens;
        let piece_blocks = piece_tokens.div_ceil(u64::from(shape.block_size)) as u32;
        let leaves = leaf_of_each_request(input);
        for (query, request) in input.batch.decodes() {
            let queries_begin = packing.queries.len() as u32;
            packing.queries.push(query);
            let whole = Pack {
                node: leaves[query.at()],
                queries_begin,
                queries_len: 1,
                blocks_begin: 0,
                blocks_end: input.batch.tables().row(query).len() as u32,
                tokens: request.kv,
            };
            push_pieces(&mut packing.packs, whole, piece_blocks, shape.block_size);
        }
        Ok(packing)
    }
}

/// The node where each request ends, by request.
fn leaf_of_each_request(input: &PackInput<'_>) -> Vec<NodeIdx> {
    let mut leaves = vec![NodeIdx(0); input.batch.requests().len()];
    for (position, node) in input.tree.nodes.iter().enumerate() {
        let node_idx = NodeIdx::from(position);
        for query in &input.tree.queries(node_idx)[..node.ending as usize] {
            leaves[query.at()] = node_idx;
        }
    }
    leaves
}

/// What the split heuristic looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitQuestion {
    pub(crate) requests: u32,
    pub(crate) kv_heads: u32,
    pub(crate) rows: u32,
    /// The longest request decides for all; short ones get fewer pieces.
    pub(crate) longest_kv: u64,
    pub(crate) head_dim: u32,
    pub(crate) sm_count: u32,
}

/// KV tokens of one block of the heuristic.
fn tokens_per_step(head_dim: u32) -> u32 {
    match head_dim {
        0..=64 => 256,
        65..=128 => 128,
        _ => 64,
    }
}

/// FlashAttention 2's number of KV splits: the smallest with at least 85 % of the best wave
/// efficiency, one if the batch already fills 80 % of two CTAs an SM.
///
/// Worked number: one request, 8 KV heads, 4,096 tokens, 108 SMs: budget 216, 8 CTAs unsplit,
/// 32 blocks; 16 splits give 128 CTAs, 59 % of a wave, and no eligible number of at most 32 gets
/// past 118 % of that, so 16.
pub(crate) fn split_count(q: &SplitQuestion) -> u32 {
    let base = q.requests * q.kv_heads * q.rows.div_ceil(64);
    let budget = 2 * q.sm_count;
    if f64::from(base) >= 0.8 * f64::from(budget) {
        return 1;
    }
    let blocks = q.longest_kv.div_ceil(u64::from(tokens_per_step(q.head_dim))) as u32;
    let cap = MOST_SPLITS.min(budget).min(blocks).max(1);
    let eligible = |s: u32| s == 1 || blocks.div_ceil(s) != blocks.div_ceil(s - 1);
    let efficiency = |s: u32| {
        let waves = f64::from(base * s) / f64::from(budget);
        waves / waves.ceil()
    };
    let best = (1..=cap).filter(|s| eligible(*s)).map(efficiency).fold(0.0, f64::max);
    (1..=cap).find(|s| eligible(*s) && efficiency(*s) >= 0.85 * best).unwrap_or(1)
}

fn explain(q: &SplitQuestion, splits: u32) -> Decision {
    let base = f64::from(q.requests * q.kv_heads);
    let budget = f64::from(2 * q.sm_count);
    Decision {
        subject: Subject::Plan,
        other: None,
        considered: [
            Considered { what: "split the KV", cost: (base * f64::from(splits) / budget).ceil() / f64::from(splits) },
            Considered { what: "one split", cost: (base / budget).ceil() },
        ],
        chosen: u8::from(splits == 1),
        unit: "waves of unsplit CTAs",
        rule: "the fewest splits within 85 % of the best wave efficiency, none from 80 % of two CTAs an SM (FlashAttention 2)",
        constant: Some(RuleConstant { name: "splits", value: f64::from(splits), flips_at: None }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits for KV 1K, 4K, 16K and 128K on 108 and on 132 SMs, 8 KV heads, group 4, d 128.
    #[test]
    fn split_counts_are_those_of_flash_attention() {
        let vectors: [(u32, [u32; 4], [u32; 4]); 7] = [
            (1, [8, 16, 26, 23], [8, 32, 32, 28]),
            (2, [8, 11, 12, 12], [8, 16, 15, 14]),
            (4, [4, 6, 6, 6], [8, 7, 7, 7]),
            (8, [3, 3, 3, 3], [4, 4, 4, 4]),
            (16, [3, 3, 3, 3], [2, 2, 2, 2]),
            (26, [1, 1, 1, 1], [1, 5, 5, 5]),
            (32, [1, 1, 1, 1], [1, 1, 1, 1]),
        ];
        for (requests, on_108, on_132) in vectors {
            for (sm_count, expected) in [(108, on_108), (132, on_132)] {
                let got = [1024, 4096, 16384, 131072].map(|longest_kv| {
                    split_count(&SplitQuestion { requests, kv_heads: 8, rows: 4, longest_kv, head_dim: 128, sm_count })
                });
                assert_eq!(got, expected, "{requests} requests on {sm_count} SMs");
            }
        }
    }
}
