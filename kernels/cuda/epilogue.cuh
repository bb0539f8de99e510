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

// The query that a thread answers for: thread i has query i of the task. Held in registers
// through the main loop, so that the loads behind it are long done when it is needed.
struct ThreadQuery {
    u32 queries;  // of the task
    u32 kv_head;
    u32 slot_begin;
    u32 query;
    u32 first;  // its run in merge_slots
    u32 count;

    __device__ __forceinline__ void load(const DecodeParams& p, const TaskInfo& info) {
        queries = info.num_queries;
        kv_head = info.kv_head;
        slot_begin = info.slot_begin;
        query = first = count = 0;
        if (mine()) {
            query = info.query[threadIdx.x];
            first = __ldg(p.merge_offsets + query);
            count = __ldg(p.merge_offsets + query + 1) - first;
        }
    }
    __device__ __forceinline__ bool mine() const { return threadIdx.x < queries; }
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
            u32 row = at.row() + r * 8;
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
// Merges row `r` from the other partials in memory and this task's own in the registers.
// All lanes call it; rows that do not take part pass count = 0.
template <class S>
__device__ __forceinline__ void merge_registers(const DecodeParams& p, RowState<S>& state, float& lse,
                                                const RowTarget& to, u32 count, int r, const Position<S>& at) {
    const u32* slots = p.merge_slots + to.first[r];
    float top = -PS_INF;
    for (u32 i = at.lane & 3; i < count; i += 4) {
        u32 slot = __ldg(slots + i);
        float other = slot == to.slot[r] ? lse : load_float_l2(p.part_lse + (u64)slot * p.q_heads + to.head[r]);
        top = fmaxf(top, other);
    }
    top = quad_max(top);
    float weights = 0.0f;
    float acc[S::kDims8][2];
#pragma unroll
    for (int j = 0; j < S::kDims8; ++j) acc[j][0] = acc[j][1] = 0.0f;
    u64 column = at.col_group * S::kDims8 * 8 + (at.lane & 3) * 2;
#pragma unroll (S::kDims8 > 8 ? 1 : 4)
    for (u32 i = 0; i < count; ++i) {
        u32 slot = __ldg(slots + i);
        bool own = slot == to.slot[r];
        u64 row = (u64)slot * p.q_heads + to.head[r];
        float w = merge_weight(own ? lse : load_float_l2(p.part_lse + row), top);
        weights += w;
#pragma unroll
        for (int j = 0; j < S::kDims8; ++j) {
            float2 o = make_float2(state.o[j][2 * r], state.o[j][2 * r + 1]);
            if (!own) o = load_float2_l2(p.part_out + row * kDim + column + j * 8);
            acc[j][0] += w * o.x;
            acc[j][1] += w * o.y;
        }
    }
    if (count > 0) {
        float inverse = weights > 0.0f ? 1.0f / weights : 0.0f;
#pragma unroll
        for (int j = 0; j < S::kDims8; ++j) {
            state.o[j][2 * r] = acc[j][0] * inverse;
            state.o[j][2 * r + 1] = acc[j][1] * inverse;
        }
        lse = merged_lse(top, weights);
    }
}

__device__ __forceinline__ u32 load_acquire(const u32* p) {
    u32 r;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(r) : "l"(p) : "memory");
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
__device__ __forceinline__ void finish_rows(const DecodeParams& p, RowState<S>& state, QueryState* queries,
                                            float (&lse)[2], const ThreadQuery& own, u32 seen, const Position<S>& at) {
    if (own.mine()) queries[threadIdx.x] = {own.query, own.first, own.count, seen};
    bool waiting = any_consumer(own.mine() && seen == kWait);
    RowTarget to(p, queries, own, at);
    if (waiting) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            if (to.valid[r] && to.state[r] == kWait) write_partial(p, state, lse[r], to, r, at);
        }
        __threadfence();
        sync_threads(1, kConsumers);
        if (own.mine() && seen == kWait) {
            u32 before = atomicAdd(p.arrivals + own.query * p.kv_heads + own.kv_head, 1u);
            __threadfence();
            if (before + 1 == own.count) queries[threadIdx.x].state = seen = kMerge;
        }
        sync_threads(1, kConsumers);
        to = RowTarget(p, queries, own, at);
    }
    if (own.mine() && seen == kMerge) p.arrivals[own.query * p.kv_heads + own.kv_head] = 0;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        bool merges = to.valid[r] && to.state[r] == kMerge;
        merge_registers(p, state, lse[r], to, merges ? to.count[r] : 0, r, at);
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
    if (own.mine()) queries[threadIdx.x] = {own.query, own.first, own.count, seen};
    sync_threads(1, kConsumers);
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
