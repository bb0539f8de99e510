// Merge as its own launch: one warp per (query, query head), four warps per CTA.
#include "merge.cuh"

extern "C" __global__ void __launch_bounds__(128) packscope_merge(const MergeParams p) {
    u32 row = blockIdx.x * 4 + (threadIdx.x >> 5);
    if (row < p.num_queries * p.q_heads) merge_row(p, row / p.q_heads, row % p.q_heads);
}
