// Merges by CTAs that have no more tasks. The last task of a query that has many partials would merge them while CTAs are
// idle: a pack of many queries all of them, round after round; and where a queue has a few tasks for each, each leaf waits for
// its own before the next begins. Such queries are marked (kWatched), and no task merges them: each CTA, when the queue has
// nothing more for it, waits for its share of them and merges it.
//
// No CTA waits for one that has not begun: a persistent grid is on the GPU as a whole.
#pragma once
#include "epilogue.cuh"
#include "queue.cuh"

#if PS_FUSED && !PS_BESIDE
// Until all rows of a query's partials are there: for all warps that merge together one of them asks, since each that does takes
// from the work of others.
__device__ __forceinline__ void wait_arrivals(const u32* arrivals, u32 rows, u32 warps) {
    if (threadIdx.x % (warps * 32) == 0) {
        while (load_acquire(arrivals) != rows) __nanosleep(64);
    }
    // What one lane has acquired, this hands on to the others.
    if (warps > 1) {
        sync_threads(1, kConsumers);
    } else {
        __syncwarp();
    }
}

// Merges one query for a KV head by `warps` warps, of which this is number `nth`: groups of rows side by side, and where there
// are warps for it, parts of the partials of each. These meet in `place`, which has room for what each warp of the CTA leaves.
__device__ __forceinline__ void merge_by_watchers(const MergeTarget& to, const PackQuery& q, u32 first_head, u32 rows, float* place,
                                                  u32 nth, u32 warps) {
    constexpr u32 kLeft = MergeState::kFloats * 32;
    const u32 groups = (rows + kRowsAtOnce - 1) / kRowsAtOnce;
    // One where the same bits are asked for: by the last to arrive a row is merged in one part too.
    const u32 parts = PS_FOLDS && q.count > kMergeBatch ? max(warps / groups, 1) : 1, part = parts > 1 ? nth / groups : 0;
#pragma unroll 1
    for (u32 begin = (nth - part * groups) * kRowsAtOnce; begin < rows; begin += warps * kRowsAtOnce) {
        const u32 row = begin + merge_lane_row();
        const bool real = row < rows && part < parts;
        const RowPartials own = part_of({q.first, real ? q.count : 0, first_head + row}, part, parts);
        MergeState state = merge_row<kMergeBatch>(to, own, nullptr);
        if (parts > 1) {
            // Once for each warp: parts are for groups that are all in work at once.
            if (part > 0) state.leave(place + nth * kLeft);
            sync_threads(1, kConsumers);
#pragma unroll 1
            for (u32 other = nth + groups; part == 0 && other < parts * groups; other += groups) state.join(place + other * kLeft);
        }
        if (part == 0 && real) write_merged(to, state, q.query, own.head);
        __syncwarp();
        discard_merged(to, own);
    }
}

// Inlined, it makes crowded kernels with a trace spill.
#if PS_MIN_CTAS > 2 && PS_ROWS > 16 && PS_TRACE
#define PS_WATCH __noinline__
#else
#define PS_WATCH __forceinline__
#endif
__device__ PS_WATCH void watch(const DecodeParams& p, SharedMemory& shared) {
    const MergeTarget to = {(Partial*)p.part_out, p.part_lse, p.out, p.out_lse, p.q_heads};
    const u32 units = p.num_watched * p.kv_heads, warps = units > gridDim.x ? 1 : kWarps;
    const u32 warp = threadIdx.x >> 5, nth = warp & (warps - 1), teams = kWarps / warps;
    // The ring is free for other things once all warps have no more tasks.
    if (warps > 1) sync_threads(1, kConsumers);
    // The last CTAs have the fewest tasks. Each has a merge before any has two.
#pragma unroll 1
    for (u32 unit = gridDim.x - 1 - blockIdx.x + warp / warps * gridDim.x; unit < units; unit += gridDim.x * teams) {
        const u32 kv_head = unit % p.kv_heads;
        const uint4 entry = __ldg((const uint4*)p.watched + unit / p.kv_heads);
        const PackQuery q = {entry.x, entry.y, entry.z, entry.w};
        u32* const arrivals = p.arrivals + q.query * p.kv_heads + kv_head;
        wait_arrivals(arrivals, group_times(p, q.count), warps);
        TraceSpan span(shared.scratch.times);
        span.begin();
        if (nth == 0 && (threadIdx.x & 31) == 0) *arrivals = 0;
        merge_by_watchers(to, q, group_times(p, kv_head), group_times(p, 1), (float*)shared.ring[0], nth, warps);
        // All have left the ring.
        if (warps > 1) sync_threads(1, kConsumers);
#if PS_TRACE
        if (nth == 0 && span.mine()) span.keep(p.trace, p.trace_capacity, p.watch_trace + unit, kMergeTask, unit);
#endif
    }
}
#endif
