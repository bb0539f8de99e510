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

// 1 / x to one unit in the last place: one instruction, where a division is a subroutine.
__device__ __forceinline__ float reciprocal_fast(float x) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
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
