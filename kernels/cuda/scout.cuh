// The scout: takes items off the queue, finds out what each needs, hands K and V of it to the
// producer as orders and rows of Q to the consumers.
//
//   queue ──► item ──► queries, blocks ──► arrivals ──► order ──► producer
//                                                   └─► Q, task info ──► consumers
//
// Each arrow on the left is a way to L2 and back that waits for the one before. In the persistent
// kernel a warp of its own walks it for the next task while the producer still fetches this one;
// in the others, whose CTAs have one item each, the producer does.
#pragma once
#include "async_copy.cuh"
#include "queue.cuh"

// The next item is claimed when at most so many tiles of those handed over are yet to be fetched: early
// enough that its order is there when the producer wants it, late enough that no CTA holds what
// another could begin.
#ifndef PS_ACQ
#define PS_ACQ 0
#endif
#ifndef PS_AHEAD
#define PS_AHEAD 8
#endif

struct Scout {
    const DecodeParams& p;
    SharedMemory& shared;
    u32 lane;
    RingCursor<kOrders> orders;
    u32 query_parity;
    u32 handed;  // tiles of all orders so far
    Item item;
    uint4 query;      // entry `lane` of its list
    u32 block;        // block of its box `lane`
    u32 complete;     // heads of this lane's query whose other partials are there, as bits from kFoldShift on
    bool fold_stage;  // those of the one query come through the ring

    // The first item of a CTA is its own number. Asked for before the CTA is set up.
    __device__ __forceinline__ Scout(const DecodeParams& params, SharedMemory& memory)
        : p(params), shared(memory), lane(threadIdx.x & 31), query_parity(0), handed(0), complete(0), fold_stage(false) {}

    __device__ __forceinline__ bool wide() const { return kWideTiles >> item.tile & 1; }

    __device__ __forceinline__ void load(u32 index) {
        const Entry* entry = p.entries + index;
        item = load_item(&entry->item);
        block = __ldg(entry->blocks + lane);
        query = lane < kEntryQueries ? __ldg((const uint4*)entry->queries + lane) : make_uint4(0, 0, 0, 0);
    }

    // Queries that the entry has no room for.
    __device__ __forceinline__ void load_rest() {
        if (lane >= kEntryQueries && lane < item.num_queries) {
            query = __ldg((const uint4*)(p.pack_queries + item.query_begin) + lane);
        }
    }

#if PS_FUSED
    __device__ __forceinline__ u32 issued() {
        u32 tiles;
        asm volatile("atom.shared.add.u32 %0, [%1], 0;" : "=r"(tiles) : "r"(smem_address(&shared.scratch.issued)) : "memory");
        return tiles;
    }

    // Whether no more than PS_AHEAD tiles are to be fetched when `more` have been handed over.
    __device__ __forceinline__ bool near_end(u32 more) {
        u32 near = 0;
        if (lane == 0) near = (int)(handed + more - issued()) <= PS_AHEAD;
        return __shfl_sync(0xffffffffu, near, 0);
    }

    // Lane 0 gets the next place in the queue, which gives the items in the plan's order to whoever comes.
    __device__ __forceinline__ u32 claim() { return lane == 0 ? gridDim.x + atomicAdd(p.queue, 1u) : 0; }

    // The heads of this lane's query, from `kv_head` on, for which all other partials are there:
    // the consumers join those to their rows and write the output themselves. Asked only where
    // there are few enough to do that.
    __device__ __forceinline__ void find_complete(u32 kv_head, u32 heads) {
        complete = 0;
        if (query.w <= 1 || query.w > kFoldPartials) return;
#pragma unroll
        for (u32 h = 0; h < 4; ++h) {
            const u32 seen = h < heads ? load_relaxed(p.arrivals + query.x * p.kv_heads + kv_head + h) : 0;
            complete |= (u32)(seen + 1 == query.w) << (kFoldShift + h);
        }
    }
#endif

    // Asks the producer for K and V of the item for the heads from `kv_head` on.
    __device__ __forceinline__ void hand_order(u32 kv_head, u32 heads) {
        u32 folds = 0;
#if PS_FUSED
        // With the arrivals at the barriers this makes the partials visible to all others of the CTA.
        if (!PS_ACQ && __any_sync(0xffffffffu, complete != 0)) asm volatile("fence.acq_rel.gpu;" ::: "memory");
        if (PS_TMA && wide()) {
            const bool fits = (query.w - 1) * (kDim * 16) << p.group_shift <= kStageBytes;
            folds = __shfl_sync(0xffffffffu, item.num_queries == 1 && fits ? complete >> kFoldShift : 0, 0);
        }
#endif
        barrier_wait(smem_address(&shared.scratch.order_empty[orders.stage]), orders.parity ^ 1);
        __syncwarp();
        Order& order = shared.scratch.orders[orders.stage];
#if PS_TMA
        order.blocks[lane] = block;
#endif
        if (lane == 0) {
            order.block_begin = item.block_begin;
            order.kv_tokens = item.kv_tokens;
            order.tile = item.tile;
            order.kv_head = kv_head;
            order.heads = heads;
            order.folds = folds;
            order.stop = 0;
            *(uint4*)&order.query = query;
        }
        barrier_arrive(smem_address(&shared.scratch.order_full[orders.stage]));
        orders.advance();
        handed += 2 * tiles_of(item) + (folds != 0);
        fold_stage = folds != 0;
    }

    // Q rows of the pack, gathered through the query list. Rows past the last keep what they held:
    // no row's result depends on another's. With four heads side by side, each has its own 16 rows.
    __device__ __forceinline__ void hand_queries(u32 kv_head, u32 heads) {
        barrier_wait(smem_address(&shared.scratch.query_empty), query_parity ^ 1);
        query_parity ^= 1;
        __syncwarp();
        TaskInfo& info = shared.scratch.info;
        uint4* to = (uint4*)info.queries;
        const uint4* from = (const uint4*)(p.pack_queries + item.query_begin);
        if (lane < item.num_queries) to[lane] = make_uint4(query.x, query.y, query.z, query.w | complete);
#pragma unroll 1
        for (u32 i = lane + 32; i < item.num_queries; i += 32) to[i] = __ldg(from + i);
        if (lane == 0) {
            info.num_queries = item.num_queries;
            info.kv_tokens = item.kv_tokens;
            info.task = item.task;
            info.tile = item.tile;
            info.kv_head = kv_head;
            info.heads = heads;
            info.fold_stage = fold_stage;
            info.stop = 0;
        }
        __syncwarp();
        switch (item.tile) {
#define PS_ROWS_OF(index, m, n)                               \
    case index:                                               \
        copy_rows_of_q<TileShape<m, n>>(kv_head, heads);      \
        break;
            PS_TILE_LIST(PS_ROWS_OF)
#undef PS_ROWS_OF
        }
        const u32 full = smem_address(&shared.scratch.query_full);
        __syncwarp();
        barrier_arrive_on_copies(full);
        if (lane == 0) barrier_arrive(full);
    }

    // Each lane copies the same 16 bytes of every second (or fourth) row.
    template <class S>
    __device__ __forceinline__ void copy_rows_of_q(u32 kv_head, u32 heads) {
        constexpr u32 kChunks = kDim / 8;
        const TaskInfo& info = shared.scratch.info;
        const u32 stage = smem_address(shared.queries);
        const u32 rows = item.num_queries << p.group_shift, group_mask = (1u << p.group_shift) - 1;
        const u32 chunk = lane % kChunks;
        const u16* from_head = p.queries + (kv_head << p.group_shift) * kDim + chunk * 8;
        const u64 stride = (u64)p.q_heads * kDim;
#pragma unroll 1
        for (u32 head = 0; head < (S::kPerWarp ? heads : 1); ++head) {
#pragma unroll 2
            for (u32 row = lane / kChunks; row < rows; row += 32 / kChunks) {
                u32 query = info.queries[row >> p.group_shift].query;
                copy_16(tile_address<S::kM>(stage, head * 16 + row, chunk),
                        from_head + query * stride + (row & group_mask) * kDim, true);
            }
            from_head += kDim << p.group_shift;
        }
    }

    // Tells the producer and the consumers that there is no more.
    __device__ __forceinline__ void hand_stop() {
        barrier_wait(smem_address(&shared.scratch.order_empty[orders.stage]), orders.parity ^ 1);
        barrier_wait(smem_address(&shared.scratch.query_empty), query_parity ^ 1);
        __syncwarp();
        if (lane == 0) {
            shared.scratch.orders[orders.stage].stop = 1;
            shared.scratch.info.stop = 1;
        }
        const u32 full = smem_address(&shared.scratch.query_full);
        __syncwarp();
        barrier_arrive(smem_address(&shared.scratch.order_full[orders.stage]));
        barrier_arrive(full);
        if (lane == 0) barrier_arrive(full);
    }

    static __device__ __forceinline__ u32 tiles_of(const Item& item) {
        switch (item.tile) {
#define PS_TILES_OF(index, m, n) \
    case index: return (item.kv_tokens + n - 1) / n;
            PS_TILE_LIST(PS_TILES_OF)
#undef PS_TILES_OF
        }
        return 0;
    }

#if PS_FUSED
    // What the next task needs is asked for step by step while this one is handed over, and each
    // step is waited for as late as can be.
    __device__ void run() {
        u32 index = blockIdx.x;
        bool fresh = true;  // no partial can be there
        while (index < p.num_items) {
            const u32 step = wide() ? 4 : 1, end = item.head_begin + item.head_count;
            bool claimed = false;
            u32 place = 0;
            load_rest();
#pragma unroll 1
            for (u32 kv_head = item.head_begin; kv_head < end; kv_head += step) {
                const u32 heads = min(end - kv_head, step);
                const bool early = kv_head + step >= end && near_end(2 * tiles_of(item));
                if (!fresh) find_complete(kv_head, heads);
                if (early) place = claim();
                claimed |= early;
                fresh = false;
                hand_order(kv_head, heads);
                hand_queries(kv_head, heads);
            }
            if (!claimed) {
                while (!near_end(0)) __nanosleep(32);
                place = claim();
            }
            index = __shfl_sync(0xffffffffu, place, 0);
            if (index < p.num_items) load(index);
        }
        hand_stop();
        // The last CTA out resets the counters.
        if (lane == 0) {
            u32 done = atomicAdd(p.queue + 1, 1u);
            if (done + 1 == gridDim.x) {
                p.queue[0] = 0;
                p.queue[1] = 0;
            }
        }
    }
#endif
};
