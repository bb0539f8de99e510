// Tiles of eight rows at most, with the rows of Q on the n side: eight rows are a whole instruction there, not half of one
// padded with zeros, and take half the registers. So they run beside prefill too.
//
//   K stage ──► S^T = K Q^T ──► exp2 ──► P^T, moved across lanes ──► O^T += V^T P^T ◄── V stage
//
// A warp takes one KV head of a stage, 16 tokens of it at a time, and PV of a tile runs between the instructions of QK
// of the next. Lane i holds tokens (or dimensions) i / 4 and i / 4 + 8 of rows i % 4 * 2 and the one after it.
#pragma once
#include "decode.cuh"

// A matrix of 8 x 8 16-bit values, transposed: lane i held values i % 4 * 2 and the one after it of row i / 4.
__device__ __forceinline__ u32 transpose_matrix(u32 x) {
    u32 r;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(x));
    return r;
}

// The same with two 32-bit values a lane, in halves.
__device__ __forceinline__ void transpose_pair(float& a, float& b) {
    const u32 x = __float_as_uint(a), y = __float_as_uint(b);
    const u32 low = transpose_matrix(__byte_perm(x, y, 0x5410)), high = transpose_matrix(__byte_perm(x, y, 0x7632));
    a = __uint_as_float(__byte_perm(low, high, 0x5410));
    b = __uint_as_float(__byte_perm(low, high, 0x7632));
}

// Softmax state and output of eight rows.
struct LeanState {
    float o[kDim / 16][4];
    float m[2];  // running maximum but for kLeanSlack, log2 domain
    float l[2];  // running sum of this lane's tokens

    __device__ __forceinline__ LeanState() {
#pragma unroll
        for (int j = 0; j < kDim / 16; ++j) o[j][0] = o[j][1] = o[j][2] = o[j][3] = 0.0f;
        m[0] = m[1] = -PS_INF;
        l[0] = l[1] = 0.0f;
    }
};

// As for prefill: weights are taken under a maximum that may lie so many powers of two below the true one. What it is
// worth here is the exchanges among lanes that finding the maximum takes.
constexpr float kLeanSlack = 8.0f;

// Q of eight rows as the right operand.
template <class S>
__device__ __forceinline__ void load_lean_q(u32 (&q)[kDim / 32][4], u32 queries, const Position<S>& at) {
#pragma unroll
    for (int k = 0; k < kDim / 32; ++k) {
        load_matrices(q[k], tile_address<S::kM>(queries, at.warp * S::kHeadRows + (at.lane & 7), k * 4 + (at.lane >> 3)));
    }
}

// Where a lane reads a stage: K by rows of tokens, V for its transpose.
template <class S>
struct LeanPlaces {
    u32 k, v;
    __device__ __forceinline__ explicit LeanPlaces(const Position<S>& at)
        : k(tile_address<S::kN>(0, at.warp * 16 + (at.lane & 15), at.lane >> 4)),
          v(tile_address<S::kN>(0, at.warp * 16 + (at.lane & 7) + (at.lane >> 4) * 8, at.lane >> 3 & 1)) {}

    // 16 dimensions from `step` * 16 on. Stages begin at multiples of 1 KiB, so that one xor exchanges the chunks.
    static __device__ __forceinline__ u32 at(u32 place, int step) {
        return (place ^ (step & 3) << 5) + (step >> 2) * (S::kN * 128);
    }
};

// Scores of 16 tokens, where there are `kScores`, and O^T += V^T P^T of the 16 before them, where there is `kOutput`.
template <class S, bool kScores, bool kOutput>
__device__ __forceinline__ void lean_products(float (&s)[4], LeanState& state, const u32 (&q)[kDim / 32][4],
                                              const u32 (&weights)[2], u32 k, u32 v) {
    float odd[4];
    if (kScores) {
#pragma unroll
        for (int c = 0; c < 4; ++c) s[c] = odd[c] = 0.0f;
    }
#pragma unroll
    for (int j = 0; j < kDim / 16; ++j) {
        u32 a[4];
        if (kScores) {
            load_matrices(a, LeanPlaces<S>::at(k, j));
            mma_16x8x16(j & 1 ? odd : s, a, q[j / 2][(j & 1) * 2], q[j / 2][(j & 1) * 2 + 1]);
        }
        if (kOutput) {
            load_matrices_transposed(a, LeanPlaces<S>::at(v, j));
            mma_16x8x16(state.o[j], a, weights[0], weights[1]);
        }
    }
    if (kScores) {
#pragma unroll
        for (int c = 0; c < 4; ++c) s[c] += odd[c];
    }
}

// A new maximum for the rows of which a score lies too far above the one there is. Not for the others, which then come
// out the same whatever rows are beside them.
__device__ __forceinline__ void raise_maximum(const float (&s)[4], LeanState& state) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
        float top = fmaxf(s[c], s[c + 2]);
#pragma unroll
        for (int step = 4; step <= 16; step *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
        const float m = top > state.m[c] + kLeanSlack ? top : state.m[c];
        const float shrink = exp2_fast(state.m[c] - m);
        state.m[c] = m;
        state.l[c] *= shrink;
#pragma unroll
        for (int j = 0; j < kDim / 16; ++j) {
            state.o[j][c] *= shrink;
            state.o[j][c + 2] *= shrink;
        }
    }
}

// Turns the scores of a tile, `valid` tokens of which exist, into weights as the right operand of PV.
__device__ __forceinline__ void lean_softmax(float (&s)[4], LeanState& state, u32 (&weights)[2], float scale, u32 valid,
                                             u32 lane) {
    bool above = false;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
        s[c] *= scale;
        if (valid < 16 && (lane >> 2) + (c >> 1) * 8 >= valid) s[c] = -PS_INF;
        above |= s[c] > state.m[c & 1] + kLeanSlack;
    }
    if (__any_sync(0xffffffffu, above)) raise_maximum(s, state);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
        s[c] = exp2_fast(s[c] - state.m[c & 1]);
        state.l[c & 1] += s[c];
    }
    weights[0] = transpose_matrix(pack_halves(s[0], s[1]));
    weights[1] = transpose_matrix(pack_halves(s[2], s[3]));
}

// The state as all other tiles have it: lane i holds row i / 4.
template <class S>
__device__ __forceinline__ void stand_up(RowState<S>& rows, LeanState& state, u32 lane) {
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j) {
        rows.o[j][0] = state.o[j / 2][(j & 1) * 2];
        rows.o[j][1] = state.o[j / 2][(j & 1) * 2 + 1];
        transpose_pair(rows.o[j][0], rows.o[j][1]);
    }
    float m[2], l[2];
#pragma unroll
    for (int c = 0; c < 2; ++c) {
        float sum = state.l[c];
#pragma unroll
        for (int step = 4; step <= 16; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        m[c] = __shfl_sync(0xffffffffu, state.m[c], lane >> 3);
        l[c] = __shfl_sync(0xffffffffu, sum, lane >> 3);
    }
    const bool second = lane >> 2 & 1;
    rows.m[0] = second ? m[1] : m[0];
    rows.l[0] = (lane & 3) != 0 ? 0.0f : second ? l[1] : l[0];
}
