// Merge as its own launch: one CTA per query with two or more partials, one warp per query head
// at a time. Queries with a single partial were written by the decode kernel.
#include "merge.cuh"
#include "trace.cuh"

extern "C" __global__ void __launch_bounds__(512, 2) packscope_merge(const MergeParams p) {
#if PS_TRACE
    u64 begin_ns = read_timer(), begin_clock = read_clock();
#endif
    u32 query = __ldg(p.queries + blockIdx.x);
    for (u32 head = threadIdx.x >> 5; head < p.q_heads; head += blockDim.x >> 5) merge_row(p, query, head);
#if PS_TRACE
    __syncthreads();
    if (threadIdx.x == 0) {
        TraceRecord r;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(r.sm));
        r.task = kMergeTask;
        r.kv_head = query;
        r.cta = blockIdx.x;
        r.begin_ns = begin_ns;
        r.begin_clock = r.first_tile_clock = begin_clock;
        r.main_done_clock = r.end_clock = read_clock();
        r.end_ns = read_timer();
        keep_record(p.trace, p.trace_capacity, r);
    }
#endif
}
