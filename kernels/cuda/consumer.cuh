// The consumer warps' loop over the tasks that the scout hands over.
#pragma once
#include "fold.cuh"
#include "warpgroup.cuh"

struct Consumer {
    const DecodeParams& p;
    SharedMemory& shared;
    RingCursor<kStages> cursor;

    __device__ __forceinline__ Consumer(const DecodeParams& params, SharedMemory& memory)
        : p(params), shared(memory) {
        if ((threadIdx.x & 31) == 0) {
            memory.scratch.tasks[threadIdx.x >> 5].list = 0;
            memory.scratch.query_parity[threadIdx.x >> 5] = 0;
        }
        __syncwarp();
    }

    __device__ __forceinline__ u32 wait_stage() {
        barrier_wait(smem_address(&shared.scratch.full[cursor.stage]), cursor.parity);
        // Matrix loads and tensor instructions need the whole warp, and lanes may leave the wait apart.
        __syncwarp();
        return smem_address(shared.ring[cursor.stage]);
    }

    // Gives the stage back: one arrival for each warp, or one for each lane (`kReleases`). The
    // fence orders what this warp did there by ordinary accesses before the bulk copy that comes
    // next: without it, a warp that runs ahead was seen to have its tile overwritten while its
    // last matrix loads were under way.
    //
    // Why one lane may speak for its warp, in the PTX memory model: every lane's reads come
    // before its bar.warp.sync, which orders them before what lane 0 does next; lane 0's arrive
    // is a release at CTA scope, and a release is cumulative, so it covers the other lanes'
    // reads too; the producer's try_wait acquires the phase that the arrive completes, and each
    // lane issues its copies after that. The bulk engine is another proxy, whose writes come
    // after the reads through the fence that each reading lane has passed.
    __device__ __forceinline__ void release_stage() {
        fence_async_proxy();
        __syncwarp();
        if (kReleases == kConsumers || (threadIdx.x & 31) == 0) {
            barrier_arrive(smem_address(&shared.scratch.empty[cursor.stage]));
        }
        cursor.advance();
    }

    // The rows of Q of the next task and what comes with them. Every lane gives them back: all have
    // read there.
    __device__ __forceinline__ void wait_queries() {
        // Read anew, or the address of the parity would be kept in a register during the tiles.
        u32 thread;
        asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
        u32& parity = shared.scratch.query_parity[thread >> 5];
        barrier_wait(smem_address(&shared.scratch.query_full), parity);
        __syncwarp();
        if ((thread & 31) == 0) parity ^= 1;
    }
    __device__ __forceinline__ void release_queries() { barrier_arrive(smem_address(&shared.scratch.query_empty)); }

    template <class S>
    __device__ __forceinline__ void tile(RowState<S>& state, const u32 (&q)[kDim / 16][4], u32 valid,
                                         const Position<S>& at, TraceSpan& span, bool first) {
        float s[S::kTokens8][4];
        u32 k_stage = wait_stage();
        if (first) span.first_tile();
        if constexpr (S::kWgmma) {
            warpgroup_scores(s, q, k_stage);
        } else {
            scores<S>(s, q, k_stage, at);
        }
        release_stage();
        softmax_tile<S>(s, state, shared.scratch, p.scale_log2, valid, at);
        u32 v_stage = wait_stage();
        if (valid < S::kTokens) clear_tail<S>(v_stage, valid, at);
        if constexpr (S::kWgmma) {
            warpgroup_accumulate(state.o, s, v_stage);
        } else {
            // Tiles of 64 rows have no registers left to keep the addresses of V from tile to tile.
            const Position<S> anew = S::kM == 64 && !S::kPerWarp ? Position<S>() : at;
            accumulate<S>(state, s, shared.scratch, v_stage, anew);
        }
        release_stage();
    }

    template <class S>
    __device__ __forceinline__ void task(TraceSpan& span) {
        Position<S> at;
        RowState<S> state;
        u32 q[kDim / 16][4];
        Scratch& scratch = shared.scratch;
        TaskInfo& info = scratch.info;
        TaskQueries<S> queries(p, scratch, info, at);
        load_q<S>(q, smem_address(shared.queries), at);
        u32 tokens = info.kv_tokens;
        const bool fold_stage = kFoldStage<S> && info.fold_stage != 0;
        release_queries();
        StagedFold<S> staged(p, queries, at, fold_stage);
#pragma unroll 1
        for (u32 begin = 0; begin < tokens; begin += S::kTokens) {
            u32 left = tokens - begin;
            tile<S>(state, q, left, at, span, begin == 0);
        }
        span.main_done();
        // Read anew on Hopper: what follows from it would otherwise be kept in registers during the
        // tiles. Without warpgroup instructions it is the other way round.
        const Position<S> after = PS_WGMMA ? Position<S>() : at;
        queries.stand_at(after);
        if (fold_stage) {
            staged.fold(p, state, queries, wait_stage(), after);
            release_stage();
        } else {
            fold_partials(p, state, queries, after);
        }
        float lse[2];
        normalise(state, scratch, lse, after);
        finish_rows(p, state, queries, lse, after);
        __syncwarp();
        span.template end<S::kPerWarp>(p, queries.task());
    }

    __device__ __forceinline__ void run() {
        for (;;) {
            wait_queries();
            TaskInfo& info = shared.scratch.info;
            if (info.stop) break;
            TraceSpan span(shared.scratch.times);
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
