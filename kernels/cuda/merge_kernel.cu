// Merge as its own launch: one CTA per row, one warp for four query heads at a time. Where there are heads for few of its
// warps, several share the partials of each.
// Queries whose partials no row joins were written by the decode kernel.
#include "merge.cuh"
#include "trace.cuh"

// Partials of a row that are asked for at once: what the registers hold.
constexpr int kBatch = PS_D > 128 ? 2 : 4;
constexpr u32 kWarps = PS_MERGE_THREADS / 32;

extern "C" __global__ void __launch_bounds__(PS_MERGE_THREADS, 2) packscope_merge(const MergeParams p) {
#if PS_TRACE
    // In shared memory: in registers they would make the merge spill.
    __shared__ Moment start;
    if (threadIdx.x == 0) start = read_moment();
#endif
    const uint4 row = __ldg((const uint4*)(p.rows + blockIdx.x));
    const MergeTarget to = {p.part_out, p.part_lse, p.out, p.out_lse, p.q_heads};
    const u32 first = row.x, count = row.y, target = row.z, warp = threadIdx.x >> 5;
    __shared__ float left[kWarps][MergeState::kFloats * 32];
    const u32 groups = (p.q_heads + kRowsAtOnce - 1) / kRowsAtOnce;  // of heads that a warp takes at a time
    const u32 parts = count > kBatch ? max(kWarps / groups, 1) : 1;
#pragma unroll 1
    for (u32 begin = 0; begin < groups; begin += kWarps) {
        const u32 part = parts > 1 ? warp / groups : 0, group = begin + warp - part * groups;
        const u32 head = group * kRowsAtOnce + merge_lane_row();
        const bool real = part < parts && head < p.q_heads;
        MergeState state = merge_row<kBatch>(to, part_of({first, real ? count : 0, head}, part, parts), p.row_slots);
        if (parts > 1) {
            if (part > 0) state.leave(left[warp]);
            __syncthreads();
            if (part > 0) continue;
#pragma unroll 1
            for (u32 other = 1; other < parts; ++other) state.join(left[warp + other * groups]);
        }
        // A partial that is written may be one that other lanes of its row have still to read.
        __syncwarp();
        if (real && row.w) write_partial(to, state, target, head);
        if (real && !row.w) write_merged(to, state, target, head);
    }
#if PS_TRACE
    __syncthreads();
    if (threadIdx.x == 0) {
        const Moment end = read_moment();
        TraceRecord r;
        r.sm_and_widths = sm_and_widths(start.width, end.width);
        r.task = kMergeTask - p.number;
        r.kv_head = blockIdx.x;
        r.cta = blockIdx.x;
        r.begin_ns = start.ns;
        r.begin_clock = r.first_tile_clock = start.clock;
        r.main_done_clock = r.end_clock = end.clock;
        r.end_ns = end.ns;
        keep_record(p.trace, p.trace_capacity, p.trace_begin + blockIdx.x, r);
    }
#endif
}
