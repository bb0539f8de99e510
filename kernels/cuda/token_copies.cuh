// Tiles of K and V token by token, 16 bytes a lane, for GPUs without bulk copies and for blocks that are too small for
// them. The lanes of a warp know where the rows of the next tokens begin, one each, and tell each other as they copy.
#pragma once
#include "async_copy.cuh"
#include "tile.cuh"

// Elements in which places in the cache are counted: rows begin at multiples of it, and 32 bits reach 512 GiB.
constexpr u32 kPlace = 64;

// Place of a token's row of a KV head.
template <class Params>
__device__ __forceinline__ u32 token_place(const Params& p, u32 block, u32 token, u32 kv_head) {
    const u32 in_block = token & ((1u << p.block_shift) - 1);
    return (u32)((block * p.stride_block + in_block * p.stride_token + kv_head * p.stride_head) / kPlace);
}

// Of a warp's `kOwn` tokens of a tile lane i has tokens i, i + 32, ...: the blocks that they are in, or their places in the
// cache.
template <u32 kOwn>
struct OwnTokens {
    static constexpr u32 kParts = (kOwn + 31) / 32, kPart = kOwn < 32 ? kOwn : 32;
    static_assert(kOwn % kPart == 0, "each part has as many tokens");
    u32 of[kParts];
};

// Places of those from token `first` on, in their blocks.
template <u32 kOwn, class Params>
__device__ __forceinline__ OwnTokens<kOwn> places_of(const Params& p, const OwnTokens<kOwn>& blocks, u32 first, u32 kv_head,
                                                     u32 lane) {
    OwnTokens<kOwn> places;
#pragma unroll
    for (u32 part = 0; part < OwnTokens<kOwn>::kParts; ++part) {
        places.of[part] = token_place(p, blocks.of[part], first + part * 32 + lane, kv_head);
    }
    return places;
}

// Copies `kTokens` rows to row `row` (a multiple of 8) of a tile of `kRows` rows and those after it; lane i has the place
// of the i-th. Rows from the `real`-th on become zeros. With `kKeeps` the address of the first copy is kept for the others:
// half of the instructions, but registers that one copying warp of decode has not.
template <int kRows, u32 kTokens, int kAtOnce, bool kKeeps>
__device__ __forceinline__ void copy_tokens(u32 tile, u32 row, const u16* cache, u32 place, int real, u32 lane) {
    constexpr u32 kChunks = kDim / 8, kTokensPerCopy = 32 / kChunks;
    const u32 chunk = lane % kChunks, own = lane / kChunks;
    // `tile_address` of the copies to come differs from that of the first by their rows, in two places.
    const u32 first = tile_address<kRows>(tile, row + own, chunk);
#pragma unroll kAtOnce
    for (u32 i = 0; i < kTokens; i += kTokensPerCopy) {
        const u16* from = cache + (u64)__shfl_sync(0xffffffffu, place, i + own) * kPlace + chunk * 8;
        const u32 to = kKeeps ? (first ^ (i & 7) << 4) + i * 128 : tile_address<kRows>(tile, row + i + own, chunk);
        copy_16(to, from, (int)(i + own) < real);
    }
}
