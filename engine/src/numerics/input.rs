//! Random Q, K and V that never need to be stored whole: each element is a hash of its place.

use half::{bf16, f16};
use rustc_hash::FxHashMap;

use crate::units::{BlockIdx, QueryIdx};
use crate::workload::{AttentionShape, Dtype};

/// Random input of a batch. Elements are uniform in [−1, 1), rounded to the batch's dtype, so that
/// every backend sees the same values exactly.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    seed: u64,
    shape: AttentionShape,
}

/// Which tensor an element belongs to.
#[derive(Clone, Copy)]
enum Tensor {
    Q = 1,
    K = 2,
    V = 3,
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

    fn row(&self, tensor: Tensor, major: u64, head: u64) -> Vec<f32> {
        let key = mix(self.seed ^ mix((tensor as u64) << 56 | head << 44 ^ mix(major)));
        (0..u64::from(self.shape.head_dim))
            .map(|dim| {
                let bits = mix(key.wrapping_add(dim)) >> 40;
                let value = bits as f32 / (1_u64 << 23) as f32 - 1.0;
                match self.shape.dtype {
                    Dtype::F16 => f16::from_f32(value).to_f32(),
                    Dtype::Bf16 => bf16::from_f32(value).to_f32(),
                }
            })
            .collect()
    }
}

/// The finaliser of splitmix64.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
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
