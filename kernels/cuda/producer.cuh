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
        __syncwarp();
    }

    // A stage is full after 33 arrivals: one of each lane, tied to its copies, and one of
    // lane 0 for what the warp wrote by ordinary stores.
    __device__ __forceinline__ void arrive_on_copies() {
        __syncwarp();
        barrier_arrive_on_copies(full());
        if (lane == 0) barrier_arrive(full());
    }

    // Q rows of the pack, gathered through the query list; rows past the last are zeros.
    // With four heads side by side, each has its own 16 rows.
    template <class S>
    __device__ __forceinline__ void load_queries(const Item& item, u32 kv_head, u32 heads) {
        constexpr u32 kChunks = kDim / 8;
        u32 mine = lane < item.num_queries ? __ldg(p.query_index + item.query_begin + lane) : 0;
        wait_empty();
        TaskInfo& info = shared.scratch.info[cursor.stage];
        if (lane < item.num_queries) info.query[lane] = mine;
        for (u32 i = lane + 32; i < item.num_queries; i += 32) {
            info.query[i] = __ldg(p.query_index + item.query_begin + i);
        }
        if (lane == 0) {
            info.num_queries = item.num_queries;
            info.kv_tokens = item.kv_tokens;
            info.slot_begin = item.slot_begin;
            info.task = item.task;
            info.tile = item.tile;
            info.kv_head = kv_head;
            info.heads = heads;
            info.stop = 0;
        }
        __syncwarp();
        u32 rows = item.num_queries << p.group_shift;
        u32 group_mask = (1u << p.group_shift) - 1;
        u32 base = stage();
        u64 stride = (u64)p.q_heads * kDim;
#pragma unroll 2
        for (u32 i = lane; i < S::kM * kChunks; i += 32) {
            u32 row = i / kChunks, chunk = i % kChunks;
            u32 head = S::kPerWarp ? row / 16 : 0, in_head = S::kPerWarp ? row % 16 : row;
            bool valid = in_head < rows && head < heads;
            u32 query = valid ? info.query[in_head >> p.group_shift] : 0;
            u32 q_head = valid ? ((kv_head + head) << p.group_shift) + (in_head & group_mask) : 0;
            copy_16(tile_address<S::kM>(base, row, chunk), p.queries + query * stride + q_head * kDim + chunk * 8,
                    valid);
        }
        arrive_on_copies();
        cursor.advance();
    }

    // Block of the `nth` unit of 2^`shift` tokens from the start of the pack's KV.
    __device__ __forceinline__ u32 block_of(const Item& item, u32 nth, u32 shift) {
        u32 token = nth << shift;
        return token < item.kv_tokens ? __ldg(p.block_ids + item.block_begin + (token >> p.block_shift)) : 0;
    }

#if PS_TMA
    // One K or V tile: each box of 2^`shift` tokens and 64 dimensions is one bulk copy,
    // issued by its own lane. Boxes past the last token are not fetched.
    template <class S>
    __device__ __forceinline__ void load_tile(const TensorMap* map, u32 shift, u32 kv_head, u32 boxes, u32 block,
                                              u32 token) {
        constexpr u32 kHalves = kDim / 64;
        wait_empty();
        u32 bar = full();
        if (lane == 0) barrier_expect(bar, (boxes << shift) * (kDim * 2 * S::kHeads));
        __syncwarp();
        u32 box = lane / kHalves, half = lane % kHalves;
        if (box < boxes) {
            copy_box(stage() + half * (S::kN * 128) + (box << shift) * 128, map, bar, half * 64, token, kv_head, block,
                     S::kPerWarp);
        }
        barrier_arrive(bar);
        cursor.advance();
    }

    // All tiles of the pack. Lane i knows the block of box `first + i`; the next 32 are
    // fetched while these are used.
    template <class S>
    __device__ __forceinline__ void load_task(const Item& item, u32 kv_head, u32 heads) {
        constexpr u32 kHalves = kDim / 64;
        const u32 shift = S::kPerWarp ? 4 : p.box_shift;
        const TensorMap* k_map = S::kPerWarp ? &p.k_map4 : &p.k_map;
        const TensorMap* v_map = S::kPerWarp ? &p.v_map4 : &p.v_map;
        const u32 per_tile = S::kTokens >> shift;
        u32 blocks = block_of(item, lane, shift);
        u32 later = block_of(item, 32 + lane, shift);
        load_queries<S>(item, kv_head, heads);
        u32 total = (item.kv_tokens + (1u << shift) - 1) >> shift;
#pragma unroll 1
        for (u32 first = 0; first < total; first += per_tile) {
            if (first > 0 && (first & 31) == 0) {
                blocks = later;
                later = block_of(item, first + 32 + lane, shift);
            }
            u32 nth = first + lane / kHalves;
            u32 block = __shfl_sync(0xffffffffu, blocks, nth & 31);
            u32 token = (nth << shift) & ((1u << p.block_shift) - 1);
            u32 boxes = total - first < per_tile ? total - first : per_tile;
            load_tile<S>(k_map, shift, kv_head, boxes, block, token);
            load_tile<S>(v_map, shift, kv_head, boxes, block, token);
        }
    }
#else
    // One K or V tile by 16-byte copies. Lane u knows where unit u of 16 rows begins: 16
    // tokens of one head.
    template <class S>
    __device__ __forceinline__ void load_tile(const u16* cache, u32 units, u64 unit_base) {
        constexpr u32 kChunks = kDim / 8;
        constexpr u32 kRowsPerCopy = 32 / kChunks;
        wait_empty();
        u32 base = stage();
        u32 row_in_copy = lane / kChunks, chunk = lane % kChunks;
#pragma unroll 1
        for (u32 unit = 0; unit < units; ++unit) {
            u64 from = __shfl_sync(0xffffffffu, unit_base, unit) + chunk * 8;
#pragma unroll
            for (u32 row = 0; row < 16; row += kRowsPerCopy) {
                u32 in_unit = row + row_in_copy;
                copy_16(tile_address<S::kN>(base, unit * 16 + in_unit, chunk),
                        cache + from + in_unit * p.stride_token, true);
            }
        }
        arrive_on_copies();
        cursor.advance();
    }

    template <class S>
    __device__ __forceinline__ void load_task(const Item& item, u32 kv_head, u32 heads) {
        load_queries<S>(item, kv_head, heads);
#pragma unroll 1
        for (u32 begin = 0; begin < item.kv_tokens; begin += S::kTokens) {
            u32 left = item.kv_tokens - begin;
            u32 units = S::kPerWarp ? heads : left >= S::kN ? S::kN / 16 : (left + 15) / 16;
            u64 unit_base = 0;
            if (lane < units) {
                u32 token = begin + (S::kPerWarp ? 0 : lane * 16);
                u32 block = block_of(item, token >> p.block_shift, p.block_shift);
                u32 within = token & ((1u << p.block_shift) - 1);
                unit_base = block * p.stride_block + (kv_head + (S::kPerWarp ? lane : 0)) * p.stride_head +
                            within * p.stride_token;
            }
            load_tile<S>(p.k, units, unit_base);
            load_tile<S>(p.v, units, unit_base);
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

    template <class S>
    __device__ __forceinline__ void load_heads(const Item& item) {
#pragma unroll 1
        for (u32 h = 0; h < item.head_count; h += S::kHeads) {
            u32 left = item.head_count - h;
            load_task<S>(item, item.head_begin + h, left < S::kHeads ? left : S::kHeads);
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
            __syncwarp();
#endif
            Item item = load_item(index);
            switch (item.tile) {
#define PS_PRODUCE(index, m, n)             \
    case index:                             \
        load_heads<TileShape<m, n>>(item);  \
        break;
                PS_TILE_LIST(PS_PRODUCE)
#undef PS_PRODUCE
            }
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
