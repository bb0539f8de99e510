// Combining the partials of a query, in the merge kernel and by the last to arrive in a fused one.
// A task that joins the others to its own rows (fold.cuh) rounds differently in the last bits of
// fp32.
//
// Eight lanes merge one row (a query head), 16 bytes of it at a time, and every lane weighs its
// values by itself: nothing crosses lanes. So a warp has four rows in work, and asks for several
// partials of each before it uses the first: what a merge takes is the latency of L2, once for
// each batch. The code is short on purpose: it runs last, in most CTAs once, and is fetched then.
#pragma once
#include "mma.cuh"
#include "partials.cuh"
#include "softmax.cuh"

struct MergeTarget {
    Partial* part_out;
    float* part_lse;
    u16* out;
    float* out_lse;  // may be null
    u32 q_heads;
};

// A row to merge: `count` partials, whose slots follow `first` or are listed from there on.
struct RowPartials {
    u32 first, count;
    u32 head;  // query head
};

// Part `part` of `parts` of the partials of a row.
__device__ __forceinline__ RowPartials part_of(const RowPartials& row, u32 part, u32 parts) {
    const u32 each = (row.count + parts - 1) / parts, begin = min(part * each, row.count);
    return {row.first + begin, min(each, row.count - begin), row.head};
}

// Rows that a warp has in work at once, which of them is this lane's, and the first of its places
// in that row.
constexpr u32 kRowsAtOnce = 4;
__device__ __forceinline__ u32 merge_lane_row() { return (threadIdx.x & 31) >> 3; }
__device__ __forceinline__ u32 merge_lane_place() { return (threadIdx.x & 7) * 4; }  // the others follow 32 apart

// What a lane has merged so far of a row.
struct MergeState {
    static constexpr int kPieces = PS_D / 32;
    float acc[kPieces][4];
    float top, weights;

    __device__ __forceinline__ MergeState() : acc{}, top(-PS_INF), weights(0.0f) {}

    __device__ __forceinline__ void shrink_to(float m) {
        const float shrink = merge_weight(top, m);
        top = m;
        weights *= shrink;
#pragma unroll
        for (int k = 0; k < kPieces; ++k) {
#pragma unroll
            for (int c = 0; c < 4; ++c) acc[k][c] *= shrink;
        }
    }

    __device__ __forceinline__ void add(float weight, const LaneValues (&v)[kPieces]) {
        weights += weight;
#pragma unroll
        for (int k = 0; k < kPieces; ++k) {
            float f[4];
            unpack_lane(f, v[k]);
#pragma unroll
            for (int c = 0; c < 4; ++c) acc[k][c] += weight * f[c];
        }
    }

    // In shared memory, where it was left by the lane of the same number of another warp.
    static constexpr u32 kFloats = kPieces * 4 + 2;
    __device__ __forceinline__ void leave(float* place) const {
        place += threadIdx.x & 31;
        place[0] = top;
        place[32] = weights;
#pragma unroll
        for (int i = 0; i < kPieces * 4; ++i) place[(2 + i) * 32] = acc[i / 4][i % 4];
    }
    __device__ __forceinline__ void join(const float* place) {
        place += threadIdx.x & 31;
        const float m = fmaxf(top, place[0]), weight = merge_weight(place[0], m);
        shrink_to(m);
        weights += weight * place[32];
#pragma unroll
        for (int i = 0; i < kPieces * 4; ++i) acc[i / 4][i % 4] += weight * place[(2 + i) * 32];
    }

    __device__ __forceinline__ float scale() const { return weights > 0.0f ? reciprocal_fast(weights) : 0.0f; }
};

// A merge of partials whose tasks have all ended waits for none.
struct AllThere {
    static constexpr bool kWaits = false;
    __device__ __forceinline__ void operator()(const MergeTarget&, const RowPartials&, u32) const {}
};

// Merges one row of this lane's, `kBatch` partials at a time: all of a batch are asked for before the
// first is used, and again after `wait` for the first that was not there. Those past the last have weight 0.
template <int kBatch, class Wait = AllThere>
__device__ __forceinline__ MergeState merge_row(const MergeTarget& to, const RowPartials& row, const u32* slots,
                                                const Wait& wait = {}) {
    MergeState state;
    LaneValues v[kBatch][MergeState::kPieces];
#pragma unroll 1
    for (u32 begin = 0; begin < row.count; begin += kBatch) {
        float lse[kBatch];
        for (;;) {
            u32 missing = row.count;
#pragma unroll
            for (int u = 0; u < kBatch; ++u) {
                const bool real = begin + u < row.count;
                u32 slot = row.first + (real ? begin + u : 0);
                if (slots != nullptr) slot = real ? __ldg(slots + slot) : 0;
                const u64 at = (u64)slot * to.q_heads + row.head;
                lse[u] = load_float_l2_if(-PS_INF, to.part_lse + at, real);
                const Partial* from = to.part_out + at * PS_D + merge_lane_place();
#pragma unroll
                for (int k = 0; k < MergeState::kPieces; ++k) v[u][k] = load_lane_if(from + k * 32, real);
            }
#pragma unroll
            for (int u = kBatch - 1; u >= 0; --u) {
                bool there = __float_as_uint(lse[u]) != kNotThere;
#pragma unroll
                for (int k = 0; k < MergeState::kPieces; ++k) there &= are_there(v[u][k]);
                if (!there) missing = begin + u;
            }
            if (!Wait::kWaits || missing == row.count) break;
            wait(to, row, missing);
        }
        float top = state.top;
#pragma unroll
        for (int u = 0; u < kBatch; ++u) top = fmaxf(top, lse[u]);
        state.shrink_to(top);
#pragma unroll
        for (int u = 0; u < kBatch; ++u) state.add(merge_weight(lse[u], top), v[u]);
    }
    return state;
}

// A merged row as output of a query.
__device__ __forceinline__ void write_merged(const MergeTarget& to, const MergeState& state, u32 query, u32 head) {
    const float scale = state.scale();
    const u64 row = (u64)query * to.q_heads + head;
    const u32 place = merge_lane_place();
#pragma unroll
    for (int k = 0; k < MergeState::kPieces; ++k) {
        const float(&a)[4] = state.acc[k];
        u16* out = to.out + row * PS_D;
        *(u32*)(out + partial_column(place + k * 32)) = pack_halves(a[0] * scale, a[1] * scale);
        *(u32*)(out + partial_column(place + k * 32 + 2)) = pack_halves(a[2] * scale, a[3] * scale);
    }
    if (to.out_lse != nullptr && place == 0) to.out_lse[row] = merged_lse(state.top, state.weights);
}

#if !PS_FUSED
// A merged row as one partial again, for a merge that follows. Its slot may be one of those
// merged, once all lanes of the row have read them; no others read this head.
__device__ __forceinline__ void write_partial(const MergeTarget& to, const MergeState& state, u32 slot, u32 head) {
    const float scale = state.scale();
    const u64 row = (u64)slot * to.q_heads + head;
    const u32 place = merge_lane_place();
#pragma unroll
    for (int k = 0; k < MergeState::kPieces; ++k) {
        const float(&a)[4] = state.acc[k];
        *(float4*)(to.part_out + row * PS_D + place + k * 32) =
            make_float4(a[0] * scale, a[1] * scale, a[2] * scale, a[3] * scale);
    }
    if (place == 0) to.part_lse[row] = merged_lse(state.top, state.weights);
}
#endif
