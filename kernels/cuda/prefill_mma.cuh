// The prefill kernel of GPUs without Hopper's instructions: eight warps of 16 rows each, mma.sync, and 16-byte
// copies into two stages by the same warps.
#pragma once
#include "prefill.cuh"

namespace prefill {
constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;
constexpr int kTileBytes = kTokens * kDim * 2;
constexpr int kQueryBytes = kTaskRows * kDim * 2;
// Whether the rows of Q stay in shared memory, since there are no registers for them.
constexpr bool kQueriesStay = kDim > 128;
constexpr int kQuerySteps = kQueriesStay ? 1 : kDim / 16;  // 16 dimensions each, in registers
static_assert(kTaskRows == kWarps * 16, "a warp has 16 rows");
static_assert(kStages == 2, "one tile is computed, one is on its way");

struct PrefillScratch {
    u32 place[2];  // claimed, for tasks with even and odd numbers
    u32 unused[2];
    TraceTimes times[PS_TRACE ? kWarps : 1];

    __device__ __forceinline__ void init() {}
};

struct PrefillShared {
    alignas(1024) u8 k[kStages][kTileBytes];
    alignas(1024) u8 v[kStages][kTileBytes];
    alignas(1024) u8 queries[kQueryBytes];
    PrefillScratch scratch;
};
static_assert(sizeof(PrefillShared) <= PS_PREFILL_BYTES, "the host gives the kernel enough shared memory");

__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most the latest group is on its way.
__device__ __forceinline__ void copies_wait_but_one() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

struct PrefillWarps {
    const PrefillParams& p;
    PrefillShared& shared;
    u32 thread, lane, warp;

    __device__ __forceinline__ PrefillWarps(const PrefillParams& params, PrefillShared& memory)
        : p(params), shared(memory), thread(threadIdx.x), lane(threadIdx.x & 31), warp(threadIdx.x >> 5) {}

    __device__ __forceinline__ u32 row() const { return warp * 16 + (lane >> 2); }

    // Each thread copies one chunk of every `kRowStep`-th row of a tile.
    static constexpr u32 kRowStep = kThreads / kRowChunks;
    static constexpr int kCopies = kTokens / kRowStep;

    // Blocks of the rows that this thread copies of tile `tile`.
    __device__ __forceinline__ void find_blocks(u32 (&blocks)[kCopies], const PrefillTask& task, int tile) {
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {
            const u32 token = tile * kTokens + thread / kRowChunks + i * kRowStep;
            const bool real = tile >= 0 && token < task.tokens;
            blocks[i] = real ? __ldg(p.block_ids + task.block_begin + ((task.kv_begin + token) >> p.block_shift)) : 0;
        }
    }

    // K and V of a tile; rows past the last token are zeros.
    __device__ __forceinline__ void load_tile(const PrefillTask& task, u32 kv_head, u32 tile, u32 stage,
                                              const u32 (&blocks)[kCopies]) {
        const u32 chunk = thread % kRowChunks;
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {
            const u32 row = thread / kRowChunks + i * kRowStep, token = tile * kTokens + row;
            const u32 within = (task.kv_begin + token) & ((1u << p.block_shift) - 1);
            const u64 from =
                blocks[i] * p.stride_block + kv_head * p.stride_head + within * p.stride_token + chunk * 8;
            const bool real = token < task.tokens;
            copy_16(tile_address<kTokens>(smem_address(shared.k[stage]), row, chunk), p.k + from, real);
            copy_16(tile_address<kTokens>(smem_address(shared.v[stage]), row, chunk), p.v + from, real);
        }
    }

    __device__ __forceinline__ void load_q_step(u32 (&q)[4], int step) {
        const u32 row = warp * 16 + (lane & 15), chunk = step * 2 + (lane >> 4);
        load_matrices(q, tile_address<kTaskRows>(smem_address(shared.queries), row, chunk));
    }

    __device__ __forceinline__ void load_q(u32 (&q)[kQuerySteps][4]) {
#pragma unroll
        for (int k = 0; k < kQuerySteps; ++k) load_q_step(q[k], k);
    }

    __device__ __forceinline__ void scores(float (&s)[kTokens8][4], const u32 (&q)[kQuerySteps][4], u32 stage) {
        if (kQueriesStay) return scores_of_staying(s, stage);
        const u32 base = smem_address(shared.k[stage]);
#pragma unroll
        for (int j = 0; j < kTokens8; ++j) {
            s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0.0f;
#pragma unroll
            for (int k = 0; k < kDim / 32; ++k) {
                u32 b[4];
                load_matrices(b, tile_address<kTokens>(base, j * 8 + (lane & 7), k * 4 + (lane >> 3)));
                mma_16x8x16(s[j], q[2 * k % kQuerySteps], b[0], b[1]);
                mma_16x8x16(s[j], q[(2 * k + 1) % kQuerySteps], b[2], b[3]);
            }
        }
    }

    __device__ __forceinline__ void scores_of_staying(float (&s)[kTokens8][4], u32 stage) {
        const u32 base = smem_address(shared.k[stage]);
#pragma unroll
        for (int j = 0; j < kTokens8; ++j) s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0.0f;
#pragma unroll
        for (int k = 0; k < kDim / 32; ++k) {
            u32 q[2][4];
            load_q_step(q[0], 2 * k);
            load_q_step(q[1], 2 * k + 1);
#pragma unroll
            for (int j = 0; j < kTokens8; ++j) {
                u32 b[4];
                load_matrices(b, tile_address<kTokens>(base, j * 8 + (lane & 7), k * 4 + (lane >> 3)));
                mma_16x8x16(s[j], q[0], b[0], b[1]);
                mma_16x8x16(s[j], q[1], b[2], b[3]);
            }
        }
    }

    __device__ __forceinline__ void accumulate(PrefillState& state, const float (&s)[kTokens8][4], u32 stage) {
        const u32 base = smem_address(shared.v[stage]);
#pragma unroll
        for (int k = 0; k < kTokens / 16; ++k) {
            const u32 a[4] = {pack_halves(s[2 * k][0], s[2 * k][1]), pack_halves(s[2 * k][2], s[2 * k][3]),
                              pack_halves(s[2 * k + 1][0], s[2 * k + 1][1]),
                              pack_halves(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
            for (int d = 0; d < kDims8 / 2; ++d) {
                u32 b[4];
                const u32 row = k * 16 + (lane & 15), chunk = d * 2 + (lane >> 4);
                load_matrices_transposed(b, tile_address<kTokens>(base, row, chunk));
                mma_16x8x16(state.o[2 * d], a, b[0], b[1]);
                mma_16x8x16(state.o[2 * d + 1], a, b[2], b[3]);
            }
        }
    }

    template <bool kMasked>
    __device__ __forceinline__ void step(const PrefillTask& task, PrefillState& state, const u32 (&q)[kQuerySteps][4],
                                         u32 tile, u32 stage) {
        float s[kTokens8][4], shrink[2];
        int seen[2];
        scores(s, q, stage);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            seen[r] = (int)task.seen_by(p, row() + r * 8) - (int)(tile * kTokens) - (int)(lane & 3) * 2;
        }
        softmax_tile<kMasked>(s, state, shrink, p.scale_log2, seen);
        state.rescale(shrink);
        accumulate(state, s, stage);
    }

    // From the end of KV to its begin.
    __device__ __forceinline__ void tiles(const PrefillTask& task, PrefillState& state, TraceSpan& span) {
        const u32 kv_head = task.kv_head;
        // Tiles that every row of this warp sees whole.
        const int whole = task.seen_by(p, warp * 16) / kTokens, last = (int)task.tiles() - 1;
        u32 q[kQuerySteps][4], blocks[kCopies], stage = 0;
        find_blocks(blocks, task, last);
        copy_queries<kThreads>(p, task, smem_address(shared.queries), thread, [] {});
        load_tile(task, kv_head, last, stage, blocks);
        copies_commit();
        find_blocks(blocks, task, last - 1);
#pragma unroll 1
        for (int tile = last; tile >= 0; --tile, stage ^= 1) {
            if (tile > 0) load_tile(task, kv_head, tile - 1, stage ^ 1, blocks);
            copies_commit();
            find_blocks(blocks, task, tile - 2);
            copies_wait_but_one();
            __syncthreads();
            if (tile == last) {
                span.first_tile();
                load_q(q);
            }
            if (tile >= whole) {
                step<true>(task, state, q, tile, stage);
            } else {
                step<false>(task, state, q, tile, stage);
            }
            __syncthreads();
        }
    }

    __device__ __forceinline__ void run() {
#pragma unroll 1
        for (u32 nth = 0;; ++nth) {
            if (thread == 0) shared.scratch.place[nth & 1] = claim_prefill(p);
            __syncthreads();
            const u32 place = shared.scratch.place[nth & 1];
            if (place >= prefill_tasks(p)) break;
            TraceSpan span(shared.scratch.times);
            span.begin();
            const PrefillTask task = load_prefill_task(p, place);
            PrefillState state;
            if (task.tokens > 0) tiles(task, state, span);
            span.main_done();
            finish_rows(p, task, state, row(), lane & 3);
#if PS_TRACE
            if (thread == 0) {
                span.keep(p.trace, p.trace_capacity, p.trace_begin + task.number * p.q_heads + task.head,
                          kPrefillTask + task.number, task.head);
            }
#endif
        }
    }
};
}  // namespace prefill
