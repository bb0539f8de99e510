// Merge as its own launch: one CTA per query with two or more partials, one warp for up to
// four query heads at a time. Queries with a single partial were written by the decode kernel.
#include "merge.cuh"
#include "trace.cuh"

extern "C" __global__ void __launch_bounds__(PS_MERGE_THREADS, 2) packscope_merge(const MergeParams p) {
#if PS_TRACE
    u64 begin_ns = read_timer(), begin_clock = read_clock();
#endif
    u32 query = __ldg(p.queries + blockIdx.x);
    u32 first = __ldg(p.merge_offsets + query), count = __ldg(p.merge_offsets + query + 1) - first;
    u32 shift = merge_shift(p.group_shift);
    for (u32 unit = threadIdx.x >> 5; unit < p.q_heads >> shift; unit += PS_MERGE_THREADS / 32) {
        merge_heads({p.part_out, p.part_lse, p.out, p.out_lse, p.q_heads}, query, unit << shift, shift, first, count);
    }
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
