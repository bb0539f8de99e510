// A task that completes a query joins the other partials to its own rows, after its tiles, and
// writes the output itself. In a long queue the scout saw that they are there (`find_complete`), and its
// arrivals hand on what it has acquired; in a short one the warp itself does as it ends (`find_arrived`).
#pragma once
#include "epilogue.cuh"
#include "queue.cuh"

// Marks the query of this thread where all of its rows but those of this task had arrived when it asked.
template <class S>
__device__ __forceinline__ void find_arrived(const DecodeParams& p, const TaskQueries<S>& queries, u32 arrived) {
    if (arrived == 0) return;
    PackQuery& own = queries.own();
    // Asked again to acquire the partials: a fence waits for more. The barrier that follows hands them on to the warp.
    if (arrived != group_times(p, own.count - 1) || load_acquire(queries.arrivals(p)) != arrived) return;
    *queries.arrivals(p) = 0;
    own.count |= kFold;
}

// Reads the other partials where they are. A partial is a state whose maximum is its LSE and whose
// sum is 1.
template <class S>
__device__ __forceinline__ void fold_partials(const DecodeParams& p, RowState<S>& state, const TaskQueries<S>& queries,
                                              const Position<S>& at) {
    unit_sync<S>();
    WarpTask task = queries.task();
    const float own_sum = at.col_group == 0 && (at.lane & 3) == 0 ? 1.0f : 0.0f;
    constexpr int kRows = S::kLaneRows;
    u32 others[kRows], most = 0;
    PackQuery of[kRows] = {};
    u64 head[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        const UnitRow row(p, at, r);
        others[r] = 0;
        if (row.nth < task.count) of[r] = queries.list()[row.nth];
        if (row.nth < task.count && of[r].count >= kFold) others[r] = (of[r].count & ~kFold) - 1;
        head[r] = group_times(p, task.kv_head) + row.head;
        most = max(most, others[r]);
    }
#pragma unroll 1
    for (u32 i = 0; i < most; ++i) {
        float m[kRows], v[kRows][S::kDims8 / 2][4];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const bool on = i < others[r];
            const u32 slot = on ? of[r].first + i + (of[r].first + i >= of[r].slot) : 0;
            const u64 from = (u64)slot * p.q_heads + head[r];
            m[r] = load_float_l2_if(-PS_INF, p.part_lse + from, on) * PS_LOG2E;
            const Partial* out = (const Partial*)p.part_out + from * kDim + at.col_group * S::kDims8 * 8;
#pragma unroll
            for (int j = 0; j < S::kDims8 / 2; ++j) load_fragments_if(v[r][j], out, 2 * j, at.lane & 3, on);
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const float top = fmaxf(state.m[r], m[r]);
            const float shrink = top == -PS_INF ? 0.0f : exp2_fast(state.m[r] - top);
            const float weight = top == -PS_INF ? 0.0f : exp2_fast(m[r] - top);
            state.m[r] = top;
            state.l[r] = state.l[r] * shrink + own_sum * weight;
#pragma unroll
            for (int j = 0; j < S::kDims8; ++j) {
                const int c = (j & 1) * 2;
                state.o[j][2 * r] = state.o[j][2 * r] * shrink + v[r][j / 2][c] * weight;
                state.o[j][2 * r + 1] = state.o[j][2 * r + 1] * shrink + v[r][j / 2][c + 1] * weight;
            }
        }
    }
}

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
                    load_staged(v, from + place_of_pair(j, at.lane & 3) * 2);
                    state.o[j][0] += v[0] * w;
                    state.o[j][1] += v[1] * w;
                    state.o[j + 1][0] += v[2] * w;
                    state.o[j + 1][1] += v[3] * w;
                }
            }
            state.l[0] = state.l[0] * shrink + ((at.lane & 3) == 0 ? sum : 0.0f);
        }
    }

    static __device__ __forceinline__ void load_staged(float (&v)[4], u32 at) {
        u32 low, high;
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(low), "=r"(high) : "r"(at) : "memory");
        unpack_halves(v[0], v[1], low);
        unpack_halves(v[2], v[3], high);
    }
};
