// What the prefill kernels have in common: which task a CTA takes, where its rows lie, and how they are written.
//
// A task is one item for one query head, or for one KV head where the item folds its query heads into rows. Tasks
// are claimed KV head by KV head, so that the cache of a head stays in L2 while its query heads use it, and in a KV
// head in the order of the items.
//
// The host defines before this file:
//   PS_ARCH, PS_D, PS_BF16, PS_TRACE   as for decode (layout.cuh)
//   PS_WGMMA    warpgroup mma (sm_90a), else mma.sync
//   PS_TMA      bulk tensor copies, else cp.async, token by token
//   PS_SLIM     a CTA that leaves room on its SM for a decode CTA
//   PS_ROLES    PS_ALONE, PS_EITHER or PS_BOTH: what the CTAs of the kernel compute (roles.cuh)
//   PS_PREFILL_ROWS     rows of a task           PS_PREFILL_TOKENS   tokens of a tile
//   PS_PREFILL_STAGES   ring stages              PS_PREFILL_BYTES    shared memory that the host gives
#pragma once
#include "async_copy.cuh"
#include "output.cuh"
#include "partials.cuh"
#include "mma.cuh"
#include "softmax.cuh"
#include "tile.cuh"
#include "trace.cuh"

namespace prefill {
constexpr int kTaskRows = PS_PREFILL_ROWS;
constexpr int kTokens = PS_PREFILL_TOKENS;
constexpr int kTokens8 = kTokens / 8;
constexpr int kDims8 = kDim / 8;
constexpr int kStages = PS_PREFILL_STAGES;
constexpr u32 kRowChunks = kDim / 8;  // 16-byte chunks of a row

// An item for one query head, as every thread that works on it needs it.
struct PrefillTask {
    u32 row_begin, num_rows;
    u32 block_begin;
    u32 kv_begin, tokens;
    int visible;  // tokens from kv_begin on that row 0 would see of a KV without end; each later query one more
    u32 slot_begin, slot_step;
    u32 number;
    u32 head, kv_head;  // query head; the first of its KV head where they are folded
#if PS_SLIM
    // Of its items all rows are listed or none, and folded or none: there are no registers to tell.
    __device__ __forceinline__ bool listed(const PrefillParams& p) const { return p.rows != nullptr; }
    __device__ __forceinline__ bool folded(const PrefillParams& p) const { return p.num_folded != 0; }
#else
    u32 kind;
    __device__ __forceinline__ bool listed(const PrefillParams&) const { return kind & kListed; }
    __device__ __forceinline__ bool folded(const PrefillParams&) const { return kind & kFolded; }
#endif

    __device__ __forceinline__ u32 tiles() const { return (tokens + kTokens - 1) / kTokens; }

    // The query of a row: of folded rows as many as the KV head has query heads are of one.
    __device__ __forceinline__ u32 query_of(const PrefillParams& p, u32 row) const {
        return folded(p) ? row * p.group_inverse >> 16 : row;
    }

    // Tokens from kv_begin on that row `row` sees.
    __device__ __forceinline__ u32 seen_by(const PrefillParams& p, u32 row) const {
        return min(max(visible + (int)query_of(p, row), 0), (int)tokens);
    }
};

// Tasks of one KV head.
__device__ __forceinline__ u32 tasks_of_kv_head(const PrefillParams& p) {
    return (p.num_items - p.num_folded) * p.group + p.num_folded;
}

__device__ __forceinline__ u32 prefill_tasks(const PrefillParams& p) {
    return tasks_of_kv_head(p) * (p.q_heads / p.group);
}

// Item `item` for `head`, the first of those that it folds.
__device__ __forceinline__ PrefillTask load_item_of(const PrefillParams& p, u32 item, u32 head, u32 kv_head) {
    const uint4* at = (const uint4*)(p.items + item);
    const uint4 a = __ldg(at), b = __ldg(at + 1), c = __ldg(at + 2);
    PrefillTask task;
    task.row_begin = a.x;
    task.num_rows = a.y;
    task.block_begin = a.z;
    task.kv_begin = a.w;
    task.tokens = b.x - a.w;
    task.visible = (int)(b.y + 1 - a.w);
    task.slot_begin = b.z;
    task.slot_step = b.w;
    task.number = c.x;
#if !PS_SLIM
    task.kind = c.y;
#endif
    task.head = head;
    task.kv_head = kv_head;
    return task;
}

// Task `place` of the queue.
__device__ __forceinline__ PrefillTask load_prefill_task(const PrefillParams& p, u32 place) {
    const u32 of_kv_head = tasks_of_kv_head(p);
    const u32 kv_head = place / of_kv_head, within = place % of_kv_head;
    const u32 whole = p.num_items - p.num_folded;  // items of all query heads
    const bool folded = within >= whole * p.group;
    const u32 item = folded ? within - whole * p.group + whole : within / p.group;
    return load_item_of(p, item, kv_head * p.group + (folded ? 0 : within % p.group), kv_head);
}

// By the one thread that claims for its CTA. The last CTA out resets the counters.
__device__ __forceinline__ u32 claim_prefill(const PrefillParams& p) {
    const u32 place = atomicAdd(p.queue, 1u);
    if (place >= prefill_tasks(p) && atomicAdd(p.queue + 1, 1u) + 1 == gridDim.x) {
        p.queue[0] = 0;
        p.queue[1] = 0;
    }
    return place;
}

// Where the tasks of a CTA come from, for the one thread that claims them: the queue of a persistent grid,
struct QueuedTasks {
    __device__ __forceinline__ u32 claim(const PrefillParams& p) { return claim_prefill(p); }
    __device__ __forceinline__ bool has(const PrefillParams& p, u32 place) const { return place < prefill_tasks(p); }
    __device__ __forceinline__ PrefillTask load(const PrefillParams& p, u32 place) const {
        return load_prefill_task(p, place);
    }
};

// or what the CTA was given, one task: item by item for one query head, then for the next.
struct OneTask {
    u32 place;
    static constexpr u32 kTaken = 0xffffffffu;

    __device__ __forceinline__ u32 claim(const PrefillParams&) {
        const u32 taken = place;
        place = kTaken;
        return taken;
    }
    __device__ __forceinline__ bool has(const PrefillParams&, u32 place) const { return place != kTaken; }
    __device__ __forceinline__ PrefillTask load(const PrefillParams& p, u32 place) const {
        const u32 head = place / p.num_items;
        return load_item_of(p, place % p.num_items, head, head / p.group);
    }
};

// Row of Q and of the output, or query of a folded task.
__device__ __forceinline__ u32 row_of(const PrefillParams& p, const PrefillTask& task, u32 row) {
    return task.listed(p) ? __ldg(p.rows + task.row_begin + row) : task.row_begin + row;
}

// Query head of row `row` of a task.
__device__ __forceinline__ u32 head_of(const PrefillParams& p, const PrefillTask& task, u32 row) {
    return task.head + (task.folded(p) ? row - task.query_of(p, row) * p.group : 0);
}

// Place of row `row` of a task among the (row, query head) pairs of Q and of the output.
__device__ __forceinline__ u64 place_of(const PrefillParams& p, const PrefillTask& task, u32 row) {
    return (u64)row_of(p, task, task.query_of(p, row)) * p.q_heads + head_of(p, task, row);
}

// Likewise among those of the partials.
__device__ __forceinline__ u64 slot_of(const PrefillParams& p, const PrefillTask& task, u32 row) {
    return (u64)(task.slot_begin + task.query_of(p, row) * task.slot_step) * p.q_heads + head_of(p, task, row);
}

// The rows of Q of a task, by `kCopiers` threads of which this is number `thread`, once `ready` returns. Places of rows
// that the task has not keep what they held: nothing reads across rows.
//
// A lane finds the place of one row, and a warp copies 32 rows from there: their places come from memory, listed, and
// would else be waited for before each copy. 32 bits hold a place: 2^32 of them are 512 GiB of Q. A slim CTA has no
// registers for that.
template <u32 kCopiers, class Ready>
__device__ __forceinline__ void copy_queries(const PrefillParams& p, const PrefillTask& task, u32 queries, u32 thread,
                                             Ready ready) {
#if PS_SLIM
    ready();
#pragma unroll 1
    for (u32 i = thread; i < task.num_rows * kRowChunks; i += kCopiers) {
        const u32 row = i / kRowChunks, chunk = i % kRowChunks;
        const u64 from = place_of(p, task, row);
        copy_16(tile_address<kTaskRows>(queries, row, chunk), p.queries + from * kDim + chunk * 8, true);
    }
#else
    constexpr u32 kRowsAtOnce = 32 / kRowChunks;
    const u32 lane = thread & 31, chunk = lane % kRowChunks;
    u32 first = thread & ~31u;
    u32 place = first + lane < task.num_rows ? (u32)place_of(p, task, first + lane) : 0;
    ready();
#pragma unroll 1
    while (first < task.num_rows) {
        const u32 past = min(first + 32, task.num_rows);
#pragma unroll 1
        for (u32 rows = first; rows < past; rows += kRowsAtOnce) {
            const u32 row = rows + lane / kRowChunks;
            const u64 from = __shfl_sync(0xffffffffu, place, row & 31);
            const u32 to = tile_address<kTaskRows>(queries, row, chunk);
            if (row < past) copy_16(to, p.queries + from * kDim + chunk * 8, true);
        }
        first += kCopiers;
        if (first + lane < task.num_rows) place = (u32)place_of(p, task, first + lane);
    }
#endif
}

// Softmax state and output of the two rows whose accumulators a lane holds.
struct PrefillState {
    float o[kDims8][4];
    float m[2];  // running maximum but for kMaxSlack, log2 domain
    float l[2];  // running sum of this lane's columns

    __device__ __forceinline__ PrefillState() {
#pragma unroll
        for (int j = 0; j < kDims8; ++j) o[j][0] = o[j][1] = o[j][2] = o[j][3] = 0.0f;
        m[0] = m[1] = -PS_INF;
        l[0] = l[1] = 0.0f;
    }

    // The output so far under the maximum of the tile that comes.
    __device__ __forceinline__ void rescale(const float (&by)[2]) {
        if (!__any_sync(0xffffffffu, by[0] != 1.0f || by[1] != 1.0f)) return;
#pragma unroll
        for (int j = 0; j < kDims8; ++j) {
#pragma unroll
            for (int c = 0; c < 4; ++c) o[j][c] *= by[c >> 1];
        }
    }
};

// Weights are taken under a maximum that may lie this much, in powers of two, below the true one: it seldom moves after
// the first tiles then, and the output so far need not be rescaled. A weight of 2^8 is as exact as one of 1.
constexpr float kMaxSlack = 8.0f;

// Turns the scores of a tile into weights, in place, and tells by what the output so far must `shrink`. Row r of
// the lane's two sees the first `seen[r]` columns of the tile counted from its own first, which may be none; only a
// tile that is `kMasked` asks.
template <bool kMasked>
__device__ __forceinline__ void softmax_tile(float (&s)[kTokens8][4], PrefillState& state, float (&shrink)[2],
                                             float scale, const int (&seen)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        // Two chains for each row: one warp of a scheduler is alone with its latencies.
        float top[2] = {-PS_INF, -PS_INF}, sum[2] = {0.0f, 0.0f};
#pragma unroll
        for (int j = 0; j < kTokens8; ++j) {
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                float& x = s[j][2 * r + c];
                if (kMasked && j * 8 + c >= seen[r]) x = -PS_INF;
                top[c] = fmaxf(top[c], x);
            }
        }
        const float most = quad_max(fmaxf(top[0], top[1])) * scale;
        const float m = most > state.m[r] + kMaxSlack ? most : state.m[r];
        // A row that has seen no token yet: 0 rather than exp2(nan).
        const float base = kMasked && m == -PS_INF ? 0.0f : m;
        shrink[r] = exp2_fast(state.m[r] - base);
        state.m[r] = m;
#pragma unroll
        for (int j = 0; j < kTokens8; ++j) {
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                float& x = s[j][2 * r + c];
                x = exp2_fast(x * scale - base);
                sum[c] += x;
            }
        }
        state.l[r] = state.l[r] * shrink[r] + (sum[0] + sum[1]);
    }
}

// Divides the lane's rows by their sums and writes them, as output or as partials. `row` is the first of the two,
// the other lies 8 below.
__device__ __forceinline__ void finish_rows(const PrefillParams& p, const PrefillTask& task, PrefillState& state,
                                            u32 row, u32 quad_lane) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const float sum = quad_sum(state.l[r]), lse = row_lse(state.m[r], sum);
        const float inverse = sum > 0.0f ? reciprocal_fast(sum) : 0.0f;
#pragma unroll
        for (int j = 0; j < kDims8; ++j) {
            state.o[j][2 * r] *= inverse;
            state.o[j][2 * r + 1] *= inverse;
        }
        const u32 nth = row + r * 8;
        const bool real = nth < task.num_rows;
        if (task.slot_begin == kNoSlot) {
            const u64 at = real ? place_of(p, task, nth) : 0;
            write_output(state.o, p.out + at * kDim, r, quad_lane, real);
            if (real && p.out_lse != nullptr && quad_lane == 0) p.out_lse[at] = lse;
        } else if (real) {
            const u64 at = slot_of(p, task, nth);
            store_fragments(p.part_out + at * kDim, quad_lane, state.o, r);
            if (quad_lane == 0) p.part_lse[at] = lse;
        }
    }
}
}  // namespace prefill
