// The producer warps: keep the ring full of K and V, running ahead of the consumers across tiles,
// KV heads and items.
#pragma once
#include "scout.cuh"
#include "token_copies.cuh"

// Copies of a lane that are prepared together, where there are no bulk copies.
constexpr int kCopiesAtOnce = PS_BESIDE ? 2 : 8;

struct Producer {
    const DecodeParams& p;
    SharedMemory& shared;
    u32 copier;  // its number among them
    u32 lane;
    RingCursor<kStages> cursor;
    RingCursor<kOrders> orders;
    u32 query_parity = 0;  // of the tasks whose warps copy their rows of Q
#if PS_APART
    RingCursor<kFewStages> few;
#endif

    __device__ __forceinline__ Producer(const DecodeParams& params, SharedMemory& memory, u32 number)
        : p(params), shared(memory), copier(number), lane(threadIdx.x & 31) {}

    __device__ __forceinline__ u32 full() { return smem_address(&shared.scratch.full[cursor.stage]); }
    __device__ __forceinline__ u32 stage() { return smem_address(shared.ring[cursor.stage]); }

    __device__ __forceinline__ void wait_empty() {
        barrier_wait(smem_address(&shared.scratch.empty[cursor.stage]), cursor.parity ^ 1);
        __syncwarp();
    }

    // The scout counts what is still to be fetched by this.
    __device__ __forceinline__ void count_issued() {
#if PS_FUSED
        if (copier == 0 && lane == 0) {
            asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(smem_address(&shared.scratch.issued)) : "memory");
        }
#endif
    }

    // What this lane needs of an order. The scout has its place back at once.
    struct Task {
        u32 block_begin, kv_tokens, tile, kv_head, heads, folds, stop, marked;
#if PS_APART
        u32 masks;
#endif
        uint4 query;
        u32 blocks;  // block of box `lane`
    };

    __device__ __forceinline__ Task take_order() {
        barrier_wait(smem_address(&shared.scratch.order_full[orders.stage]), orders.parity);
        __syncwarp();
        const Order& order = shared.scratch.orders[orders.stage];
        Task task;
        task.block_begin = order.block_begin;
        task.kv_tokens = order.kv_tokens;
        task.tile = order.tile;
        task.kv_head = order.kv_head;
        task.heads = order.heads;
        task.folds = order.folds;
        task.stop = order.stop;
        task.marked = kItemsMark ? order.marked : 1;
#if PS_APART
        task.masks = order.masks;
#endif
        task.query = *(const uint4*)&order.query;
#if PS_TMA
        task.blocks = order.blocks[lane];
#endif
        barrier_arrive(smem_address(&shared.scratch.order_empty[orders.stage]));
        orders.advance();
        return task;
    }

    __device__ __forceinline__ u32 block_at(const Task& task, u32 nth, u32 shift) {
        return block_of(p, task.block_begin, task.kv_tokens, nth, shift);
    }

#if PS_TMA
    // Boxes of a tile, each of 2^`shift` tokens; this lane copies its half of one of them.
    struct Boxes {
        u32 count, block;
        int token;
        bool alone;  // no other task reads the block: it is to leave L2 first
    };

    // What a tile with masks has of box `nth`, whose entry of `block_ids` is `entry`, if it is `there`. The last tokens of a block
    // may be nobody's and hold anything, NaN included, which would meet a zero of P. So of each 64 tokens of a block those
    // that some query sees come last: a box begins before the block then, where copies give zeros.
    //
    //   block    t0 t1 ... t39  ? ? ...          boxes of 32, of 64 tokens     0 ... 0 t0 ... t7,  t8 ... t39
    __device__ __forceinline__ Boxes box_of(u32 entry, u32 nth, u32 shift, u32 count, bool there) const {
        const int size = 1 << p.block_shift, begin = (nth << shift) & (size - 1);
        const u32 dead_shift = kDeadBit - p.block_shift;
        const int most = min(size, 64), first = begin & -64;
        const int live = min(size - (int)((entry & ~kAlone) >> dead_shift) - first, most);
        const int token = there && live > 0 ? begin - (most - live) : -64;
        return {count, entry & ((1u << dead_shift) - 1), token, (entry & kAlone) != 0};
    }

    // One K or V tile: each box and 64 dimensions of it is one bulk copy, issued by its own lane.
    // Boxes past the last token are not fetched.
    template <class S, bool Marked>
    __device__ __forceinline__ void load_tile(const TensorMap* map, u32 shift, u32 kv_head, const Boxes& boxes,
                                              u64 policy) {
        constexpr u32 kHalves = kDim / 64;
        wait_empty();
        u32 bar = full();
        if (lane == 0) barrier_expect(bar, (boxes.count << shift) * (kDim * 2 * S::kHeads));
        __syncwarp();
        u32 box = lane / kHalves, half = lane % kHalves;
        if (box < boxes.count) {
            const u32 to = stage() + half * (S::kN * 128) + (box << shift) * 128;
            if (Marked || boxes.alone) {
                copy_box(to, map, bar, half * 64, boxes.token, kv_head, boxes.block, policy);
            } else {
                copy_box(to, map, bar, half * 64, boxes.token, kv_head, boxes.block);
            }
        }
        cursor.advance();
        count_issued();
    }

#if PS_APART
    __device__ __forceinline__ u32 tiles_of(const Task& task) { return (task.kv_tokens + kMaxTokens - 1) / kMaxTokens; }

    // What the host says of tile `tile + lane` of a task.
    __device__ __forceinline__ u64 word_of_tile(const Task& task, u32 tile) {
        return tile + lane < tiles_of(task) ? __ldg(p.masks + (task.masks & ~kGaps) - 1 + tile + lane) : 0;
    }

    // K or V of 64 tokens, to the ring of what few queries see.
    __device__ __forceinline__ void load_few_tokens(const TensorMap* map, const Task& task, const Boxes& boxes, u64 policy) {
        FewScratch& scratch = shared.scratch.few;
        barrier_wait(smem_address(&scratch.empty[few.stage]), few.parity ^ 1);
        __syncwarp();
        const u32 bar = smem_address(&scratch.full[few.stage]), box = lane / (kDim / 64), half = lane % (kDim / 64);
        if (lane == 0) barrier_expect(bar, (boxes.count << p.box_shift) * (kDim * 2));
        __syncwarp();
        if (box < boxes.count) {
            const u32 to = smem_address(shared.few[few.stage]) + half * (kFewTokens * 128) + (box << p.box_shift) * 128;
            if (boxes.alone) {
                copy_box(to, map, bar, half * 64, boxes.token, task.kv_head, boxes.block, policy);
            } else {
                copy_box(to, map, bar, half * 64, boxes.token, task.kv_head, boxes.block);
            }
        }
        few.advance();
    }

    // All of a task that few queries see, 64 tokens at a time as far as some query sees any.
    __device__ __forceinline__ void load_few(const Task& task) {
        const u32 shift = p.box_shift, count = kFewTokens >> shift, total = (task.kv_tokens + (1u << shift) - 1) >> shift;
        const u64 policy = leaves_l2_first();
        u32 ahead = 0;  // of tile `lane` of 32 what few see
#pragma unroll 1
        for (u32 tile = 0; tile < tiles_of(task); ++tile) {
            if ((tile & 31) == 0) ahead = few_of_tile(word_of_tile(task, tile));
            const u32 seen = __shfl_sync(0xffffffffu, ahead, tile & 31);
#pragma unroll 1
            for (u32 part = 0; part < 2; ++part) {
                if (few_of_part(seen, part) == 0) continue;
                const u32 first = (2 * tile + part) * count, nth = first + lane / (kDim / 64);
                const Boxes boxes = box_of(block_at(task, nth, shift), nth, shift, count, nth < total);
                load_few_tokens(&p.k_map, task, boxes, policy);
                load_few_tokens(&p.v_map, task, boxes, policy);
            }
        }
    }

    __device__ void run_few() {
        for (;;) {
            Task task = take_order();
            if (task.stop) break;
            load_few(task);
        }
    }
#endif

    // The other partials of the task's one query, for the heads of `folds`.
    __device__ __forceinline__ void load_partials(const Task& task) {
        const u32 slot = task.query.y, first = task.query.z, others = task.query.w - 1;
        const u32 bytes = group_times(p, kRowBytes);
        wait_empty();
        const u32 bar = full();
        if (lane == 0) barrier_expect(bar, __popc(task.folds) * others * bytes);
        __syncwarp();
        const u32 head = lane & 3, nth = lane >> 2;
        if (nth < others && (task.folds >> head & 1)) {
            u32 from = first + nth + (first + nth >= slot);
            u64 row = (u64)from * p.q_heads + group_times(p, task.kv_head + head);
            copy_rows(stage() + lane * bytes, (const Partial*)p.part_out + row * kDim, bytes, bar);
        }
        cursor.advance();
        count_issued();
    }

    // The warps that copy their own rows of Q would wait for them behind all that is asked for before.
    __device__ __forceinline__ void wait_rows_of_q() {
        barrier_wait(smem_address(&shared.scratch.query_empty), query_parity);
        query_parity ^= 1;
        __syncwarp();
    }

    // All tiles of the task. Lane i knows the block of box `first + i`; the next 32 are
    // fetched while these are used. `queries` runs once the first tiles are under way.
    //
    // K and V of a tile follow each other, except for warpgroups, which need K of the next tile
    // before V of this one (`Consumer::overlapped_tiles`).
    template <class S, bool Marked, class F>
    __device__ __forceinline__ void load_task(const Task& task, F queries) {
        constexpr u32 kHalves = kDim / 64;
        const u32 shift = S::kPerWarp ? 4 : p.box_shift;
        const TensorMap* k_map = S::kPerWarp ? &p.k_map4 : &p.k_map;
        const TensorMap* v_map = S::kPerWarp ? &p.v_map4 : &p.v_map;
        const u32 per_tile = S::kTokens >> shift;
        u32 blocks = task.blocks, later = block_at(task, 32 + lane, shift);
        const u32 total = (task.kv_tokens + (1u << shift) - 1) >> shift;
        static_assert(!S::kLateV || kStages >= 3, "room for what comes before the rows of Q");
        const u32 queries_after = S::kLateV && total > per_tile ? per_tile : 0;
        const u64 policy = leaves_l2_first();
        Boxes late = {};  // of V that is still to come
        bool waits = S::kTeams > 1;
        [[maybe_unused]] u32 whole = 0;  // of 32 tiles those that all see, a bit each
#pragma unroll 1
        for (u32 first = 0; first < total; first += per_tile) {
            if (first > 0 && (first & 31) == 0) {
                blocks = later;
                later = block_at(task, first + 32 + lane, shift);
            }
#if PS_APART
            const u32 tile = first / per_tile;
            if ((tile & 31) == 0) whole = __ballot_sync(0xffffffffu, (word_of_tile(task, tile) & kSeenByAll) != 0);
            if (!(whole >> (tile & 31) & 1)) {
                // It comes by `load_few`, which waits for places: the scout counts it as asked for.
                count_issued();
                count_issued();
                continue;
            }
#endif
            u32 nth = first + lane / kHalves;
            const u32 block = __shfl_sync(0xffffffffu, blocks, nth & 31);
            Boxes boxes;
            if constexpr (kBlocksMark<S>) {
                boxes = box_of(block, nth, shift, per_tile, nth < total);
            } else {
                boxes = {min(total - first, per_tile), block, (int)((nth << shift) & ((1u << p.block_shift) - 1)), false};
            }
            load_tile<S, Marked>(k_map, shift, task.kv_head, boxes, policy);
            if (!S::kLateV || first > 0) load_tile<S, Marked>(v_map, shift, task.kv_head, S::kLateV ? late : boxes, policy);
            late = boxes;
            if (first == queries_after) queries();
            if (waits) wait_rows_of_q();
            waits = false;
        }
        if (S::kLateV && total > 0) load_tile<S, Marked>(v_map, shift, task.kv_head, late, policy);
        if (total == 0) queries();
        if (waits) wait_rows_of_q();
        if (kFoldStage<S> && task.folds != 0) load_partials(task);
    }
#else
    // Their places are those for the first KV head.
    template <class S>
    using Tokens = OwnTokens<S::kTokens / kCopiers>;

    template <class S>
    __device__ __forceinline__ u32 own_tokens() const {
        return kCopiers > 1 ? copier * (S::kTokens / kCopiers) : 0;
    }

    template <class S>
    __device__ __forceinline__ Tokens<S> blocks_of_tile(const Task& task, u32 begin) {
        Tokens<S> blocks;
#pragma unroll
        for (u32 part = 0; part < Tokens<S>::kParts; ++part) {
            blocks.of[part] = block_at(task, begin + own_tokens<S>() + part * 32 + lane, 0);
        }
        return blocks;
    }

    // The K or V tile that begins at token `begin`.
    template <class S>
    __device__ __forceinline__ void load_tile(const u16* cache, const Task& task, const Tokens<S>& places, u32 begin) {
        const int left = task.kv_tokens - begin;
        wait_empty();
#pragma unroll
        for (u32 part = 0; part < Tokens<S>::kParts; ++part) {
#pragma unroll 1
            for (u32 head = 0; head < (S::kPerWarp ? task.heads : 1); ++head) {
                const u32 first = own_tokens<S>() + part * 32;
                copy_tokens<S::kN, Tokens<S>::kPart, kCopiesAtOnce, (kCopiers > 1)>(
                    stage(), head * S::kTokens + first, cache + head * p.stride_head, places.of[part], left - (int)first,
                    lane);
            }
        }
        warp_arrive_on_copies(full(), lane);
        cursor.advance();
        count_issued();
    }

    // All tiles of the task. The blocks of a tile are asked for while the one before it is fetched, and looked at only when
    // it is its turn: a warp that looks at once waits a way to HBM at each tile. For warpgroups V of a tile comes behind K
    // of the next.
    template <class S, bool Marked, class F>
    __device__ __forceinline__ void load_task(const Task& task, F queries) {
        const u32 queries_after = S::kLateV && task.kv_tokens > S::kTokens ? S::kTokens : 0;
        Tokens<S> next = blocks_of_tile<S>(task, 0), before = next;
#pragma unroll 1
        for (u32 begin = 0; begin < task.kv_tokens; begin += S::kTokens) {
            const Tokens<S> places = places_of(p, next, begin + own_tokens<S>(), task.kv_head, lane);
            next = blocks_of_tile<S>(task, begin + S::kTokens);
            load_tile<S>(p.k, task, places, begin);
            if (!S::kLateV) load_tile<S>(p.v, task, places, begin);
            if (S::kLateV && begin > 0) load_tile<S>(p.v, task, before, begin - S::kTokens);
            before = places;
            if (begin == queries_after) queries();
        }
        if (task.kv_tokens == 0) queries();
        if (S::kLateV && task.kv_tokens > 0) {
            load_tile<S>(p.v, task, before, (task.kv_tokens - 1) / S::kTokens * S::kTokens);
        }
    }
#endif

    template <bool Marked, class F>
    __device__ __forceinline__ void fetch_as(const Task& task, F queries) {
        switch (task.tile) {
#define PS_PRODUCE(index, m, n)                              \
    case index:                                              \
        load_task<TileShape<m, n>, Marked>(task, queries);   \
        break;
            PS_TILE_LIST(PS_PRODUCE)
#undef PS_PRODUCE
        }
    }

    // Each way has loops of its own: a choice at every copy takes long chains of few rows 7 % of their speed.
    template <class F>
    __device__ __forceinline__ void fetch(const Task& task, F queries) {
        if (!kItemsMark || task.marked) {
            fetch_as<true>(task, queries);
        } else {
            fetch_as<false>(task, queries);
        }
    }

    __device__ __forceinline__ void prefetch_maps() {
#if PS_TMA
        if (lane == 0) {
            prefetch_map(&p.k_map);
            prefetch_map(&p.v_map);
            prefetch_map(&p.k_map4);
            prefetch_map(&p.v_map4);
        }
#endif
    }

    // Behind a scout.
    __device__ void run() {
        prefetch_maps();
        for (;;) {
            Task task = take_order();
            if (task.stop) break;
            fetch(task, [] {});
        }
    }

    // Scout and producer in one warp: the one item of a CTA, head after head.
    __device__ void run_with(Scout& scout) {
        scout.keep();
        const Item item = scout.item();
        scout.load_rest();
        const u32 step = scout.wide() ? 4 : 1;
#pragma unroll 1
        for (u32 h = 0; h < item.head_count; h += step) {
            const u32 kv_head = item.head_begin + h, heads = min(item.head_count - h, step);
            scout.hand_order(kv_head, heads);
            Task task = take_order();
            fetch(task, [&] { scout.hand_queries(kv_head, heads); });
        }
        scout.hand_stop(0);
    }
};
