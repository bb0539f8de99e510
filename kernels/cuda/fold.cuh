// A task that completes a query joins the other partials to its own rows, after its tiles, and
// writes the output itself. The scout saw that they are there (`find_complete`), and its arrivals
// hand on what it has acquired.
#pragma once
#include "epilogue.cuh"

#if PS_FUSED && PS_FOLDS && !PS_BESIDE && PS_D <= 128
// Reads the other partials where they are. A partial is a state whose maximum is its LSE and whose
// sum is 1.
template <class S>
__device__ __forceinline__ void fold_partials(const DecodeParams& p, RowState<S>& state, const TaskQueries<S>& queries,
                                              const Position<S>& at) {
    unit_sync<S>();
    WarpTask task = queries.task();
    const float own_sum = at.col_group == 0 && (at.lane & 3) == 0 ? 1.0f : 0.0f;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const UnitRow row(p, at, r);
        if (row.nth >= task.count) continue;
        PackQuery q = queries.list()[row.nth];
        if (q.count < kFold) continue;
        u32 head = group_times(p, task.kv_head) + row.head;
        u32 others = (q.count & ~kFold) - 1;
        const float* lse = p.part_lse + head;
        const Partial* out = (const Partial*)p.part_out + (u64)head * kDim + at.col_group * S::kDims8 * 8;
#pragma unroll 1
        for (u32 i = 0; i < others; i += 2) {
            // Two at a time; with one left, it is taken twice and counts once.
            u32 one = q.first + i + (q.first + i >= q.slot), two = i + 1 < others ? one + 1 : one;
            if (two == q.slot) ++two;
            float m1 = load_float_l2(lse + (u64)one * p.q_heads), m2 = load_float_l2(lse + (u64)two * p.q_heads);
            float v1[S::kDims8 / 2][4], v2[S::kDims8 / 2][4];
            const Partial* from1 = out + (u64)one * p.q_heads * kDim;
            const Partial* from2 = out + (u64)two * p.q_heads * kDim;
#pragma unroll
            for (int j = 0; j < S::kDims8 / 2; ++j) {
                load_fragments(v1[j], from1 + j * 16, at.lane & 3);
                load_fragments(v2[j], from2 + j * 16, at.lane & 3);
            }
            if (two == one) m2 = -PS_INF;
            float top = fmaxf(state.m[r], fmaxf(m1, m2) * PS_LOG2E);
            float shrink = exp2_fast(state.m[r] - top);
            float w1 = exp2_fast(m1 * PS_LOG2E - top), w2 = exp2_fast(m2 * PS_LOG2E - top);
            if (top == -PS_INF) shrink = w1 = w2 = 0.0f;
            state.m[r] = top;
            state.l[r] = state.l[r] * shrink + own_sum * (w1 + w2);
#pragma unroll
            for (int j = 0; j < S::kDims8; ++j) {
                const int c = (j & 1) * 2;
                state.o[j][2 * r] = state.o[j][2 * r] * shrink + v1[j / 2][c] * w1 + v2[j / 2][c] * w2;
                state.o[j][2 * r + 1] = state.o[j][2 * r + 1] * shrink + v1[j / 2][c + 1] * w1 + v2[j / 2][c + 1] * w2;
            }
        }
    }
}
#else
template <class S>
__device__ __forceinline__ void fold_partials(const DecodeParams&, RowState<S>&, const TaskQueries<S>&,
                                              const Position<S>&) {}
#endif

// Other partials of a task of one query that come in a stage of the ring after the last tile, as
// the producer laid them: partial by partial, in each the rows of the four heads. Their LSEs are
// asked for as the task begins and used at its end.
template <class S>
struct StagedFold {
    float lse[kFoldPartials - 1];

    // Partials that this lane's first row takes; 0 for a lane without a row. Found again after
    // the tiles rather than kept during them.
    static __device__ __forceinline__ u32 others(const DecodeParams& p, const TaskQueries<S>& queries,
                                                 const Position<S>& at) {
        u32 count = queries.task().count > 0 ? queries.list()[0].count : 0;
        return count >= kFold && query_of_row(p, at.lane >> 2) == 0 ? (count & ~kFold) - 1 : 0;
    }

    __device__ __forceinline__ StagedFold(const DecodeParams& p, const TaskQueries<S>& queries, const Position<S>& at,
                                          bool used) {
        if constexpr (kFoldStage<S>) {
            unit_sync<S>();
            const u32 count = used ? others(p, queries, at) : 0;
            PackQuery q = queries.list()[0];
            const float* from = p.part_lse + group_times(p, queries.task().kv_head) + (at.lane >> 2);
#pragma unroll
            for (u32 i = 0; i < kFoldPartials - 1; ++i) {
                u32 slot = q.first + i + (q.first + i >= q.slot);
                lse[i] = load_float_l2_if(-PS_INF, from + (u64)slot * p.q_heads, i < count);
            }
        }
    }

    __device__ __forceinline__ void fold(const DecodeParams& p, RowState<S>& state, const TaskQueries<S>& queries,
                                         u32 stage, const Position<S>& at) {
        if constexpr (kFoldStage<S>) {
            const u32 count = others(p, queries, at);
            if (count == 0) return;
            float top = state.m[0];
#pragma unroll
            for (u32 i = 0; i < kFoldPartials - 1; ++i) top = fmaxf(top, lse[i] * PS_LOG2E);
            float shrink = top == -PS_INF ? 0.0f : exp2_fast(state.m[0] - top), sum = 0.0f;
            state.m[0] = top;
#pragma unroll
            for (int j = 0; j < S::kDims8; ++j) {
                state.o[j][0] *= shrink;
                state.o[j][1] *= shrink;
            }
            const u32 row = group_times(p, at.warp) + (at.lane >> 2);
#pragma unroll
            for (u32 i = 0; i < kFoldPartials - 1; ++i) {
                if (i >= count) break;
                float w = top == -PS_INF ? 0.0f : exp2_fast(lse[i] * PS_LOG2E - top);
                sum += w;
                u32 from = stage + (group_times(p, i * 4) + row) * kRowBytes;
#pragma unroll
                for (int j = 0; j < S::kDims8; j += 2) {
                    float v[4];
                    load_staged(v, from + j * 16, at.lane & 3);
                    state.o[j][0] += v[0] * w;
                    state.o[j][1] += v[1] * w;
                    state.o[j + 1][0] += v[2] * w;
                    state.o[j + 1][1] += v[3] * w;
                }
            }
            state.l[0] = state.l[0] * shrink + ((at.lane & 3) == 0 ? sum : 0.0f);
        }
    }

    static __device__ __forceinline__ void load_staged(float (&v)[4], u32 row, u32 quad_lane) {
        u32 low, high;
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(low), "=r"(high) : "r"(row + quad_lane * 8) : "memory");
        unpack_halves(v[0], v[1], low);
        unpack_halves(v[2], v[3], high);
    }
};
