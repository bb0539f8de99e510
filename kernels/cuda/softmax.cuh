// The softmax state of one row and how two of them combine. Everything works on powers of
// two: scores are multiplied by scale * log2(e) first, and only the LSE that leaves the
// kernel is a natural logarithm.
#pragma once
#include "params.cuh"

#define PS_INF __int_as_float(0x7f800000)
#define PS_LN2 0.69314718055994530942f
#define PS_LOG2E 1.44269504088896340736f

__device__ __forceinline__ float exp2_fast(float x) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

__device__ __forceinline__ float log2_fast(float x) {
    float r;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

// Reductions over the four lanes that hold one row of an accumulator.
__device__ __forceinline__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// Natural-log LSE of a row with maximum `m` (log2 domain) and sum `l`; no token has m = log2 l = -inf.
__device__ __forceinline__ float row_lse(float m, float l) {
    return (m + log2_fast(l)) * PS_LN2;
}

// Weight of a partial with `lse` under the common maximum `top`. When every partial is
// empty `top` is -inf, and the weight is 0 rather than exp(nan): empty (+) empty = empty.
__device__ __forceinline__ float merge_weight(float lse, float top) {
    return top == -PS_INF ? 0.0f : exp2_fast((lse - top) * PS_LOG2E);
}

// LSE of the union from the maximum and the sum of the weights.
__device__ __forceinline__ float merged_lse(float top, float weights) {
    return weights > 0.0f ? top + log2_fast(weights) * PS_LN2 : -PS_INF;
}

// Places of a partial's row. In the fused kernel, whose partials nobody else reads, a row holds
// each 16 columns as four lanes own them in two fragments side by side, 16 bytes a lane, so that
// what a lane writes and reads is one access.

// Column of the pair of values at places `at` and `at + 1`.
__device__ __forceinline__ u32 partial_column(u32 at) {
#if PS_FUSED
    return (at & ~15u) + ((at >> 1) & 1) * 8 + ((at >> 2) & 3) * 2;
#else
    return at;
#endif
}

// Partials were written by other SMs during this launch: read them past the L1 cache.
__device__ __forceinline__ float load_float_l2(const float* p) {
    float r;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(r) : "l"(p) : "memory");
    return r;
}

// The same where `on`, else `otherwise`. Not a branch: a load behind one is waited for at once.
__device__ __forceinline__ float load_float_l2_if(float otherwise, const float* p, bool on) {
    asm volatile("{\n .reg .pred q;\n setp.ne.u32 q, %2, 0;\n @q ld.global.cg.f32 %0, [%1];\n}"
                 : "+f"(otherwise)
                 : "l"(p), "r"((u32)on)
                 : "memory");
    return otherwise;
}

// The same for what a lane takes of a row.
__device__ __forceinline__ void load_lane(float (&v)[2], const float* p) {
    asm volatile("ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];" : "=f"(v[0]), "=f"(v[1]) : "l"(p));
}

__device__ __forceinline__ void load_lane(float (&v)[4], const float* p) {
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                 : "l"(p));
}

// What lane `quad_lane` of a quad holds of 16 columns of a partial: its two values of each of two
// fragments. `row` is where the 16 columns begin.
__device__ __forceinline__ void load_fragments(float (&v)[4], const float* row, u32 quad_lane) {
#if PS_FUSED
    load_lane(v, row + quad_lane * 4);
#else
    float one[2], two[2];
    load_lane(one, row + quad_lane * 2);
    load_lane(two, row + 8 + quad_lane * 2);
    v[0] = one[0], v[1] = one[1], v[2] = two[0], v[3] = two[1];
#endif
}

__device__ __forceinline__ void store_fragments(float* row, u32 quad_lane, const float (&a)[4], const float (&b)[4],
                                                int r) {
#if PS_FUSED
    *(float4*)(row + quad_lane * 4) = make_float4(a[2 * r], a[2 * r + 1], b[2 * r], b[2 * r + 1]);
#else
    *(float2*)(row + quad_lane * 2) = make_float2(a[2 * r], a[2 * r + 1]);
    *(float2*)(row + 8 + quad_lane * 2) = make_float2(b[2 * r], b[2 * r + 1]);
#endif
}
