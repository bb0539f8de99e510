// Tile 128 x 128, whose packs have masks: two warpgroups take 64 rows each of the same K and V.
//
//   tile of tokens that all see      warpgroup instructions, PV of a tile during the softmax of the next
//   one that few see                 each warp by itself, of 32 tokens at a time only those that a row of it sees; or all of
//                                    these a third warpgroup beside (PS_APART, few.cuh)
//
// The host says for each tile which 32 tokens of it which warp sees (`kSeenByAll`), and behind these for each 64 tokens
// what each query sees, a bit a token, and what some query does.
#pragma once
#include "decode.cuh"
#include "masks.cuh"
#include "wgmma.cuh"

#if PS_WGMMA
#if PS_APART
// Which tiles all see, the others being for the warpgroup beside.
template <class S>
struct TallMasks {
    const u64* const masks;  // in no register: a parameter
    const u32 first, tiles;  // of the task
    u32 whole;               // of the 32 at hand, a bit each

    __device__ __forceinline__ TallMasks(const DecodeParams& p, const TaskInfo& info, const Position<S>& at)
        : masks(p.masks - 1), first(masks_of(info) & ~kGaps), tiles((info.kv_tokens + S::kTokens - 1) / S::kTokens) {
        // A way to HBM otherwise.
        if (at.thread * 16 < tiles) asm volatile("prefetch.global.L1 [%0];" ::"l"(masks + first + at.thread * 16));
    }

    // They are asked for in their order.
    __device__ __forceinline__ u64 of_tile(u32 tile, u32 lane) {
        if ((tile & 31) == 0) {
            const u32 own = tile + lane;
            whole = __ballot_sync(0xffffffffu, own < tiles && (__ldg(masks + first + own) & kSeenByAll));
        }
        return whole >> (tile & 31) & 1 ? kSeenByAll : 0;
    }
};
#else
template <class S>
struct TallMasks {
    const u64* const masks;  // first of the tiles, then of the queries
    const u32 tiles, queries;
    u32 rows[2];  // the queries of this lane's rows
    u64 ahead;    // lane i: of the tile that comes whose number modulo 32 is i

    __device__ __forceinline__ TallMasks(const DecodeParams& p, const TaskInfo& info, const Position<S>& at)
        : masks(p.masks + (masks_of(info) & ~kGaps) - 1),
          tiles((info.kv_tokens + S::kTokens - 1) / S::kTokens),
          queries(info.num_queries) {
#pragma unroll
        for (int r = 0; r < 2; ++r) rows[r] = min(query_of_row(p, at.row() + r * 8), queries - 1);
        // A way to HBM each otherwise, for every tile.
#pragma unroll 1
        for (u32 i = at.thread * 16; i < tiles * (2 * queries + 3); i += kConsumers * 16) {
            asm volatile("prefetch.global.L1 [%0];" ::"l"(masks + i));
        }
    }

    // What is said of a tile; they are asked for in their order.
    __device__ __forceinline__ u64 of_tile(u32 tile, u32 lane) {
        if ((tile & 31) == 0) ahead = tile + lane < tiles ? __ldg(masks + tile + lane) : 0;
        return __shfl_sync(0xffffffffu, ahead, tile & 31);
    }

    // Of 32 tokens of a tile, which these rows see.
    __device__ __forceinline__ void seen(u32 (&own)[2], u32 tile, u32 part) const {
        const u32* const from = (const u32*)(masks + tiles + (2 * tile + part / 2) * (queries + 1)) + (part & 1);
#pragma unroll
        for (int r = 0; r < 2; ++r) own[r] = __ldg(from + 2 * rows[r]);
    }
};

// 32 tokens at a time of a tile that few see, as far as a row of this warp sees any: by the warp alone.
template <class S>
struct SparsePart {
    float s[4][4];
    u32 left;    // those to do, a bit each
    u32 own[2];  // of the first of them, which tokens these rows see

    __device__ __forceinline__ SparsePart(const TallMasks<S>& masks, u32 tile, u32 seen, const Position<S>& at)
        : left(seen >> at.warp * 4 & 15) {
        if (left != 0) masks.seen(own, tile, first());
    }

    __device__ __forceinline__ bool any() const { return left != 0; }
    __device__ __forceinline__ u32 first() const { return __ffs(left) - 1; }

    __device__ __forceinline__ void advance(const TallMasks<S>& masks, u32 tile) {
        left &= left - 1;
        if (left != 0) masks.seen(own, tile, first());
    }

    __device__ __forceinline__ void scores(u32 queries, u32 k_stage, const Position<S>& at) {
        scores_of_staying(s, queries, k_stage, first() * 32, at);
    }

    // Softmax of the scores, and P V.
    __device__ __forceinline__ void output(RowState<S>& state, u32 v_stage, float scale, const Position<S>& at) {
        float top[2] = {-PS_INF, -PS_INF}, shrink[2];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                if (!(own[c >> 1] >> (j * 8 + (at.lane & 3) * 2 + (c & 1)) & 1)) s[j][c] = -PS_INF;
                top[c >> 1] = fmaxf(top[c >> 1], s[j][c]);
            }
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float m = fmaxf(state.m[r], quad_max(top[r]) * scale);
            if (m - state.m[r] <= kLag) m = state.m[r];
            // A row may have seen no token so far.
            const float from = m == -PS_INF ? 0.0f : m;
            shrink[r] = exp2_fast(state.m[r] - from);
            state.m[r] = m;
            float sum = 0.0f;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                s[j][2 * r] = exp2_fast(s[j][2 * r] * scale - from);
                s[j][2 * r + 1] = exp2_fast(s[j][2 * r + 1] * scale - from);
                sum += s[j][2 * r] + s[j][2 * r + 1];
            }
            state.l[r] = state.l[r] * shrink[r] + sum;
        }
        if (__any_sync(0xffffffffu, shrink[0] != 1.0f || shrink[1] != 1.0f)) rescale(state, shrink);
        u32 weights[2][4];
        pack_weights(weights, s);
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            const u32 row = first() * 32 + k * 16 + (at.lane & 15);
#pragma unroll
            for (int d = 0; d < kDim / 16; ++d) {
                u32 v[4];
                load_matrices_transposed(v, tile_address<S::kN>(v_stage, row, d * 2 + (at.lane >> 4)));
                mma_16x8x16(state.o[2 * d], weights[k], v[0], v[1]);
                mma_16x8x16(state.o[2 * d + 1], weights[k], v[2], v[3]);
            }
        }
    }
};
#endif
#endif
