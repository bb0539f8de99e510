//! Random Q, K and V that never need to be stored whole: each element is a hash of its place.

use rustc_hash::FxHashMap;

use crate::units::{BlockIdx, QueryIdx};
use crate::workload::AttentionShape;

/// Random input of a batch. Elements are uniform multiples of 1/64 in [−2, 2), which f16 and bf16 both
/// hold exactly, so that every backend sees the same values.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    seed: u64,
    shape: AttentionShape,
}

/// Which tensor an element belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tensor {
    /// The queries.
    Q = 1,
    /// The keys.
    K = 2,
    /// The values.
    V = 3,
    /// The rows of prefill chunks; a chunk's row r lies at `[request << 32 | r, head, d]`.
    PrefillQ = 4,
}

impl Input {
    /// Input drawn from `seed`.
    pub fn new(seed: u64, shape: AttentionShape) -> Self {
        Self { seed, shape }
    }

    /// One query row of one query head, `[d]`.
    pub fn query(&self, query: QueryIdx, head: u32) -> Vec<f32> {
        self.row(Tensor::Q, u64::from(query.0), u64::from(head))
    }

    /// One row of a prefill chunk and one query head, `[d]`.
    pub fn prefill_query(&self, query: QueryIdx, row: u32, head: u32) -> Vec<f32> {
        self.row(Tensor::PrefillQ, u64::from(query.0) << 32 | u64::from(row), u64::from(head))
    }

    /// K row of one token of a block for one KV head, `[d]`.
    pub fn key(&self, block: BlockIdx, token: u32, kv_head: u32) -> Vec<f32> {
        self.row(Tensor::K, self.token_of(block, token), u64::from(kv_head))
    }

    /// V row of one token of a block for one KV head, `[d]`.
    pub fn value(&self, block: BlockIdx, token: u32, kv_head: u32) -> Vec<f32> {
        self.row(Tensor::V, self.token_of(block, token), u64::from(kv_head))
    }

    fn token_of(&self, block: BlockIdx, token: u32) -> u64 {
        u64::from(block.0) * u64::from(self.shape.block_size) + u64::from(token)
    }

    /// Tensors lie as `[query, head, d]` and `[block, token, KV head, d]`; an element is drawn by its
    /// place there, as the GPU does when it fills its buffers.
    fn row(&self, tensor: Tensor, major: u64, head: u64) -> Vec<f32> {
        let heads = match tensor {
            Tensor::Q | Tensor::PrefillQ => self.shape.query_heads,
            Tensor::K | Tensor::V => self.shape.kv_heads,
        };
        let first = (major * u64::from(heads) + head) * u64::from(self.shape.head_dim);
        let seed = self.seed(tensor);
        (first..first + u64::from(self.shape.head_dim)).map(|place| random_value(seed, place)).collect()
    }

    /// Seed of one tensor's elements.
    pub fn seed(&self, tensor: Tensor) -> u32 {
        (self.seed as u32).wrapping_mul(4).wrapping_add(tensor as u32)
    }
}

/// The element at a place of a tensor: a multiple of 1/64 in [−2, 2), exact in f16 and bf16.
fn random_value(seed: u32, place: u64) -> f32 {
    let seed = u64::from(seed) << 32 | u64::from(seed);
    let mut x = place.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x >> 56) as i32 - 128) as f32 / 64.0
}

/// K and V of one KV head, block by block as they are asked for.
#[derive(Debug)]
pub struct HeadKv {
    input: Input,
    kv_head: u32,
    /// Per block: K rows, then V rows, `[2 · block_size · d]`.
    blocks: FxHashMap<BlockIdx, Vec<f32>>,
}

impl HeadKv {
    /// Nothing drawn yet.
    pub fn new(input: Input, kv_head: u32) -> Self {
        Self { input, kv_head, blocks: FxHashMap::default() }
    }

    /// Draws a block unless it is there.
    pub fn draw(&mut self, block: BlockIdx) {
        let (input, kv_head) = (self.input, self.kv_head);
        self.blocks.entry(block).or_insert_with(|| {
            let tokens = 0..input.shape.block_size;
            let keys = tokens.clone().flat_map(|token| input.key(block, token, kv_head));
            keys.chain(tokens.flat_map(|token| input.value(block, token, kv_head))).collect()
        });
    }

    /// K row of a token of a drawn block; empty if the block was not drawn.
    pub fn key(&self, block: BlockIdx, token: u32) -> &[f32] {
        self.row(block, token)
    }

    /// V row of a token of a drawn block; empty if the block was not drawn.
    pub fn value(&self, block: BlockIdx, token: u32) -> &[f32] {
        self.row(block, token + self.input.shape.block_size)
    }

    fn row(&self, block: BlockIdx, row: u32) -> &[f32] {
        let dim = self.input.shape.head_dim as usize;
        let start = row as usize * dim;
        self.blocks.get(&block).map_or(&[], |rows| &rows[start..start + dim])
    }
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use super::random_value;

    #[test]
    fn the_gpu_draws_the_same_values() {
        for place in 0..1000 {
            let (seed, place) = (place as u32 * 77, place << 24 | place);
            assert_eq!(random_value(seed, place).to_bits(), kernels::random_value(seed, place).to_bits());
        }
    }
}
