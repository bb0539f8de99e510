// How rows of 16-bit values lie in shared memory, for matrix loads, tensor instructions and bulk copies alike.
#pragma once
#include "params.cuh"

constexpr int kDim = PS_D;

// A tile of `Rows` rows lies in a stage as [d / 64][Rows][64]: rows of 128 bytes whose
// 16-byte chunks are exchanged by row number. It is what a bulk tensor copy with 128-byte
// swizzle writes, and no eight rows that ldmatrix reads share a bank.
template <int Rows>
__device__ __forceinline__ u32 tile_address(u32 base, u32 row, u32 chunk) {
    return base + (chunk >> 3) * (Rows * 128) + row * 128 + (((chunk & 7) ^ (row & 7)) << 4);
}
