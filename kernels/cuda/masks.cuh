// Packs that go on below what their queries share: their tiles hold tokens that only some of the queries see.
//
//   tile 0         tile 1                    tile 2
//   shared by all  of query 0 | of query 1   of queries 2 and 3 | of query 2
//
// The host says for each tile which of its tokens each query sees, a bit a token, and behind these which some query sees.
// All see a token of the first tile, so that no row's maximum stays at minus infinity.
#pragma once
#include "decode.cuh"

// What `TaskInfo::masks` has besides: where the masks of the task begin, plus one, or 0 where it has none.
constexpr u32 kGaps = 0x40000000u;  // some tile has tokens that no query sees

// Asked for here, and not where it is first used.
__device__ __forceinline__ u64 load_early(const u64* p) {
    u64 r;
    asm volatile("ld.global.nc.u64 %0, [%1];" : "=l"(r) : "l"(p));
    return r;
}

__device__ __forceinline__ u32 masks_of(const TaskInfo& info) {
#if PS_MASKS
    return info.masks;
#else
    return 0;
#endif
}

template <class S>
struct RowMasks {
    static constexpr bool kOn = PS_MASKS && S::kM == 64 && S::kN == 64 && kDim <= 128;
    const u64* next;  // of the tile that comes, or null
    u32 queries;
    u32 query[2];  // those of the two rows of this lane
    u64 seen[2];   // by these rows, of the tile at hand
    bool gaps;

    __device__ __forceinline__ RowMasks(const DecodeParams& p, const TaskInfo& info, const Position<S>& at)
        : next(nullptr), gaps(false) {
        if constexpr (kOn) {
            const u32 masks = masks_of(info);
            if (masks == 0) return;
            next = p.masks + (masks & ~kGaps) - 1;
            gaps = masks & kGaps;
            queries = info.num_queries;
#pragma unroll
            for (int r = 0; r < 2; ++r) query[r] = min(query_of_row(p, at.row() + r * 8), queries - 1);
            // A way to HBM each otherwise, for every tile.
            const u32 words = (info.kv_tokens + S::kTokens - 1) / S::kTokens * (queries + 1);
#pragma unroll 1
            for (u32 i = at.thread * 16; i < words; i += kConsumers * 16) {
                asm volatile("prefetch.global.L1 [%0];" ::"l"(next + i));
            }
        }
    }

    // Asks for those of the tile that comes.
    __device__ __forceinline__ void advance() {
        if constexpr (kOn) {
            if (next == nullptr) return;
#pragma unroll
            for (int r = 0; r < 2; ++r) seen[r] = load_early(next + query[r]);
            next += queries + 1;
        }
    }

    // Scores of tokens that a row does not see.
    __device__ __forceinline__ void hide(float (&s)[S::kTokens8][4], const Position<S>& at) const {
        if constexpr (kOn) {
            // Most tiles are of all.
            if (next == nullptr || __all_sync(0xffffffffu, (seen[0] & seen[1]) == ~0ull)) return;
            const u32 first = (at.lane & 3) * 2;
            const u64 own[2] = {seen[0] >> first, seen[1] >> first};
#pragma unroll
            for (int j = 0; j < S::kTokens8; ++j) {
#pragma unroll
                for (int c = 0; c < 4; ++c) {
                    if (!(own[c >> 1] >> (j * 8 + (c & 1)) & 1)) s[j][c] = -PS_INF;
                }
            }
        }
    }

    // Rows of V that no query sees may hold anything, NaN included: they are cleared. V is that of the tile `before` tiles
    // before the last one that was asked for.
    __device__ __forceinline__ void clear_gaps(u32 stage, u32 before) const {
        if constexpr (kOn) {
            if (next == nullptr || !gaps) return;
            const u64 live = __ldg(next - 1 - before * (queries + 1));
            if (live == ~0ull) return;
            constexpr u32 kChunks = kDim / 8;
            // As in `clear_tail`.
            sync_threads(1, kConsumers);
#pragma unroll 1
            for (u32 i = threadIdx.x; i < S::kTokens * kChunks; i += kConsumers) {
                if (live >> i / kChunks & 1) continue;
                const u32 address = tile_address<S::kN>(stage, i / kChunks, i % kChunks);
                asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
            }
            fence_async_proxy();
            sync_threads(1, kConsumers);
        }
    }
};
