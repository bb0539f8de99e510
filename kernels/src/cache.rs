//! The paged KV cache on the device, and its description for the copy engine.

use cudarc::driver::sys;

use crate::error::KernelError;
use crate::gpu::DeviceBuffer;
use crate::params::TensorMap;
use crate::plan::{DecodeShape, Dtype};

/// How the KV cache lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvLayout {
    /// `[block, kv_head, token, d]`: the tokens of a block and head are contiguous.
    Hnd,
    /// `[block, token, kv_head, d]`, as vLLM has it.
    Nhd,
}

/// A paged K and V cache on the device, 16-bit values.
#[derive(Debug)]
pub struct KvCache {
    /// K.
    pub k: DeviceBuffer,
    /// V, in the same layout.
    pub v: DeviceBuffer,
    /// Order of the dimensions.
    pub layout: KvLayout,
    /// Blocks in the cache.
    pub blocks: u32,
}

impl KvCache {
    /// Bytes of K (or of V) for so many blocks.
    pub fn bytes(shape: &DecodeShape, blocks: u32) -> usize {
        blocks as usize * (shape.block_size * shape.kv_heads * shape.head_dim * 2) as usize
    }

    /// Elements from one (block, KV head, token) to the next.
    pub(crate) fn strides(&self, shape: &DecodeShape) -> [u64; 3] {
        let (d, heads, tokens) = (u64::from(shape.head_dim), u64::from(shape.kv_heads), u64::from(shape.block_size));
        match self.layout {
            KvLayout::Hnd => [heads * tokens * d, tokens * d, d],
            KvLayout::Nhd => [heads * tokens * d, d, heads * d],
        }
    }
}

/// The cache as `[block, kv_head, token, d]` for bulk copies of `box_heads` heads by `box_tokens` tokens by 64
/// dimensions. Heads past the last arrive as zeros.
pub(crate) fn tensor_map(
    buffer: &DeviceBuffer,
    shape: &DecodeShape,
    cache: &KvCache,
    box_tokens: u32,
    box_heads: u32,
) -> Result<TensorMap, KernelError> {
    let [block, head, token] = cache.strides(shape);
    let sizes =
        [u64::from(shape.head_dim), u64::from(shape.block_size), u64::from(shape.kv_heads), u64::from(cache.blocks)];
    let strides = [token * 2, head * 2, block * 2];
    let boxes = [64, box_tokens, box_heads, 1];
    let steps = [1_u32; 4];
    let kind = match shape.dtype {
        Dtype::F16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Dtype::Bf16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    };
    let mut map = TensorMap::default();
    // SAFETY: `map` has the size and alignment of a CUtensorMap, all arrays have four (strides: three) entries, and
    // the sizes and strides describe memory inside `buffer`, as `Decode::new` checked.
    let status = unsafe {
        sys::cuTensorMapEncodeTiled(
            (&raw mut map).cast(),
            kind,
            4,
            buffer.address() as *mut _,
            sizes.as_ptr(),
            strides.as_ptr(),
            boxes.as_ptr(),
            steps.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    buffer.context.checked(status.result(), "describing the KV cache to the copy engine")?;
    Ok(map)
}
