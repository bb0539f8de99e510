//! Random batches: ragged forests with partly filled blocks.

use engine::workload::{AttentionShape, BatchSpec, Dtype, NodeSpec, RequestSpec};
use proptest::prelude::*;

/// A ragged tree: unequal depth and length, requests that end at inner nodes, partly filled leaves.
fn node(depth: u32, block: u64) -> BoxedStrategy<NodeSpec> {
    let leaf = (1_u64..90, 1_u32..3).prop_map(|(tokens, repeat)| NodeSpec { repeat, ..NodeSpec::leaf(tokens) });
    if depth == 0 {
        return leaf.boxed();
    }
    let inner = (1_u64..6, 0_u32..3, prop::collection::vec(node(depth - 1, block), 1..4)).prop_map(
        move |(blocks, ending, children)| NodeSpec {
            tokens: block * blocks,
            repeat: 1,
            requests: Some(ending),
            children,
        },
    );
    prop_oneof![1 => leaf, 2 => inner].boxed()
}

fn shape(block_size: u32) -> impl Strategy<Value = AttentionShape> {
    let usual = prop::sample::select(vec![(1, 1), (2, 2), (2, 1), (4, 1), (4, 2), (8, 1), (10, 2), (7, 1), (16, 1)]);
    let heads = prop_oneof![3 => usual, 1 => (1_u32..=AttentionShape::LARGEST_GROUP).prop_map(|group| (group, 1))];
    let dtype = prop::sample::select(vec![Dtype::F16, Dtype::Bf16]);
    (heads, dtype, prop::sample::select(AttentionShape::HEAD_DIMS.to_vec())).prop_map(
        move |((query_heads, kv_heads), dtype, head_dim)| AttentionShape {
            query_heads,
            kv_heads,
            head_dim,
            dtype,
            block_size,
        },
    )
}

/// A forest with requests beside it, in blocks of `block_size` tokens.
pub(crate) fn forest(block_size: u32) -> impl Strategy<Value = BatchSpec> {
    let beside =
        prop::collection::vec((1_u64..200, 1_u32..3).prop_map(|(kv, count)| RequestSpec::Decode { kv, count }), 0..2);
    (shape(block_size), prop::collection::vec(node(3, u64::from(block_size)), 1..4), beside)
        .prop_map(|(shape, roots, requests)| BatchSpec { roots, requests, ..BatchSpec::empty(shape) })
}
