// Warpgroup tensor instructions for tiles of 64 rows by 64 tokens: the four consumer warps act as one.
#pragma once
#include "layout.cuh"
#include "wgmma.cuh"

#if PS_WGMMA
// Begins S = Q K^T over a K tile of 64 tokens: 8 steps of 16 dimensions, 4 in each half.
__device__ __forceinline__ void warpgroup_begin_scores(float (&s)[8][4], u32 queries, u32 stage) {
    const u64 rows = matrix_descriptor(queries), tokens = matrix_descriptor(stage);
    warpgroup_fence();
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
        const u32 at = (k / 4) * 8192 + (k % 4) * 32;
        warpgroup_mma_64(s, descriptor_at(rows, at), descriptor_at(tokens, at), k > 0);
    }
    warpgroup_commit();
}

// Begins O += P V over a V tile of 64 tokens, whose dimensions lie in chunks of 64.
__device__ __forceinline__ void warpgroup_begin_accumulate(float (&o)[kDim / 8][4], const u32 (&a)[4][4], u32 stage) {
    const u64 tokens = matrix_descriptor(stage, 8192);
    warpgroup_fence();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
        for (int d = 0; d < kDim; d += 128) {
            warpgroup_mma_transposed_128(o + d / 8, a[k], descriptor_at(tokens, d * 128 + k * 2048));
        }
    }
    warpgroup_commit();
}
#endif
