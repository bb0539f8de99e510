// Warpgroup tensor instructions for tiles of 64 rows by 64 tokens, and of 128 by 128: four consumer warps act as one.
#pragma once
#include "layout.cuh"
#include "wgmma.cuh"

#if PS_WGMMA
// Begins S = Q K^T: of 64 rows of Q, from `queries` on, which has `kRows` in all, and of all tokens of a K tile. Steps of 16
// dimensions, 4 in each half of them.
template <int kRows, int kTokens8>
__device__ __forceinline__ void warpgroup_begin_scores(float (&s)[kTokens8][4], u32 queries, u32 stage) {
    static_assert(kTokens8 == 8 || kTokens8 == 16, "64 or 128 tokens");
    const u64 rows = matrix_descriptor(queries), tokens = matrix_descriptor(stage);
    warpgroup_fence();
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
        const u32 half = k / 4, step = (k % 4) * 32;
        const u64 a = descriptor_at(rows, half * (kRows * 128) + step);
        const u64 b = descriptor_at(tokens, half * (kTokens8 * 1024) + step);
        if constexpr (kTokens8 == 8) {
            warpgroup_mma_64(s, a, b, k > 0);
        } else {
            warpgroup_mma_128(s, a, b, k > 0);
        }
    }
    warpgroup_commit();
}

// Begins O += P V over a V tile of 16 tokens for each of `kSteps`, whose dimensions lie in chunks of 64.
template <int kSteps>
__device__ __forceinline__ void warpgroup_begin_accumulate(float (&o)[kDim / 8][4], const u32 (&a)[kSteps][4], u32 stage) {
    const u64 tokens = matrix_descriptor(stage, kSteps * 2048);
    warpgroup_fence();
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
        if constexpr (kDim == 64) {
            warpgroup_mma_transposed_64(o, a[k], descriptor_at(tokens, k * 2048));
        } else {
#pragma unroll
            for (int d = 0; d < kDim; d += 128) {
                warpgroup_mma_transposed_128(o + d / 8, a[k], descriptor_at(tokens, d * (kSteps * 32) + k * 2048));
            }
        }
    }
    warpgroup_commit();
}
#endif
