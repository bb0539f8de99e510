//! FlashDecoding: one request a pack, split along the KV when the batch alone does not fill the GPU.

use crate::decision::{Choice, Considered, Decision, Price, RuleConstant, Subject};
use crate::error::Result;
use crate::pack::splits::{Waves, push_pieces};
use crate::pack::{Pack, PackInput, Packing, Scheduler};
use crate::tile::{self, Tile, TileRule};
use crate::units::{NodeIdx, Tokens};

/// Rows and KV tokens of FlashAttention's decode tile at head dimension 128.
pub(super) const TILE: Tile = Tile { m: 64, n: 128 };
/// No more splits than this.
const MOST_SPLITS: u32 = 128;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueryCentric;

impl Scheduler for QueryCentric {
    fn shares(&self) -> bool {
        false
    }

    fn name(&self) -> &'static str {
        "query-centric"
    }

    fn about(&self) -> &'static str {
        "FlashDecoding: every request reads its whole KV alone, split by FlashAttention's wave heuristic; shared prefixes are read again by each, and one request more can change the splits of all."
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
            packing.decisions.push(explain(input, &question, splits));
        }
        let piece_blocks = piece_blocks(&question, splits, shape.block_size);
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
pub(super) fn leaf_of_each_request(input: &PackInput<'_>) -> Vec<NodeIdx> {
    let mut leaves = vec![NodeIdx(0); input.batch.requests().len()];
    for (position, node) in input.tree.nodes.iter().enumerate() {
        let node_idx = NodeIdx::from(position);
        for query in &input.tree.queries(node_idx)[..node.ending as usize] {
            leaves[query.at()] = node_idx;
        }
    }
    leaves
}

/// Blocks of one of `splits` pieces of the longest request: whole steps of the heuristic.
pub(super) fn piece_blocks(question: &SplitQuestion, splits: u32, block_size: u32) -> u32 {
    let step = u64::from(tokens_per_step(question.head_dim));
    let tokens = question.longest_kv.div_ceil(step).div_ceil(u64::from(splits)) * step;
    tokens.div_ceil(u64::from(block_size)) as u32
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

/// FlashAttention 2's number of KV splits for two CTAs an SM, by [`Waves`].
///
/// Worked number: one request, 8 KV heads, 4,096 tokens, 108 SMs: 8 CTAs of a budget of 216, 32
/// blocks, so 16 splits.
pub(crate) fn split_count(q: &SplitQuestion) -> u32 {
    q.waves().count()
}

/// The constant that decided, and its nearest value beyond which the number of splits is another.
pub(crate) fn split_constant(q: &SplitQuestion) -> RuleConstant {
    q.waves().constant()
}

impl SplitQuestion {
    /// What the wave rule looks at, with blocks of 64 rows and two CTAs an SM.
    fn waves(&self) -> Waves {
        let lanes = 2 * self.sm_count;
        let blocks = self.longest_kv.div_ceil(u64::from(tokens_per_step(self.head_dim))) as u32;
        let ctas = self.requests * self.kv_heads * self.rows.div_ceil(64);
        Waves { ctas, lanes, blocks, cap: MOST_SPLITS.min(lanes).min(blocks).max(1) }
    }
}

fn explain(input: &PackInput<'_>, q: &SplitQuestion, splits: u32) -> Decision {
    let base = f64::from(q.requests * q.kv_heads);
    let budget = f64::from(2 * q.sm_count);
    let whole = tile::pack_time(input.device, TILE, q.head_dim, input.batch.shape.dtype, Tokens(q.longest_kv));
    // A wave takes as long as its longest CTA; the smallest numbers and the one that was taken are told.
    let way = |count: u32| {
        let waves = (base * f64::from(count) / budget).ceil() / f64::from(count);
        Considered::new(format!("{count} splits"), waves, Price::one_kernel(waves * whole))
    };
    let mut considered = vec![1, 2, 4, 8, splits];
    considered.sort_unstable();
    considered.dedup();
    Decision {
        subject: Subject::Plan,
        other: None,
        choice: Choice::Split,
        considered: considered.iter().map(|count| way(*count)).collect(),
        chosen: considered.iter().position(|count| *count == splits).unwrap_or(0),
        unit: "waves of unsplit CTAs".into(),
        rule: "the fewest splits within 85 % of the best wave efficiency, none from 80 % of two CTAs an SM (FlashAttention 2)".into(),
        constant: Some(split_constant(q)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_splits_flips_where_the_record_says() {
        let mut told = 0;
        for (requests, longest_kv, sm_count) in [1, 2, 4, 8, 16, 26, 32]
            .into_iter()
            .flat_map(|r| [1024, 4096, 16384, 131_072].map(|kv| (r, kv, 108 + r % 3 * 12)))
        {
            let q = SplitQuestion { requests, kv_heads: 8, rows: 4, longest_kv, head_dim: 128, sm_count };
            let constant = split_constant(&q);
            let Some(flip) = constant.flips_at else { continue };
            told += 1;
            let with = |value| {
                let (full, kept) =
                    if constant.value == Waves::FULL { (value, Waves::KEPT) } else { (Waves::FULL, value) };
                q.waves().count_within(full, kept)
            };
            let beyond = if flip > constant.value { flip * (1.0 + 1e-9) } else { flip * (1.0 - 1e-9) };
            let before = f64::midpoint(flip, constant.value);
            assert_eq!(with(before), split_count(&q), "{q:?}, {constant:?}");
            assert_ne!(with(beyond), split_count(&q), "{q:?}, {constant:?}");
        }
        assert!(told > 10, "only {told} of the questions flip");
    }

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
