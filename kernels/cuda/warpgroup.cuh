// Warpgroup tensor instructions (sm_90a) for tiles of 64 rows: the four consumer warps act
// as one, K and V are read from shared memory by the tensor cores themselves.
#pragma once
#include "async_copy.cuh"
#include "layout.cuh"
#include "mma.cuh"

#if PS_WGMMA
// Shared-memory descriptor of a matrix in rows of 128 bytes with 128-byte swizzle; groups of
// eight rows lie 1 KiB apart.
__device__ __forceinline__ u64 matrix_descriptor(u32 address) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

// c[64 x 64] += a[64 x 16] b; kTransposed: b's rows are k (V), otherwise n (K).
template <int kTransposed>
__device__ __forceinline__ void warpgroup_mma(float* c, const u32 (&a)[4], u64 b, u32 keep) {
#if PS_BF16
#define PS_WGMMA_TYPE "bf16.bf16"
#else
#define PS_WGMMA_TYPE "f16.f16"
#endif
    asm volatile(
        "{\n .reg .pred p;\n setp.ne.b32 p, %37, 0;\n"
        " wgmma.mma_async.sync.aligned.m64n64k16.f32." PS_WGMMA_TYPE
        " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "
        "%23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]),
          "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]),
          "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]),
          "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep), "n"(kTransposed));
}

__device__ __forceinline__ void warpgroup_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void warpgroup_wait() {
    asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// S = Q K^T over a K tile of 64 tokens: 8 steps of 16 dimensions, 4 in each half.
__device__ __forceinline__ void warpgroup_scores(float (&s)[8][4], const u32 (&q)[kDim / 16][4], u32 stage) {
    warpgroup_fence();
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
        warpgroup_mma<0>(&s[0][0], q[k], matrix_descriptor(stage + (k / 4) * 8192 + (k % 4) * 32), k > 0);
    }
    warpgroup_wait();
}

// O += P V over a V tile of 64 tokens, 64 dimensions at a time.
__device__ __forceinline__ void warpgroup_accumulate(float (&o)[kDim / 8][4], const float (&s)[8][4], u32 stage) {
    u32 a[4][4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        a[k][0] = pack_halves(s[2 * k][0], s[2 * k][1]);
        a[k][1] = pack_halves(s[2 * k][2], s[2 * k][3]);
        a[k][2] = pack_halves(s[2 * k + 1][0], s[2 * k + 1][1]);
        a[k][3] = pack_halves(s[2 * k + 1][2], s[2 * k + 1][3]);
    }
    warpgroup_fence();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
        for (int half = 0; half < kDim / 64; ++half) {
            warpgroup_mma<1>(&o[half * 8][0], a[k], matrix_descriptor(stage + half * 8192 + k * 2048), 1);
        }
    }
    warpgroup_wait();
}
#endif
