// What few queries see of a pack on tile 128 x 128, by a warpgroup of its own (PS_APART), while the two others take what all
// see (tall.cuh). It has a ring of its own, and goes through 64 tokens at a time for the 16 rows of each warp that see some:
//
//   S^T = K Q^T       64 tokens by 16 rows                            m64n16k16, tokens on the side that has no less than 64
//   P                 through shared memory, so that a thread has eight scores of one row
//   O^T = V^T P^T     64 dimensions at a time by 16 rows              m64n16k16
//
// When it goes on to the rows of another warp it puts what it has of these aside, and joins both should they come again. In
// the end each warp of the others joins what there is of its rows to its own.
#pragma once
#include "decode.cuh"
#include "masks.cuh"
#include "wgmma.cuh"

#if PS_APART
// Named barriers: its threads wait for the rows of Q, the others for what is put aside, its threads for each other.
constexpr int kRowsOfQThere = 4, kFewDone = 5, kFewMeet = 6;

// What is put aside of a row: its output, normalised 16-bit values of which those that lie 8 columns apart lie side by
// side, then its maximum and its sum. Each SM has a place for 128 rows, since it has no memory for two such CTAs.
constexpr u32 kAsideSum = kDim * 2, kAsideBytes = kAsideSum + 16;
constexpr u32 kMostSms = 160;  // GH100 has 144
__device__ __align__(16) u8 rows_aside[kMostSms * kMaxRows * kAsideBytes];

__device__ __forceinline__ u8* rows_aside_of_sm() {
    u32 sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return rows_aside + sm * (kMaxRows * kAsideBytes);
}

struct FewTeam {
    const DecodeParams& p;
    SharedMemory& shared;
    FewScratch& scratch;
    RingCursor<kFewStages> cursor;
    u32 thread, lane;
    float o[kDim / 64][2][4];  // of rows (lane % 4) * 2, + 1, + 8, + 9 dimensions lane / 4 and + 8 from warp * 16 on
    float m, l;                // of row `thread / 8`: running maximum, log2 domain, and sum of this thread's tokens

    __device__ __forceinline__ FewTeam(const DecodeParams& params, SharedMemory& memory)
        : p(params), shared(memory), scratch(memory.scratch.few), thread(threadIdx.x - kConsumers), lane(threadIdx.x & 31) {}

    __device__ __forceinline__ u32 warp() const { return thread >> 5; }

    __device__ __forceinline__ void meet() { sync_threads(kFewMeet, kTeam); }

    __device__ __forceinline__ u32 wait(const RingCursor<kFewStages>& at) {
        barrier_wait(smem_address(&scratch.full[at.stage]), at.parity);
        __syncwarp();
        return smem_address(shared.few[at.stage]);
    }

    __device__ __forceinline__ void release(u32 stage) {
        if (lane == 0) barrier_arrive(smem_address(&scratch.empty[stage]));
    }

    // Where this lane's output of its first row of warp `rows` is put aside; `offset` leads to those of the others.
    __device__ __forceinline__ u32* aside(u32 rows) const {
        return (u32*)(rows_aside_of_sm() + (rows * 16 + (lane & 3) * 2) * kAsideBytes) + warp() * 8 + (lane >> 2);
    }
    static __device__ __forceinline__ constexpr u32 offset(int row) {
        return ((row >> 1) * 8 + (row & 1)) * (kAsideBytes / 4);
    }
    // Maximum and sum of one of the 16.
    __device__ __forceinline__ float2* sum_aside(u32 rows, u32 row) const {
        return (float2*)(rows_aside_of_sm() + (rows * 16 + row) * kAsideBytes + kAsideSum);
    }

    __device__ __forceinline__ void multiply(const float (&by)[16]) {
        const float2 low = *(const float2*)(by + (lane & 3) * 2), high = *(const float2*)(by + (lane & 3) * 2 + 8);
        if (low.x == 1.0f && low.y == 1.0f && high.x == 1.0f && high.y == 1.0f) return;
#pragma unroll
        for (int d = 0; d < kDim / 64; ++d) {
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                o[d][0][c] *= c & 1 ? low.y : low.x;
                o[d][1][c] *= c & 1 ? high.y : high.x;
            }
        }
    }

    __device__ __forceinline__ void put_aside(u32 rows) {
#pragma unroll
        for (int by = 1; by < 8; by *= 2) l += __shfl_xor_sync(0xffffffffu, l, by);
        if ((lane & 7) == 0) {
            *sum_aside(rows, thread >> 3) = make_float2(m, l);
            scratch.inverse[thread >> 3] = l > 0.0f ? reciprocal_fast(l) : 0.0f;
        }
        meet();
        multiply(scratch.inverse);
        u32* const to = aside(rows);
#pragma unroll
        for (int row = 0; row < 4; ++row) {
#pragma unroll
            for (int d = 0; d < kDim / 64; ++d) {
                to[offset(row) + d * 32] = pack_halves(o[d][row >> 1][row & 1], o[d][row >> 1][2 + (row & 1)]);
            }
        }
    }

    // What `put_aside` of these rows has left, once all threads have met.
    __device__ __forceinline__ void take_up(u32 rows) {
        const u32* const from = aside(rows);
#pragma unroll
        for (int row = 0; row < 4; ++row) {
            const float sum = sum_aside(rows, (row >> 1) * 8 + (lane & 3) * 2 + (row & 1))->y;
#pragma unroll
            for (int d = 0; d < kDim / 64; ++d) {
                float &low = o[d][row >> 1][row & 1], &high = o[d][row >> 1][2 + (row & 1)];
                unpack_halves(low, high, from[offset(row) + d * 32]);
                low *= sum;
                high *= sum;
            }
        }
        const float2 of_row = *sum_aside(rows, thread >> 3);
        m = of_row.x;
        l = (lane & 7) == 0 ? of_row.y : 0.0f;
    }

    // Begins S^T of the tokens whose K is at `keys` and of the rows of warp `rows`.
    __device__ __forceinline__ void begin_scores(float (&s)[2][4], u32 keys, u32 rows) {
        const u32 tokens = (u32)matrix_descriptor(keys);
        const u32 queries = (u32)matrix_descriptor(smem_address(shared.queries) + rows * (16 * 128));
        warpgroup_fence();
#pragma unroll
        for (int k = 0; k < kDim / 16; ++k) {
            warpgroup_mma_16<0>(s, tokens + ((k / 4) * (kFewTokens * 128) + (k % 4) * 32) / 16,
                                queries + ((k / 4) * (kMaxRows * 128) + (k % 4) * 32) / 16, k > 0);
        }
        warpgroup_commit();
    }

    // Begins O^T += V^T P^T; O is what it was where `keep`, else 0.
    __device__ __forceinline__ void begin_output(u32 values, u32 keep) {
        const u32 tokens = (u32)matrix_descriptor(values), weights = (u32)matrix_descriptor(smem_address(shared.few_weights));
        warpgroup_fence();
#pragma unroll
        for (int k = 0; k < kFewTokens / 16; ++k) {
#pragma unroll
            for (int d = 0; d < kDim / 64; ++d) {
                warpgroup_mma_16<1>(o[d], tokens + (d * (kFewTokens * 128) + k * 2048) / 16, weights + k * 2,
                                    k > 0 ? 1 : keep);
            }
        }
        warpgroup_commit();
    }

    // From what a lane holds of S^T to eight scores of row `thread / 8`: of four tokens from 4 * (thread % 8) on, and of four
    // from 32 further on.
    __device__ __forceinline__ void turn(float (&s)[2][4]) {
        float* const to = scratch.scores + (lane & 3) * (2 * kFewScores) + warp() * 16 + (lane >> 2);
#pragma unroll
        for (int row = 0; row < 4; ++row) {
            float* const of_row = to + ((row >> 1) * 8 + (row & 1)) * kFewScores;
            of_row[0] = s[row >> 1][row & 1];
            of_row[8] = s[row >> 1][2 + (row & 1)];
        }
        meet();
        const float* const from = scratch.scores + (thread >> 3) * kFewScores + (thread & 7) * 4;
        *(float4*)s[0] = *(const float4*)from;
        *(float4*)s[1] = *(const float4*)(from + 32);
    }

    // Softmax of what `turn` gave, of tokens that the row sees (a bit each). P goes to shared memory, and by what O shrinks.
    __device__ __forceinline__ void weigh(float (&s)[2][4], const uint2& sees) {
        const u32 part = thread & 7, row = thread >> 3;
        const u32 own[2] = {sees.x >> part * 4, sees.y >> part * 4};
        float top = -PS_INF;
#pragma unroll
        for (int c = 0; c < 8; ++c) {
            float& score = s[c >> 2][c & 3];
            if (!(own[c >> 2] >> (c & 3) & 1)) score = -PS_INF;
            top = fmaxf(top, score);
        }
#pragma unroll
        for (int by = 1; by < 8; by *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, by));
        float most = fmaxf(m, top * p.scale_log2);
        if (most - m <= kLag) most = m;
        // A row may have seen no token so far.
        const float from = most == -PS_INF ? 0.0f : most, shrink = exp2_fast(m - from);
        m = most;
        float sum = 0.0f;
#pragma unroll
        for (int c = 0; c < 8; ++c) {
            float& score = s[c >> 2][c & 3];
            score = exp2_fast(score * p.scale_log2 - from);
            sum += score;
        }
        l = l * shrink + sum;
        if (part == 0) scratch.shrink[row] = shrink;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const u32 to = tile_address<16>(smem_address(shared.few_weights), row, half * 4 + part / 2) + (part & 1) * 8;
            asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(to), "r"(pack_halves(s[half][0], s[half][1])),
                         "r"(pack_halves(s[half][2], s[half][3]))
                         : "memory");
        }
    }

    // The 64 tokens that come, for all warps of which some rows see some (`few_of_part`). `rows` is the warp whose rows are
    // at hand, `visited` has a bit for each that was.
    __device__ __forceinline__ void tokens_64(const u64* sight, u32 queries, u32 seen, u32& rows, u32& visited) {
        const u32 k_stage = cursor.stage, keys = wait(cursor);
        cursor.advance();
        while (seen != 0) {
            const u32 next = (__ffs(seen) - 1) >> 2;
            seen &= ~(15u << next * 4);
            u32 keep = 1;
            if (next != rows) {
                if (visited != 0) put_aside(rows);
                rows = next;
                keep = visited >> next & 1;
                m = -PS_INF;
                l = 0.0f;
                if (keep) {
                    meet();
                    take_up(next);
                }
                visited |= 1u << next;
            }
            float s[2][4];
            begin_scores(s, keys, next);
            const u32 query = min(query_of_row(p, next * 16 + (thread >> 3)), queries - 1);
            const uint2 sees = __ldg((const uint2*)sight + query);
            warpgroup_wait<0>();
            if (seen == 0) release(k_stage);
            turn(s);
            weigh(s, sees);
            const u32 values = wait(cursor);
            fence_async_proxy();
            meet();
            if (keep) multiply(scratch.shrink);
            begin_output(values, keep);
            warpgroup_wait<0>();
        }
        release(cursor.stage);
        cursor.advance();
    }

    // What few see of the task at hand; tells of which warps there are rows aside.
    __device__ __forceinline__ u32 task(u32 own, u32 tokens, u32 queries) {
        const u64* const masks = p.masks + (own & ~kGaps) - 1;  // of the tiles, then of the queries
        const u32 tiles = (tokens + kMaxTokens - 1) / kMaxTokens;
        // A way to HBM each otherwise.
#pragma unroll 1
        for (u32 i = thread * 16; i < tiles * (2 * queries + 3); i += kTeam * 16) {
            asm volatile("prefetch.global.L1 [%0];" ::"l"(masks + i));
        }
        sync_threads(kRowsOfQThere, kConsumers + kFewThreads);
        u32 rows = kWarps, visited = 0;
        u32 ahead = 0;  // of tile `lane` of 32 what few see
#pragma unroll 1
        for (u32 tile = 0; tile < tiles; ++tile) {
            if ((tile & 31) == 0) ahead = tile + lane < tiles ? few_of_tile(__ldg(masks + tile + lane)) : 0;
            const u32 seen = __shfl_sync(0xffffffffu, ahead, tile & 31);
            if (seen == 0) continue;
#pragma unroll 1
            for (u32 part = 0; part < 2; ++part) {
                const u32 of_part = few_of_part(seen, part);
                const u64* const sight = masks + tiles + (2 * tile + part) * (queries + 1);
                if (of_part != 0) tokens_64(sight, queries, of_part, rows, visited);
            }
        }
        if (visited != 0) put_aside(rows);
        return visited;
    }

    __device__ void run() {
        u32 parity = 0;
        for (;;) {
            barrier_wait(smem_address(&shared.scratch.query_full), parity);
            __syncwarp();
            parity ^= 1;
            const TaskInfo& info = shared.scratch.info;
            if (info.stop) break;
            const u32 masks = masks_of(info), tokens = info.kv_tokens, queries = info.num_queries;
            barrier_arrive(smem_address(&shared.scratch.query_empty));
            const u32 visited = task(masks, tokens, queries);
            if (thread == 0) scratch.visited = visited;
            arrive_threads(kFewDone, kConsumers + kFewThreads);
        }
    }
};

// What was put aside of these rows joins them.
template <class S>
__device__ __forceinline__ void join_few(RowState<S>& state, u32 visited, const Position<S>& at) {
    if (!(visited >> at.warp & 1)) return;
    const u8* const rows = rows_aside_of_sm() + at.row() * kAsideBytes;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const u8* const from = rows + r * (8 * kAsideBytes);
        const float2 aside = __ldcg((const float2*)(from + kAsideSum));
        uint2 values[S::kDims8 / 2];
#pragma unroll
        for (int j = 0; j < S::kDims8 / 2; ++j) values[j] = __ldcg((const uint2*)(from + j * 32 + (at.lane & 3) * 8));
        const float top = fmaxf(state.m[r], aside.x), base = top == -PS_INF ? 0.0f : top;
        const float own = exp2_fast(state.m[r] - base), other = exp2_fast(aside.x - base) * aside.y;
        state.m[r] = top;
        state.l[r] = state.l[r] * own + ((at.lane & 3) == 0 ? other : 0.0f);
#pragma unroll
        for (int j = 0; j < S::kDims8 / 2; ++j) {
            float more[4];
            unpack_halves(more[0], more[2], values[j].x);
            unpack_halves(more[1], more[3], values[j].y);
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                float& o = state.o[2 * j + (c >> 1)][2 * r + (c & 1)];
                o = o * own + other * more[c];
            }
        }
    }
}
#endif
