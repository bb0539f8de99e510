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

#if PS_BF16
#define PS_WGMMA_TYPE "bf16.bf16"
#else
#define PS_WGMMA_TYPE "f16.f16"
#endif
// The 32 values that a thread holds of c[64 x 64].
#define PS_WGMMA_C                                                                                                    \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
    "%24, %25, %26, %27, %28, %29, %30, %31}"
#define PS_WGMMA_C_OF(c)                                                                                            \
    "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]),     \
        "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]),      \
        "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]),     \
        "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])

// c (+)= a[64 x 16] b, both in shared memory in rows of k; c is what it was where `keep`, else 0.
__device__ __forceinline__ void warpgroup_mma(float* c, u64 a, u64 b, u32 keep) {
    asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %34, 0;\n"
                 " wgmma.mma_async.sync.aligned.m64n64k16.f32." PS_WGMMA_TYPE " " PS_WGMMA_C
                 ", %32, %33, p, 1, 1, 0, 0;\n}"
                 : PS_WGMMA_C_OF(c)
                 : "l"(a), "l"(b), "r"(keep));
}

// c += a[64 x 16] b with a in registers; b's rows are k.
__device__ __forceinline__ void warpgroup_mma_transposed(float* c, const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." PS_WGMMA_TYPE " " PS_WGMMA_C
                 ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : PS_WGMMA_C_OF(c)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ __forceinline__ void warpgroup_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// The instructions since the last group become one.
__device__ __forceinline__ void warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most the `kLeft` latest groups are under way.
template <int kLeft>
__device__ __forceinline__ void warpgroup_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

// Begins S = Q K^T over a K tile of 64 tokens: 8 steps of 16 dimensions, 4 in each half.
__device__ __forceinline__ void warpgroup_begin_scores(float (&s)[8][4], u32 queries, u32 stage) {
    warpgroup_fence();
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
        const u32 at = (k / 4) * 8192 + (k % 4) * 32;
        warpgroup_mma(&s[0][0], matrix_descriptor(queries + at), matrix_descriptor(stage + at), k > 0);
    }
    warpgroup_commit();
}

// Scores that have become weights, as the left operand of P V.
__device__ __forceinline__ void pack_weights(u32 (&a)[4][4], const float (&s)[8][4]) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        a[k][0] = pack_halves(s[2 * k][0], s[2 * k][1]);
        a[k][1] = pack_halves(s[2 * k][2], s[2 * k][3]);
        a[k][2] = pack_halves(s[2 * k + 1][0], s[2 * k + 1][1]);
        a[k][3] = pack_halves(s[2 * k + 1][2], s[2 * k + 1][3]);
    }
}

// Begins O += P V over a V tile of 64 tokens, 64 dimensions at a time.
__device__ __forceinline__ void warpgroup_begin_accumulate(float (&o)[kDim / 8][4], const u32 (&a)[4][4], u32 stage) {
    warpgroup_fence();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
        for (int half = 0; half < kDim / 64; ++half) {
            warpgroup_mma_transposed(&o[half * 8][0], a[k], matrix_descriptor(stage + half * 8192 + k * 2048));
        }
    }
    warpgroup_commit();
}
#endif
