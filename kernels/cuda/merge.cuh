// Combining the partials of a query, in the order of its slot list: the same order and the
// same arithmetic whoever does it, so that all strategies give the same bits.
#pragma once
#include "mma.cuh"
#include "softmax.cuh"

// One warp merges one (query, query head).
__device__ __forceinline__ void merge_row(const MergeParams& p, u32 query, u32 head) {
    constexpr u32 kPerLane = PS_D / 32;
    u32 lane = threadIdx.x & 31;
    u32 begin = __ldg(p.merge_offsets + query), end = __ldg(p.merge_offsets + query + 1);
    float top = -PS_INF;
    for (u32 i = begin + lane; i < end; i += 32) {
        top = fmaxf(top, p.part_lse[(u64)__ldg(p.merge_slots + i) * p.q_heads + head]);
    }
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
    float acc[kPerLane] = {};
    float weights = 0.0f;
#pragma unroll 4
    for (u32 i = begin; i < end; ++i) {
        u64 row = (u64)__ldg(p.merge_slots + i) * p.q_heads + head;
        float w = merge_weight(p.part_lse[row], top);
        const float2* from = (const float2*)(p.part_out + row * PS_D + lane * kPerLane);
        weights += w;
#pragma unroll
        for (u32 j = 0; j < kPerLane / 2; ++j) {
            float2 o = from[j];
            acc[2 * j] += w * o.x;
            acc[2 * j + 1] += w * o.y;
        }
    }
    float inverse = weights > 0.0f ? 1.0f / weights : 0.0f;
    u64 row = (u64)query * p.q_heads + head;
    u32* to = (u32*)(p.out + row * PS_D + lane * kPerLane);
#pragma unroll
    for (u32 j = 0; j < kPerLane / 2; ++j) to[j] = pack_halves(acc[2 * j] * inverse, acc[2 * j + 1] * inverse);
    if (p.out_lse != nullptr && lane == 0) p.out_lse[row] = merged_lse(top, weights);
}
