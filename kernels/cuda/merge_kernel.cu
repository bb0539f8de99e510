// Merge as its own launch: one CTA per row, one warp for up to four query heads at a time.
// Queries whose partials no row joins were written by the decode kernel.
#include "merge.cuh"
#include "trace.cuh"

extern "C" __global__ void __launch_bounds__(PS_MERGE_THREADS, 2) packscope_merge(const MergeParams p) {
#if PS_TRACE
    u64 begin_ns = read_timer(), begin_clock = read_clock();
#endif
    const uint4 row = __ldg((const uint4*)(p.rows + blockIdx.x));
    const MergeTarget to = {p.part_out, p.part_lse, p.out, p.out_lse, p.q_heads};
    const u32 shift = merge_shift(p.group_shift), first = row.x, count = row.y, target = row.z;
    for (u32 unit = threadIdx.x >> 5; unit < p.q_heads >> shift; unit += PS_MERGE_THREADS / 32) {
        const u32 head = unit << shift;
        const MergeState state = gather_heads(to, head, shift, first, count, p.row_slots);
        if (row.w) {
            write_partial(to, state, target, head, shift);
        } else {
            write_merged(to, state, target, head, shift);
        }
    }
#if PS_TRACE
    __syncthreads();
    if (threadIdx.x == 0) {
        TraceRecord r;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(r.sm));
        r.task = kMergeTask - p.number;
        r.kv_head = blockIdx.x;
        r.cta = blockIdx.x;
        r.begin_ns = begin_ns;
        r.begin_clock = r.first_tile_clock = begin_clock;
        r.main_done_clock = r.end_clock = read_clock();
        r.end_ns = read_timer();
        keep_record(p.trace, p.trace_capacity, r);
    }
#endif
}
