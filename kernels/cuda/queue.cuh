// What the scout reads to know what comes next: items, their queries and blocks, and how many
// partials have arrived.
#pragma once
#include "layout.cuh"

__device__ __forceinline__ u32 load_acquire(const u32* p) {
    u32 r;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(r) : "l"(p) : "memory");
    return r;
}

__device__ __forceinline__ Item unpack_item(const uint4& a, const uint4& b) {
    Item item;
    item.query_begin = a.x;
    item.num_queries = a.y;
    item.block_begin = a.z;
    item.kv_tokens = a.w;
    item.task = b.x;
    item.tile = b.y;
    item.head_begin = b.z & 0xffff;
    item.head_count = b.z >> 16;
    item.marked = kItemsMark || PS_MASKS ? b.w : 1;
    return item;
}

__device__ __forceinline__ Item load_item(const Item* from) {
    const uint4* at = (const uint4*)from;
    return unpack_item(__ldg(at), __ldg(at + 1));
}

// Block of the `nth` unit of 2^`shift` tokens from the start of KV that begins with entry
// `block_begin` of the block list.
__device__ __forceinline__ u32 block_of(const DecodeParams& p, u32 block_begin, u32 kv_tokens, u32 nth, u32 shift) {
    u32 token = nth << shift;
    return token < kv_tokens ? __ldg(p.block_ids + block_begin + (token >> p.block_shift)) : 0;
}

// What a lane of the scout holds of an item.
struct Work {
    Item item;
    uint4 query;  // entry `lane` of its list
    u32 block;    // block of its box `lane`
};

__device__ __forceinline__ Work load_work(const DecodeParams& p, u32 index, u32 lane) {
    const Entry* entry = p.entries + index;
    const bool listed = lane < kEntryQueries;
    return {load_item(&entry->item), listed ? __ldg((const uint4*)entry->queries + lane) : make_uint4(0, 0, 0, 0),
            __ldg(entry->blocks + lane)};
}
