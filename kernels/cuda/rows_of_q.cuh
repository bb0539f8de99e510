// Rows of Q that the consumers copy themselves: of the 128 of a tile, which would take the scout alone 3 to 7 us. It has them
// brought to L2 (scout.cuh).
#pragma once
#include "decode.cuh"

#if PS_WGMMA
// Those that this warp computes.
template <class S>
__device__ __forceinline__ void copy_own_rows(const DecodeParams& p, const TaskInfo& info, u32 queries, const Position<S>& at) {
    constexpr u32 kChunks = kDim / 8, kStep = 32 / kChunks;
    const u32 rows = group_times(p, info.num_queries), chunk = at.lane % kChunks;
    const u16* const from_head = p.queries + group_times(p, info.kv_head) * kDim + chunk * 8;
#pragma unroll
    for (u32 i = 0; i < 16; i += kStep) {
        const u32 row = at.warp * 16 + i + at.lane / kChunks;
        if (row >= rows) continue;
        copy_16(tile_address<S::kM>(queries, row, chunk), from_head + place_of_row(p, info.queries, row) * kDim, true);
    }
    wait_copies();
}

// Those of a task, by all warps. None of them reads what the task before had there.
template <class S>
__device__ __forceinline__ void copy_all_rows(const DecodeParams& p, const TaskInfo& info, u32 queries) {
    constexpr u32 kChunks = kDim / 8;
    const u32 rows = group_times(p, info.num_queries), chunk = threadIdx.x % kChunks;
    const u16* const from_head = p.queries + group_times(p, info.kv_head) * kDim + chunk * 8;
#pragma unroll 2
    for (u32 row = threadIdx.x / kChunks; row < rows; row += kConsumers / kChunks) {
        copy_16(tile_address<S::kM>(queries, row, chunk), from_head + place_of_row(p, info.queries, row) * kDim, true);
    }
    wait_copies();
}
#endif
