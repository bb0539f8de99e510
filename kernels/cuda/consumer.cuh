// The consumer warps' loop over the tasks that the producer hands over.
#pragma once
#include "epilogue.cuh"

struct Consumer {
    const DecodeParams& p;
    SharedMemory& shared;
    RingCursor<kStages> cursor;
    u32 round;

    __device__ __forceinline__ Consumer(const DecodeParams& params, SharedMemory& memory)
        : p(params), shared(memory), round(0) {}

    __device__ __forceinline__ u32 wait_stage() {
        barrier_wait(smem_address(&shared.scratch.full[cursor.stage]), cursor.parity);
        return smem_address(shared.ring[cursor.stage]);
    }

    // One arrival per warp gives the stage back.
    __device__ __forceinline__ void release_stage() {
        __syncwarp();
        if ((threadIdx.x & 31) == 0) barrier_arrive(smem_address(&shared.scratch.empty[cursor.stage]));
        cursor.advance();
    }

    template <class S, bool kPartial>
    __device__ __forceinline__ void tile(RowState<S>& state, const u32 (&q)[kDim / 16][4], u32 valid,
                                         const Position<S>& at, TraceSpan& span, bool first) {
        float s[S::kTokens8][4];
        u32 k_stage = wait_stage();
        if (first) span.first_tile();
        scores<S>(s, q, k_stage, at);
        release_stage();
        softmax_tile<S, kPartial>(s, state, shared.scratch, p.scale_log2, valid, at);
        u32 v_stage = wait_stage();
        accumulate<S, kPartial>(state, s, shared.scratch, v_stage, valid, at);
        release_stage();
    }

    template <class S>
    __device__ __forceinline__ void task(TraceSpan& span) {
        Position<S> at;
        RowState<S> state;
        u32 q[kDim / 16][4];
        TaskInfo& info = shared.scratch.info[cursor.stage];
        load_q<S>(q, smem_address(shared.ring[cursor.stage]), at);
        ThreadQuery own;
        own.load(p, info);
        u32 tokens = info.kv_tokens, task_id = info.task;
        // Q was written by ordinary copies, and a bulk copy may write this stage next.
        fence_async_proxy();
        release_stage();
        u32 begin = 0;
        for (; begin + S::kN < tokens; begin += S::kN) tile<S, false>(state, q, S::kN, at, span, begin == 0);
        u32 seen = own.mine() ? look_at_arrivals(p, own) : kDirect;
        if (begin < tokens) tile<S, true>(state, q, tokens - begin, at, span, begin == 0);
        span.main_done();
        float lse[2];
        normalise(state, shared.scratch, lse, at);
        finish_rows(p, state, shared.scratch.queries[round & 1], lse, own, seen, at);
        ++round;
        span.end(p, task_id, own.kv_head);
    }

    __device__ __forceinline__ void run() {
        for (;;) {
            wait_stage();
            TaskInfo& info = shared.scratch.info[cursor.stage];
            if (info.stop) break;
            TraceSpan span;
            span.begin();
            switch (info.tile) {
#define PS_CONSUME(index, m, n)         \
    case index:                         \
        task<TileShape<m, n>>(span);    \
        break;
                PS_TILE_LIST(PS_CONSUME)
#undef PS_CONSUME
            }
        }
    }
};
