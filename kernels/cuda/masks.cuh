// Packs that go on below what their queries share: their tiles hold tokens that only some of the queries see.
//
//   tile 0         tile 1                    tile 2
//   shared by all  of query 0 | of query 1   of queries 2 and 3 | of query 2
//
// The host says for each tile which of its tokens each query sees, a bit a token, and behind these which some query sees.
// All see a token of the first tile, so that no row's maximum stays at minus infinity.
#pragma once
#include "decode.cuh"

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
    static constexpr bool kOn = PS_MASKS && S::kMasked && S::kTeams == 1;
    const u64* const masks;  // in no register: a parameter
    u32 next;  // where those of the tile that comes are, plus one; 0 where there are none
    // In one register, since all are in use: the queries of the two rows of this lane, a byte each, then the words of a tile,
    // and `kGaps`.
    u32 packed;
    u64 seen[2];  // by these rows, of the tile at hand

    __device__ __forceinline__ RowMasks(const DecodeParams& p, const TaskInfo& info, const Position<S>& at)
        : masks(p.masks - 1), next(0) {
        if constexpr (kOn) {
            const u32 own = masks_of(info);
            if (own == 0) return;
            next = own & ~kGaps;
            packed = (own & kGaps) | (info.num_queries + 1) << 16;
#pragma unroll
            for (int r = 0; r < 2; ++r) packed |= min(query_of_row(p, at.row() + r * 8), info.num_queries - 1) << (r * 8);
            // A way to HBM each otherwise, for every tile.
            const u32 all = (info.kv_tokens + S::kTokens - 1) / S::kTokens * words();
#pragma unroll 1
            for (u32 i = at.thread * 16; i < all; i += kConsumers * 16) {
                asm volatile("prefetch.global.L1 [%0];" ::"l"(masks + next + i));
            }
        }
    }

    __device__ __forceinline__ u32 words() const { return packed >> 16 & 0xff; }

    // Asks for those of the tile that comes.
    __device__ __forceinline__ void advance() {
        if constexpr (kOn) {
            if (next == 0) return;
#pragma unroll
            for (int r = 0; r < 2; ++r) seen[r] = load_early(masks + next + (packed >> (r * 8) & 0xff));
            next += words();
        }
    }

    // Scores of tokens that a row does not see.
    __device__ __forceinline__ void hide(float (&s)[S::kTokens8][4], const Position<S>& at) const {
        if constexpr (kOn) {
            // Most tiles are of all.
            if (next == 0 || __all_sync(0xffffffffu, (seen[0] & seen[1]) == ~0ull)) return;
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
            if (next == 0 || !(packed & kGaps)) return;
            const u64 live = __ldg(masks + next - 1 - before * words());
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
