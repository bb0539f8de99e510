// Warpgroup tensor instructions (sm_90a): four warps act as one, and what lies in shared memory is read by the
// tensor cores themselves.
#pragma once
#include "mma.cuh"
#include "tile.cuh"

#if PS_WGMMA
// Shared-memory descriptor of a matrix in rows of 128 bytes with 128-byte swizzle; groups of
// eight rows lie 1 KiB apart, and chunks of 64 columns `chunk_bytes`, which only a transposed
// matrix of more than one chunk reads.
__device__ __forceinline__ constexpr u64 matrix_descriptor(u32 address, u32 chunk_bytes = 16) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)(chunk_bytes >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

// The same matrix from `bytes` further on.
__device__ __forceinline__ u64 descriptor_at(u64 descriptor, u32 bytes) { return descriptor + (bytes >> 4); }

#if PS_BF16
#define PS_WGMMA_TYPE "bf16.bf16"
#define PS_PAIR_TYPE "bf16x2"
#else
#define PS_WGMMA_TYPE "f16.f16"
#define PS_PAIR_TYPE "f16x2"
#endif
// The values that a thread holds of c[64 x 64], c[64 x 96] and c[64 x 128]: of each eight columns four.
#define PS_WGMMA_32 \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define PS_WGMMA_48 \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}"
#define PS_WGMMA_64 \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"
#define PS_WGMMA_C4(c) "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3])
#define PS_WGMMA_C32(c)                                                                                        \
    PS_WGMMA_C4((c)[0]), PS_WGMMA_C4((c)[1]), PS_WGMMA_C4((c)[2]), PS_WGMMA_C4((c)[3]), PS_WGMMA_C4((c)[4]), \
        PS_WGMMA_C4((c)[5]), PS_WGMMA_C4((c)[6]), PS_WGMMA_C4((c)[7])

// c (+)= a[64 x 16] b, of 64, 96 or 128 columns, both in shared memory in rows of k; c is what it was where `keep`, else 0.
__device__ __forceinline__ void warpgroup_mma_64(float (*c)[4], u64 a, u64 b, u32 keep) {
    asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %34, 0;\n"
                 " wgmma.mma_async.sync.aligned.m64n64k16.f32." PS_WGMMA_TYPE " " PS_WGMMA_32
                 ", %32, %33, p, 1, 1, 0, 0;\n}"
                 : PS_WGMMA_C32(c)
                 : "l"(a), "l"(b), "r"(keep));
}

__device__ __forceinline__ void warpgroup_mma_96(float (*c)[4], u64 a, u64 b, u32 keep) {
    asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %50, 0;\n"
                 " wgmma.mma_async.sync.aligned.m64n96k16.f32." PS_WGMMA_TYPE " " PS_WGMMA_48
                 ", %48, %49, p, 1, 1, 0, 0;\n}"
                 : PS_WGMMA_C32(c), PS_WGMMA_C4((c)[8]), PS_WGMMA_C4((c)[9]), PS_WGMMA_C4((c)[10]), PS_WGMMA_C4((c)[11])
                 : "l"(a), "l"(b), "r"(keep));
}

__device__ __forceinline__ void warpgroup_mma_128(float (*c)[4], u64 a, u64 b, u32 keep) {
    asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %66, 0;\n"
                 " wgmma.mma_async.sync.aligned.m64n128k16.f32." PS_WGMMA_TYPE " " PS_WGMMA_64
                 ", %64, %65, p, 1, 1, 0, 0;\n}"
                 : PS_WGMMA_C32(c), PS_WGMMA_C32(c + 8)
                 : "l"(a), "l"(b), "r"(keep));
}

// c += a[64 x 16] b with a in registers; b's rows are k.
__device__ __forceinline__ void warpgroup_mma_transposed_64(float (*c)[4], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." PS_WGMMA_TYPE " " PS_WGMMA_32
                 ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : PS_WGMMA_C32(c)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ __forceinline__ void warpgroup_mma_transposed_128(float (*c)[4], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." PS_WGMMA_TYPE " " PS_WGMMA_64
                 ", {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
                 : PS_WGMMA_C32(c), PS_WGMMA_C32(c + 8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// c (+)= a b of 16 columns, both in shared memory: a in rows of k or, where `kTransposed`, of m. Of the descriptors the low
// halves, since all have the same high one.
template <int kTransposed>
__device__ __forceinline__ void warpgroup_mma_16(float (&c)[2][4], u32 a, u32 b, u32 keep) {
    asm volatile("{\n .reg .pred p;\n .reg .b64 a, b;\n setp.ne.b32 p, %10, 0;\n"
                 " mov.b64 a, {%8, %12};\n mov.b64 b, {%9, %12};\n"
                 " wgmma.mma_async.sync.aligned.m64n16k16.f32." PS_WGMMA_TYPE
                 " {%0, %1, %2, %3, %4, %5, %6, %7}, a, b, p, 1, 1, %11, 0;\n}"
                 : PS_WGMMA_C4(c[0]), PS_WGMMA_C4(c[1])
                 : "r"(a), "r"(b), "r"(keep), "n"(kTransposed), "n"((int)(matrix_descriptor(0) >> 32)));
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

// Scores that have become weights, as the left operand of P V.
template <int kSteps>
__device__ __forceinline__ void pack_weights(u32 (&a)[kSteps][4], const float (&s)[2 * kSteps][4]) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
        a[k][0] = pack_halves(s[2 * k][0], s[2 * k][1]);
        a[k][1] = pack_halves(s[2 * k][2], s[2 * k][3]);
        a[k][2] = pack_halves(s[2 * k + 1][0], s[2 * k + 1][1]);
        a[k][3] = pack_halves(s[2 * k + 1][2], s[2 * k + 1][3]);
    }
}

// The same in the registers of others, which products that are under way may still read. ptxas would take further registers,
// and make the new ones before those products end; but not where it does not know that `always` is not 0.
template <int kSteps>
__device__ __forceinline__ void pack_weights_over(u32 (&a)[kSteps][4], const float (&s)[2 * kSteps][4], u32 always) {
#pragma unroll
    for (int i = 0; i < 4 * kSteps; ++i) {
        const float* const pair = s[i / 2] + i % 2 * 2;
        asm volatile("{\n .reg .pred p;\n setp.ne.u32 p, %3, 0;\n @p cvt.rn." PS_PAIR_TYPE ".f32 %0, %2, %1;\n}"
                     : "+r"(a[i / 4][i % 4])
                     : "f"(pair[0]), "f"(pair[1]), "r"(always));
    }
}
#endif
