// Merges by CTAs that have no more tasks. The last task of a query that has many partials would merge them while CTAs are
// idle: a pack of many queries all of them, round after round; and where a queue has a few tasks for each, each leaf waits for
// its own before the next begins. Such queries are marked (kWatched), and no task merges them: each CTA, when the queue has
// nothing more for it, waits for its share of them and merges it.
//
// Tasks do not count such partials as they write them, which is a fence and a way to L2 more: each word says by itself that it is
// there (kNotThere), and is cleared again by whoever has merged it.
//
// No CTA waits for one that has not begun: a persistent grid is on the GPU as a whole.
#pragma once
#include "epilogue.cuh"

#if PS_FUSED && !PS_BESIDE
// Until a partial that a row lacks is there, or nearly: its LSE is written last. That alone is asked for, as what waits takes from
// the work of others. In a trace a merge lasts from the end of its last wait.
struct UntilWritten {
    static constexpr bool kWaits = true;
    TraceSpan& span;

    __device__ __forceinline__ void operator()(const MergeTarget& to, const RowPartials& row, u32 missing) const {
        const float* lse = to.part_lse + (u64)(row.first + missing) * to.q_heads + row.head;
        while (__float_as_uint(load_float_l2_if(0.0f, lse, true)) == kNotThere) __nanosleep(64);
        span.waited();
    }
};

// Leaves the partials of a row that its eight lanes have merged as the next launch is to find them.
__device__ __forceinline__ void clear_merged(const MergeTarget& to, const RowPartials& row) {
#pragma unroll 1
    for (u32 i = 0; i < row.count; ++i) {
        const u64 at = (u64)(row.first + i) * to.q_heads + row.head;
        Partial* from = to.part_out + at * kDim + merge_lane_place();
#pragma unroll
        for (int k = 0; k < MergeState::kPieces; ++k) store_kept(from + k * 32, kNotThere, kNotThere);
        if (merge_lane_place() == 0) store_lse(to.part_lse + at, __uint_as_float(kNotThere));
    }
}

// Partials asked for at once: those that are asked for again take registers, of which three CTAs on an SM have few, and with a
// trace fewer.
constexpr int kMostWatched = PS_MIN_CTAS > 2 ? (PS_TRACE ? 3 : 4) : 6;
constexpr int kWatchBatch = kMergeBatch < kMostWatched ? kMergeBatch : kMostWatched;
// Where a warp has no more than these, it runs code for so few: what it runs here it fetches first, which takes longer than a
// way to L2. Of three it took as long, and with none for more a run took 3 to 4 % longer where a warp has five.
constexpr int kFewWatched = kWatchBatch < 4 ? kWatchBatch : 4;

// Merges one query for a KV head by `warps` warps, of which this is number `nth`: groups of rows side by side, and where there
// are warps for it, parts of the partials of each. These meet in `place`, which has room for what each warp of the CTA leaves.
__device__ __forceinline__ void merge_by_watchers(const MergeTarget& to, const PackQuery& q, u32 first_head, u32 rows, float* place,
                                                  u32 nth, u32 warps, TraceSpan& span) {
    constexpr u32 kLeft = MergeState::kFloats * 32;
    const u32 groups = (rows + kRowsAtOnce - 1) / kRowsAtOnce;
    // One where the same bits are asked for: by the last to arrive a row is merged in one part too.
    const u32 parts = PS_FOLDS ? max(warps / groups, 1) : 1, part = parts > 1 ? nth / groups : 0;
    const bool few = q.count <= parts * kFewWatched;
#pragma unroll 1
    for (u32 begin = (nth - part * groups) * kRowsAtOnce; begin < rows; begin += warps * kRowsAtOnce) {
        const u32 row = begin + merge_lane_row();
        const bool real = row < rows && part < parts;
        const RowPartials own = part_of({q.first, real ? q.count : 0, first_head + row}, part, parts);
        const UntilWritten wait{span};
        MergeState state = few ? merge_row<kFewWatched>(to, own, nullptr, wait) : merge_row<kWatchBatch>(to, own, nullptr, wait);
        if (parts > 1) {
            // Once for each warp: parts are for groups that are all in work at once.
            if (part > 0) state.leave(place + nth * kLeft);
            sync_threads(1, kConsumers);
#pragma unroll 1
            for (u32 other = nth + groups; part == 0 && other < parts * groups; other += groups) state.join(place + other * kLeft);
        }
        if (part == 0 && real) write_merged(to, state, q.query, own.head);
        // All lanes of the row have read.
        __syncwarp();
        clear_merged(to, own);
    }
}

// Called, it takes 0.6 us more, for which all wait in the end. Inlined, it makes kernels with a trace spill, crowded ones, those with
// masks and those without warpgroup instructions; of these also one without a trace, where four tiles of head dimension 256 are for
// any group.
#if (PS_TRACE && (PS_MASKS || PS_MIN_CTAS > 2)) || (!PS_WGMMA && (PS_TRACE || (PS_D > 128 && PS_ANY_GROUP)))
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
    // Those that ran out first come first, and each has a merge before any has two: the last to compute, for whose partials
    // others wait, need not begin merges of their own behind them.
    const u32 rank = alike(shared.scratch.info.stop) - 1;
#pragma unroll 1
    for (u32 unit = rank + warp / warps * gridDim.x; unit < units; unit += gridDim.x * teams) {
        const u32 kv_head = unit % p.kv_heads;
        const uint4 entry = __ldg((const uint4*)p.watched + unit / p.kv_heads);
        const PackQuery q = {entry.x, entry.y, entry.z, entry.w};
        TraceSpan span(shared.scratch.times);
        span.begin();
        merge_by_watchers(to, q, group_times(p, kv_head), group_times(p, 1), (float*)shared.ring[0], nth, warps, span);
        // All have left the ring.
        if (warps > 1) sync_threads(1, kConsumers);
#if PS_TRACE
        if (nth == 0 && span.mine()) {
            span.waited_as_last(warps);
            span.keep(p.trace, p.trace_capacity, p.watch_trace + unit, kMergeTask, unit);
        }
        // The times of all have been read.
        if (warps > 1) sync_threads(1, kConsumers);
#endif
    }
}
#endif
