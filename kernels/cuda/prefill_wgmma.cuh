// The prefill kernel of Hopper: a warpgroup that fetches and two that compute, each 64 rows of a task; or one of 64 rows,
// where a CTA is half of what its SM holds (hybrid_kernel.cu).
//
//   warps 0, 1 ──► K and V by bulk copies ──► ring ──┐
//   warps 2, 3 ──► Q, task ──────────────────────────┴──► warpgroups 1 and 2: S = Q K^T, softmax, O += P V
//
// Where K and V come token by token, all four warps copy them, and Q once the first tiles are under way.
//
// KV is walked from its end: the tiles that the causal bound cuts come first, and all others need no comparison.
// K of a tile lies in the ring before V of the tile that was computed before it, as the consumers want them.
//
// Clusters of two CTAs that take two query heads of a KV head, and each of which fetches half of every tile for both,
// would halve what is read from L2. On an H200 they were slower, since each waits for the slower of both stage by stage:
// 16,384 rows took 1,968 us instead of 1,612, and in slim CTAs with their four stages 2,500 instead of 1,650.
#pragma once
#include "prefill.cuh"
#include "registers.cuh"
#include "roles.cuh"
#include "token_copies.cuh"
#include "wgmma.cuh"

namespace prefill {
constexpr int kConsumerWarps = kTaskRows / 16;
constexpr int kConsumerThreads = kConsumerWarps * 32;
constexpr int kThreads = kWarpgroup + kConsumerThreads;
// First threads of the warpgroups: where decode may take their place or be beside them, it has the first one.
constexpr u32 kFetchThread = PS_ROLES == PS_ALONE ? 0 : kWarpgroup;
constexpr u32 kConsumerThread = PS_ROLES == PS_ALONE ? kWarpgroup : PS_ROLES == PS_EITHER ? 0 : 2 * kWarpgroup;
// Whether all fetching warps copy K and V, and Q too: token by token two are too slow. Where the last warp fetches for the
// decode beside, there are only three.
constexpr bool kAllCopy = !PS_TMA && PS_ROLES != PS_BOTH;
// Of the fetching warpgroup, those that ask for K and V. To issue a bulk copy takes a warp some 70 cycles: one warp alone
// would be too slow for tiles of 32 copies, as blocks of 16 tokens make them.
constexpr u32 kTileWarps = kAllCopy ? 4 : 2;
constexpr u32 kFetchThreads = PS_ROLES == PS_BOTH ? kWarpgroup - 32 : kWarpgroup;
// And those that copy Q.
constexpr u32 kQueryThread = kAllCopy ? 0 : kTileWarps * 32;
constexpr u32 kQueryThreads = kFetchThreads - kQueryThread;
constexpr int kStageBytes = kTokens * kDim * 2;
constexpr int kQueryBytes = kTaskRows * kDim * 2;
static_assert(kTaskRows % 64 == 0 && (kTokens == 64 || kTokens == 96 || kTokens == 128),
              "the warpgroup instructions below are for these");
// Arrivals that fill a stage: one for bulk copies, which count their bytes besides, else one of each thread that copies.
constexpr u32 kFills = PS_TMA ? 1 : kTileWarps * 32;

// Registers of a thread that fetches and of one that computes, once the warpgroups have shared what the CTA has: 3 * 168
// for a full one, 3 * 120 for a slim one.
constexpr int kFetchRegisters = (PS_SLIM ? 24 : 40) + (PS_TMA ? 0 : 16);
constexpr int kComputeRegisters = (PS_SLIM ? 168 : 232) - (PS_TMA ? 0 : 8);

// 16-byte copies of a thread that are prepared together, where there are no bulk copies.
constexpr int kCopiesAtOnce = PS_SLIM ? 2 : 8;

// Named barriers, behind that of the whole CTA and that of decode.
constexpr int kFetchBarrier = 2;
constexpr int kGroupBarrier = 3;  // one a consumer warpgroup
constexpr int kTailBarrier = 5;

// Tasks under way: one is computed while the next is claimed and its first tiles are fetched.
constexpr u32 kTasks = 2;

struct PrefillScratch {
    u64 full[kStages];
    u64 empty[kStages];
    u64 task_full[kTasks];
    u64 task_empty[kTasks];
    u64 query_full;
    u64 query_empty;
    PrefillTask tasks[kTasks];  // no rows: the end
    TraceTimes times[PS_TRACE ? kConsumerWarps : 1];

    // By one thread, before all others begin.
    __device__ __forceinline__ void init() {
        for (int i = 0; i < kStages; ++i) {
            barrier_init(smem_address(&full[i]), kFills);
            barrier_init(smem_address(&empty[i]), kConsumerWarps);
        }
        for (int i = 0; i < kTasks; ++i) {
            barrier_init(smem_address(&task_full[i]), 1);
            barrier_init(smem_address(&task_empty[i]), kConsumerThreads);
        }
        barrier_init(smem_address(&query_full), kQueryThreads);
        barrier_init(smem_address(&query_empty), kConsumerThreads);
        fence_barrier_init();
    }
};

struct PrefillShared {
    alignas(1024) u8 ring[kStages][kStageBytes];
    alignas(1024) u8 queries[kQueryBytes];
    PrefillScratch scratch;
};
static_assert(sizeof(PrefillShared) <= PS_PREFILL_BYTES, "the host gives the kernel enough shared memory");

// Rows of V past the last token may hold anything, NaN included, and would meet a zero of P: the consumers clear
// them in shared memory.
__device__ __forceinline__ void clear_rows(u32 stage, u32 valid, u32 thread) {
#pragma unroll 1
    for (u32 i = valid * kRowChunks + thread; i < kTokens * kRowChunks; i += kConsumerThreads) {
        const u32 address = tile_address<kTokens>(stage, i / kRowChunks, i % kRowChunks);
        asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
    }
}

// The warpgroup that fetches.
template <class Tasks>
struct PrefillFetch {
    const PrefillParams& p;
    PrefillShared& shared;
    Tasks tasks;
    u32 thread;  // within the warpgroup
    RingCursor<kStages> cursor;  // of those that copy K and V
    u32 query_parity;            // of those that copy Q

    __device__ __forceinline__ PrefillFetch(const PrefillParams& params, PrefillShared& memory, Tasks from)
        : p(params), shared(memory), tasks(from), thread(threadIdx.x - kFetchThread), query_parity(1) {}

#if PS_TMA
    // This thread copies half `part % kHalves` of box `part / kHalves` of each tile. Its number is read anew: in a slim
    // CTA 24 registers have to do.
    static constexpr u32 kHalves = kDim / 64;
    __device__ __forceinline__ u32 part() const {
        u32 number;
        asm volatile("mov.u32 %0, %%tid.x;" : "=r"(number));
        number -= kFetchThread;
        return (number & 31) * kTileWarps + (number >> 5);
    }
    __device__ __forceinline__ u32 box() const { return part() / kHalves; }
    __device__ __forceinline__ u32 half() const { return part() % kHalves; }

    // Block of this lane's box of tile `tile`.
    __device__ __forceinline__ u32 block_at(const PrefillTask& task, u32 tile) {
        const u32 token = tile * kTokens + (box() << p.box_shift);
        const bool real = token < task.tokens;
        return real ? __ldg(p.block_ids + task.block_begin + ((task.kv_begin + token) >> p.block_shift)) : 0;
    }

    // One K or V tile. Boxes past the last token are not fetched.
    __device__ __forceinline__ void load_tile(const TensorMap* map, const PrefillTask& task, u32 tile) {
        const u32 block = block_at(task, tile);
        const u32 left = task.tokens - tile * kTokens, shift = p.box_shift;
        const u32 boxes = (min(left, (u32)kTokens) + (1u << shift) - 1) >> shift;
        const u32 bar = smem_address(&shared.scratch.full[cursor.stage]);
        barrier_wait(smem_address(&shared.scratch.empty[cursor.stage]), cursor.parity ^ 1);
        __syncwarp();
        // Bytes of the other warp may come before they are expected: the phase waits for this arrival.
        if (thread == 0) barrier_expect(bar, (boxes << shift) * (kDim * 2));
        __syncwarp();
        if (box() < boxes) {
            const u32 token = (task.kv_begin + tile * kTokens + (box() << shift)) & ((1u << p.block_shift) - 1);
            copy_box(smem_address(shared.ring[cursor.stage]) + half() * (kTokens * 128) + (box() << shift) * 128, map,
                     bar, half() * 64, token, task.kv_head, block);
        }
        cursor.advance();
    }

    // The blocks of a tile are asked for before its stage is free; those of many tiles share a cache line.
    __device__ __forceinline__ void load_kv(const PrefillTask& task) {
        const int last = (int)task.tiles() - 1;
#pragma unroll 1
        for (int tile = last; tile >= 0; --tile) {
            load_tile(&p.k_map, task, tile);
            if (tile < last) load_tile(&p.v_map, task, tile + 1);
        }
        if (last >= 0) load_tile(&p.v_map, task, 0);
    }
#else
    // Each of the warps that copy has as many tokens of a tile.
    using Tokens = OwnTokens<kTokens / kTileWarps>;

    __device__ __forceinline__ u32 own_tokens() const { return (thread >> 5) * (kTokens / kTileWarps); }

    __device__ __forceinline__ Tokens blocks_of_tile(const PrefillTask& task, u32 tile) {
        Tokens blocks;
#pragma unroll
        for (u32 part = 0; part < Tokens::kParts; ++part) {
            const u32 token = tile * kTokens + own_tokens() + part * 32 + (thread & 31);
            const bool real = token < task.tokens;
            blocks.of[part] = real ? __ldg(p.block_ids + task.block_begin + ((task.kv_begin + token) >> p.block_shift)) : 0;
        }
        return blocks;
    }

    // One K or V tile.
    __device__ __forceinline__ void load_tile(const u16* cache, const PrefillTask& task, const Tokens& places, u32 tile) {
        const int left = (int)task.tokens - (int)(tile * kTokens + own_tokens());
        barrier_wait(smem_address(&shared.scratch.empty[cursor.stage]), cursor.parity ^ 1);
        __syncwarp();
        const u32 base = smem_address(shared.ring[cursor.stage]);
#pragma unroll
        for (u32 part = 0; part < Tokens::kParts; ++part) {
            copy_tokens<kTokens, Tokens::kPart, kCopiesAtOnce, true>(base, own_tokens() + part * 32, cache, places.of[part],
                                                                     left - (int)(part * 32), thread & 31);
        }
        barrier_arrive_on_copies(smem_address(&shared.scratch.full[cursor.stage]));
        cursor.advance();
    }

    // The blocks of a tile are asked for while the one behind it is fetched, and looked at only when it is its turn: a
    // warp that looks at once waits a way to HBM at each tile. Q waits for the task before to end.
    __device__ __forceinline__ void load_kv(const PrefillTask& task) {
        const int last = (int)task.tiles() - 1, queries_after = max(last - 1, 0);
        Tokens next = {}, before = {};
        if (last >= 0) next = blocks_of_tile(task, last);
#pragma unroll 1
        for (int tile = last; tile >= 0; --tile) {
            const u32 first = task.kv_begin + tile * kTokens + own_tokens();
            const Tokens places = places_of(p, next, first, task.kv_head, thread & 31);
            if (tile > 0) next = blocks_of_tile(task, tile - 1);
            load_tile(p.k, task, places, tile);
            if (tile < last) load_tile(p.v, task, before, tile + 1);
            before = places;
            if (kAllCopy && tile == queries_after) hand_queries(task);
        }
        if (last >= 0) load_tile(p.v, task, before, 0);
        if (kAllCopy && last < 0) hand_queries(task);
    }
#endif

    // Q for the consumers, once they have given back that before.
    __device__ __forceinline__ void hand_queries(const PrefillTask& task) {
        const auto given_back = [&] { barrier_wait(smem_address(&shared.scratch.query_empty), query_parity); };
        copy_queries<kQueryThreads>(p, task, smem_address(shared.queries), thread - kQueryThread, given_back);
        query_parity ^= 1;
        barrier_arrive_on_copies(smem_address(&shared.scratch.query_full));
    }

    // By one thread. The task is read from shared memory wherever it is wanted: registers are short.
    __device__ __forceinline__ void claim(const RingCursor<kTasks>& at) {
        PrefillTask& task = shared.scratch.tasks[at.stage];
        const u32 place = tasks.claim(p);
        barrier_wait(smem_address(&shared.scratch.task_empty[at.stage]), at.parity ^ 1);
        if (tasks.has(p, place)) {
            task = tasks.load(p, place);
        } else {
            task.num_rows = 0;
        }
        barrier_arrive(smem_address(&shared.scratch.task_full[at.stage]));
    }

    __device__ __forceinline__ void run() {
#if PS_TMA
        if (thread == 0) {
            prefetch_map(&p.k_map);
            prefetch_map(&p.v_map);
        }
#endif
        RingCursor<kTasks> at;
#pragma unroll 1
        for (;; at.advance()) {
            if (thread == 0) claim(at);
            sync_threads(kFetchBarrier, kFetchThreads);
            const PrefillTask& task = shared.scratch.tasks[at.stage];
            if (task.num_rows == 0) break;
            if (thread < kTileWarps * 32) {
                load_kv(task);
            } else {
                hand_queries(task);
            }
        }
    }
};

// The one or two that compute.
struct PrefillConsumer {
    const PrefillParams& p;
    PrefillShared& shared;
    u32 group;  // of them
    u32 thread, lane, warp;  // within the warpgroup
    RingCursor<kStages> cursor;

    __device__ __forceinline__ PrefillConsumer(const PrefillParams& params, PrefillShared& memory)
        : p(params), shared(memory), group(kTaskRows == 64 ? 0 : alike((threadIdx.x - kConsumerThread) / kWarpgroup)),
          thread(threadIdx.x % kWarpgroup), lane(threadIdx.x & 31), warp(thread >> 5) {}

    __device__ __forceinline__ u32 row() const { return group * 64 + warp * 16 + (lane >> 2); }
    __device__ __forceinline__ u32 stage(u32 number) const { return smem_address(shared.ring[number]); }

    __device__ __forceinline__ void wait_stage(const RingCursor<kStages>& at) {
        barrier_wait(smem_address(&shared.scratch.full[at.stage]), at.parity);
        // What ordinary copies brought, the tensor cores read.
        if (!PS_TMA) fence_async_proxy();
    }
    __device__ __forceinline__ void release_stage(u32 number) {
        if (lane == 0) barrier_arrive(smem_address(&shared.scratch.empty[number]));
    }

    // Begins S = Q K^T.
    __device__ __forceinline__ void begin_scores(float (&s)[kTokens8][4], u32 stage) {
        const u64 q = matrix_descriptor(smem_address(shared.queries) + group * (64 * 128));
        const u64 t = matrix_descriptor(stage);
        warpgroup_fence();
#pragma unroll
        for (int k = 0; k < kDim / 16; ++k) {
            const u32 half = (k / 4) * 128, step = (k % 4) * 32;
            const u64 a = descriptor_at(q, half * kTaskRows + step), b = descriptor_at(t, half * kTokens + step);
            if constexpr (kTokens == 128) {
                warpgroup_mma_128(s, a, b, k > 0);
            } else if constexpr (kTokens == 96) {
                warpgroup_mma_96(s, a, b, k > 0);
            } else {
                warpgroup_mma_64(s, a, b, k > 0);
            }
        }
        warpgroup_commit();
    }

    // Begins O += P V.
    __device__ __forceinline__ void begin_accumulate(float (&o)[kDims8][4], const u32 (&weights)[kTokens / 16][4],
                                                     u32 stage) {
        const u64 t = matrix_descriptor(stage, kTokens * 128);
        warpgroup_fence();
#pragma unroll
        for (int k = 0; k < kTokens / 16; ++k) {
            if constexpr (kDim == 64) {
                warpgroup_mma_transposed_64(o, weights[k], descriptor_at(t, k * 2048));
            } else {
#pragma unroll
                for (int d = 0; d < kDim; d += 128) {
                    warpgroup_mma_transposed_128(o + d / 8, weights[k], descriptor_at(t, d * (kTokens * 2) + k * 2048));
                }
            }
        }
        warpgroup_commit();
    }

    __device__ __forceinline__ void seen_in(int (&seen)[2], const PrefillTask& task, u32 tile) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            seen[r] = (int)task.seen_by(p, row() + r * 8) - (int)(tile * kTokens) - (int)(lane & 3) * 2;
        }
    }

    // Tile `tile`, and O += P V of the one computed before it.
    //
    //   tensor cores   QK j, PV j+1       QK j-1, PV j
    //   warps                 softmax j          softmax j-1
    //
    // The two warpgroups find their own rhythm. On an H200, to make them issue their products in turns, as
    // FlashAttention-3 does, was slower (153 us instead of 151 for 1,024 rows at 12,288 tokens), and so was to hold
    // ptxas to finishing the exponentials before it waits for PV (155).
    template <bool kMasked>
    __device__ __forceinline__ void step(const PrefillTask& task, PrefillState& state, float (&s)[kTokens8][4],
                                         u32 (&weights)[kTokens / 16][4], u32 tile) {
        float shrink[2];
        int seen[2];
        const u32 k_stage = cursor.stage;
        wait_stage(cursor);
        begin_scores(s, stage(k_stage));
        cursor.advance();
        wait_stage(cursor);
        begin_accumulate(state.o, weights, stage(cursor.stage));
        warpgroup_wait<1>();
        release_stage(k_stage);
        if (kMasked) seen_in(seen, task, tile);
        softmax_tile<kMasked>(s, state, shrink, p.scale_log2, seen);
        warpgroup_wait<0>();
        release_stage(cursor.stage);
        cursor.advance();
        pack_weights(weights, s);
        state.rescale(shrink);
    }

    __device__ __forceinline__ void first_step(const PrefillTask& task, PrefillState& state, float (&s)[kTokens8][4],
                                               u32 (&weights)[kTokens / 16][4], u32 tile) {
        float shrink[2];
        int seen[2];
        begin_scores(s, stage(cursor.stage));
        warpgroup_wait<0>();
        release_stage(cursor.stage);
        cursor.advance();
        seen_in(seen, task, tile);
        softmax_tile<true>(s, state, shrink, p.scale_log2, seen);
        pack_weights(weights, s);
    }

    // V of the last tile of KV, which comes behind K of the tile before it, if there is one.
    __device__ __forceinline__ void clear_tail(u32 valid, u32 tiles) {
        RingCursor<kStages> v = cursor;
        if (tiles > 1) v.advance();
        wait_stage(v);
        clear_rows(stage(v.stage), valid, group * kWarpgroup + thread);
        fence_async_proxy();
        sync_threads(kTailBarrier, kConsumerThreads);
    }

    __device__ __forceinline__ void release_queries() { barrier_arrive(smem_address(&shared.scratch.query_empty)); }

    // Tasks are counted, not followed by a cursor: with one more the compiler loses sight of the stages being the same
    // in all lanes, takes every descriptor through vector registers, and the kernel loses 8 % of its speed.
    __device__ __forceinline__ PrefillTask take_task(u32 nth) {
        const u32 place = nth % kTasks;
        barrier_wait(smem_address(&shared.scratch.task_full[place]), nth / kTasks & 1);
        const PrefillTask task = shared.scratch.tasks[place];
        barrier_arrive(smem_address(&shared.scratch.task_empty[place]));
        return task;
    }

    __device__ __forceinline__ void tiles(const PrefillTask& task, PrefillState& state, TraceSpan& span) {
        float s[kTokens8][4];
        u32 weights[kTokens / 16][4];
        const u32 tiles = task.tiles();
        // Tiles that every row of this warpgroup sees whole.
        const u32 whole = task.seen_by(p, group * 64) / kTokens;
        wait_stage(cursor);
        span.first_tile();
        first_step(task, state, s, weights, tiles - 1);
        const u32 valid = task.tokens - (tiles - 1) * kTokens;
        if (valid < kTokens) clear_tail(valid, tiles);
        u32 tile = tiles - 1;
#pragma unroll 1
        while (tile > whole) step<true>(task, state, s, weights, --tile);
#pragma unroll 1
        while (tile > 0) step<false>(task, state, s, weights, --tile);
        release_queries();
        wait_stage(cursor);
        begin_accumulate(state.o, weights, stage(cursor.stage));
        warpgroup_wait<0>();
        release_stage(cursor.stage);
        cursor.advance();
    }

    __device__ __forceinline__ void run() {
#pragma unroll 1
        for (u32 nth = 0;; ++nth) {
            const PrefillTask task = take_task(nth);
            if (task.num_rows == 0) break;
            barrier_wait(smem_address(&shared.scratch.query_full), nth & 1);
            TraceSpan span(shared.scratch.times, kConsumerThread / 32);
            span.begin();
            // Ordinary copies brought Q; each thread has seen all of them.
            fence_async_proxy();
            sync_threads(kGroupBarrier + group, kWarpgroup);
            PrefillState state;
            if (task.tokens > 0) {
                tiles(task, state, span);
            } else {
                release_queries();
            }
            span.main_done();
            finish_rows(p, task, state, row(), lane & 3);
#if PS_TRACE
            if (group == 0 && thread == 0) {
                span.keep(p.trace, p.trace_capacity, p.trace_begin + task.number * p.q_heads + task.head,
                          kPrefillTask + task.number, task.head);
            }
#endif
        }
    }
};
}  // namespace prefill
