//! Batches that several tests use.

use engine::pack::schedulers;
use engine::plan::Strategy;
use engine::session::{PlanOptions, Planned, plan_spec};
use engine::workload::{AttentionShape, BatchSpec, NodeSpec};

/// PAT's Figure 10: nodes per level and tokens per node, the last level being the batch.
pub(crate) const FIGURE_10: [(&[u32], &[u64]); 20] = [
    (&[1, 10], &[4096, 416]),
    (&[1, 256], &[256, 32]),
    (&[1, 1024], &[2048, 32]),
    (&[1, 2, 64], &[1024, 256, 256]),
    (&[1, 4, 256], &[32, 256, 32]),
    (&[1, 8, 512], &[32, 512, 256]),
    (&[1, 8, 512], &[32, 2048, 256]),
    (&[1, 8, 512], &[512, 512, 256]),
    (&[1, 4, 8, 256], &[32, 256, 256, 32]),
    (&[1, 4, 16, 512], &[1024, 256, 128, 32]),
    (&[1, 4, 16, 64, 256, 1024], &[256, 32, 256, 64, 32, 256]),
    (&[1, 16, 32, 64, 128, 1024], &[256, 128, 64, 32, 32, 32]),
    (&[1, 16, 32, 64, 256, 1024], &[256, 128, 64, 32, 32, 32]),
    (&[1, 8, 16, 32, 64, 128, 1024], &[256, 128, 64, 32, 32, 32, 32]),
    (&[1, 8, 16, 32, 64, 256, 1024], &[256, 128, 64, 32, 32, 32, 32]),
    (&[2, 8, 16, 256], &[256, 256, 32, 32]),
    (&[4, 16, 256, 512], &[512, 32, 128, 32]),
    (&[8, 16, 32, 256], &[512, 512, 256, 32]),
    (&[256], &[1024]),
    (&[256], &[4096]),
];

/// A uniform tree: `nodes[k]` nodes of `tokens[k]` tokens at level k.
pub(crate) fn uniform(nodes: &[u32], tokens: &[u64], shape: AttentionShape) -> BatchSpec {
    let mut children = Vec::new();
    for level in (0..nodes.len()).rev() {
        let repeat = if level == 0 { nodes[0] } else { nodes[level] / nodes[level - 1] };
        children = vec![NodeSpec { tokens: tokens[level], repeat, requests: None, children }];
    }
    BatchSpec { roots: children, ..BatchSpec::empty(shape) }
}

/// Configuration `number` (from 1) of Figure 10.
pub(crate) fn figure_10(number: usize, query_heads: u32, kv_heads: u32) -> BatchSpec {
    let (nodes, tokens) = FIGURE_10[number - 1];
    uniform(nodes, tokens, AttentionShape { query_heads, kv_heads, ..AttentionShape::default() })
}

/// The same tree with at most `cap` nodes a level and at most two blocks a node.
pub(crate) fn figure_10_small(number: usize, shape: AttentionShape) -> BatchSpec {
    let (nodes, tokens) = FIGURE_10[number - 1];
    let mut small: Vec<u32> = Vec::new();
    for (level, count) in nodes.iter().enumerate() {
        let above = if level == 0 { 1 } else { small[level - 1] };
        let fan = if level == 0 { *count } else { count / nodes[level - 1] };
        small.push(above * fan.min(if level + 1 == nodes.len() { 6 } else { 2 }));
    }
    let block = u64::from(shape.block_size);
    let tokens: Vec<u64> = tokens.iter().map(|t| block * (1 + t / 512)).collect();
    uniform(&small, &tokens, shape)
}

/// Plans with one scheduler and strategy on a device.
pub(crate) fn planned(spec: &BatchSpec, scheduler: &str, strategy: Strategy, device: &str) -> Planned {
    let device = engine::hw::find(device).unwrap();
    let options = PlanOptions { scheduler: scheduler.to_owned(), strategy, ..PlanOptions::new(device) };
    plan_spec(spec, &options).unwrap()
}

/// Every scheduler with every strategy.
pub(crate) fn all_ways() -> impl Iterator<Item = (&'static str, Strategy)> {
    schedulers().iter().flat_map(|s| Strategy::ALL.map(|strategy| (s.name(), strategy)))
}
