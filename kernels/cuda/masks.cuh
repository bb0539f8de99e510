// Packs that go on below what their queries share: their tiles hold tokens that only some of the queries see.
//
//   tile 0         tile 1                    tile 2
//   shared by all  of query 0 | of query 1   of queries 2 and 3 | of query 2
//
// The host says for each tile which 16 of its tokens each query sees, four bits of a byte, a word for 8 tiles. The softmax
// leaves out 16 tokens at a time. All see a token of the first tile, so that no row's maximum stays at minus infinity.
//
// Where tiles come by bulk copies, what no query sees comes as zeros before what some does (`Producer::box_of`). So behind the words of
// all queries for 8 tiles four bits say of each 16 tokens how many of these begin them. By other copies blocks may be smaller
// than 16 tokens: behind the words of all tiles each tile has more of them, which of its tokens each query sees, a bit each, and which some
// query does.
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

// What a query sees of the first 8 tiles of the task.
__device__ __forceinline__ u64 first_masks_of(const TaskInfo& info, u32 query) {
#if PS_MASKS
    return info.seen[query];
#else
    return 0;
#endif
}

template <class S>
struct RowMasks {
    static constexpr bool kOn = PS_MASKS && S::kMasked && S::kTeams == 1;
    static constexpr bool kZeros = PS_TMA;  // what no query sees comes as zeros
    static constexpr int kAlike8 = kOn ? 2 : S::kTokens8;
    static_assert(!kOn || S::kTokens8 == 8, "a thread holds scores of all tokens of a row");
    const u64* const masks;  // in no register: a parameter
    u32 next;   // where the bytes of the tiles at hand are, plus one; 0 where there are none
    u32 words;  // where what is seen of each token of this tile is, plus one; not with `kZeros`
    // In one register, since all are in use: the queries of the two rows of this lane, a byte each, then how many there are,
    // and `kGaps`.
    u32 packed;
    u64 seen[2];  // by these rows: a byte for this tile, then for those that follow

    // Of a byte, beside the four bits of 16 tokens each: what some query sees begins or ends within 16 tokens of this tile, or
    // without `kZeros` no query sees one of its tokens, whose score may be no number. All queries' bytes say so.
    static constexpr u32 kRagged = 0x10;

    __device__ __forceinline__ RowMasks(const DecodeParams& p, const TaskInfo& info, const Position<S>& at)
        : masks(p.masks - 1), next(0) {
        if constexpr (kOn) {
            seen[0] = seen[1] = 0xf;
            const u32 own = masks_of(info);
            if (own == 0) return;
            next = own & ~kGaps;
            packed = (own & kGaps) | info.num_queries << 16;
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                packed |= min(query_of_row(p, at.row() + r * 8), info.num_queries - 1) << (r * 8);
                seen[r] = first_masks_of(info, query(r));
            }
            const u32 tiles = (info.kv_tokens + S::kTokens - 1) / S::kTokens, runs = (tiles + 7) / 8;
            words = next + runs * queries();
            // A way to HBM each otherwise.
            const u32 all = kZeros ? runs * of_run() : words - next + tiles * (queries() + 1);
#pragma unroll 1
            for (u32 i = at.thread * 16; i < all; i += kConsumers * 16) {
                asm volatile("prefetch.global.L1 [%0];" ::"l"(masks + next + i));
            }
        }
    }

    // That a task goes through: by bulk copies all of the last tile comes, zeros behind the last block.
    static __device__ __forceinline__ u32 tokens(const TaskInfo& info) {
        const u32 own = info.kv_tokens;
        const bool all = kOn && kZeros && masks_of(info) != 0;
        return alike(all ? (own + S::kTokens - 1) / S::kTokens * S::kTokens : own);
    }

    __device__ __forceinline__ u32 queries() const { return packed >> 16 & 0xff; }
    __device__ __forceinline__ u32 query(int row) const { return packed >> (row * 8) & 0xff; }
    // Words for 8 tiles, the last of them of how many tokens are zeros.
    __device__ __forceinline__ u32 of_run() const { return queries() + (kZeros ? 2 : 0); }

    // To the next tile. A byte is never 0; with `kZeros` a word has all eight.
    __device__ __forceinline__ void advance() {
        if constexpr (kOn) {
            if (next == 0) return;
            seen[0] >>= 8;
            seen[1] >>= 8;
            if (seen[0] == 0) {
                next += of_run();
#pragma unroll
                for (int r = 0; r < 2; ++r) seen[r] = load_early(masks + next + query(r));
            }
            if constexpr (!kZeros) words += queries() + 1;
        }
    }

    // Whether a row sees the 16 tokens of the tile at hand that 8 tokens `j` are of.
    __device__ __forceinline__ bool sees(int row, int j) const { return !kOn || (u32)seen[row] >> (j / 2) & 1; }

    // Hides scores of a ragged tile, with `kZeros` those of zeros; without, a row then sees all of it.
    __device__ __forceinline__ void hide(float (&s)[S::kTokens8][4], const Position<S>& at) const {
        if constexpr (kOn) {
            if (!((u32)seen[0] & kRagged)) return;
            const u32 first = (at.lane & 3) * 2;
            if constexpr (kZeros) {
                const u16* const zeros = (const u16*)(masks + next + queries());
                const u32 of_tile = __ldg(zeros + __clzll(seen[0]) / 8);
#pragma unroll
                for (int j = 0; j < S::kTokens8; ++j) {
                    const u32 count = of_tile >> (j / 2 * 4) & 15;
#pragma unroll
                    for (int c = 0; c < 4; ++c) {
                        if (first + j % 2 * 8 + (c & 1) < count) s[j][c] = -PS_INF;
                    }
                }
                return;
            }
            const u64 own[2] = {__ldg(masks + words + query(0)) >> first, __ldg(masks + words + query(1)) >> first};
#pragma unroll
            for (int j = 0; j < S::kTokens8; ++j) {
#pragma unroll
                for (int c = 0; c < 4; ++c) {
                    if (!(own[c >> 1] >> (j * 8 + (c & 1)) & 1)) s[j][c] = -PS_INF;
                }
            }
        }
    }

    // Rows of V that no query sees may hold anything, NaN included: they are cleared, where they do not come as zeros. V is that
    // of `before` tiles before this one.
    __device__ __forceinline__ void clear_gaps(u32 stage, u32 before) const {
        if constexpr (kOn && !kZeros) {
            if (next == 0 || !(packed & kGaps)) return;
            const u64 live = __ldg(masks + words + queries() - before * (queries() + 1));
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
