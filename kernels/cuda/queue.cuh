// What the producer reads to know what comes next: items, their queries and blocks, and how many
// partials have arrived.
#pragma once
#include "layout.cuh"

__device__ __forceinline__ u32 load_relaxed(const u32* p) {
    u32 r;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(r) : "l"(p) : "memory");
    return r;
}

__device__ __forceinline__ Item load_item(const Item* from) {
    const uint4* at = (const uint4*)from;
    uint4 a = __ldg(at), b = __ldg(at + 1);
    Item item;
    item.query_begin = a.x;
    item.num_queries = a.y;
    item.block_begin = a.z;
    item.kv_tokens = a.w;
    item.task = b.x;
    item.tile = b.y;
    item.head_begin = b.z & 0xffff;
    item.head_count = b.z >> 16;
    return item;
}

// Block of the `nth` unit of 2^`shift` tokens from the start of the pack's KV.
__device__ __forceinline__ u32 block_of(const DecodeParams& p, const Item& item, u32 nth, u32 shift) {
    u32 token = nth << shift;
    return token < item.kv_tokens ? __ldg(p.block_ids + item.block_begin + (token >> p.block_shift)) : 0;
}

// The item that comes next, fetched in steps between the last tiles of the one at hand: each
// step uses what the one before asked for, and none is waited for.
struct Ahead {
    u32 index;
    u32 claim;  // lane 0: the place in the queue that was asked for
    u32 step;
    Item item;
    uint4 query;        // entry `lane` of its list
    u32 blocks, later;  // blocks of its boxes `lane` and `32 + lane`
    u32 seen[4];        // arrivals at that query for the first heads
};
