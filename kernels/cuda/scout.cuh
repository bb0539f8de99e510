// The scout: takes items off the queue, finds out what each needs, hands K and V of it to the
// producer as orders and rows of Q to the consumers.
//
//   queue ──► entry ──► arrivals ──► order ──► producer
//                                └─► Q, task info ──► consumers
//
// Each arrow on the left is a way to L2 and back that waits for the one before, a microsecond under
// load: as long as a short task takes to compute. In the persistent kernel a warp of its own walks it
// for the next task while the producer still fetches this one; in the others, whose CTAs have one item
// each, the producer does.
#pragma once
#include "async_copy.cuh"
#include "partials.cuh"
#include "queue.cuh"

// The next item is claimed when at most so many tiles of those handed over are yet to be fetched: early
// enough that its order is there when the producer wants it, late enough that no CTA holds what
// another could begin. 4, 6, 8, 12 and 16 were timed on an H200.
#ifndef PS_AHEAD
#define PS_AHEAD (PS_BESIDE ? 8 : 4)  // beside prefill it takes longer from the claim to the order
#endif
constexpr int kAhead = PS_AHEAD;

struct Scout {
    const DecodeParams& p;
    SharedMemory& shared;
    u32 lane;
    RingCursor<kOrders> orders;
    u32 query_parity;
    u32 handed;       // tiles of all orders so far
    Work work;        // at hand
    u32 complete;     // heads of this lane's query whose other partials are there, as bits from kFoldShift on
    bool fold_stage;  // those of the one query come through the ring

    // The first item of a CTA is its own number.
    __device__ __forceinline__ Scout(const DecodeParams& params, SharedMemory& memory)
        : p(params), shared(memory), lane(threadIdx.x & 31), query_parity(0), handed(0), complete(0),
          fold_stage(false) {}

    // The first item of the CTA, asked for before that is set up.
    __device__ __forceinline__ void begin() { ask(blockIdx.x); }

    // Where there are no registers for all of an item, its words are a lane's each, and then in shared memory.
#if PS_DOUBLE
    u32 word;

    __device__ __forceinline__ void ask(u32 index) {
        const Entry* const entry = p.entries + index;
        word = lane < sizeof(Item) / 4 ? __ldg((const u32*)&entry->item + lane) : 0;
        work.query = lane < kEntryQueries ? __ldg((const uint4*)entry->queries + lane) : make_uint4(0, 0, 0, 0);
        work.block = __ldg(entry->blocks + lane);
    }
    __device__ __forceinline__ void keep() {
        __syncwarp();
        if (lane < sizeof(Item) / 4) shared.scratch.item[lane] = word;
        __syncwarp();
    }
    __device__ __forceinline__ Item item() const {
        const uint4* const words = (const uint4*)shared.scratch.item;
        return unpack_item(words[0], words[1]);
    }
#else
    __device__ __forceinline__ void ask(u32 index) { work = load_work(p, index, lane); }
    __device__ __forceinline__ void keep() {}
    __device__ __forceinline__ const Item& item() const { return work.item; }
#endif

    __device__ __forceinline__ bool wide() const { return kWideTiles >> item().tile & 1; }

    // Queries that the entry has no room for.
    __device__ __forceinline__ void load_rest() {
        if (lane >= kEntryQueries && lane < item().num_queries) {
            work.query = __ldg((const uint4*)(p.pack_queries + item().query_begin) + lane);
        }
    }

#if PS_FUSED
    __device__ __forceinline__ u32 issued() {
        u32 tiles;
        asm volatile("atom.shared.add.u32 %0, [%1], 0;"
                     : "=r"(tiles)
                     : "r"(smem_address(&shared.scratch.issued))
                     : "memory");
        return tiles;
    }

    // Whether no more than kAhead tiles are to be fetched when `more` have been handed over.
    __device__ __forceinline__ bool near_end(u32 more) {
        u32 near = 0;
        if (lane == 0) near = (int)(handed + more - issued()) <= kAhead;
        return __shfl_sync(0xffffffffu, near, 0);
    }

    // Lane 0 gets the next place in the queue, which gives the items in the plan's order to whoever comes. Beside
    // prefill the first places too: a CTA may begin long after the others, or when all is done.
    __device__ __forceinline__ u32 claim() {
        return lane == 0 ? (PS_BESIDE ? 0 : gridDim.x) + atomicAdd(p.queue, 1u) : 0;
    }

    __device__ __forceinline__ u32 ask_next(u32 place) {
        const u32 index = __shfl_sync(0xffffffffu, place, 0);
        if (index < p.num_items) ask(index);
        return index;
    }

    __device__ __forceinline__ u32 load_next(Work& next, u32 place) {
        const u32 index = __shfl_sync(0xffffffffu, place, 0);
        if (index < p.num_items) next = load_work(p, index, lane);
        return index;
    }

    // The heads from `kv_head` on of this lane's query for which all other partials are there: the
    // consumers join those to their rows and write the output themselves. Asked only where there are
    // few enough to do that, and each counter by a lane of its own: they are ways to L2. What a
    // counter's reader acquires, the barriers hand on to all others of the CTA.
    __device__ __forceinline__ void find_complete(u32 kv_head, u32 heads) {
        const u32 shift = wide() ? 2 : 0, here = 32 >> shift;
        complete = 0;
        if (kDouble && !(kFoldingTiles >> item().tile & 1)) return;
#pragma unroll 1
        for (u32 first = 0; first < min(item().num_queries, 32); first += here) {
            const u32 nth = first + (lane >> shift), head = lane & ((1 << shift) - 1);
            const u32 number = __shfl_sync(0xffffffffu, work.query.x, nth & 31);
            const u32 count = __shfl_sync(0xffffffffu, work.query.w, nth & 31);
            const bool asked = nth < item().num_queries && head < heads && count > 1 && count <= kFoldPartials;
            const u32 seen = asked ? load_acquire(p.arrivals + number * p.kv_heads + kv_head + head) : 0;
            const u32 found = __ballot_sync(0xffffffffu, asked && seen == group_times(p, count - 1));
            const u32 own = lane - first;
            if (own < here) complete = (found >> (own << shift) & ((1 << (1 << shift)) - 1)) << kFoldShift;
        }
    }
#endif

    // Has the rows of Q of this lane's query brought to L2, before K and V are asked for: these are many times as much, and behind
    // them 128 rows came 1.5 us later.
    __device__ __forceinline__ void prefetch_queries(u32 kv_head, u32 heads) {
#if PS_TMA
        if (lane >= item().num_queries) return;
        const u16* const rows = p.queries + ((u64)work.query.x * p.q_heads + group_times(p, kv_head)) * kDim;
        prefetch_bulk(rows, group_times(p, heads) * (kDim * 2));
#endif
    }

    // What the queries of the item see of its first tiles, a word each (masks.cuh): by themselves the consumers would wait a way
    // to HBM for them.
    __device__ __forceinline__ void copy_first_masks() {
#if PS_MASKS && PS_ROWS <= 64
        const u32 own = item().marked >> 1 & ~kGaps;
        if (own == 0) return;
        const u64* const from = p.masks - 1 + own;
#pragma unroll 1
        for (u32 i = lane; i < item().num_queries; i += 32) copy_8(smem_address(shared.scratch.info.seen + i), from + i);
#endif
    }

    // Asks the producer for K and V of the item for the heads from `kv_head` on.
    __device__ __forceinline__ void hand_order(u32 kv_head, u32 heads) {
        u32 folds = 0;
#if PS_FUSED
        if (PS_TMA && wide()) {
            // Of each lane's two rows the fold through the ring takes the first (`StagedFold`), and so eight of a head.
            const bool fits = group_times(p, 1) <= kStagedRows &&
                              group_times(p, (work.query.w - 1) * (4 * kRowBytes)) <= kStageBytes;
            folds = __shfl_sync(0xffffffffu, item().num_queries == 1 && fits ? complete >> kFoldShift : 0, 0);
        }
#endif
        barrier_wait(smem_address(&shared.scratch.order_empty[orders.stage]), orders.parity ^ 1);
        __syncwarp();
        Order& order = shared.scratch.orders[orders.stage];
#if PS_TMA
        order.blocks[lane] = work.block;
#endif
        if (lane == 0) {
            order.block_begin = item().block_begin;
            order.kv_tokens = item().kv_tokens;
            order.tile = item().tile;
            order.kv_head = kv_head;
            order.heads = heads;
            order.folds = folds;
            order.stop = 0;
            if (kItemsMark) order.marked = PS_MASKS ? item().marked & 1 : item().marked;
#if PS_APART
            order.masks = item().marked >> 1;
#endif
            *(uint4*)&order.query = work.query;
        }
        barrier_arrive(smem_address(&shared.scratch.order_full[orders.stage]));
        orders.advance();
        handed += 2 * tiles_of(item()) + (folds != 0);
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
        const uint4* from = (const uint4*)(p.pack_queries + item().query_begin);
        const uint4& own = work.query;
        if (lane < item().num_queries) to[lane] = make_uint4(own.x, own.y, own.z, own.w | complete);
#pragma unroll 1
        for (u32 i = lane + 32; i < item().num_queries; i += 32) to[i] = __ldg(from + i);
        if (lane == 0) {
            info.num_queries = item().num_queries;
            info.kv_tokens = item().kv_tokens;
            info.task = item().task;
            info.tile = item().tile;
            info.kv_head = kv_head;
            info.heads = heads;
            info.fold_stage = fold_stage;
#if PS_MASKS
            info.masks = item().marked >> 1;
#endif
            info.stop = 0;
        }
        __syncwarp();
        copy_first_masks();
        switch (item().tile) {
#define PS_ROWS_OF(index, m, n)                               \
    case index:                                               \
        copy_rows_of_q<TileShape<m, n>>(kv_head, heads);      \
        break;
            PS_TILE_LIST(PS_ROWS_OF)
#undef PS_ROWS_OF
        }
        warp_arrive_on_copies(smem_address(&shared.scratch.query_full), lane);
    }

    // Each lane copies the same 16 bytes of every second (or fourth) row, of all heads. Several rows at once: one by one the
    // 64 of a tile took the scout 2.6 us, for which the task's first tile waited.
    template <class S>
    __device__ __forceinline__ void copy_rows_of_q(u32 kv_head, u32 heads) {
        // Where consumers copy them (rows_of_q.cuh), they find them in L2.
        if constexpr (S::kBlocks > 1) return;
        if constexpr (S::kTeams > 1) {
            constexpr u32 kLines = kDim / 64;
            const u32 rows = group_times(p, item().num_queries);
#pragma unroll 1
            for (u32 i = lane; i < rows * kLines; i += 32) {
                const u64 place = place_of_row(p, shared.scratch.info.queries, i / kLines) + group_times(p, kv_head);
                asm volatile("prefetch.global.L2 [%0];" ::"l"(p.queries + place * kDim + i % kLines * 64));
            }
            return;
        }
        constexpr u32 kChunks = kDim / 8, kStep = 32 / kChunks;
        constexpr u32 kAtOnce = PS_BESIDE || (kDouble && kTiles > 2) ? 1 : kDouble ? 2 : 4;
        const PackQuery* queries = shared.scratch.info.queries;
        const u32 rows = group_times(p, item().num_queries), chunk = lane % kChunks;
        const u16* from_head = p.queries + group_times(p, kv_head) * kDim + chunk * 8;
#pragma unroll 1
        for (u32 first = lane / kChunks; first < rows; first += kAtOnce * kStep) {
            const u16* from[kAtOnce];
#pragma unroll
            for (u32 i = 0; i < kAtOnce; ++i) {
                from[i] = from_head + place_of_row(p, queries, min(first + i * kStep, rows - 1)) * kDim;
            }
#pragma unroll
            for (u32 i = 0; i < kAtOnce; ++i) {
                const u32 row = first + i * kStep;
                const u32 to = tile_address<S::kM>(smem_address(shared.queries), row, chunk);
#pragma unroll
                for (u32 head = 0; head < S::kHeads; ++head) {
                    const u16* of_head = from[i] + group_times(p, head) * kDim;
                    if (row < rows && head < heads) copy_16(to + head * (S::kHeadRows * 128), of_head, true);
                }
            }
        }
    }

    // Tells the producer and the consumers that there is no more, and these how many CTAs ran out of items before this one.
    __device__ __forceinline__ void hand_stop(u32 rank) {
        barrier_wait(smem_address(&shared.scratch.order_empty[orders.stage]), orders.parity ^ 1);
        barrier_wait(smem_address(&shared.scratch.query_empty), query_parity ^ 1);
        __syncwarp();
        if (lane == 0) {
            shared.scratch.orders[orders.stage].stop = 1;
            shared.scratch.info.stop = rank + 1;
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
    // Beside prefill and 128 rows the registers of one item have to do: the next is claimed early, but read once this one is
    // handed over.
    static constexpr bool kOneItem = PS_BESIDE || kDouble;
    __device__ void run() {
        if constexpr (kOneItem) {
            run_one_by_one();
        } else {
            run_ahead();
        }
    }

    __device__ __forceinline__ void run_one_by_one() {
        u32 index = PS_BESIDE ? ask_next(claim()) : blockIdx.x;
        bool fresh = !PS_BESIDE;  // no partial can be there
        while (index < p.num_items) {
            keep();
            load_rest();
            const u32 step = wide() ? 4 : 1;
            u32 place = 0;
            bool early = false;
#pragma unroll 1
            for (u32 nth = 0; nth < item().head_count; nth += step) {
                const u32 kv_head = item().head_begin + nth, heads = min(item().head_count - nth, step);
                // The rows of Q of the first task do not wait for the claims of all CTAs at once.
                early = !fresh && nth + step >= item().head_count && near_end(2 * tiles_of(item()));
                if (early) place = claim();
                if (kFoldsAsClaimed && !fresh) find_complete(kv_head, heads);
                fresh = false;
                if (kDouble) prefetch_queries(kv_head, heads);
                hand_order(kv_head, heads);
                hand_queries(kv_head, heads);
            }
            if (!early) {
                while (!near_end(0)) __nanosleep(32);
                place = claim();
            }
            index = ask_next(place);
        }
        hand_stop(rank_of(index));
        reset_queue();
    }

    // What the next task needs is asked for step by step while this one is handed over, and each
    // step is waited for as late as can be.
    __device__ __forceinline__ void run_ahead() {
        u32 index = blockIdx.x;
        bool fresh = true;  // no partial can be there
        while (index < p.num_items) {
            const u32 step = wide() ? 4 : 1, end = item().head_begin + item().head_count;
            bool early = false;
            Work next = {};
            load_rest();
#pragma unroll 1
            for (u32 kv_head = item().head_begin; kv_head < end; kv_head += step) {
                const u32 heads = min(end - kv_head, step);
                // The rows of Q of the first task do not wait for the claims of all CTAs at once.
                early = !fresh && kv_head + step >= end && near_end(2 * tiles_of(item()));
                const u32 place = early ? claim() : 0;
                if (kFoldsAsClaimed && !fresh) find_complete(kv_head, heads);
                if (fresh) prefetch_queries(kv_head, heads);
                fresh = false;
                hand_order(kv_head, heads);
                if (early) index = load_next(next, place);
                hand_queries(kv_head, heads);
            }
            if (!early) {
                while (!near_end(0)) __nanosleep(32);
                index = load_next(next, claim());
            }
            work = next;
        }
        hand_stop(rank_of(index));
        reset_queue();
    }

    // A CTA runs out of items with a place in the queue past the last one, which no other CTA has: first those that never had
    // an item, then in the order in which they asked.
    __device__ __forceinline__ u32 rank_of(u32 place) const { return place - p.num_items; }

    // The last CTA out resets the counters.
    __device__ __forceinline__ void reset_queue() {
        if (lane != 0 || atomicAdd(p.queue + 1, 1u) + 1 < gridDim.x) return;
        p.queue[0] = 0;
        p.queue[1] = 0;
    }
#endif
};
