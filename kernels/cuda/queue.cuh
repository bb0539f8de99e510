// What the scout reads to know what comes next: items, their queries and blocks, and how many
// partials have arrived.
#pragma once
#include "layout.cuh"
#ifndef PS_ACQ
#define PS_ACQ 0
#endif

__device__ __forceinline__ u32 load_relaxed(const u32* p) {
    u32 r;
#if PS_ACQ
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(r) : "l"(p) : "memory");
#else
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(r) : "l"(p) : "memory");
#endif
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

// Block of the `nth` unit of 2^`shift` tokens from the start of KV that begins with entry
// `block_begin` of the block list.
__device__ __forceinline__ u32 block_of(const DecodeParams& p, u32 block_begin, u32 kv_tokens, u32 nth, u32 shift) {
    u32 token = nth << shift;
    return token < kv_tokens ? __ldg(p.block_ids + block_begin + (token >> p.block_shift)) : 0;
}
