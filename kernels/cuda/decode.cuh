// The consumer warps: online softmax over the tiles of a task, then its result.
//
//   Q ──► registers          K stage ──► S = Q K^T ──► max, exp2 ──► P ──► O += P V ◄── V stage
//
// Row r of a tile is query r / group of the pack and query head kv_head * group + r % group.
#pragma once
#include "async_copy.cuh"
#include "layout.cuh"
#include "mma.cuh"
#include "softmax.cuh"
#include "trace.cuh"

// Where a warp and a lane stand in a tile.
template <class S>
struct Position {
    u32 thread, lane, warp, row_group, col_group;

    // Read anew for each task: what follows from it would otherwise be computed before the
    // first one, for all tiles of the list, and kept in registers that the tiles need.
    __device__ __forceinline__ Position() {
        asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
        lane = thread & 31;
        warp = thread >> 5;
        row_group = warp % S::kRowGroups;
        col_group = warp / S::kRowGroups;
    }
    // The same in a block of 64 rows, of those that its warpgroup takes in turn.
    __device__ __forceinline__ Position in_block(u32 block) const {
        Position other = *this;
        other.row_group = block * (S::kRowGroups / S::kBlocks) + warp;
        return other;
    }

    // First of the two rows (the other is 8 below) whose accumulators this lane holds.
    __device__ __forceinline__ u32 row() const { return row_group * 16 + (lane >> 2); }
};

// Softmax state and output of two rows, as accumulator fragments.
template <class S>
struct RowState {
    float o[S::kDims8][4];
    float m[2];  // running maximum, log2 domain
    float l[2];  // running sum of this lane's columns

    __device__ __forceinline__ RowState() {
#pragma unroll
        for (int j = 0; j < S::kDims8; ++j) o[j][0] = o[j][1] = o[j][2] = o[j][3] = 0.0f;
        m[0] = m[1] = -PS_INF;
        l[0] = l[1] = 0.0f;
    }
};

// 16 dimensions of the rows of Q that a warp computes.
template <class S>
__device__ __forceinline__ void load_q_step(u32 (&q)[4], u32 stage, int step, const Position<S>& at) {
    load_matrices(q, tile_address<S::kM>(stage, at.row_group * 16 + (at.lane & 15), step * 2 + (at.lane >> 4)));
}

template <class S>
__device__ __forceinline__ void load_q(u32 (&q)[kDim / 16][4], u32 stage, const Position<S>& at) {
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) load_q_step<S>(q[k], stage, k, at);
}

template <class S>
__device__ __forceinline__ void scores(float (&s)[S::kTokens8][4], const u32 (&q)[kDim / 16][4], u32 stage,
                                       const Position<S>& at) {
#pragma unroll
    for (int j = 0; j < S::kTokens8; ++j) {
        // Two chains per fragment: one of eight dependent instructions would be latency alone.
        float even[4] = {0.0f, 0.0f, 0.0f, 0.0f}, odd[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        u32 token = ((S::kPerWarp ? at.warp : at.col_group) * S::kTokens8 + j) * 8 + (at.lane & 7);
#pragma unroll
        for (int k = 0; k < kDim / 32; ++k) {
            u32 b[4];
            load_matrices(b, tile_address<S::kN>(stage, token, k * 4 + (at.lane >> 3)));
            mma_16x8x16(even, q[2 * k], b[0], b[1]);
            mma_16x8x16(S::kTokens8 > 2 ? even : odd, q[2 * k + 1], b[2], b[3]);
        }
#pragma unroll
        for (int c = 0; c < 4; ++c) s[j][c] = even[c] + odd[c];
    }
}

// The same, of the tokens of a stage from `first` on, with rows of Q that stay in shared memory.
template <class S, int kTokens8>
__device__ __forceinline__ void scores_of_staying(float (&s)[kTokens8][4], u32 queries, u32 stage, u32 first,
                                                  const Position<S>& at) {
#pragma unroll
    for (int j = 0; j < kTokens8; ++j) s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0.0f;
#pragma unroll
    for (int k = 0; k < kDim / 32; ++k) {
        u32 q[2][4];
        load_q_step<S>(q[0], queries, 2 * k, at);
        load_q_step<S>(q[1], queries, 2 * k + 1, at);
#pragma unroll
        for (int j = 0; j < kTokens8; ++j) {
            u32 b[4];
            const u32 token = first + j * 8 + (at.lane & 7);
            load_matrices(b, tile_address<S::kN>(stage, token, k * 4 + (at.lane >> 3)));
            mma_16x8x16(s[j], q[0], b[0], b[1]);
            mma_16x8x16(s[j], q[1], b[2], b[3]);
        }
    }
}

// A maximum that grows by no more than this (log2) stays: weights are 256 at most then, and what all are too large by falls
// out in the end. Where no maximum moves the output need not be rescaled, which takes as many instructions as a third of
// the softmax. Only warpgroups do so.
constexpr float kLag = 8.0f;

// Rows that see all tokens.
template <class S>
struct SeesAll {
    static constexpr int kAlike8 = S::kTokens8;
    __device__ __forceinline__ bool sees(int, int) const { return true; }
};

// Turns scores into P (in place when one warp holds whole rows, else 16-bit in shared memory), and
// tells by what the output so far must `shrink`. `valid` tokens of the tile exist. A row sees all or none of `kAlike8` times 8
// tokens.
template <class S, class Sight = SeesAll<S>>
__device__ __forceinline__ void softmax_tile(float (&s)[S::kTokens8][4], RowState<S>& state, float (&shrink)[2],
                                             Scratch& scratch, float scale, u32 valid, const Position<S>& at,
                                             const Sight& sight = Sight()) {
    u32 column = at.col_group * S::kTokens8 * 8 + (at.lane & 3) * 2;
    float top[2] = {-PS_INF, -PS_INF};
    if (valid < S::kTokens) {
#pragma unroll
        for (int j = 0; j < S::kTokens8; ++j) {
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                if (column + j * 8 + (c & 1) >= valid) s[j][c] = -PS_INF;
            }
        }
    }
#pragma unroll
    for (int first = 0; first < S::kTokens8; first += Sight::kAlike8) {
        float most[2] = {-PS_INF, -PS_INF};
#pragma unroll
        for (int j = first; j < first + Sight::kAlike8; ++j) {
#pragma unroll
            for (int c = 0; c < 4; ++c) most[c >> 1] = fmaxf(most[c >> 1], s[j][c]);
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            if (sight.sees(r, first)) top[r] = fmaxf(top[r], most[r]);
        }
    }
    top[0] = quad_max(top[0]);
    top[1] = quad_max(top[1]);
    if constexpr (S::kColGroups > 1) {
        float* row_max = scratch.row_max + at.row();
        if ((at.lane & 3) == 0) {
            row_max[at.col_group * S::kM] = top[0];
            row_max[at.col_group * S::kM + 8] = top[1];
        }
        sync_threads(1, kConsumers);
#pragma unroll
        for (int c = 0; c < S::kColGroups; ++c) {
            top[0] = fmaxf(top[0], row_max[c * S::kM]);
            top[1] = fmaxf(top[1], row_max[c * S::kM + 8]);
        }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float m = fmaxf(state.m[r], top[r] * scale);
        if (S::kWgmma && m - state.m[r] <= kLag) m = state.m[r];
        shrink[r] = exp2_fast(state.m[r] - m);
        state.m[r] = m;
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < S::kTokens8; ++j) {
            // Weights of what the row does not see are 0: a score is a number wherever some row sees its token.
            const float less = sight.sees(r, j) ? m : PS_INF;
            s[j][2 * r] = exp2_fast(s[j][2 * r] * scale - less);
            s[j][2 * r + 1] = exp2_fast(s[j][2 * r + 1] * scale - less);
            sum += s[j][2 * r] + s[j][2 * r + 1];
        }
        state.l[r] = state.l[r] * shrink[r] + sum;
    }
    if constexpr (S::kColGroups > 1) {
        u32* p0 = (u32*)(scratch.p + at.row() * S::kPStride + column);
        u32* p1 = (u32*)(scratch.p + (at.row() + 8) * S::kPStride + column);
#pragma unroll
        for (int j = 0; j < S::kTokens8; ++j) {
            p0[j * 4] = pack_halves(s[j][0], s[j][1]);
            p1[j * 4] = pack_halves(s[j][2], s[j][3]);
        }
        sync_threads(1, kConsumers);
    }
}

// The output so far under the maximum of the tile that comes.
template <class S>
__device__ __forceinline__ void rescale(RowState<S>& state, const float (&by)[2]) {
#pragma unroll
    for (int j = 0; j < S::kDims8; ++j) {
#pragma unroll
        for (int c = 0; c < 4; ++c) state.o[j][c] *= by[c >> 1];
    }
}

// Rows of V past the last token may hold anything, NaN included, and would meet a zero of
// P: they are cleared in shared memory. Only a partly filled last tile comes here.
template <class S>
__device__ __forceinline__ void clear_tail(u32 stage, u32 valid, const Position<S>& at) {
    constexpr u32 kChunks = kDim / 8;
    u32 first = S::kPerWarp ? at.lane : threadIdx.x, step = S::kPerWarp ? 32 : kConsumers;
    u32 row = S::kPerWarp ? at.warp * 16 : 0;
    // What other warps read here before went through the ring's barriers; the race checker
    // wants to see it, and a last tile can afford it.
    if constexpr (!S::kPerWarp) sync_threads(1, kConsumers);
#pragma unroll 1
    for (u32 i = valid * kChunks + first; i < S::kTokens * kChunks; i += step) {
        u32 address = tile_address<S::kN>(stage, row + i / kChunks, i % kChunks);
        asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
    }
    // For wgmma, which reads V next, and for the copy engine, which writes here later.
    fence_async_proxy();
    if constexpr (S::kPerWarp) {
        __syncwarp();
    } else {
        sync_threads(1, kConsumers);
    }
}

// O += P V.
template <class S>
__device__ __forceinline__ void accumulate(RowState<S>& state, const float (&s)[S::kTokens8][4], Scratch& scratch,
                                           u32 stage, const Position<S>& at) {
    u32 p_base = smem_address(scratch.p) + (at.row_group * 16 + (at.lane & 15)) * (S::kPStride * 2) + (at.lane >> 4) * 16;
#pragma unroll
    for (int k = 0; k < S::kTokens / 16; ++k) {
        u32 a[4];
        if constexpr (S::kColGroups > 1) {
            load_matrices(a, p_base + k * 32);
        } else {
            a[0] = pack_halves(s[2 * k][0], s[2 * k][1]);
            a[1] = pack_halves(s[2 * k][2], s[2 * k][3]);
            a[2] = pack_halves(s[2 * k + 1][0], s[2 * k + 1][1]);
            a[3] = pack_halves(s[2 * k + 1][2], s[2 * k + 1][3]);
        }
        u32 row = (S::kPerWarp ? at.warp * 16 : k * 16) + (at.lane & 15);
#pragma unroll
        for (int d = 0; d < S::kDims8 / 2; ++d) {
            u32 b[4];
            u32 chunk = at.col_group * S::kDims8 + d * 2 + (at.lane >> 4);
            load_matrices_transposed(b, tile_address<S::kN>(stage, row, chunk));
            mma_16x8x16(state.o[2 * d], a, b[0], b[1]);
            mma_16x8x16(state.o[2 * d + 1], a, b[2], b[3]);
        }
    }
}

// The rows' sums over all columns, and the division by them; `lse` gets the natural LSE.
template <class S>
__device__ __forceinline__ void normalise(RowState<S>& state, Scratch& scratch, float (&lse)[2],
                                          const Position<S>& at) {
    float sum[2] = {quad_sum(state.l[0]), quad_sum(state.l[1])};
    if constexpr (S::kColGroups > 1) {
        float* row_sum = scratch.row_sum + at.row();
        if ((at.lane & 3) == 0) {
            row_sum[at.col_group * S::kM] = sum[0];
            row_sum[at.col_group * S::kM + 8] = sum[1];
        }
        sync_threads(1, kConsumers);
        sum[0] = sum[1] = 0.0f;
#pragma unroll
        for (int c = 0; c < S::kColGroups; ++c) {
            sum[0] += row_sum[c * S::kM];
            sum[1] += row_sum[c * S::kM + 8];
        }
    }
#pragma unroll
    for (int r = 0; r < S::kLaneRows; ++r) {
        lse[r] = row_lse(state.m[r], sum[r]);
        float inverse = sum[r] > 0.0f ? reciprocal_fast(sum[r]) : 0.0f;
#pragma unroll
        for (int j = 0; j < S::kDims8; ++j) {
            state.o[j][2 * r] *= inverse;
            state.o[j][2 * r + 1] *= inverse;
        }
    }
}
