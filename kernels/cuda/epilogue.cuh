// Where a task's rows go: straight to the output when a query has one partial, to their
// slots otherwise; in the fused kernel the last to arrive at a (query, KV head) merges.
#pragma once
#include "decode.cuh"

// What becomes of a query's rows.
enum MergeState : u32 {
    kWait = 0,    // others are missing: write the partial (and count it, when fused)
    kMerge = 1,   // all others are there: merge from the registers, nothing to write
    kDirect = 2,  // the only partial
};

// Threads that finish a task together: all consumers, or one warp with its own KV head.
template <class S>
__device__ __forceinline__ u32 unit_thread() {
    return S::kPerWarp ? threadIdx.x & 31 : threadIdx.x;
}

template <class S>
__device__ __forceinline__ void unit_sync() {
    if constexpr (S::kPerWarp) {
        __syncwarp();
    } else {
        sync_threads(1, kConsumers);
    }
}

// The query that a thread answers for: thread i of the unit has query i of the task. Held
// in registers through the main loop, so that the loads behind it are long done when it is
// needed.
struct ThreadQuery {
    u32 queries;  // of the task
    u32 kv_head;
    u32 slot_begin;
    u32 query;
    u32 first;  // its run in merge_slots
    u32 count;

    template <class S>
    __device__ __forceinline__ void load(const DecodeParams& p, const TaskInfo& info, const Position<S>& at) {
        u32 head = S::kPerWarp ? at.warp : 0;
        queries = head < info.heads ? info.num_queries : 0;
        kv_head = info.kv_head + head;
        slot_begin = info.slot_begin;
        query = first = count = 0;
        u32 thread = unit_thread<S>();
        if (thread < queries) {
            query = info.query[thread];
            first = __ldg(p.merge_offsets + query);
            count = __ldg(p.merge_offsets + query + 1) - first;
        }
    }
};

// The two rows of a lane and where they belong.
struct RowTarget {
    u32 query[2];
    u32 head[2];
    u32 slot[2];
    u32 first[2];
    u32 count[2];
    u32 state[2];
    bool valid[2];

    template <class S>
    __device__ __forceinline__ RowTarget(const DecodeParams& p, const QueryState* queries, const ThreadQuery& own,
                                         const Position<S>& at) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            u32 row = (S::kPerWarp ? at.lane >> 2 : at.row()) + r * 8;
            u32 nth = row >> p.group_shift;
            valid[r] = nth < own.queries;
            QueryState q = queries[valid[r] ? nth : 0];
            query[r] = q.query;
            first[r] = q.first;
            count[r] = q.count;
            state[r] = q.state;
            head[r] = (own.kv_head << p.group_shift) + (row & ((1u << p.group_shift) - 1));
            slot[r] = own.slot_begin + nth;
        }
    }
};

// Writes one row of fragments (`r` = 0 or 1) as 16-bit output.
template <class S>
__device__ __forceinline__ void write_output(const DecodeParams& p, const RowState<S>& state, float lse,
                                             const RowTarget& to, int r, const Position<S>& at) {
    u64 row = (u64)to.query[r] * p.q_heads + to.head[r];
    u32* out = (u32*)(p.out + row * kDim + at.col_group * S::kDims8 * 8 + (at.lane & 3) * 2);
#pragma unroll
    for (int j = 0; j < S::kDims8; ++j) out[j * 4] = pack_halves(state.o[j][2 * r], state.o[j][2 * r + 1]);
    if (p.out_lse != nullptr && at.col_group == 0 && (at.lane & 3) == 0) p.out_lse[row] = lse;
}

template <class S>
__device__ __forceinline__ void write_partial(const DecodeParams& p, const RowState<S>& state, float lse,
                                              const RowTarget& to, int r, const Position<S>& at) {
    u64 row = (u64)to.slot[r] * p.q_heads + to.head[r];
    float2* out = (float2*)(p.part_out + row * kDim + at.col_group * S::kDims8 * 8 + (at.lane & 3) * 2);
#pragma unroll
    for (int j = 0; j < S::kDims8; ++j) out[j * 4] = make_float2(state.o[j][2 * r], state.o[j][2 * r + 1]);
    if (at.col_group == 0 && (at.lane & 3) == 0) p.part_lse[row] = lse;
}

#if PS_FUSED
// Merges both rows of a lane: its own result in the registers first, then the others from
// memory, four at a time with the four lanes of a row fetching one LSE each. All lanes call
// it; a row that does not take part passes count = 0.
template <class S>
__device__ __forceinline__ void merge_registers(const DecodeParams& p, RowState<S>& state, float (&lse)[2],
                                                const RowTarget& to, const u32 (&count)[2], const Position<S>& at) {
    float weights[2], top[2] = {lse[0], lse[1]};
#pragma unroll
    for (int r = 0; r < 2; ++r) weights[r] = top[r] == -PS_INF ? 0.0f : 1.0f;
    const u32 column = at.col_group * S::kDims8 * 8 + (at.lane & 3) * 2;
    u32 longest = count[0] > count[1] ? count[0] : count[1];
    longest = __reduce_max_sync(0xffffffffu, longest);
#pragma unroll 1
    for (u32 begin = 0; begin < longest; begin += 4) {
        u32 i = begin + (at.lane & 3);
        u32 slot[2];
        float other[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) slot[r] = i < count[r] ? __ldg(p.merge_slots + to.first[r] + i) : to.slot[r];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            bool skip = slot[r] == to.slot[r];
            other[r] = skip ? -PS_INF : load_float_l2(p.part_lse + (u64)slot[r] * p.q_heads + to.head[r]);
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float m = fmaxf(top[r], quad_max(other[r]));
            // Rows that take no part have no others: m is their own LSE, and 1 leaves them alone.
            float shrink = top[r] == m ? 1.0f : merge_weight(top[r], m);
            other[r] = merge_weight(other[r], m);
            top[r] = m;
            weights[r] = weights[r] * shrink + quad_sum(other[r]);
#pragma unroll
            for (int j = 0; j < S::kDims8; ++j) {
                state.o[j][2 * r] *= shrink;
                state.o[j][2 * r + 1] *= shrink;
            }
        }
#pragma unroll 1
        for (u32 k = 0; k < 4 && begin + k < longest; ++k) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                u32 from = __shfl_sync(0xffffffffu, slot[r], (at.lane & 28) + k);
                float w = __shfl_sync(0xffffffffu, other[r], (at.lane & 28) + k);
                if (from == to.slot[r] || begin + k >= count[r]) continue;
                const float* o = p.part_out + ((u64)from * p.q_heads + to.head[r]) * kDim + column;
#pragma unroll
                for (int j = 0; j < S::kDims8; ++j) {
                    float2 v = load_float2_l2(o + j * 8);
                    state.o[j][2 * r] += w * v.x;
                    state.o[j][2 * r + 1] += w * v.y;
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        if (count[r] == 0) continue;
        float inverse = weights[r] > 0.0f ? 1.0f / weights[r] : 0.0f;
        lse[r] = merged_lse(top[r], weights[r]);
#pragma unroll
        for (int j = 0; j < S::kDims8; ++j) {
            state.o[j][2 * r] *= inverse;
            state.o[j][2 * r + 1] *= inverse;
        }
    }
}

__device__ __forceinline__ u32 load_acquire(const u32* p) {
    u32 r;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(r) : "l"(p) : "memory");
    return r;
}

__device__ __forceinline__ u32 count_arrival(u32* p) {
    u32 r;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(r) : "l"(p) : "memory");
    return r;
}

// Asked before the last tile is computed, so that the answer is there when it is needed:
// are all other partials of this thread's query written?
__device__ __forceinline__ u32 look_at_arrivals(const DecodeParams& p, const ThreadQuery& own) {
    if (own.count == 1) return kDirect;
    return load_acquire(p.arrivals + own.query * p.kv_heads + own.kv_head) + 1 == own.count ? kMerge : kWait;
}

// True for all consumers when `waiting` is true for one of them; also a barrier.
__device__ __forceinline__ bool any_consumer(bool waiting) {
    u32 any;
    asm volatile(
        "{\n .reg .pred p, q;\n setp.ne.u32 p, %1, 0;\n barrier.cta.red.or.pred q, 1, %2, p;\n selp.u32 %0, 1, 0, q;\n}"
        : "=r"(any)
        : "r"((u32)waiting), "n"(kConsumers)
        : "memory");
    return any != 0;
}

template <class S>
__device__ __forceinline__ bool any_waits(bool waiting) {
    if constexpr (S::kPerWarp) {
        return __any_sync(0xffffffffu, waiting);
    } else {
        return any_consumer(waiting);
    }
}

template <class S>
__device__ __forceinline__ void finish_rows(const DecodeParams& p, RowState<S>& state, QueryState* queries,
                                            float (&lse)[2], const ThreadQuery& own, u32 seen, const Position<S>& at) {
    u32 thread = unit_thread<S>();
    bool mine = thread < own.queries;
    if (mine) queries[thread] = {own.query, own.first, own.count, seen};
    bool waiting = any_waits<S>(mine && seen == kWait);
    __syncwarp();
    RowTarget to(p, queries, own, at);
    if (waiting) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            if (to.valid[r] && to.state[r] == kWait) write_partial(p, state, lse[r], to, r, at);
        }
        // The barrier puts all threads' partials before this thread's release, and its acquire
        // before their reads; one thread's pair costs far less than a fence in each of them.
        unit_sync<S>();
        if (mine && seen == kWait) {
            u32 before = count_arrival(p.arrivals + own.query * p.kv_heads + own.kv_head);
            if (before + 1 == own.count) queries[thread].state = seen = kMerge;
        }
        unit_sync<S>();
        to = RowTarget(p, queries, own, at);
    }
    if (mine && seen == kMerge) p.arrivals[own.query * p.kv_heads + own.kv_head] = 0;
    u32 count[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) count[r] = to.valid[r] && to.state[r] == kMerge ? to.count[r] : 0;
    merge_registers(p, state, lse, to, count, at);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        if (to.valid[r] && to.state[r] != kWait) write_output(p, state, lse[r], to, r, at);
    }
}
#else
__device__ __forceinline__ u32 look_at_arrivals(const DecodeParams&, const ThreadQuery& own) {
    return own.count == 1 ? kDirect : kWait;
}

template <class S>
__device__ __forceinline__ void finish_rows(const DecodeParams& p, RowState<S>& state, QueryState* queries,
                                            float (&lse)[2], const ThreadQuery& own, u32 seen, const Position<S>& at) {
    if (unit_thread<S>() < own.queries) queries[unit_thread<S>()] = {own.query, own.first, own.count, seen};
    unit_sync<S>();
    RowTarget to(p, queries, own, at);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        if (!to.valid[r]) continue;
        if (to.state[r] == kDirect) {
            write_output(p, state, lse[r], to, r, at);
        } else {
            write_partial(p, state, lse[r], to, r, at);
        }
    }
}
#endif
