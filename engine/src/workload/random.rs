//! Random hybrid batches by seed and number, for benchmarks on cases that nobody chose.
//!
//! | what | drawn |
//! |---|---|
//! | prefill chunks | 1 to 4, of 64 to 16,384 tokens, each ending at up to 65,536 |
//! | decodes | 1 to 400, of 64 to 65,536 tokens; half of the batches share prefixes |
//! | heads | KV heads 1, 2, 4, 8; 1, 2, 4, 8 or 16 query heads each, 64 at most in all |
//! | head dimension, element type, block | 64 or 128; f16 or bf16; 16, 32, 64, 128 or 256 tokens |
//!
//! Every length and the number of decodes are drawn log-uniformly: as many cases between 64 and 128 as between
//! 32,768 and 65,536. The same seed and number give the same batch on every machine.

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};

use crate::workload::{AttentionShape, BatchSpec, Dtype, NodeSpec, RequestSpec};

/// Longest KV of a request.
const MOST_KV: u64 = 65_536;
/// Shortest chunk, context and decode.
const LEAST: u64 = 64;
/// Longest chunk.
const MOST_CHUNK: u64 = 16_384;
/// Most decodes.
const MOST_DECODES: u64 = 400;
/// Most requests of a window of a trace.
const MOST_WINDOW: usize = 256;
/// Most query heads.
const MOST_HEADS: u32 = 64;
/// Most bytes of KV: what a GPU of 80 GB has room for beside queries and outputs.
pub(super) const MOST_BYTES: u64 = 60_000_000_000;

/// Hybrid batch `number` of a seed.
pub fn random_hybrid(seed: u64, number: u32) -> BatchSpec {
    let random = &mut seeded(seed, number);
    let shape = shape(random);
    let chunks = random.random_range(1..=4);
    let mut requests: Vec<RequestSpec> = (0..chunks).map(|_| chunk(random)).collect();
    let count = log_uniform(random, 1, MOST_DECODES);
    let lengths: Vec<u64> = (0..count).map(|_| log_uniform(random, LEAST, MOST_KV)).collect();
    let mut roots = Vec::new();
    if random.random_bool(0.5) {
        roots = shared(random, &lengths, shape.block_size);
    } else {
        requests.extend(lengths.iter().map(|kv| RequestSpec::Decode { kv: *kv, count: 1 }));
    }
    let mut spec = BatchSpec { roots, requests, ..BatchSpec::empty(shape) };
    spec.name = format!("random hybrid {seed}:{number}");
    while bytes(&spec) > MOST_BYTES && halve(&mut spec) {}
    spec
}

/// The generator of batch `number` of a seed.
pub(super) fn seeded(seed: u64, number: u32) -> StdRng {
    // The golden ratio spreads neighbouring numbers over all seeds.
    StdRng::seed_from_u64(seed ^ (u64::from(number) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// The numbers below `count` in a random order of a seed and number.
pub fn random_order(seed: u64, number: u32, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(&mut seeded(seed, number));
    order
}

/// Window `number` of a seed over a trace of so many requests, as start and count: 1 to 256 requests, drawn
/// log-uniformly, anywhere in it.
pub fn random_window(seed: u64, number: u32, requests: usize) -> (usize, usize) {
    let random = &mut seeded(seed, number);
    let count = log_uniform(random, 1, requests.clamp(1, MOST_WINDOW) as u64) as usize;
    (random.random_range(0..=requests.saturating_sub(count)), count)
}

fn shape(random: &mut StdRng) -> AttentionShape {
    let kv_heads = 1_u32 << random.random_range(0..4);
    let most = (MOST_HEADS / kv_heads).min(16).ilog2();
    let group = 1_u32 << random.random_range(0..=most);
    AttentionShape {
        query_heads: kv_heads * group,
        kv_heads,
        head_dim: if random.random_bool(0.5) { 64 } else { 128 },
        dtype: if random.random_bool(0.5) { Dtype::F16 } else { Dtype::Bf16 },
        block_size: 16 << random.random_range(0..5),
    }
}

fn chunk(random: &mut StdRng) -> RequestSpec {
    let chunk = log_uniform(random, LEAST, MOST_CHUNK);
    RequestSpec::Prefill { chunk, kv: log_uniform(random, chunk, MOST_KV) }
}

/// A whole number of `least..=most`, uniform in its logarithm.
pub(super) fn log_uniform(random: &mut StdRng, least: u64, most: u64) -> u64 {
    let (low, high) = ((least as f64).ln(), (most as f64 + 1.0).ln());
    (random.random_range(low..high).exp() as u64).clamp(least, most)
}

/// The decodes under a few shared prefixes, each with the rest of its length of its own.
fn shared(random: &mut StdRng, lengths: &[u64], block: u32) -> Vec<NodeSpec> {
    let prefixes = log_uniform(random, 1, (lengths.len() as u64).min(16)) as usize;
    let per_prefix = lengths.len().div_ceil(prefixes);
    let block = u64::from(block);
    let prefix = |lengths: &[u64], random: &mut StdRng| {
        let tokens = log_uniform(random, LEAST, MOST_KV / 2).next_multiple_of(block);
        let own = |kv: &u64| NodeSpec::leaf(kv.saturating_sub(tokens).max(1));
        NodeSpec { children: lengths.iter().map(own).collect(), ..NodeSpec::leaf(tokens) }
    };
    lengths.chunks(per_prefix).map(|lengths| prefix(lengths, random)).collect()
}

/// KV tokens of all requests, shared ones once.
pub(super) fn unique_tokens(spec: &BatchSpec) -> u64 {
    fn below(node: &NodeSpec) -> u64 {
        node.tokens + node.children.iter().map(below).sum::<u64>()
    }
    let of_request = |request: &RequestSpec| match request {
        RequestSpec::Decode { kv, count } => kv * u64::from(*count),
        RequestSpec::Blocks { kv, .. } | RequestSpec::Prefill { kv, .. } => *kv,
    };
    spec.roots.iter().map(below).sum::<u64>() + spec.requests.iter().map(of_request).sum::<u64>()
}

/// Bytes of their KV.
pub(super) fn bytes(spec: &BatchSpec) -> u64 {
    unique_tokens(spec) * spec.shape.kv_bytes_per_token().0
}

/// Leaves out half of the decodes; false where there is one left.
pub(super) fn halve(spec: &mut BatchSpec) -> bool {
    let mut halved = halve_children(&mut spec.roots);
    if !halved && spec.roots.len() > 1 {
        spec.roots.truncate(spec.roots.len().div_ceil(2));
        halved = true;
    }
    let is_decode = |request: &RequestSpec| matches!(request, RequestSpec::Decode { .. });
    let decodes = spec.requests.iter().filter(|request| is_decode(request)).count();
    if decodes > 1 {
        let mut kept = 0;
        spec.requests.retain(|request| {
            kept += usize::from(is_decode(request));
            !is_decode(request) || kept <= decodes.div_ceil(2)
        });
        halved = true;
    }
    halved
}

/// Leaves out half of the children of each node that is the first on its path to have several.
fn halve_children(nodes: &mut [NodeSpec]) -> bool {
    let mut halved = false;
    for node in nodes {
        if node.children.len() > 1 {
            node.children.truncate(node.children.len().div_ceil(2));
            halved = true;
        } else {
            halved |= halve_children(&mut node.children);
        }
    }
    halved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_is_hybrid_fits_and_is_within_its_limits() {
        let (mut sharing, mut short) = (0, 0);
        for number in 0..200 {
            let spec = random_hybrid(7, number);
            let batch = spec.build().unwrap_or_else(|error| panic!("{}: {error}", spec.name));
            assert!(spec.is_hybrid() && bytes(&spec) <= MOST_BYTES, "{}", spec.name);
            assert!((1..=4).contains(&batch.prefills().count()) && batch.decodes().count() <= 400);
            assert!(batch.requests().iter().all(|request| request.kv.0 <= MOST_KV + u64::from(batch.shape.block_size)));
            sharing += u32::from(!spec.roots.is_empty());
            short += u32::from(batch.prefills().any(|(_, request)| request.kv.0 < 2048));
        }
        assert!((70..130).contains(&sharing) && short > 30, "{sharing} share, {short} have a short context");
    }

    #[test]
    fn the_same_seed_and_number_give_the_same_batch_and_others_another() {
        assert_eq!(random_hybrid(3, 5), random_hybrid(3, 5));
        assert_ne!(random_hybrid(3, 5), random_hybrid(3, 6));
        assert_ne!(random_hybrid(3, 5), random_hybrid(4, 5));
    }
}
