//! Batches that several tests use.

use engine::pack::schedulers;
use engine::plan::{LaunchPlan, Strategy};
use engine::session::{PlanOptions, Planned, plan_spec};
use engine::workload::{AttentionShape, BatchSpec, Node, NodeSpec, PrefixTree};

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

/// As [`planned`], or `None` where the scheduler rightly refuses. A refusal that [`limit`] does not
/// foresee, and a plan where it foresees one, is a failure.
pub(crate) fn planned_if_allowed(
    spec: &BatchSpec,
    scheduler: &str,
    strategy: Strategy,
    device: &str,
) -> Option<Planned> {
    let device = engine::hw::find(device).unwrap();
    let options = PlanOptions { scheduler: scheduler.to_owned(), strategy, ..PlanOptions::new(device) };
    match (plan_spec(spec, &options), limit(spec, scheduler, strategy, device.sm_count)) {
        (Ok(planned), None) => Some(planned),
        (Err(error @ engine::Error::Unsupported { .. }), Some(says)) if error.to_string().contains(says) => None,
        (other, foreseen) => panic!("{scheduler} {strategy:?}: {:?}, foreseen {foreseen:?}", other.map(|_| "a plan")),
    }
}

/// What a scheduler's refusal of a small batch must say, found without asking the scheduler.
fn limit(spec: &BatchSpec, scheduler: &str, strategy: Strategy, sms: u32) -> Option<&'static str> {
    let batch = spec.build().unwrap();
    let tree = PrefixTree::of(&batch);
    let group = batch.shape.group();
    let one_root = tree.roots.len() == 1;
    let by_depth = |depth: u32| tree.nodes.iter().filter(move |node| node.depth == depth);
    let even = (0..tree.depth()).all(|depth| {
        let mut sizes = by_depth(depth).map(Node::query_count);
        let first = sizes.next();
        sizes.all(|size| Some(size) == first)
    });
    let last = tree.depth().saturating_sub(1);
    let ends_early = tree.nodes.iter().any(|node| node.depth < last && node.ending > 0);
    match scheduler {
        "relay" | "relay-plus-plus" if !one_root => Some("roots"),
        "relay" | "relay-plus-plus" if tree.order.len() == 1 => Some("one request"),
        "hydragen" if !even => Some("one size at each level"),
        "hydragen" if ends_early => Some("some end at level"),
        "hydragen" if tree.depth() < 2 => Some("this batch has none"),
        "relay" | "relay-plus-plus" | "hydragen" if strategy == Strategy::Fused => Some("use serial or streams"),
        "vllm-cascade-rule" if strategy == Strategy::Fused && vllm_takes_cascade(&tree, &batch.shape, sms) => {
            Some("use serial or streams")
        }
        "fasttree" if ![1, 4, 16].contains(&group) => Some("1, 4 and 16 query heads"),
        "pat-released" | "pat-compute" if ![1, 2, 4, 8].contains(&group) => Some("1, 2, 4 and 8 query heads"),
        _ if scheduler.starts_with("flashforge") && batch.shape.head_dim != 128 => Some("head dimension 128"),
        _ => None,
    }
}

/// vLLM's rule, spelled out.
fn vllm_takes_cascade(tree: &PrefixTree, shape: &AttentionShape, sms: u32) -> bool {
    let requests = tree.order.len() as u64;
    let block = u64::from(shape.block_size);
    let [root] = tree.roots.as_slice() else { return false };
    let prefix = tree.node(*root).tokens.0 / block * block;
    if requests < 8 || prefix < 256 {
        return false;
    }
    let (tiles, sms) = (prefix.div_ceil(128), u64::from(sms));
    let cascade = (u64::from(shape.query_heads) * requests.div_ceil(128)).div_ceil(sms) * tiles;
    let decode = (requests * u64::from(shape.kv_heads) * tiles).div_ceil(sms);
    shape.group() == 1 || cascade < decode
}

/// Every scheduler with every strategy that takes decodes alone.
pub(crate) fn all_ways() -> impl Iterator<Item = (&'static str, Strategy)> {
    schedulers().iter().flat_map(|s| Strategy::ANY_BATCH.map(|strategy| (s.name(), strategy)))
}

/// The plan of a published configuration has so many packs and slots, and reads so many KV tokens where that is
/// printed.
pub(crate) fn assert_packs(plan: &LaunchPlan, number: usize, (packs, slots, kv): (usize, usize, Option<u64>)) {
    assert_eq!((plan.packs.len(), plan.queries.len()), (packs, slots), "configuration {number}");
    if let Some(kv) = kv {
        assert_eq!(plan.kv_tokens_read().0, kv, "configuration {number}");
    }
}
