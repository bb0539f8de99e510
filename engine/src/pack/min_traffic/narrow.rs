//! Packs of few tokens in narrower tiles.
//!
//! The search fills the tallest tile, since a reading saved is a byte saved. Of a short run of KV that is not what costs: a
//! CTA begins and ends once whatever it reads, and the flattest tile takes four KV heads in one CTA. So a pack is cut by
//! queries where its CTAs then take less of the lanes, the further readings from L2 included.
//!
//! Worked number, H200 at 32/8, two lanes an SM, 8 queries over 32 tokens: 8 CTAs of 32×64, one a KV head, take 8 · 3.9 µs
//! of a lane, 15.6 µs of an SM; two times two CTAs of 16×16 for four heads each 4 · 4.25 and so 8.5 µs, and 128 KiB that L2
//! gives once more 8 ns of all SMs, 1 µs of one. In a trace of configuration 12 the former take 5.2 µs each and those of
//! configuration 13, which has such, 5.5.

use crate::pack::min_traffic::lanes::lane_time;
use crate::pack::splits::push_rows;
use crate::pack::{Pack, PackInput, Packing};

/// What cutting must save of a pack's time. The closed form tells times of CTAs within a tenth.
const SAVES: f64 = 0.9;

/// The packing with packs cut by queries where that takes less of the lanes; `None` where it is so nowhere.
pub(super) fn narrowed(input: &PackInput<'_>, packing: &Packing) -> Option<Packing> {
    let cost = Costs::of(input);
    let cuts: Vec<u32> = packing.packs.iter().map(|pack| cost.best_cut(pack)).collect();
    if cuts.iter().all(|pieces| *pieces == 1) {
        return None;
    }
    let mut packs = Vec::with_capacity(packing.packs.len());
    for (pack, pieces) in packing.packs.iter().zip(&cuts) {
        push_rows(&mut packs, *pack, pack.queries_len.div_ceil(*pieces));
    }
    Some(Packing { packs, ..packing.clone() })
}

/// Prices packs by the time that they take of all SMs, ns times SMs.
struct Costs<'a> {
    input: &'a PackInput<'a>,
    /// Most queries of a pack of the flattest tile.
    narrow: u32,
    /// Of one KV token that L2 gives once more.
    l2_token: f64,
}

impl<'a> Costs<'a> {
    fn of(input: &'a PackInput<'a>) -> Self {
        let shape = &input.batch.shape;
        let flattest = input.tiles.feasible().iter().map(|tile| tile.m).min().unwrap_or(16);
        let l2 = input.device.sim.l2_bytes_per_s as f64 * 1e-9;
        Self {
            input,
            narrow: (flattest / shape.group()).max(1),
            l2_token: shape.kv_bytes_per_token().as_f64() / l2 * f64::from(input.device.sm_count),
        }
    }

    /// Into how many packs to cut one.
    fn best_cut(&self, pack: &Pack) -> u32 {
        let pieces = pack.queries_len.div_ceil(self.narrow);
        let narrow = Pack { queries_len: pack.queries_len.div_ceil(pieces.max(1)), ..*pack };
        let cheaper = || self.cost(&narrow, pieces) < SAVES * self.cost(pack, 1);
        if pieces > 1 && cheaper() { pieces } else { 1 }
    }

    /// Of `pieces` like packs over the same KV.
    fn cost(&self, pack: &Pack, pieces: u32) -> f64 {
        let time = lane_time(self.input, pack, false);
        let tokens = pack.tokens.as_f64();
        let ctas = f64::from(pieces * self.input.batch.shape.kv_heads.div_ceil(time.heads));
        let lanes = ctas * time.cta(tokens, time.per_sm) / time.per_sm;
        lanes + f64::from(pieces - 1) * tokens * self.l2_token
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pack::coverage;
    use crate::pack::min_traffic::{price, searched};
    use crate::pack::testing::with_input;
    use crate::workload::{AttentionShape, Batch, BatchSpec, NodeSpec, PrefixTree};

    /// What [`narrowed`] makes of the packing of fewest bytes: packs of `tokens` tokens before and after, with the most
    /// queries of one, and what all packs cost.
    struct Narrowed {
        before: (usize, u32),
        after: (usize, u32),
        costs: [f64; 2],
    }

    /// `nodes` nodes of `tokens` tokens, each with `queries` requests of 64 tokens more.
    fn narrow(nodes: u32, tokens: u64, queries: u32, shape: AttentionShape) -> Narrowed {
        let ends = NodeSpec { repeat: queries, ..NodeSpec::leaf(64) };
        let root = NodeSpec { tokens, repeat: nodes, requests: None, children: vec![ends] };
        let batch: Batch = BatchSpec { roots: vec![root], ..BatchSpec::empty(shape) }.build().unwrap();
        with_input(&batch, &PrefixTree::of(&batch), ("h200-sxm", None), |input| {
            let whole = searched(input, price(input), &[]).0;
            let cut = narrowed(input, &whole).unwrap_or_else(|| whole.clone());
            coverage(&batch, &cut).unwrap();
            let cost = Costs::of(input);
            let shared = |packing: &Packing| {
                let packs = packing.packs.iter().filter(|pack| pack.tokens.0 == tokens);
                packs.fold((0, 0), |(count, most), pack| (count + 1, most.max(pack.queries_len)))
            };
            let costs = [&whole, &cut].map(|packing| packing.packs.iter().map(|pack| cost.cost(pack, 1)).sum());
            Narrowed { before: shared(&whole), after: shared(&cut), costs }
        })
    }

    #[test]
    fn short_packs_of_eight_queries_become_two_of_four_heads_together() {
        let short = narrow(128, 32, 8, AttentionShape::default());
        assert_eq!((short.before, short.after), ((128, 8), (256, 4)));
        let long = narrow(128, 2048, 8, AttentionShape::default());
        assert_eq!((long.before, long.after), ((128, 8), (128, 8)), "of a long pack a reading costs more");
    }

    proptest! {
        #[test]
        fn what_is_cut_costs_less_and_computes_the_same(
            nodes in 1_u32..6,
            blocks in 1_u64..20,
            queries in 1_u32..70,
            (group, kv_heads) in prop::sample::select(vec![(1, 32), (4, 8), (5, 8), (8, 1), (16, 4)]),
        ) {
            let shape = AttentionShape { query_heads: group * kv_heads, kv_heads, ..AttentionShape::default() };
            let found = narrow(nodes, blocks * 32, queries, shape);
            prop_assert!(found.costs[1] <= found.costs[0]);
        }
    }
}
