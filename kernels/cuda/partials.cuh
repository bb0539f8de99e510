// Partials in memory: where a row's values lie, and how they are read and written.
#pragma once
#include "mma.cuh"

// In the fused kernel, whose partials nobody else reads, they are 16-bit values: what they take of L2 is what holds up
// batches of many short tasks, and the output is rounded so too. A row holds each 32 columns as four lanes own them in four
// fragments side by side, so that what a lane writes is one access of 16 bytes; each 16 in two where warps have no more.
#if PS_FUSED
typedef u16 Partial;
#else
typedef float Partial;
#endif

// Fragments whose values a lane has side by side.
#if PS_FUSED && PS_D >= 128
constexpr u32 kSideBySide = 4;
#else
constexpr u32 kSideBySide = 2;
#endif

// Column of the pair of values at places `at` and `at + 1`.
__device__ __forceinline__ u32 partial_column(u32 at) {
#if PS_FUSED
    const u32 columns = kSideBySide * 8, fragment = at / 2 % kSideBySide, quad_lane = at / (kSideBySide * 2) % 4;
    return at / columns * columns + fragment * 8 + quad_lane * 2;
#else
    return at;
#endif
}

// Where a lane of a quad has its values of fragments `j` and `j + 1` of a row.
__device__ __forceinline__ u32 place_of_pair(u32 j, u32 quad_lane) {
    return j / kSideBySide * (kSideBySide * 8) + quad_lane * (kSideBySide * 2) + j % kSideBySide * 2;
}

// What the words of a partial and its LSE are that no task has written yet, where CTAs without tasks wait for them (watch.cuh): a
// NaN that no conversion and no product gives. So a value itself says that it is there, word by word, and whoever wrote it need
// not wait until all see it before it counts up.
constexpr u32 kNotThere = 0xffffffffu;

// A value where `on`, else `otherwise`. Partials were written by other SMs during this launch: it is read past the L1
// cache. Not a branch: a load behind one is waited for at once.
__device__ __forceinline__ float load_float_l2_if(float otherwise, const float* p, bool on) {
    asm volatile("{\n .reg .pred q;\n setp.ne.u32 q, %2, 0;\n @q ld.relaxed.gpu.global.f32 %0, [%1];\n}"
                 : "+f"(otherwise)
                 : "l"(p), "r"((u32)on)
                 : "memory");
    return otherwise;
}

// A counter, likewise. What it counts may not be seen yet.
__device__ __forceinline__ u32 load_count_if(const u32* p, bool on) {
    u32 r = 0;
    asm volatile("{\n .reg .pred q;\n setp.ne.u32 q, %2, 0;\n @q ld.relaxed.gpu.global.u32 %0, [%1];\n}"
                 : "+r"(r)
                 : "l"(p), "r"((u32)on)
                 : "memory");
    return r;
}

// Four values of a row, as they are in memory.
#if PS_FUSED
typedef uint2 LaneValues;
#else
typedef float4 LaneValues;
#endif

// Loads them, likewise, or zeros.
__device__ __forceinline__ LaneValues load_lane_if(const Partial* p, bool on) {
    LaneValues v = {};
#if PS_FUSED
    asm volatile("{\n .reg .pred q;\n setp.ne.u32 q, %3, 0;\n @q ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];\n}"
                 : "+r"(v.x), "+r"(v.y)
                 : "l"(p), "r"((u32)on)
                 : "memory");
#else
    asm volatile(
        "{\n .reg .pred q;\n setp.ne.u32 q, %5, 0;\n @q ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];\n}"
        : "+f"(v.x), "+f"(v.y), "+f"(v.z), "+f"(v.w)
        : "l"(p), "r"((u32)on)
        : "memory");
#endif
    return v;
}

__device__ __forceinline__ void unpack_lane(float (&f)[4], const LaneValues& v) {
#if PS_FUSED
    unpack_halves(f[0], f[1], v.x);
    unpack_halves(f[2], f[3], v.y);
#else
    f[0] = v.x, f[1] = v.y, f[2] = v.z, f[3] = v.w;
#endif
}

// Whether a task has written them. Only in the fused kernel does anybody wait for that.
__device__ __forceinline__ bool are_there(const LaneValues& v) {
#if PS_FUSED
    return v.x != kNotThere && v.y != kNotThere;
#else
    return true;
#endif
}

// What lane `quad_lane` of a quad holds of fragments `j` and `j + 1` of a partial, where `on`: its two values of each. `row` is
// where the columns of its warp begin. Of the fused kernel.
__device__ __forceinline__ void load_fragments_if(float (&v)[4], const Partial* row, u32 j, u32 quad_lane, bool on) {
    unpack_lane(v, load_lane_if(row + place_of_pair(j, quad_lane), on));
}

// Values of a cache line, and lines of a partial's row.
constexpr u32 kLine = 128 / sizeof(Partial);
constexpr u32 kRowLines = PS_D / kLine;
constexpr u32 kRowBytes = PS_D * sizeof(Partial);

// Nobody reads this line again before it is written anew: L2 need not write it back to memory.
__device__ __forceinline__ void discard_line(Partial* p) {
    asm volatile("discard.global.L2 [%0], 128;" ::"l"(p) : "memory");
}

// A partial is read again soon: it leaves L2 last.
__device__ __forceinline__ void store_kept(Partial* to, u32 low, u32 high) {
    asm volatile(
        "{\n .reg .b64 policy;\n createpolicy.fractional.L2::evict_last.b64 policy, 1.0;\n"
        " st.relaxed.gpu.global.L2::cache_hint.v2.u32 [%0], {%1, %2}, policy;\n}" ::"l"(to),
        "r"(low), "r"(high)
        : "memory");
}

__device__ __forceinline__ void store_kept(Partial* to, u32 a, u32 b, u32 c, u32 d) {
    asm volatile(
        "{\n .reg .b64 policy;\n createpolicy.fractional.L2::evict_last.b64 policy, 1.0;\n"
        " st.relaxed.gpu.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, policy;\n}" ::"l"(to),
        "r"(a), "r"(b), "r"(c), "r"(d)
        : "memory");
}

// The LSE of a partial.
__device__ __forceinline__ void store_lse(float* to, float lse) {
    asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(to), "f"(lse) : "memory");
}

// What lane `quad_lane` of a quad holds of a partial whose columns begin at `row`: its two values of each fragment of row `r`
// (0 or 1).
template <int kDims8>
__device__ __forceinline__ void store_fragments(Partial* row, u32 quad_lane, const float (&o)[kDims8][4], int r) {
#if PS_FUSED
    static_assert(kDims8 % kSideBySide == 0, "a lane has whole runs");
#pragma unroll
    for (int j = 0; j < kDims8; j += kSideBySide) {
        u32 v[kSideBySide];
#pragma unroll
        for (int i = 0; i < kSideBySide; ++i) v[i] = pack_halves(o[j + i][2 * r], o[j + i][2 * r + 1]);
        Partial* const to = row + place_of_pair(j, quad_lane);
        if constexpr (kSideBySide == 4) {
            store_kept(to, v[0], v[1], v[2], v[3]);
        } else {
            store_kept(to, v[0], v[1]);
        }
    }
#else
#pragma unroll
    for (int j = 0; j < kDims8; ++j) *(float2*)(row + j * 8 + quad_lane * 2) = make_float2(o[j][2 * r], o[j][2 * r + 1]);
#endif
}
