// Combining the partials of a query, in the order of its slots, in the merge kernel and by the
// last to arrive in a fused one. A task that folds the others in as it begins (epilogue.cuh)
// rounds differently in the last bits of fp32.
#pragma once
#include "mma.cuh"
#include "softmax.cuh"

// Query heads that a warp merges at once: log2 of at most four of a group.
__device__ __forceinline__ u32 merge_shift(u32 group_shift) { return group_shift < 2 ? group_shift : 2; }

struct MergeTarget {
    float* part_out;
    float* part_lse;
    u16* out;
    float* out_lse;
    u32 q_heads;
};

// What a warp has merged so far of `1 << shift` (at most 4) consecutive query heads.
struct MergeState {
    static constexpr int kPerLane = PS_D / 32;
    float acc[4][kPerLane];
    float top, weights;  // of head `lane & mask`
};

// Merges entries `begin` .. `begin + kBatch` of `entries`, an entry being one head of one
// slot, heads running fastest. Slots follow `first`, or are listed from there on in `slots`. Their rows are all asked for before the first is used, each
// spread over the lanes, so that one step to L2 and back serves the batch. Entries past the
// last repeat the first with weight 0: a load behind a condition would make the compiler wait
// for it at once. Entries u, u + 4, ... share an accumulator.
template <u32 kBatch>
__device__ __forceinline__ void merge_batch(const MergeTarget& to, MergeState& state, u32 begin, u32 entries, u32 head,
                                            u32 shift, u32 first, const u32* slots) {
    const u32 lane = threadIdx.x & 31, mask = (1u << shift) - 1;
    u32 mine = begin + (lane & (kBatch - 1));
    bool real = mine < entries;
    if (!real) mine = begin;
    u32 slot = first + (mine >> shift);
    if (slots != nullptr) slot = __ldg(slots + slot);
    u32 row = slot * to.q_heads + head + (mine & mask);
    float lse = load_float_l2(to.part_lse + row);
    float v[kBatch][MergeState::kPerLane];
#pragma unroll
    for (u32 u = 0; u < kBatch; ++u) {
        u64 from = (u64)__shfl_sync(0xffffffffu, row, u) * PS_D;
        load_lane(v[u], to.part_out + from + lane * MergeState::kPerLane);
    }
    if (!real) lse = -PS_INF;
    float m = lse;
#pragma unroll
    for (u32 step = kBatch / 2; step > 0; step >>= 1) {
        if (step > mask) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, step));
    }
    m = fmaxf(m, state.top);
    float shrink = merge_weight(state.top, m), w = merge_weight(lse, m), sum = w;
    state.top = m;
#pragma unroll
    for (u32 step = kBatch / 2; step > 0; step >>= 1) {
        if (step > mask) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    }
    state.weights = state.weights * shrink + sum;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        float s = __shfl_sync(0xffffffffu, shrink, j & mask);
#pragma unroll
        for (int c = 0; c < MergeState::kPerLane; ++c) state.acc[j][c] *= s;
    }
#pragma unroll
    for (u32 u = 0; u < kBatch; ++u) {
        float wu = __shfl_sync(0xffffffffu, w, u);
#pragma unroll
        for (int c = 0; c < MergeState::kPerLane; ++c) state.acc[u & 3][c] += wu * v[u][c];
    }
}

// A warp merges `count` partials of `1 << shift` consecutive heads of a query.
__device__ __forceinline__ MergeState gather_heads(const MergeTarget& to, u32 head, u32 shift, u32 first, u32 count,
                                                   const u32* slots) {
    const u32 entries = count << shift;
    MergeState state = {};
    state.top = -PS_INF;
    u32 begin = 0;
#pragma unroll 1
    for (; begin + 8 < entries; begin += 16) merge_batch<16>(to, state, begin, entries, head, shift, first, slots);
    if (begin < entries) merge_batch<8>(to, state, begin, entries, head, shift, first, slots);
    // With fewer than four heads an accumulator holds every second or fourth slot.
#pragma unroll
    for (int c = 0; c < MergeState::kPerLane; ++c) {
        if (shift < 2) {
            state.acc[0][c] += state.acc[2][c];
            state.acc[1][c] += state.acc[3][c];
        }
        if (shift < 1) state.acc[0][c] += state.acc[1][c];
    }
    return state;
}

__device__ __forceinline__ float merge_scale(const MergeState& state) {
    return state.weights > 0.0f ? 1.0f / state.weights : 0.0f;
}

// The merged heads as output of a query.
__device__ __forceinline__ void write_merged(const MergeTarget& to, const MergeState& state, u32 query, u32 head,
                                             u32 shift) {
    const u32 lane = threadIdx.x & 31, mask = (1u << shift) - 1;
    float inverse = merge_scale(state);
    u64 row = (u64)query * to.q_heads + head;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        float f = __shfl_sync(0xffffffffu, inverse, j & mask);
        if (j > mask) continue;
        u32* out = (u32*)(to.out + (row + j) * PS_D + lane * MergeState::kPerLane);
#pragma unroll
        for (int c = 0; c < MergeState::kPerLane / 2; ++c) {
            out[c] = pack_halves(state.acc[j][2 * c] * f, state.acc[j][2 * c + 1] * f);
        }
    }
    if (to.out_lse != nullptr && lane <= mask) to.out_lse[row + lane] = merged_lse(state.top, state.weights);
}

// The merged heads as one partial again, for a merge that follows. Its slot may be one of those
// merged: the warp has read all of them by now, and no other warp reads these heads.
__device__ __forceinline__ void write_partial(const MergeTarget& to, const MergeState& state, u32 slot, u32 head,
                                              u32 shift) {
    const u32 lane = threadIdx.x & 31, mask = (1u << shift) - 1;
    float inverse = merge_scale(state);
    u64 row = (u64)slot * to.q_heads + head;
    __syncwarp();
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
        float f = __shfl_sync(0xffffffffu, inverse, j & mask);
        if (j > mask) continue;
        float2* out = (float2*)(to.part_out + (row + j) * PS_D + lane * MergeState::kPerLane);
#pragma unroll
        for (int c = 0; c < MergeState::kPerLane / 2; ++c) {
            out[c] = make_float2(state.acc[j][2 * c] * f, state.acc[j][2 * c + 1] * f);
        }
    }
    if (lane <= mask) to.part_lse[row + lane] = merged_lse(state.top, state.weights);
}
