// Where a task's rows go: straight to the output when a query has one partial, to their slots
// otherwise. In the fused kernel a task that completes a query joins the other partials to its own
// rows (fold.cuh) and goes straight to the output too; what turns out to be complete only when a
// task has ended is merged from memory by that task, the last to arrive, or by CTAs that have no more tasks (watch.cuh).
#pragma once
#include "decode.cuh"
#include "merge.cuh"
#include "output.cuh"

// Threads that finish rows together: one warp where it holds whole rows, all consumers where
// warps share them. Where the group does not divide 16, the rows of a query may lie in two units or more.
template <class S>
constexpr bool kWarpUnit = S::kColGroups == 1;

template <class S>
__device__ __forceinline__ void unit_sync() {
    if constexpr (kWarpUnit<S>) {
        __syncwarp();
    } else {
        sync_threads(1, kConsumers);
    }
}

// First row of a unit in its tile.
template <class S>
__device__ __forceinline__ u32 unit_begin(const Position<S>& at) {
    return kWarpUnit<S> && !S::kPerWarp ? at.row_group * 16 : 0;
}

// Row `r` (0 or 1) of a lane, by its query in the list of its unit and its head of the group.
struct UnitRow {
    u32 nth, head;

    template <class S>
    __device__ __forceinline__ UnitRow(const DecodeParams& p, const Position<S>& at, int r) {
        const u32 row = (S::kPerWarp ? at.lane >> 2 : at.row()) + r * 8, query = query_of_row(p, row);
        nth = query - query_of_row(p, unit_begin(at));
        head = row - group_times(p, query);
    }
};

// Mark of a query whose other partials the task joins.
constexpr u32 kFold = 0x80000000u;

// The queries whose rows a unit holds. They are copied at the start of a task, because the rows
// of Q and what came with them are given back before the end; thread i answers for query i.
template <class S>
struct TaskQueries {
    Scratch& scratch;
    u32 unit, thread;  // the warp, or of two blocks of rows the unit of 16; thread of it

    // Two shared tasks in a row use different lists, and the barriers of the second keep the
    // third from overwriting what a slow warp still reads of the first.
    __device__ __forceinline__ TaskQueries(const DecodeParams& p, Scratch& scratch, const TaskInfo& info,
                                           const Position<S>& at)
        : scratch(scratch) {
        stand_at(at);
        u32 list = task().list ^ (kWarpUnit<S> ? 0 : kMaxRows);
        __syncwarp();
        u32 head = S::kPerWarp ? at.warp : 0;
        u32 begin = unit_begin(at), first = query_of_row(p, begin);
        u32 count = head < info.heads && first < info.num_queries ? info.num_queries - first : 0;
        if (kWarpUnit<S>) count = min(count, query_of_row(p, begin + 15) + 1 - first);
        if (at.lane == 0) task() = {count, info.kv_head + head, info.task, list};
        __syncwarp();
        if (thread < count) {
            PackQuery query = info.queries[first + thread];
            bool fold = query.count >> (kFoldShift + head) & 1;
            query.count &= (1u << kFoldShift) - 1;
            own() = {query.query, query.slot, query.first, fold ? query.count | kFold : query.count};
            if (fold) *arrivals(p) = 0;
        }
    }

    // Where it has been made before.
    __device__ __forceinline__ TaskQueries(Scratch& scratch, const Position<S>& at) : scratch(scratch) { stand_at(at); }

    __device__ __forceinline__ void stand_at(const Position<S>& at) {
        unit = S::kBlocks > 1 ? at.row_group : at.warp;
        thread = kWarpUnit<S> ? at.lane : at.thread;
    }
    __device__ __forceinline__ WarpTask& task() const { return scratch.tasks[unit]; }
    __device__ __forceinline__ PackQuery* list() const {
        return scratch.queries + (kWarpUnit<S> ? 2 * kMaxRows + unit * 16 : task().list);
    }
    __device__ __forceinline__ bool mine() const { return thread < task().count; }
    __device__ __forceinline__ PackQuery& own() const { return list()[thread]; }
    __device__ __forceinline__ u32* arrivals(const DecodeParams& p) const {
        return p.arrivals + own().query * p.kv_heads + task().kv_head;
    }
    // How many rows of this thread's query have arrived, or 0 where it makes no difference to the end of the task. Asked
    // for before the last tile: the answer is a way to L2 and back.
    __device__ __forceinline__ u32 ask_arrived(const DecodeParams& p) const {
        if constexpr (!kFoldsAtEnd<S>) return 0;
        // A warp has sixteen places in the list; lanes beyond would look into those of the next one.
        const PackQuery& query = list()[min(thread, 15u)];
        const u32 count = mine() ? query.count : 0;
        return load_count_if(p.arrivals + query.query * p.kv_heads + task().kv_head, count > 1 && count <= kFoldPartials);
    }
};

// Writes one row of fragments (`r` = 0 or 1) where it is `real`, as 16-bit output or as a partial. By all lanes of the warp.
template <class S>
__device__ __forceinline__ void write_row(const DecodeParams& p, const RowState<S>& state, float lse,
                                          const PackQuery& q, u32 head, bool real, int r, const Position<S>& at) {
    const u32 column = at.col_group * S::kDims8 * 8;
    const bool writes_lse = at.col_group == 0 && (at.lane & 3) == 0;
    const bool whole = real && (q.count == 1 || q.count >= kFold);
    if (__any_sync(0xffffffffu, whole)) {
        const u64 row = (u64)q.query * p.q_heads + head;
        write_output(state.o, p.out + row * kDim + column, r, at.lane & 3, whole);
        if (whole && p.out_lse != nullptr && writes_lse) p.out_lse[row] = lse;
    }
    if (real && !whole) {
        u64 row = (u64)q.slot * p.q_heads + head;
        store_fragments((Partial*)p.part_out + row * kDim + column, at.lane & 3, state.o, r);
        if (writes_lse) store_lse(p.part_lse + row, lse);
    }
}

// Both rows of each lane.
template <class S>
__device__ __forceinline__ void write_rows(const DecodeParams& p, const RowState<S>& state, const TaskQueries<S>& queries,
                                           const float (&lse)[2], const Position<S>& at) {
    WarpTask task = queries.task();
#pragma unroll
    for (int r = 0; r < S::kLaneRows; ++r) {
        const UnitRow row(p, at, r);
        const bool real = row.nth < task.count;
        const PackQuery& query = queries.list()[real ? row.nth : 0];
        write_row(p, state, lse[r], query, group_times(p, task.kv_head) + row.head, real, r, at);
    }
}

// The queries whose last partial a task has written, for a warp that merges them. None where `count` is 0.
struct Completed {
    const PackQuery* list;  // the counts of others are 0 by now
    u32 count, kv_head;
    u32 nth, warps;  // this warp, and how many share the rows
};

// Whether some queries are merged by CTAs that have no more tasks. Beside prefill there are no registers for the question.
constexpr bool kWatches = PS_FUSED && !PS_BESIDE;

#if PS_FUSED
// Adds `rows` to the rows of a query that have arrived, and returns how many there were.
__device__ __forceinline__ u32 count_arrival(u32* p, u32 rows) {
    u32 r;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(r) : "l"(p), "r"(rows) : "memory");
    return r;
}

// Heads of the group whose rows a unit holds of query `nth` of its list.
struct UnitHeads {
    u32 begin, end;

    template <class S>
    __device__ __forceinline__ UnitHeads(const DecodeParams& p, const Position<S>& at, u32 nth) : begin(0), end(group_times(p, 1)) {
        if constexpr (PS_ANY_GROUP && kWarpUnit<S> && !S::kPerWarp) {
            const u32 rows = unit_begin(at), row = (query_of_row(p, rows) + nth) * p.group;  // the query's first
            begin = max(rows, row) - row;
            end = min(rows + 16, row + p.group) - row;
        }
    }
};

// True for all threads of the unit when `mine` is true for one of them; also a barrier.
template <class S>
__device__ __forceinline__ bool unit_any(bool mine) {
    if constexpr (kWarpUnit<S>) {
        bool any = __any_sync(0xffffffffu, mine);
        __syncwarp();
        return any;
    } else {
        u32 any;
        asm volatile(
            "{\n .reg .pred p, q;\n setp.ne.u32 p, %1, 0;\n barrier.cta.red.or.pred q, 1, %2, p;\n"
            " selp.u32 %0, 1, 0, q;\n}"
            : "=r"(any)
            : "r"((u32)mine), "n"(kConsumers)
            : "memory");
        return any != 0;
    }
}

// The partials of a row that its eight lanes have read; a line each for the first of them.
__device__ __forceinline__ void discard_merged(const MergeTarget& to, const RowPartials& row) {
    const u32 line = threadIdx.x & 7;
    if (line >= kRowLines) return;
    Partial* from = to.part_out + ((u64)row.first * to.q_heads + row.head) * kDim + line * kLine;
#pragma unroll 1
    for (u32 i = 0; i < row.count; ++i) discard_line(from + (u64)i * to.q_heads * kDim);
}

// The other partials of the queries that the task has completed itself, of the rows that this unit has read. Each warp
// takes those for which its threads answer, a query at a time.
template <class S>
__device__ __forceinline__ void discard_folded(const DecodeParams& p, const TaskQueries<S>& queries,
                                               const Position<S>& at) {
    const u32 lane = queries.thread & 31;
    u32 folded = __ballot_sync(0xffffffffu, queries.mine() && queries.own().count >= kFold);
#pragma unroll 1
    for (; folded != 0; folded &= folded - 1) {
        const u32 nth = (queries.thread & ~31u) + __ffs(folded) - 1;
        const PackQuery q = queries.list()[nth];
        const UnitHeads heads(p, at, nth);
        const u32 lines = (heads.end - heads.begin) * kRowLines;
        u32 others = (q.count & ~kFold) - 1;
#pragma unroll 1
        for (u32 slot = q.first; others > 0; ++slot) {
            if (slot == q.slot) continue;
            --others;
            const u64 row = (u64)slot * p.q_heads + group_times(p, queries.task().kv_head) + heads.begin;
#pragma unroll 1
            for (u32 i = lane; i < lines; i += 32) discard_line((Partial*)p.part_out + row * kDim + i * kLine);
        }
    }
}

// Tiles of 32 rows where three CTAs share an SM: the merge has few registers beside them.
constexpr bool kCrowded = PS_MIN_CTAS > 2 && PS_ROWS > 16;

// Partials asked for at once: with masks and a trace there are no registers for the sixth beside tile 16 x 16, nor beside 128
// rows, which leave the scout as few; and where K and V come token by token the trace leaves those for two beside crowded tiles.
constexpr int kMergeBatch =
    PS_BESIDE || (kCrowded && PS_TRACE && !PS_TMA) ? 2 : kDim > 128 ? 3 : kDouble || (PS_MASKS && PS_TRACE) ? 5 : 6;

// Whether warps that share the rows of a task share the partials of each too, where there are rows for few of them: what
// each has merged goes through the place of P. Not where the same bits are asked for, since it changes from run to run which
// task merges a query, and with it how many warps do.
constexpr bool kSharesPartials =
    PS_FOLDS && !PS_BESIDE && !kCrowded && sizeof(Scratch::p) >= MergeState::kFloats * 32 * sizeof(float);

// In how many parts the warps of a task merge the rows of its queries, `groups` warps in each.
__device__ __forceinline__ u32 parts_of_rows(const Completed& done, u32 groups) {
    if (!kSharesPartials || done.warps < 2 * groups) return 1;
    const u32 lane = threadIdx.x & 31;
    const u32 count = lane < done.count ? done.list[lane].count : 0;
    return __any_sync(0xffffffffu, count > kMergeBatch) ? done.warps / groups : 1;
}

// Joins what the warps from `groups` on have merged to what the first ones have, warp after warp: there is room for one.
__device__ __forceinline__ void join_parts(MergeState& state, Scratch& scratch, const Completed& done, u32 groups) {
    float* place = (float*)scratch.p;
#pragma unroll 1
    for (u32 from = groups; from < done.warps; ++from) {
        if (done.nth == from) state.leave(place);
        sync_threads(1, kConsumers);
        if (done.nth == from % groups) state.join(place);
        sync_threads(1, kConsumers);
    }
}

// Merges them. One copy for all tiles: every kernel starts with cold code.
__device__ __forceinline__ void merge_queries(const DecodeParams& p, Scratch& scratch, const Completed& done) {
    const MergeTarget to = {(Partial*)p.part_out, p.part_lse, p.out, p.out_lse, p.q_heads};
    const Group group(p);
    const u32 rows = group.times(done.count);
    const u32 groups = (rows + kRowsAtOnce - 1) / kRowsAtOnce, parts = parts_of_rows(done, groups);
    const u32 part = parts > 1 ? done.nth / groups : 0, first = done.nth - part * groups;
#pragma unroll 1
    for (u32 begin = first * kRowsAtOnce; begin < rows; begin += done.warps * kRowsAtOnce) {
        const u32 mine = begin + merge_lane_row();
        const u32 query = mine < rows ? group.query_of(mine) : 0;
        const PackQuery& q = done.list[query];
        const u32 head = group.times(done.kv_head) + mine - group.times(query);
        const RowPartials row = part_of({q.first, mine < rows ? q.count : 0, head}, part, parts);
        if (parts == 1 && !__any_sync(0xffffffffu, row.count > 0)) continue;
        MergeState state = merge_row<kMergeBatch>(to, row, nullptr);
        if (kSharesPartials && parts > 1) join_parts(state, scratch, done, groups);
        if (part == 0 && row.count > 0) write_merged(to, state, q.query, row.head);
        __syncwarp();
        discard_merged(to, row);
    }
}

// Writes the rows of a unit. Returns what this warp is to merge.
template <class S>
__device__ __forceinline__ Completed finish_rows(const DecodeParams& p, RowState<S>& state, const TaskQueries<S>& queries,
                                                 const float (&lse)[2], const Position<S>& at) {
    unit_sync<S>();
    u32 count = queries.mine() ? queries.own().count : 0;
    if (count >= kFold) count = 1;
    bool last = false;
    write_rows(p, state, queries, lse, at);
    if constexpr (kFoldsOf<S>) discard_folded(p, queries, at);
    // Why a merge sees every partial, in the PTX memory model: the barrier puts the partials of all
    // threads of the unit before what this one does next, and its atomic on the query's counter is
    // a release at GPU scope, which is cumulative: it covers them all. The atomics on a counter are
    // one chain of read-modify-writes, so the last of them acquires what all the others released,
    // and the second barrier hands that to the whole unit. One thread's pair costs far less than a
    // fence in each.
    const bool counts = count > 1 && !(kWatches && count & kWatched);
    if (!unit_any<S>(counts)) return {};
    if (counts) {
        const UnitHeads heads(p, at, queries.thread);
        const u32 rows = heads.end - heads.begin;
        last = count_arrival(queries.arrivals(p), rows) + rows == group_times(p, count);
    }
    if (last) *queries.arrivals(p) = 0;
    if (count > 0 && !last) queries.own().count = 0;
    if (!unit_any<S>(last)) return {};
    return {queries.list(), queries.task().count, queries.task().kv_head, kWarpUnit<S> ? 0 : at.warp,
            kWarpUnit<S> ? 1u : kWarps};
}
#else
template <class S>
__device__ __forceinline__ Completed finish_rows(const DecodeParams& p, RowState<S>& state, const TaskQueries<S>& queries,
                                                 const float (&lse)[2], const Position<S>& at) {
    unit_sync<S>();
    write_rows(p, state, queries, lse, at);
    return {};
}
#endif
