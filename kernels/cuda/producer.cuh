// The producer warp: takes items off the queue and keeps the ring full, running ahead of
// the consumers across tiles, KV heads and items.
#pragma once
#include "async_copy.cuh"
#include "queue.cuh"

struct Producer {
    const DecodeParams& p;
    SharedMemory& shared;
    u32 lane;
    RingCursor<kStages> cursor;
    Ahead ahead;
    bool fresh;  // nothing was fetched yet

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

    // How many partials of this lane's query are written, for the heads that a task takes.
    // Asked only where all but one may be there, and few enough to begin a task with.
    __device__ __forceinline__ void load_arrivals(u32 (&seen)[4], uint4 query, u32 kv_head, u32 heads) {
#pragma unroll
        for (u32 h = 0; h < 4; ++h) {
            bool asked = query.w > 1 && query.w <= kFoldPartials && h < heads;
            seen[h] = asked ? load_relaxed(p.arrivals + query.x * p.kv_heads + kv_head + h) : 0;
        }
    }

    // Marks the heads of this lane's query for which all other partials are there: the
    // consumers join those to their rows and write the output themselves.
    __device__ __forceinline__ u32 complete_heads(const u32 (&seen)[4], uint4 query) {
        u32 complete = 0;
#pragma unroll
        for (u32 h = 0; h < 4; ++h) complete |= (u32)(seen[h] > 0 && seen[h] + 1 == query.w) << (kFoldShift + h);
        // With the arrivals at the stage this makes the partials visible to the consumers.
        if (__any_sync(0xffffffffu, complete != 0)) asm volatile("fence.acq_rel.gpu;" ::: "memory");
        return complete;
    }

    // Q rows of the pack, gathered through the query list, of which `mine` is entry `lane`.
    // Rows past the last keep what they held: no row's result depends on another's. With four
    // heads side by side, each has its own 16 rows.
    // Returns the heads whose other partials come by `load_partials`.
    template <class S>
    __device__ __forceinline__ u32 load_queries(const Item& item, uint4 mine, const u32 (&seen)[4], u32 kv_head,
                                                 u32 heads) {
        constexpr u32 kChunks = kDim / 8;
        const uint4* from = (const uint4*)(p.pack_queries + item.query_begin);
        u32 folds = 0;
#if PS_FUSED
        const u32 complete = complete_heads(seen, mine);
        if constexpr (kFoldStage<S>) {
            const bool fits = (mine.w - 1) * (kDim * 16) << p.group_shift <= kStageBytes;
            folds = __shfl_sync(0xffffffffu, item.num_queries == 1 && fits ? complete >> kFoldShift : 0, 0);
        }
        mine.w |= complete;
#endif
        wait_empty();
        TaskInfo& info = shared.scratch.info[cursor.stage];
        uint4* to = (uint4*)info.queries;
        if (lane < item.num_queries) to[lane] = mine;
#pragma unroll 1
        for (u32 i = lane + 32; i < item.num_queries; i += 32) to[i] = __ldg(from + i);
        if (lane == 0) {
            info.num_queries = item.num_queries;
            info.kv_tokens = item.kv_tokens;
            info.task = item.task;
            info.tile = item.tile;
            info.kv_head = kv_head;
            info.heads = heads;
            info.fold_stage = folds != 0;
            info.stop = 0;
        }
        __syncwarp();
        // Each lane copies the same 16 bytes of every second (or fourth) row.
        const u32 rows = item.num_queries << p.group_shift, group_mask = (1u << p.group_shift) - 1;
        const u32 chunk = lane % kChunks;
        const u16* from_head = p.queries + (kv_head << p.group_shift) * kDim + chunk * 8;
        const u64 stride = (u64)p.q_heads * kDim;
#pragma unroll 1
        for (u32 head = 0; head < (S::kPerWarp ? heads : 1); ++head) {
#pragma unroll 2
            for (u32 row = lane / kChunks; row < rows; row += 32 / kChunks) {
                u32 query = info.queries[row >> p.group_shift].query;
                copy_16(tile_address<S::kM>(stage(), head * 16 + row, chunk),
                        from_head + query * stride + (row & group_mask) * kDim, true);
            }
            from_head += kDim << p.group_shift;
        }
        arrive_on_copies();
        cursor.advance();
        return folds;
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

    // The other partials of the task's one query, for the heads of `folds`.
    __device__ __forceinline__ void load_partials(uint4 query, u32 folds, u32 kv_head) {
        const u32 slot = __shfl_sync(0xffffffffu, query.y, 0), first = __shfl_sync(0xffffffffu, query.z, 0);
        const u32 others = __shfl_sync(0xffffffffu, query.w, 0) - 1, bytes = (kDim * 4) << p.group_shift;
        wait_empty();
        const u32 bar = full();
        if (lane == 0) barrier_expect(bar, __popc(folds) * others * bytes);
        __syncwarp();
        const u32 head = lane & 3, nth = lane >> 2;
        if (nth < others && (folds >> head & 1)) {
            u32 from = first + nth + (first + nth >= slot);
            u64 row = (u64)from * p.q_heads + ((kv_head + head) << p.group_shift);
            copy_rows(stage() + lane * bytes, p.part_out + row * kDim, bytes, bar);
        }
        barrier_arrive(bar);
        cursor.advance();
    }

    // All tiles of the pack. Lane i knows the block of box `first + i`; the next 32 are
    // fetched while these are used.
    template <class S>
    __device__ __forceinline__ void load_task(const Item& item, const Ahead& own, u32 kv_head, u32 heads, bool last) {
        constexpr u32 kHalves = kDim / 64;
        const u32 shift = S::kPerWarp ? 4 : p.box_shift;
        const TensorMap* k_map = S::kPerWarp ? &p.k_map4 : &p.k_map;
        const TensorMap* v_map = S::kPerWarp ? &p.v_map4 : &p.v_map;
        const u32 per_tile = S::kTokens >> shift;
        u32 blocks = own.blocks, later = own.later;
        const u32 total = (item.kv_tokens + (1u << shift) - 1) >> shift;
        const u32 tiles = (total + per_tile - 1) / per_tile;
        // Q, then K and V of each tile. The ring of a fresh CTA is empty: there the first tile
        // is asked for while the list of queries is still on the way.
        RingCursor<kStages> queries = cursor;
        const u32 queries_at = fresh && total > 0 ? 2 : 0;
        if (queries_at > 0) cursor.advance();
        fresh = false;
        u32 folds = 0;
#pragma unroll 1
        for (u32 unit = 0; unit <= 2 * tiles; ++unit) {
            if (unit == queries_at) {
                RingCursor<kStages> tile = cursor;
                cursor = queries;
                folds = load_queries<S>(item, own.query, own.seen, kv_head, heads);
                if (queries_at > 0) cursor = tile;
            } else {
                u32 half = unit - (unit > queries_at);
                u32 first = half / 2 * per_tile;
                if (half % 2 == 0 && first > 0 && (first & 31) == 0) {
                    blocks = later;
                    later = block_of(p, item, first + 32 + lane, shift);
                }
                u32 nth = first + lane / kHalves;
                u32 block = __shfl_sync(0xffffffffu, blocks, nth & 31);
                u32 token = (nth << shift) & ((1u << p.block_shift) - 1);
                u32 boxes = total - first < per_tile ? total - first : per_tile;
                load_tile<S>(half % 2 == 0 ? k_map : v_map, shift, kv_head, boxes, block, token);
            }
            if (last && 2 * tiles - unit <= 4) look_ahead();
        }
        if (kFoldStage<S> && folds != 0) load_partials(own.query, folds, kv_head);
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
    __device__ __forceinline__ void load_task(const Item& item, const Ahead& own, u32 kv_head, u32 heads, bool last) {
        load_queries<S>(item, own.query, own.seen, kv_head, heads);
#pragma unroll 1
        for (u32 begin = 0; begin < item.kv_tokens; begin += S::kTokens) {
            u32 left = item.kv_tokens - begin;
            u32 units = S::kPerWarp ? heads : left >= S::kN ? S::kN / 16 : (left + 15) / 16;
            u64 unit_base = 0;
            if (lane < units) {
                u32 token = begin + (S::kPerWarp ? 0 : lane * 16);
                u32 block = block_of(p, item, token >> p.block_shift, p.block_shift);
                u32 within = token & ((1u << p.block_shift) - 1);
                unit_base = block * p.stride_block + (kv_head + (S::kPerWarp ? lane : 0)) * p.stride_head +
                            within * p.stride_token;
            }
            load_tile<S>(p.k, units, unit_base);
            load_tile<S>(p.v, units, unit_base);
            if (last && left <= 4 * S::kTokens) look_ahead();
        }
    }
#endif

    // Blocks of the boxes that this lane knows.
    __device__ __forceinline__ void load_blocks(const Item& item, Ahead& into) {
#if PS_TMA
        u32 shift = kWideTiles >> item.tile & 1 ? 4 : p.box_shift;
        into.blocks = block_of(p, item, lane, shift);
        into.later = block_of(p, item, 32 + lane, shift);
#endif
    }

    // One step towards the next item. The persistent kernel's queue gives the items in the
    // plan's order to whoever comes; a CTA asks for its next one only when it fetches the last
    // two tiles of the one at hand, so that it takes nothing that others could begin.
    __device__ __forceinline__ void look_ahead() {
        if (ahead.step == 0) {
            claim();
        } else if (ahead.step == 1) {
            ahead.index = __shfl_sync(0xffffffffu, ahead.claim, 0);
            if (ahead.index < p.num_items) ahead.item = load_item(p.items + ahead.index);
        } else if (ahead.index >= p.num_items) {
        } else if (ahead.step == 2) {
            const uint4* queries = (const uint4*)(p.pack_queries + ahead.item.query_begin);
            ahead.query = lane < ahead.item.num_queries ? __ldg(queries + lane) : make_uint4(0, 0, 0, 0);
            load_blocks(ahead.item, ahead);
        } else if (ahead.step == 3) {
            u32 heads = kWideTiles >> ahead.item.tile & 1 ? ahead.item.head_count : 1;
            load_arrivals(ahead.seen, ahead.query, ahead.item.head_begin, heads);
        }
        ++ahead.step;
    }

    __device__ __forceinline__ void claim() {
        ahead.claim = p.num_items;
#if PS_FUSED
        if (lane == 0) ahead.claim = gridDim.x + atomicAdd(p.queue, 1u);
#endif
        __syncwarp();
    }

    template <class S>
    __device__ __forceinline__ void load_heads(const Item& item) {
        Ahead own = ahead;
        ahead.step = 0;
#pragma unroll 1
        for (u32 h = 0; h < item.head_count; h += S::kHeads) {
            u32 left = item.head_count - h, heads = left < S::kHeads ? left : S::kHeads;
            // Queries and blocks are the same for all heads.
            if (h > 0) load_arrivals(own.seen, own.query, item.head_begin + h, heads);
            load_task<S>(item, own, item.head_begin + h, heads, left <= S::kHeads);
        }
    }

    // The first item of a CTA is its own number. Asked for before the CTA is set up; in the fused
    // kernel all that it needs lies in one record.
    __device__ __forceinline__ void start() {
        ahead.index = blockIdx.x;
#if PS_FUSED
        const Start* start = p.starts + blockIdx.x;
        ahead.item = load_item(&start->item);
        ahead.query = __ldg((const uint4*)start->queries + lane);
#if PS_TMA
        ahead.blocks = __ldg(start->blocks + lane);
        ahead.later = __ldg(start->blocks + 32 + lane);
#endif
#else
        ahead.claim = blockIdx.x;
        ahead.step = 1;
        look_ahead();
#endif
#if PS_TMA
        if (lane == 0) {
            prefetch_map(&p.k_map);
            prefetch_map(&p.v_map);
            prefetch_map(&p.k_map4);
            prefetch_map(&p.v_map4);
        }
#endif
    }

    __device__ void run() {
#if !PS_FUSED
        look_ahead();
#endif
        ahead.seen[0] = ahead.seen[1] = ahead.seen[2] = ahead.seen[3] = 0;
        fresh = true;
        while (ahead.index < p.num_items) {
            Item item = ahead.item;
            switch (item.tile) {
#define PS_PRODUCE(index, m, n)             \
    case index:                             \
        load_heads<TileShape<m, n>>(item);  \
        break;
                PS_TILE_LIST(PS_PRODUCE)
#undef PS_PRODUCE
            }
            while (ahead.step < 4) look_ahead();
        }
        wait_empty();
        if (lane == 0) shared.scratch.info[cursor.stage].stop = 1;
        __syncwarp();
        barrier_arrive(full());
        if (lane == 0) barrier_arrive(full());
#if PS_FUSED
        // The last CTA out resets the counters.
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
