// Rows of 16-bit output, from the accumulator fragments of a quad of lanes.
#pragma once
#include "mma.cuh"

// Four registers of each of four lanes, exchanged so that lane i gets what all four hold at i.
__device__ __forceinline__ void transpose_quad(u32 (&v)[4], u32 quad_lane) {
#pragma unroll
    for (int step = 1; step <= 2; step *= 2) {
        const bool high = quad_lane & step;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int lo = step == 1 ? 2 * i : i, hi = lo + step;
            const u32 got = __shfl_xor_sync(0xffffffffu, high ? v[lo] : v[hi], step);
            if (high) {
                v[lo] = got;
            } else {
                v[hi] = got;
            }
        }
    }
}

// Row `r` (0 or 1) of each lane of a warp, where it is `real`. 16 bytes a lane, so that a quad writes 64 at once, in a quarter of
// the stores.
template <int kDims8>
__device__ __forceinline__ void write_output(const float (&o)[kDims8][4], u16* out, int r, u32 quad_lane, bool real) {
    if constexpr (kDims8 < 4) {
#pragma unroll
        for (int j = 0; j < kDims8; ++j) {
            if (real) *(u32*)(out + j * 8 + quad_lane * 2) = pack_halves(o[j][2 * r], o[j][2 * r + 1]);
        }
    } else {
#pragma unroll
        for (int j = 0; j < kDims8; j += 4) {
            u32 v[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) v[i] = pack_halves(o[j + i][2 * r], o[j + i][2 * r + 1]);
            transpose_quad(v, quad_lane);
            if (real) *(uint4*)(out + (j + quad_lane) * 8) = make_uint4(v[0], v[1], v[2], v[3]);
        }
    }
}
