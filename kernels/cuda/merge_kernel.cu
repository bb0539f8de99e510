// Merge as its own launch: one CTA per row, one warp for four query heads at a time.
// Queries whose partials no row joins were written by the decode kernel.
#include "merge.cuh"
#include "trace.cuh"

// Partials of a row that are asked for at once: what the registers hold.
constexpr int kBatch = PS_D > 128 ? 2 : 4;

extern "C" __global__ void __launch_bounds__(PS_MERGE_THREADS, 2) packscope_merge(const MergeParams p) {
#if PS_TRACE
    // In shared memory: in registers they would make the merge spill.
    __shared__ Moment start;
    if (threadIdx.x == 0) start = read_moment();
#endif
    const uint4 row = __ldg((const uint4*)(p.rows + blockIdx.x));
    const MergeTarget to = {p.part_out, p.part_lse, p.out, p.out_lse, p.q_heads};
    const u32 first = row.x, count = row.y, target = row.z, warp = threadIdx.x >> 5;
    for (u32 begin = warp * kRowsAtOnce; begin < p.q_heads; begin += PS_MERGE_THREADS / 32 * kRowsAtOnce) {
        const u32 head = begin + merge_lane_row();
        const bool real = head < p.q_heads;
        const MergeState state = merge_row<kBatch>(to, {first, real ? count : 0, head}, p.row_slots);
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
