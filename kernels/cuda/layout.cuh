// Compile-time shape of one kernel and its shared memory.
//
// The host defines before this file:
//   PS_ARCH     compute capability times ten        PS_D        head dimension: 64, 128, 256
//   PS_BF16     0 = f16, 1 = bf16                   PS_WARPS    consumer warps
//   PS_STAGES   ring stages                         PS_TOKENS   largest n of the tile list
//   PS_ROWS     largest m of the tile list          PS_TMA      bulk tensor copies (sm_90)
//   PS_WGMMA    warpgroup mma for m = 64 (sm_90a)   PS_FUSED    persistent, with merge
//   PS_TRACE    write trace records                 PS_MIN_CTAS residency asked of ptxas, 0 for a register cap
//   PS_BESIDE   runs beside a prefill kernel
//   PS_COPIERS  warps that copy K and V, 1 but where they copy token by token
//   PS_FOLDS    when tasks of the persistent kernel look for what they complete: 0 never, 1 as they end, 2 as claimed
//   PS_ANY_GROUP   takes groups that are no power of two, or more than 16
//   PS_MASKS    tasks of 64 x 64 may have tokens that only some of their queries see (masks.cuh)
//   PS_APART    in the kernel of tile 128 x 128 a warpgroup of its own takes what few queries see (few.cuh)
//   PS_TILE_LIST(X)  X(index, m, n) for each tile
#pragma once
#include "async_copy.cuh"
#include "tile.cuh"
#include "trace.cuh"

constexpr int kWarps = PS_WARPS;
constexpr int kConsumers = kWarps * 32;
// Consumers of 64 rows: all, or in the kernel of tile 128 x 128 each of two warpgroups, which read the same K and V.
constexpr int kTeam = 128;
constexpr int kStages = PS_STAGES;
constexpr int kMaxRows = PS_ROWS;  // 64 for tile 16 x 16, 32 for 8 x 16
constexpr int kMaxTokens = PS_TOKENS;
// Producer warps: each copies as many tokens of every tile. One is enough for bulk copies.
constexpr int kCopiers = PS_COPIERS;
static_assert(kCopiers == 1 || (!PS_TMA && !PS_BESIDE), "for copies token by token");
// Whether tile 128 x 64 is among them, whose 128 rows one warpgroup takes 64 at a time (`Consumer::double_tiles`).
#define PS_DOUBLE (PS_ROWS > 64 && PS_WARPS == 4)
constexpr bool kDouble = PS_DOUBLE;
// Beside prefill the fetching warps are part of a warpgroup, so that they can leave the consumers their registers; so are
// those of two teams of consumers, of which each warp would have 168 otherwise, those of one that holds the output of 128
// rows, and several that copy, where a register cap stands for two CTAs.
constexpr bool kRegistersMove = PS_BESIDE || kDouble || kConsumers > kTeam || (kCopiers > 1 && PS_MIN_CTAS == 0);
// Of the warpgroup that takes what few queries see.
constexpr int kFewThreads = PS_APART ? kTeam : 0;
constexpr int kFetchWarp = kWarps + kFewThreads / 32;  // the first of those that fetch
// In the persistent kernel a scout (scout.cuh) is behind the producers, elsewhere the first of them does its work.
constexpr int kScoutWarp = kFetchWarp + PS_FUSED * kCopiers;
constexpr int kThreads =
    kRegistersMove || kCopiers > 1 ? kConsumers + kFewThreads + kTeam : kConsumers + (kCopiers + PS_FUSED) * 32;
// Registers of a thread of both then. Beside prefill it starts with 72: each quarter of an SM has 16,384, and three warps of
// slim prefill take 11,520 of them. What is left has room for two warps of 72. What is taken has to be given: a CTA has no
// more than it starts with, and waits for ever for what nobody gives.
constexpr int kFetchRegisters = PS_BESIDE || kDouble ? 48 : PS_APART ? 64 : kCopiers > 1 ? 88 : 72;
constexpr int kFewRegisters = PS_APART ? 64 : 0;
constexpr int kComputeRegisters = PS_BESIDE ? 96 : kDouble ? 208 : PS_APART ? 192 : kCopiers > 1 ? 168 : 216;
static_assert(PS_BESIDE || !kRegistersMove ||
                  kConsumers / kTeam * kComputeRegisters + kFewRegisters + kFetchRegisters <=
                               kThreads / kTeam * (PS_APART || kDouble || kCopiers > 1 ? 128 : 168),
              "no more registers than the CTA has");
// Arrivals that fill a stage: one for bulk copies, which count their bytes besides.
constexpr int kFills = PS_TMA ? 1 : kCopiers * kWarpArrivals;
// Arrivals that give a stage back: one a warp to bulk copies. To cp.async it is one a lane, since
// the race checker does not see that one lane speaks for its warp, and it costs nothing there.
constexpr int kReleases = PS_TMA ? kWarps : kConsumers;
constexpr int kStageBytes = kMaxTokens * kDim * 2;  // one K or V tile
constexpr int kQueryBytes = kMaxRows * kDim * 2;    // the rows of Q of a task

// How the consumer warps divide a tile of m x n.
//
// Shared rows: `kRowGroups` groups of 16 rows, and in each group `kColGroups` warps that
// share the tokens for Q K^T and the head dimension for P V, with P exchanged through
// shared memory between the two.
//
// Tile 16 x 16 is different: its four warps take four KV heads side by side, each with its
// own 16 rows of Q and its own 16 tokens of K and V, and never wait for each other. It is
// for short runs of KV with few queries, where barriers and merges would be most of the time.
// So is tile 8 x 16, whose products have the rows on the n side (lean.cuh).
template <int M, int N>
struct TileShape {
    static constexpr bool kPerWarp = M <= 16 && N == 16;
    static constexpr bool kLean = M == 8;
    static constexpr int kHeadRows = M;              // rows of Q of one of several heads
    static constexpr int kLaneRows = kLean ? 1 : 2;  // rows of a lane when a task is finished, 8 apart
    static constexpr int kM = kPerWarp ? 4 * M : M;  // rows of Q in a stage
    static constexpr int kN = kPerWarp ? 64 : N;  // rows of K (or V) in a stage
    static constexpr int kTokens = N;             // tokens of a tile
    static constexpr int kTeams = M > 64 && N > 64 ? M / 64 : 1;
    static constexpr int kBlocks = M > 64 * kTeams ? 2 : 1;  // of 64 rows, which a warpgroup takes in turn
    static constexpr int kRowGroups = kPerWarp ? 4 : kM / 16;
    static constexpr int kColGroups = kBlocks * kWarps / kRowGroups;
    static constexpr int kTokens8 = kPerWarp ? 2 : N / kColGroups / 8;  // n8 score fragments of a warp
    static constexpr int kDims8 = kDim / kColGroups / 8;                // n8 output fragments of a warp
    static constexpr int kPStride = N + 8;                              // halves per row of P
    static constexpr int kHeads = kPerWarp ? 4 : 1;                     // KV heads taken together
    static constexpr bool kWgmma = PS_WGMMA && !kPerWarp && ((M == 64 && N == 64) || M > 64);
    // Whether V of a tile comes behind K of the next (`Consumer::overlapped_tiles`).
    static constexpr bool kLateV = kWgmma && kTeams == 1 && kBlocks == 1;
    // Whether its tasks may have tokens that only some of their queries see (masks.cuh).
    static constexpr bool kMasked = ((M == 64 && N == 64) || kTeams > 1) && kDim <= 128;
    // Whether the rows of Q stay in shared memory, since there are no registers for them.
    static constexpr bool kQueriesStay = kWgmma || (PS_BESIDE && PS_ANY_GROUP && M == 16 && N == 64) ||
                                         (kDim > 128 && !kLean && (kPerWarp || M == 64));
    static_assert(kTeams == 1 || (PS_WGMMA && PS_TMA && PS_MASKS), "for warpgroups, bulk copies and masks");
    static_assert(kBlocks == 1 || (PS_WGMMA && PS_TMA && kDim <= 128), "for warpgroups and bulk copies");
    static_assert(kTeams > 1 || !PS_APART, "only beside two teams");
    static_assert((kPerWarp || kM % 16 == 0) && kRowGroups * kColGroups == kBlocks * kWarps, "the warps must divide the rows");
    static_assert(kTokens8 >= 1 && (kColGroups > 1 || N % 16 == 0), "tile too narrow for its warps");
    static_assert(kDims8 % 2 == 0, "head dimension too small for the warps");
};

#define PS_COUNT_TILE(index, m, n) +1
constexpr int kTiles = 0 PS_TILE_LIST(PS_COUNT_TILE);
#undef PS_COUNT_TILE
// Bit i: tile i of the list is 16 x 16 or 8 x 16, with four heads side by side.
#define PS_WIDE_TILE(index, m, n) | (u32)TileShape<m, n>::kPerWarp << index
constexpr u32 kWideTiles = 0 PS_TILE_LIST(PS_WIDE_TILE);
#undef PS_WIDE_TILE

// A query's other partials are folded into the task that ends it when there are at most so
// many in all. The bits from kFoldShift on of `PackQuery::count` say for which heads. Beside prefill,
// and at head dimension 256, there are no registers for it. Which task ends a query changes from run to run, and with it
// what is rounded: without folds whoever comes last joins all partials as they were stored, in their order.
constexpr bool kFolds = PS_FUSED && PS_FOLDS && !PS_BESIDE && kDim <= 128;
constexpr u32 kFoldPartials = 4;
constexpr u32 kFoldShift = 28;

// Whether the scout looks for them as it claims a task: where a queue is long, most of those that a leaf completes are
// there by then, and come with its K and V.
constexpr bool kFoldsAsClaimed = kFolds && PS_FOLDS == 2;
// Whether a task looks as it ends, which finds more in a short queue. Only where warps take heads by themselves: tiles
// of 64 rows lose more by the code than they gain, and so do leaves of a long queue by the wait (H200).
template <class S>
constexpr bool kFoldsAtEnd = kFolds && PS_FOLDS == 1 && S::kPerWarp;
// Nor where a warpgroup has 128 rows, whose output leaves no registers for it.
template <class S>
constexpr bool kFoldsOf = (kFoldsAsClaimed && S::kBlocks == 1) || kFoldsAtEnd<S>;
#define PS_FOLDING_TILE(index, m, n) | (u32)(TileShape<m, n>::kBlocks == 1) << index
constexpr u32 kFoldingTiles = 0 PS_TILE_LIST(PS_FOLDING_TILE);
#undef PS_FOLDING_TILE

// Whether the partials that a task of one query folds in can come through the ring: for each,
// the rows of the four heads one after the other.
template <class S>
constexpr bool kFoldStage = kFoldsAsClaimed && PS_TMA && S::kPerWarp;
constexpr u32 kStagedRows = 8;  // of a head, at most

// What comes with the rows of Q of a task.
struct alignas(16) TaskInfo {
    u32 num_queries;
    u32 kv_tokens;
    u32 task;
    u32 tile;
    u32 kv_head;
    u32 stop;        // 0, or where no task is left one more than how many CTAs ran out before this one
    u32 heads;
    u32 fold_stage;  // 1: after the last tile a stage brings the partials to fold in
#if PS_MASKS
    u32 masks;  // as in its item
    u64 seen[PS_ROWS <= 64 ? kMaxRows : 1];  // by each query, of the first 8 tiles of 64 tokens (masks.cuh)
#endif
    PackQuery queries[kMaxRows];
};

// Whether items say if their KV leaves L2 first. Beside prefill, where registers are short, all does.
constexpr bool kItemsMark = PS_TMA && !PS_BESIDE;
// Whether blocks say so one by one: what all queries of a task with masks share others read too, what few have none.
template <class S>
constexpr bool kBlocksMark = PS_MASKS && PS_TMA && S::kMasked;
constexpr u32 kAlone = 0x80000000u;  // of an entry of `block_ids`
constexpr u32 kDeadBit = 30;         // of the same, the highest below which it has how many tokens nobody sees (`Producer::box_of`)

// What the host says of a tile of 128 x 128 (`seen_by_warps`): all rows see all of it, or in bit 4 w + i that one of
// warp w sees one of the 32 tokens from 32 i on.
constexpr u64 kSeenByAll = 1ull << 63;
// The same, but nothing where all do.
__device__ __forceinline__ u32 few_of_tile(u64 word) { return word & kSeenByAll ? 0 : (u32)word; }
// What is left of it for the first or second 64 tokens.
__device__ __forceinline__ u32 few_of_part(u32 seen, u32 part) { return seen >> part * 2 & 0x33333333u; }

// What `TaskInfo::masks` has besides: where the masks of the task begin, plus one, or 0 where it has none.
constexpr u32 kGaps = 0x40000000u;  // some tile has tokens that no query sees

// A task that the scout hands to the producer: which K and V to fetch.
struct alignas(16) Order {
    u32 block_begin;
    u32 kv_tokens;
    u32 tile;
    u32 kv_head;
    u32 heads;
    u32 folds;  // heads whose other partials are to follow the last tile
    u32 stop;   // 1: no task, the end
    u32 marked;
#if PS_APART
    u32 masks;  // as in its item
#endif
    PackQuery query;  // whose partials those are
    u32 blocks[32];   // block of box i, for bulk copies
};
// Orders under way: the producer reads one at once, so two never wait for each other long.
constexpr int kOrders = 2;

// What a warp keeps of its task until the end, in shared memory because registers are short.
struct alignas(16) WarpTask {
    u32 count;    // queries of its unit; see epilogue.cuh
    u32 kv_head;
    u32 task;
    u32 list;     // first of the shared list of queries, for tasks that all warps share
};

// Of the warpgroup that takes what few queries see: K or V of 64 tokens a stage.
constexpr int kFewTokens = 64;
constexpr int kFewStages = 3;
constexpr int kFewWeights = 16 * kFewTokens * 2;   // bytes of P of the rows of a warp
constexpr int kFewScores = kFewTokens + 4;         // from one row to the next, so that no two meet in a bank

struct FewScratch {
    u64 full[kFewStages];
    u64 empty[kFewStages];
    u32 visited;  // bit w: rows of warp w have seen some; of the task whose rows are done
    alignas(16) float scores[16 * kFewScores];
    // By what the output of each row is to be multiplied, for a maximum that has grown, and by its sum.
    float shrink[16];
    float inverse[16];

    __device__ __forceinline__ void init() {
        for (int i = 0; i < kFewStages; ++i) {
            barrier_init(smem_address(&full[i]), 1);
            barrier_init(smem_address(&empty[i]), kTeam / 32);
        }
    }
};

// Units of 16 rows that a warp holds by itself: one a warp, or where it takes two blocks of rows in turn two.
constexpr int kUnits = kDouble ? 2 * kWarps : kWarps;

struct Scratch {
    u64 full[kStages];
    u64 empty[kStages];
    u64 order_full[kOrders];
    u64 order_empty[kOrders];
    u64 query_full;
    u64 query_empty;
    u32 issued;  // tiles that the producer has asked for
    u32 never;   // nothing is ever stored there (`Consumer::wait_behind`)
    TaskInfo info;
    Order orders[kOrders];
#if PS_DOUBLE
    alignas(16) u32 item[8];  // of the scout, as it is in memory
#endif
    float row_max[kWarps * 16];
    float row_sum[kWarps * 16];
    // Of the task at hand: two lists for tasks that all warps share, then one per unit.
    PackQuery queries[2 * kMaxRows + kUnits * 16];
    WarpTask tasks[kUnits];
    u32 query_parity[kWarps];  // in shared memory because registers are short
    TraceTimes times[PS_TRACE ? kWarps : 1];
#if PS_APART
    FewScratch few;
#endif
    alignas(16) u16 p[PS_P_HALVES + 8];

    // By one thread, before all others begin.
    __device__ __forceinline__ void init() {
        for (int i = 0; i < kStages; ++i) {
            barrier_init(smem_address(&full[i]), kFills);
            barrier_init(smem_address(&empty[i]), kReleases);
        }
        for (int i = 0; i < kOrders; ++i) {
            barrier_init(smem_address(&order_full[i]), 32);
            barrier_init(smem_address(&order_empty[i]), PS_APART ? 64 : kCopiers * 32);
        }
        barrier_init(smem_address(&query_full), kWarpArrivals);
        barrier_init(smem_address(&query_empty), kConsumers + kFewThreads);
#if PS_APART
        few.init();
#endif
        issued = 0;
        fence_barrier_init();
    }
};

struct SharedMemory {
    alignas(1024) u8 ring[kStages][kStageBytes];
    alignas(1024) u8 queries[kQueryBytes];
#if PS_APART
    alignas(1024) u8 few[kFewStages][kFewTokens * kDim * 2];
    alignas(1024) u8 few_weights[kFewWeights];
#endif
    Scratch scratch;
};
static_assert(sizeof(SharedMemory) <= PS_SHARED_BYTES, "the host gives the kernel enough shared memory");
