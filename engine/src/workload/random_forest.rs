//! Random decode batches by seed and number: the heads of models that people serve, over trees that nobody tuned for.
//!
//! | what | drawn |
//! |---|---|
//! | kind | half forests of 1 to 6 levels; else nothing shared, one long request among short ones, or tiny |
//! | requests | 1 to 4,096; tiny: 1 to 8 |
//! | a node's KV tokens | 1 to 16,384, tiny to 512; whole blocks where it has children, which are unequal |
//! | requests at inner nodes | some end there |
//! | the long request | 16,384 to 1,048,576 tokens, the others 16 to 2,048 |
//! | heads, head dimension | those of [`HEADS`] |
//! | element type, block | f16 or bf16; 16, 32, 64, 128 or 256 tokens |
//!
//! Numbers of requests and tokens are drawn log-uniformly. A batch of more than 8 M KV tokens, or of more bytes than a
//! GPU of 80 GB holds, is halved until it fits. The same seed and number give the same batch on every machine.

use rand::Rng as _;
use rand::rngs::StdRng;

use crate::workload::random::{MOST_BYTES, bytes, halve, log_uniform, seeded, unique_tokens};
use crate::workload::{AttentionShape, BatchSpec, Dtype, NodeSpec, RequestSpec};

/// Query heads, KV heads and head dimension, as models have them or a GPU of several that share one.
const HEADS: [(u32, u32, u32); 20] = [
    (32, 32, 128),
    (32, 8, 128),
    (64, 8, 128),
    (64, 4, 128),
    (40, 8, 128),
    (28, 4, 128),
    (24, 8, 128),
    (48, 8, 128),
    (16, 16, 128),
    (16, 8, 128),
    (16, 2, 128),
    (16, 1, 128),
    (12, 2, 128),
    (8, 8, 128),
    (8, 1, 128),
    (32, 2, 128),
    (96, 8, 128),
    (64, 8, 64),
    (32, 8, 64),
    (14, 2, 64),
];

const MOST_REQUESTS: u64 = 4096;
const MOST_TOKENS: u64 = 8 << 20;
const MOST_LEVELS: u32 = 6;

/// Decode batch `number` of a seed.
pub fn random_forest(seed: u64, number: u32) -> BatchSpec {
    let random = &mut seeded(seed, number);
    let (query_heads, kv_heads, head_dim) = HEADS[random.random_range(0..HEADS.len())];
    let dtype = if random.random_bool(0.5) { Dtype::F16 } else { Dtype::Bf16 };
    let block_size = 16 << random.random_range(0..5);
    let mut spec = BatchSpec::empty(AttentionShape { query_heads, kv_heads, head_dim, dtype, block_size });
    let kind = match random.random_range(0..6) {
        0 => {
            spec.requests = alone(random);
            "nothing shared"
        }
        1 => {
            spec.requests = one_long(random);
            "one long"
        }
        2 => {
            spec.roots = forest(random, block_size, (8, 512));
            "tiny"
        }
        _ => {
            spec.roots = forest(random, block_size, (MOST_REQUESTS, 16_384));
            "forest"
        }
    };
    spec.name = format!("random {kind} {seed}:{number}");
    while !fits(&spec) && halve(&mut spec) {}
    spec
}

fn fits(spec: &BatchSpec) -> bool {
    unique_tokens(spec) <= MOST_TOKENS && bytes(spec) <= MOST_BYTES
}

fn decode(kv: u64) -> RequestSpec {
    RequestSpec::Decode { kv, count: 1 }
}

fn alone(random: &mut StdRng) -> Vec<RequestSpec> {
    let count = log_uniform(random, 1, MOST_REQUESTS);
    (0..count).map(|_| decode(log_uniform(random, 1, 65_536))).collect()
}

fn one_long(random: &mut StdRng) -> Vec<RequestSpec> {
    let count = log_uniform(random, 1, 256);
    let long = decode(log_uniform(random, 16_384, 1 << 20));
    let mut all: Vec<RequestSpec> = (0..count).map(|_| decode(log_uniform(random, 16, 2048))).collect();
    all.insert(random.random_range(0..=all.len()), long);
    all
}

/// Trees of so many requests and tokens a node at most.
fn forest(random: &mut StdRng, block: u32, (requests, tokens): (u64, u64)) -> Vec<NodeSpec> {
    let mut left = log_uniform(random, 1, requests);
    let levels = random.random_range(1..=MOST_LEVELS);
    let mut roots = Vec::new();
    while left > 0 {
        let share = log_uniform(random, 1, left);
        roots.push(tree(random, share, levels, (u64::from(block), tokens)));
        left -= share;
    }
    roots
}

/// A node with so many requests at and below it.
fn tree(random: &mut StdRng, requests: u64, levels: u32, (block, most): (u64, u64)) -> NodeSpec {
    let tokens = log_uniform(random, 1, most);
    if requests == 1 && random.random_bool(0.5) || levels == 1 {
        // On the last level all requests end at one node, or each at one of its own.
        let together = requests == 1 || random.random_bool(0.2);
        if together {
            return NodeSpec { requests: Some(requests as u32), ..NodeSpec::leaf(tokens) };
        }
        let leaf = |random: &mut StdRng| NodeSpec::leaf(log_uniform(random, 1, most / 8 + 1));
        let children = (0..requests).map(|_| leaf(random)).collect();
        return NodeSpec { children, ..NodeSpec::leaf(tokens.next_multiple_of(block)) };
    }
    let ending = if random.random_bool(0.3) { log_uniform(random, 1, requests) - 1 } else { 0 };
    let mut left = requests - ending.min(requests - 1);
    let ending = (requests - left) as u32;
    let mut children = Vec::new();
    while left > 0 {
        let share = log_uniform(random, 1, left);
        children.push(tree(random, share, levels - 1, (block, most)));
        left -= share;
    }
    NodeSpec { children, requests: Some(ending), ..NodeSpec::leaf(tokens.next_multiple_of(block)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::PrefixTree;

    #[test]
    fn every_batch_builds_and_all_kinds_come() {
        let (mut deep, mut shared, mut inner, mut odd) = (0, 0, 0, 0);
        for number in 0..120 {
            let spec = random_forest(7, number);
            let batch = spec.build().unwrap_or_else(|error| panic!("{}: {error}", spec.name));
            assert!(
                !spec.is_hybrid() && fits(&spec) && batch.requests().len() as u64 <= MOST_REQUESTS,
                "{}",
                spec.name
            );
            let tree = PrefixTree::of(&batch);
            deep += u32::from(tree.depth() >= 4);
            shared += u32::from(tree.unique_tokens().0 < batch.requests().iter().map(|request| request.kv.0).sum());
            inner += u32::from(tree.nodes.iter().any(|node| node.ending > 0 && !node.is_leaf()));
            odd += u32::from(!(spec.shape.query_heads / spec.shape.kv_heads).is_power_of_two());
        }
        assert!(deep > 10 && shared > 40 && inner > 10 && odd > 10, "{deep} {shared} {inner} {odd}");
    }

    #[test]
    fn the_same_seed_and_number_give_the_same_batch_and_others_another() {
        assert_eq!(random_forest(3, 5), random_forest(3, 5));
        assert_ne!(random_forest(3, 5), random_forest(3, 6));
        assert_ne!(random_forest(3, 5), random_forest(4, 5));
    }
}
