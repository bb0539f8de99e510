// The consumer warps' loop over the tasks that the scout hands over.
#pragma once
#include "few.cuh"
#include "fold.cuh"
#include "lean.cuh"
#include "masks.cuh"
#include "rows_of_q.cuh"
#include "tall.cuh"
#include "warpgroup.cuh"
#include "watch.cuh"

struct Consumer {
    const DecodeParams& p;
    SharedMemory& shared;
    RingCursor<kStages> cursor;

    __device__ __forceinline__ Consumer(const DecodeParams& params, SharedMemory& memory)
        : p(params), shared(memory) {
        if ((threadIdx.x & 31) == 0) {
            memory.scratch.tasks[threadIdx.x >> 5].list = 0;
            if constexpr (kDouble) memory.scratch.tasks[kWarps + (threadIdx.x >> 5)].list = 0;
            memory.scratch.query_parity[threadIdx.x >> 5] = 0;
        }
        __syncwarp();
    }

    __device__ __forceinline__ u32 wait_at(const RingCursor<kStages>& at) {
        barrier_wait(smem_address(&shared.scratch.full[at.stage]), at.parity);
        // Matrix loads and tensor instructions need the whole warp, and lanes may leave the wait apart.
        __syncwarp();
        return smem_address(shared.ring[at.stage]);
    }
    __device__ __forceinline__ u32 wait_stage() { return wait_at(cursor); }

    // The same for warpgroup instructions, which read what ordinary copies may have brought.
    __device__ __forceinline__ u32 wait_tensor_stage() {
        const u32 stage = wait_stage();
        if (!PS_TMA) fence_async_proxy();
        return stage;
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
    // after the reads through the fence that each reading lane has passed. The race checker does not
    // count this for a stage that partials come to (`copy_rows`, which it follows as it does not the
    // copies of tiles): it may report the last tile's reads there, and does not once every lane arrives.
    __device__ __forceinline__ void release_stage() {
        fence_async_proxy();
        __syncwarp();
        if (kReleases == kConsumers || (threadIdx.x & 31) == 0) {
            barrier_arrive(smem_address(&shared.scratch.empty[cursor.stage]));
        }
        cursor.advance();
    }

    // The same for a stage that only warpgroup instructions have read and that have been waited for:
    // they are of the copies' own proxy.
    __device__ __forceinline__ void release_read_stage(u32 stage) {
        if (kReleases == kConsumers || (threadIdx.x & 31) == 0) {
            barrier_arrive(smem_address(&shared.scratch.empty[stage]));
        }
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

    // Tile after tile: QK, softmax, PV.
    template <class S, int kSteps>
    __device__ __forceinline__ void tiles(RowState<S>& state, const u32 (&q)[kSteps][4], u32 tokens,
                                          const TaskQueries<S>& queries, u32& arrived, RowMasks<S>& masks,
                                          const Position<S>& at, TraceSpan& span) {
#pragma unroll 1
        for (u32 begin = 0; begin < tokens; begin += S::kTokens) {
            if (begin > 0) masks.advance();
            const u32 valid = tokens - begin;
            if (valid <= S::kTokens) arrived = queries.ask_arrived(p);
            float s[S::kTokens8][4], shrink[2];
            u32 k_stage = wait_stage();
            if (begin == 0) span.first_tile();
            if constexpr (S::kQueriesStay) {
                const u32 first = (S::kPerWarp ? at.warp : at.col_group) * S::kTokens8 * 8;
                scores_of_staying(s, smem_address(shared.queries), k_stage, first, at);
            } else {
                scores<S>(s, q, k_stage, at);
            }
            release_stage();
            masks.hide(s, at);
            softmax_tile(s, state, shrink, shared.scratch, p.scale_log2, valid, at, masks);
            rescale(state, shrink);
            u32 v_stage = wait_stage();
            if (valid < S::kTokens) clear_tail<S>(v_stage, valid, at);
            masks.clear_gaps(v_stage, 0);
            // Tiles of 64 rows have no registers left to keep the addresses of V from tile to tile.
            const Position<S> anew = S::kM == 64 && !S::kPerWarp ? Position<S>() : at;
            accumulate<S>(state, s, shared.scratch, v_stage, anew);
            release_stage();
        }
    }

#if PS_WGMMA
    // The same with warpgroup instructions: PV of a tile runs during the softmax of the next, as in
    // FlashAttention-3. Q stays in shared memory, or the registers would not do, and is given back after
    // the last QK. V of a tile comes behind K of the next.
    //
    //   tensor cores   QK 0              QK 1  PV 0            QK 2  PV 1            PV 2
    //   warps                softmax 0              softmax 1              softmax 2
    template <class S>
    __device__ __forceinline__ void overlapped_tiles(RowState<S>& state, u32 tokens, RowMasks<S>& masks,
                                                     const Position<S>& at, TraceSpan& span) {
        const u32 queries = smem_address(shared.queries);
        // Ordinary copies brought Q; each thread has seen all of them.
        fence_async_proxy();
        sync_threads(1, kConsumers);
        if (tokens == 0) return release_queries();
        cursor.stage = alike(cursor.stage);
        cursor.parity = alike(cursor.parity);
        float s[S::kTokens8][4], shrink[2];
        u32 weights[4][4];
        u32 stage = wait_tensor_stage();
        span.first_tile();
        warpgroup_begin_scores<S::kM>(s, queries, stage);
        warpgroup_wait<0>();
        release_read_stage(cursor.stage);
        cursor.advance();
        masks.hide(s, at);
        softmax_tile(s, state, shrink, shared.scratch, p.scale_log2, tokens, at, masks);
        pack_weights(weights, s);
#pragma unroll 1
        for (; tokens > S::kTokens; tokens -= S::kTokens) {
            const u32 k_stage = cursor.stage;
            masks.advance();
            warpgroup_begin_scores<S::kM>(s, queries, wait_tensor_stage());
            cursor.advance();
            stage = wait_tensor_stage();
            masks.clear_gaps(stage, 1);
            warpgroup_begin_accumulate(state.o, weights, stage);
            warpgroup_wait<1>();
            release_read_stage(k_stage);
            masks.hide(s, at);
            softmax_tile(s, state, shrink, shared.scratch, p.scale_log2, tokens - S::kTokens, at, masks);
            wait_behind(state.l);
            warpgroup_wait<0>();
            release_read_stage(cursor.stage);
            cursor.advance();
            if (__any_sync(0xffffffffu, shrink[0] != 1.0f || shrink[1] != 1.0f)) rescale(state, shrink);
            pack_weights(weights, s);
        }
        release_queries();
        stage = wait_tensor_stage();
        if (tokens < S::kTokens) clear_tail<S>(stage, tokens, at);
        masks.clear_gaps(stage, 0);
        warpgroup_begin_accumulate(state.o, weights, stage);
        warpgroup_wait<0>();
        release_read_stage(cursor.stage);
        cursor.advance();
    }

    // The same of 128 rows, in two blocks of 64 with the same K and V. While PV of a block runs, the softmax of the other one does.
    //
    //   tensor cores   QK 0a              QK 0b  PV 0a            QK 1a  PV 0b            QK 1b  PV 1a
    //   warps                 softmax 0a               softmax 0b              softmax 1a
    template <class S>
    __device__ __forceinline__ void double_tiles(RowState<S>& a, RowState<S>& b, u32 tokens, TraceSpan& span) {
        const u32 rows_a = smem_address(shared.queries), rows_b = rows_a + 64 * 128;
        fence_async_proxy();
        sync_threads(1, kConsumers);
        if (tokens == 0) return release_queries();
        cursor.stage = alike(cursor.stage);
        cursor.parity = alike(cursor.parity);
        float s[S::kTokens8][4];
        u32 weights[4][4];
        warpgroup_begin_scores<S::kM>(s, rows_a, wait_tensor_stage());
        span.first_tile();
        warpgroup_wait<0>();
        block_softmax(s, a, tokens);
        pack_weights(weights, s);
#pragma unroll 1
        for (;;) {
            const u32 k_stage = cursor.stage;
            warpgroup_begin_scores<S::kM>(s, rows_b, smem_address(shared.ring[k_stage]));
            cursor.advance();
            u32 stage = wait_tensor_stage();
            if (tokens < S::kTokens) {
                warpgroup_wait<0>();
                clear_tail<S>(stage, tokens, Position<S>());
            }
            warpgroup_begin_accumulate(a.o, weights, stage);
            warpgroup_wait<1>();
            release_read_stage(k_stage);
            block_softmax(s, b, tokens);
            warpgroup_wait<0>();
            pack_weights_over(weights, s, tokens);
            if (tokens <= S::kTokens) break;
            tokens -= S::kTokens;
            const u32 v_stage = cursor.stage;
            cursor.advance();
            warpgroup_begin_scores<S::kM>(s, rows_a, wait_tensor_stage());
            warpgroup_begin_accumulate(b.o, weights, smem_address(shared.ring[v_stage]));
            warpgroup_wait<1>();
            block_softmax(s, a, tokens);
            warpgroup_wait<0>();
            release_read_stage(v_stage);
            pack_weights_over(weights, s, tokens);
        }
        release_queries();
        warpgroup_begin_accumulate(b.o, weights, smem_address(shared.ring[cursor.stage]));
        warpgroup_wait<0>();
        release_read_stage(cursor.stage);
        cursor.advance();
    }

    // No product of the block is under way. Where a lane stands is read anew: there is no register for it during the tiles.
    template <class S>
    __device__ __forceinline__ void block_softmax(float (&s)[S::kTokens8][4], RowState<S>& state, u32 tokens) {
        float shrink[2];
        softmax_tile<S>(s, state, shrink, shared.scratch, p.scale_log2, tokens, Position<S>());
        wait_behind(state.l);
        if (__any_sync(0xffffffffu, shrink[0] != 1.0f || shrink[1] != 1.0f)) rescale(state, shrink);
    }

    // What comes next waits for products behind the softmax whose sums these are. ptxas waits for them as soon as it can,
    // before the softmax that is to run beside; but not before a store, even one that never is, as no sum is negative.
    __device__ __forceinline__ void wait_behind(const float (&sums)[2]) {
        asm volatile("{\n .reg .pred p;\n setp.lt.f32 p, %0, 0f00000000;\n @p st.shared.f32 [%1], %0;\n}" ::"f"(
                         fminf(sums[0], sums[1])),
                     "r"(smem_address(&shared.scratch.never))
                     : "memory");
    }

    // The same by two warpgroups, as far as all rows see all tokens (tall.cuh), beside a third where there is one (few.cuh).
    // V of a tile comes behind its K.
    template <class S>
    __device__ __forceinline__ void tall_tiles(RowState<S>& state, TallMasks<S>& masks, const Position<S>& at,
                                               TraceSpan& span) {
        const u32 team = at.thread / kTeam, own = smem_address(shared.queries) + team * (kTeam / 2 * 128);
        sync_threads(2 + team, kTeam);
        copy_own_rows(p, shared.scratch.info, smem_address(shared.queries), at);
        release_queries();
        fence_async_proxy();
#if PS_APART
        arrive_threads(kRowsOfQThere, kConsumers + kFewThreads);
#endif
        sync_threads(2 + team, kTeam);
        if (masks.tiles == 0) return;
        wait_at(cursor);
        span.first_tile();
        u32 weights[S::kTokens / 16][4];
        bool open = false;               // whether P V of the last tile is still to do
        RingCursor<kStages> v = cursor;  // where V of that tile is, else of this one
        v.advance();
#pragma unroll 1
        for (u32 tile = 0; tile < masks.tiles; ++tile) {
            const u64 seen = masks.of_tile(tile, at.lane);
            if (PS_APART && !(seen & kSeenByAll)) continue;
            if (PS_APART || (seen & kSeenByAll)) {
                float s[S::kTokens8][4], shrink[2];
                warpgroup_begin_scores<S::kM>(s, own, wait_tensor_stage());
                // Each way whole, since ptxas has products wait for each other where it does not see how many are under way.
                if (open) {
                    warpgroup_begin_accumulate(state.o, weights, wait_at(v));
                    warpgroup_wait<1>();
                    release_read_stage(cursor.stage);
                    softmax_tile<S>(s, state, shrink, shared.scratch, p.scale_log2, S::kTokens, at);
                    warpgroup_wait<0>();
                    release_v(v);
                } else {
                    warpgroup_wait<0>();
                    release_read_stage(cursor.stage);
                    softmax_tile<S>(s, state, shrink, shared.scratch, p.scale_log2, S::kTokens, at);
                }
                if (__any_sync(0xffffffffu, shrink[0] != 1.0f || shrink[1] != 1.0f)) rescale(state, shrink);
                pack_weights(weights, s);
                open = true;
#if !PS_APART
            } else {
                SparsePart<S> part(masks, tile, (u32)seen, at);
                if (open) {
                    warpgroup_begin_accumulate(state.o, weights, wait_at(v));
                    const u32 k_stage = wait_stage();
                    if (part.any()) part.scores(smem_address(shared.queries), k_stage, at);
                    warpgroup_wait<0>();
                    release_v(v);
                } else {
                    const u32 k_stage = wait_stage();
                    if (part.any()) part.scores(smem_address(shared.queries), k_stage, at);
                }
                open = false;
                const u32 v_stage = wait_at(v);
                while (part.any()) {
                    part.output(state, v_stage, p.scale_log2, at);
                    part.advance(masks, tile);
                    if (part.any()) part.scores(smem_address(shared.queries), smem_address(shared.ring[cursor.stage]), at);
                }
                fence_async_proxy();
                __syncwarp();
                release_read_stage(cursor.stage);
                release_v(v);
#endif
            }
            cursor.advance();
            cursor.advance();
        }
        if (open) {
            warpgroup_begin_accumulate(state.o, weights, wait_at(v));
            warpgroup_wait<0>();
            release_read_stage(v.stage);
        }
#if PS_APART
        sync_threads(kFewDone, kConsumers + kFewThreads);
        join_few(state, shared.scratch.few.visited, at);
#endif
    }

    // Gives back V and goes to that of the next tile, behind its K.
    __device__ __forceinline__ void release_v(RingCursor<kStages>& v) {
        release_read_stage(v.stage);
        v.advance();
        v.advance();
    }

#endif

    // Tile after tile with the rows on the n side.
    template <class S>
    __device__ __forceinline__ void lean_tiles(RowState<S>& rows, u32 tokens, const TaskQueries<S>& queries, u32& arrived,
                                               const Position<S>& at, TraceSpan& span) {
        LeanState state;
        u32 q[kDim / 32][4], weights[2];
        load_lean_q<S>(q, smem_address(shared.queries), at);
        release_queries();
        if (tokens == 0) return;
        const LeanPlaces<S> places(at);
        float s[4];
        u32 k_stage = wait_stage();
        span.first_tile();
        lean_products<S, true, false>(s, state, q, weights, k_stage + places.k, 0);
        release_stage();
        lean_softmax(s, state, weights, p.scale_log2, tokens, at.lane);
#pragma unroll 1
        for (; tokens > S::kTokens; tokens -= S::kTokens) {
            const u32 v_number = cursor.stage, v_stage = wait_stage();
            cursor.advance();
            k_stage = wait_stage();
            lean_products<S, true, true>(s, state, q, weights, k_stage + places.k, v_stage + places.v);
            fence_async_proxy();
            __syncwarp();
            release_read_stage(v_number);
            release_read_stage(cursor.stage);
            cursor.advance();
            lean_softmax(s, state, weights, p.scale_log2, tokens - S::kTokens, at.lane);
        }
        arrived = queries.ask_arrived(p);
        const u32 v_stage = wait_stage();
        if (tokens < S::kTokens) clear_tail<S>(v_stage, tokens, at);
        lean_products<S, false, true>(s, state, q, weights, 0, v_stage + places.v);
        release_stage();
        stand_up(rows, state, at.lane);
    }

#if PS_WGMMA
    // A task of two blocks of rows. Returns what this warp is to merge of the first, and in `second` of the other.
    template <class S>
    __device__ __forceinline__ Completed double_task(TraceSpan& span, Completed& second) {
        Scratch& scratch = shared.scratch;
        // Before there is any state of the rows: behind that a run took up to a quarter longer.
        copy_all_rows<S>(p, scratch.info, smem_address(shared.queries));
        RowState<S> a, b;
        {
            const Position<S> at;
            TaskQueries<S>(p, scratch, scratch.info, at.in_block(0));
            TaskQueries<S>(p, scratch, scratch.info, at.in_block(1));
        }
        double_tiles(a, b, alike(scratch.info.kv_tokens), span);
        span.main_done();
        const Position<S> after;
        second = finish_block(b, after.in_block(1));
        return finish_block(a, after.in_block(0));
    }

    template <class S>
    __device__ __forceinline__ Completed finish_block(RowState<S>& state, const Position<S>& at) {
        float lse[2];
        normalise(state, shared.scratch, lse, at);
        return finish_rows(p, state, TaskQueries<S>(shared.scratch, at), lse, at);
    }
#endif

    // Returns what this warp is to merge.
    template <class S>
    __device__ __forceinline__ Completed task(TraceSpan& span) {
        Position<S> at;
        RowState<S> state;
        Scratch& scratch = shared.scratch;
        TaskInfo& info = scratch.info;
        TaskQueries<S> queries(p, scratch, info, at);
        u32 tokens = RowMasks<S>::tokens(info);
        const bool fold_stage = kFoldStage<S> && alike(info.fold_stage) != 0;
        RowMasks<S> masks(p, info, at);
        u32 q[S::kQueriesStay || S::kLean ? 1 : kDim / 16][4];
        if constexpr (!S::kQueriesStay && !S::kLean) {
            load_q<S>(q, smem_address(shared.queries), at);
            release_queries();
        }
        StagedFold<S> staged(p, queries, at, fold_stage);
        u32 arrived = 0;  // of the rows of this thread's query
        if constexpr (S::kLean) {
            lean_tiles(state, tokens, queries, arrived, at, span);
#if PS_WGMMA
        } else if constexpr (S::kTeams > 1) {
            TallMasks<S> tall(p, info, at);
            tall_tiles(state, tall, at, span);
        } else if constexpr (S::kWgmma) {
            overlapped_tiles(state, tokens, masks, at, span);
#endif
        } else {
            tiles(state, q, tokens, queries, arrived, masks, at, span);
            if constexpr (S::kQueriesStay) release_queries();
        }
        span.main_done();
        // Read anew on Hopper: what follows from it would otherwise be kept in registers during the
        // tiles. Without warpgroup instructions it is the other way round, but for head dimension 256 on later GPUs.
        const Position<S> after = PS_WGMMA || (kDim > 128 && PS_ARCH >= 90) ? Position<S>() : at;
        queries.stand_at(after);
        if (fold_stage) {
            staged.fold(p, state, queries, wait_stage(), after);
            release_stage();
        } else if constexpr (kFoldsOf<S>) {
            if constexpr (kFoldsAtEnd<S>) find_arrived(p, queries, arrived);
            fold_partials(p, state, queries, after);
        }
        float lse[2];
        normalise(state, scratch, lse, after);
        return finish_rows(p, state, queries, lse, after);
    }

    template <class S>
    __device__ __forceinline__ Completed any_task(TraceSpan& span, Completed& second) {
#if PS_WGMMA
        if constexpr (S::kBlocks > 1) return double_task<S>(span, second);
#endif
        return task<S>(span);
    }

    __device__ __forceinline__ void run() {
        for (;;) {
            wait_queries();
            TaskInfo& info = shared.scratch.info;
            if (alike(info.stop)) break;
            TraceSpan span(shared.scratch.times);
            span.begin();
            // Beside prefill there is one, and no register for its number.
            const u32 tile = PS_BESIDE ? 0 : alike(info.tile);
            Completed done = {}, second = {};
            switch (tile) {
#define PS_CONSUME(index, m, n)                        \
    case index:                                        \
        done = any_task<TileShape<m, n>>(span, second); \
        break;
                PS_TILE_LIST(PS_CONSUME)
#undef PS_CONSUME
            }
#if PS_FUSED
            if constexpr (kDouble) {
                // One copy of the code for both.
#pragma unroll 1
                for (int block = 0; block < 2; ++block) {
                    if (done.count > 0) merge_queries(p, shared.scratch, done);
                    done = second;
                }
            } else if (done.count > 0) {
                merge_queries(p, shared.scratch, done);
            }
#endif
            __syncwarp();
            if (kWideTiles >> tile & 1 || threadIdx.x == 0) span.end(p, shared.scratch.tasks[threadIdx.x >> 5]);
        }
#if PS_FUSED && !PS_BESIDE
        if (p.num_watched > 0) watch(p, shared);
#endif
    }
};
