// The producer warp: takes items off the queue and keeps the ring full, running ahead of
// the consumers across tiles, KV heads and items.
#pragma once
#include "async_copy.cuh"
#include "layout.cuh"

struct Producer {
    const DecodeParams& p;
    SharedMemory& shared;
    u32 lane;
    RingCursor<kStages> cursor;

    __device__ __forceinline__ Producer(const DecodeParams& params, SharedMemory& memory)
        : p(params), shared(memory), lane(threadIdx.x & 31) {}

    __device__ __forceinline__ u32 full() { return smem_address(&shared.scratch.full[cursor.stage]); }
    __device__ __forceinline__ u32 stage() { return smem_address(shared.ring[cursor.stage]); }

    __device__ __forceinline__ void wait_empty() {
        barrier_wait(smem_address(&shared.scratch.empty[cursor.stage]), cursor.parity ^ 1);
    }

    // A stage is full after 33 arrivals: one of each lane, tied to its copies, and one of
    // lane 0 for what the warp wrote by ordinary stores.
    __device__ __forceinline__ void arrive_on_copies() {
        __syncwarp();
        barrier_arrive_on_copies(full());
        if (lane == 0) barrier_arrive(full());
    }

    // Q rows of the pack, gathered through the query list; rows past the last are zeros.
    template <int M>
    __device__ void load_queries(const Item& item, u32 kv_head) {
        constexpr u32 kChunks = kDim / 8;
        wait_empty();
        TaskInfo& info = shared.scratch.info[cursor.stage];
        for (u32 i = lane; i < item.num_queries; i += 32) info.query[i] = __ldg(p.query_index + item.query_begin + i);
        if (lane == 0) {
            info.num_queries = item.num_queries;
            info.kv_tokens = item.kv_tokens;
            info.slot_begin = item.slot_begin;
            info.task = item.task;
            info.tile = item.tile;
            info.kv_head = kv_head;
            info.stop = 0;
        }
        __syncwarp();
        u32 rows = item.num_queries << p.group_shift;
        u32 group_mask = (1u << p.group_shift) - 1;
        u32 base = stage();
        const u16* head = p.queries + (u64)(kv_head << p.group_shift) * kDim;
        u64 stride = (u64)p.q_heads * kDim;
#pragma unroll 4
        for (u32 i = lane; i < M * kChunks; i += 32) {
            u32 row = i / kChunks, chunk = i % kChunks;
            bool valid = row < rows;
            u32 query = valid ? info.query[row >> p.group_shift] : 0;
            copy_16(tile_address<M>(base, row, chunk), head + query * stride + (row & group_mask) * kDim + chunk * 8,
                    valid);
        }
        arrive_on_copies();
        cursor.advance();
    }

#if PS_TMA
    // One K or V tile: each box of `box_tokens` tokens and 64 dimensions is one bulk copy,
    // issued by its own lane. Boxes past the last token are not fetched.
    template <int N>
    __device__ __forceinline__ void load_tile(const TensorMap* map, u32 kv_head, u32 boxes, u32 block, u32 token) {
        constexpr u32 kHalves = kDim / 64;
        wait_empty();
        u32 bar = full();
        if (lane == 0) {
            barrier_expect(bar, boxes * p.box_tokens * kDim * 2);
        }
        __syncwarp();
        u32 box = lane / kHalves, half = lane % kHalves;
        if (box < boxes) {
            copy_box(stage() + half * (N * 128) + box * p.box_tokens * 128, map, bar, half * 64, token, kv_head, block);
        }
        barrier_arrive(bar);
        cursor.advance();
    }

    template <int N>
    __device__ void load_kv(const Item& item, u32 kv_head) {
        constexpr u32 kHalves = kDim / 64;
        const u32* blocks = p.block_ids + item.block_begin;
        u32 per_tile = N / p.box_tokens;
        for (u32 begin = 0; begin < item.kv_tokens; begin += N) {
            u32 left = item.kv_tokens - begin;
            u32 boxes = left >= N ? per_tile : (left + p.box_tokens - 1) / p.box_tokens;
            u32 token = begin + (lane / kHalves) * p.box_tokens;
            u32 block = 0, within = 0;
            if (lane / kHalves < boxes) {
                u32 nth = token / p.block_size;
                block = __ldg(blocks + nth);
                within = token - nth * p.block_size;
            }
            load_tile<N>(&p.k_map, kv_head, boxes, block, within);
            load_tile<N>(&p.v_map, kv_head, boxes, block, within);
        }
    }
#else
    // One K or V tile by 16-byte copies. Lane u < N / 16 knows where its 16 tokens begin.
    template <int N>
    __device__ __forceinline__ void load_tile(const u16* cache, u32 units, u64 unit_base) {
        constexpr u32 kChunks = kDim / 8;
        constexpr u32 kRowsPerCopy = 32 / kChunks;
        wait_empty();
        u32 base = stage();
        u32 row_in_copy = lane / kChunks, chunk = lane % kChunks;
        for (u32 unit = 0; unit < units; ++unit) {
            u64 from = __shfl_sync(0xffffffffu, unit_base, unit) + chunk * 8;
#pragma unroll
            for (u32 row = 0; row < 16; row += kRowsPerCopy) {
                u32 in_unit = row + row_in_copy;
                copy_16(tile_address<N>(base, unit * 16 + in_unit, chunk), cache + from + in_unit * p.stride_token,
                        true);
            }
        }
        arrive_on_copies();
        cursor.advance();
    }

    template <int N>
    __device__ void load_kv(const Item& item, u32 kv_head) {
        const u32* blocks = p.block_ids + item.block_begin;
        for (u32 begin = 0; begin < item.kv_tokens; begin += N) {
            u32 left = item.kv_tokens - begin;
            u32 units = left >= N ? N / 16 : (left + 15) / 16;
            u64 unit_base = 0;
            if (lane < units) {
                u32 token = begin + lane * 16;
                u32 nth = token / p.block_size;
                unit_base = (u64)__ldg(blocks + nth) * p.stride_block + (u64)kv_head * p.stride_head +
                            (u64)(token - nth * p.block_size) * p.stride_token;
            }
            load_tile<N>(p.k, units, unit_base);
            load_tile<N>(p.v, units, unit_base);
        }
    }
#endif

    __device__ __forceinline__ Item load_item(u32 index) {
        const uint4* at = (const uint4*)(p.items + index);
        uint4 a = __ldg(at), b = __ldg(at + 1);
        Item item;
        item.query_begin = a.x;
        item.num_queries = a.y;
        item.block_begin = a.z;
        item.kv_tokens = a.w;
        item.slot_begin = b.x;
        item.task = b.y;
        item.tile = b.z;
        item.head_begin = b.w & 0xffff;
        item.head_count = b.w >> 16;
        return item;
    }

    __device__ __forceinline__ void load_task(const Item& item, u32 kv_head) {
        switch (item.tile) {
#define PS_PRODUCE(index, m, n)          \
    case index:                          \
        load_queries<m>(item, kv_head);  \
        load_kv<n>(item, kv_head);       \
        break;
            PS_TILE_LIST(PS_PRODUCE)
#undef PS_PRODUCE
        }
    }

    // The persistent kernel's queue: the first item of a CTA is its own number, the others
    // come in the plan's order to whoever has room. The last CTA out resets the counters.
    __device__ void run() {
#if PS_TMA
        if (lane == 0) {
            prefetch_map(&p.k_map);
            prefetch_map(&p.v_map);
        }
#endif
        u32 index = blockIdx.x;
        while (index < p.num_items) {
            u32 next = p.num_items;
#if PS_FUSED
            if (lane == 0) next = gridDim.x + atomicAdd(p.queue, 1u);
#endif
            Item item = load_item(index);
            for (u32 h = 0; h < item.head_count; ++h) load_task(item, item.head_begin + h);
            index = __shfl_sync(0xffffffffu, next, 0);
        }
        wait_empty();
        if (lane == 0) shared.scratch.info[cursor.stage].stop = 1;
        __syncwarp();
        barrier_arrive(full());
        if (lane == 0) barrier_arrive(full());
#if PS_FUSED
        if (lane == 0) {
            u32 done = atomicAdd(p.queue + 1, 1u);
            if (done + 1 == gridDim.x) {
                p.queue[0] = 0;
                p.queue[1] = 0;
            }
        }
#endif
    }
};
