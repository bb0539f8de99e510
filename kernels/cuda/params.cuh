// Structures shared with the host. Sizes and offsets are asserted here and again in
// `src/params.rs`; a change on one side alone does not compile, or fails the tests.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// NVRTC before 13.5 has no constant offsetof; there the asserts of sizes, and of offsets
// on the host, have to do.
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1305
#define PS_ASSERT_OFFSET(type, field, at) static_assert(__builtin_offsetof(type, field) == at, #type "::" #field)
#else
#define PS_ASSERT_OFFSET(type, field, at) static_assert(sizeof(type) > at, #type "::" #field)
#endif

// A piece of work: a pack of queries over one run of KV blocks, for
// `head_count` consecutive KV heads.
struct alignas(16) Item {
    u32 query_begin;  // first entry in `pack_queries`
    u32 num_queries;  // entries of `pack_queries`; num_queries * group <= m
    u32 block_begin;  // first entry in `block_ids`
    u32 kv_tokens;    // tokens from the start of that block on
    u32 task;         // the caller's number of the pack, for the trace
    u32 tile;         // index into the kernel's tile list
    u16 head_begin;   // first KV head
    u16 head_count;   // KV heads one after the other
    u32 marked;       // bit 0: its KV is to leave L2 first; from bit 1 on its masks (masks.cuh)
};
static_assert(sizeof(Item) == 32, "Item is 32 bytes");
PS_ASSERT_OFFSET(Item, head_begin, 24);

// One query of a pack: the slot of its partial, and all partials of the query, whose slots
// follow each other in merge order.
struct alignas(16) PackQuery {
    u32 query;
    u32 slot;
    u32 first;
    u32 count;  // with kWatched
};
static_assert(sizeof(PackQuery) == 16, "PackQuery is 16 bytes");
// Bit of `count`: CTAs that have no more tasks merge the query, and its rows are not counted (watch.cuh).
static constexpr u32 kWatched = 1u << 27;

// An item with what a CTA needs to begin it: one step to memory brings all.
struct alignas(16) Entry {
    Item item;
    u32 blocks[32];         // block of box i
    PackQuery queries[22];  // the first ones
};
static_assert(sizeof(Entry) == 512, "Entry is 512 bytes");
static constexpr u32 kEntryQueries = 22;

// A tensor map is opaque: 128 bytes, aligned to 64.
struct alignas(64) TensorMap {
    u64 opaque[16];
};

struct alignas(64) DecodeParams {
    TensorMap k_map;           // K cache as [block, kv_head, token, d] with any strides
    TensorMap v_map;           // V cache, likewise
    TensorMap k_map4;          // the same caches in boxes of four heads
    TensorMap v_map4;
    const u16* queries;        // [Q, Hq, D]
    const u16* k;              // K cache
    const u16* v;              // V cache
    u16* out;                  // [Q, Hq, D]
    float* out_lse;            // [Q, Hq], natural logarithm; may be null
    float* part_out;           // [slots, Hq, D], normalised; 16-bit values in the persistent kernel (partials.cuh)
    float* part_lse;           // [slots, Hq]; where they are watched, all bits of both are set before and after each launch
    const PackQuery* pack_queries;  // queries of the packs, one run per pack
    const u32* block_ids;      // KV blocks of the packs, one run per pack
    const Entry* entries;      // [num_items], the work queue
    u32* arrivals;             // [Q, Hkv], rows of partials that are there; zero before and after each launch
    u32* queue;                // [2]: next item, CTAs done; zero before and after
    u32* trace;                // records lost, 15 reserved words, then records: pack by pack, head by head,
                               // and those of the merges after them
    u64 stride_block;          // elements between blocks
    u64 stride_head;           // elements between KV heads of one block
    u64 stride_token;          // elements between tokens of one block
    u32 num_items;
    u32 q_heads;
    u32 kv_heads;
    u32 group;                 // query heads of a KV head, at most 64
    u32 block_shift;           // log2(tokens per block)
    u32 box_shift;             // log2(tokens per bulk tensor copy)
    float scale_log2;          // softmax scale times log2(e)
    u32 trace_capacity;        // records that fit
    u32 group_by;              // for kernels of any group 65,536 over it, rounded up, for the others its log2
    const u64* masks;          // for each tile of a pack that has them what each query sees, and some query
    const PackQuery* watched;  // queries that CTAs without tasks merge (watch.cuh)
    u32 num_watched;
    u32 watch_trace;           // place of the first record of those merges: query by query, head by head
};
static_assert(sizeof(DecodeParams) == 704, "DecodeParams is 704 bytes");
PS_ASSERT_OFFSET(DecodeParams, queries, 512);
PS_ASSERT_OFFSET(DecodeParams, stride_block, 616);
PS_ASSERT_OFFSET(DecodeParams, num_items, 640);
PS_ASSERT_OFFSET(DecodeParams, masks, 680);
PS_ASSERT_OFFSET(DecodeParams, num_watched, 696);

// Query heads of a KV head, in a register. Groups that are a power of two up to 16 have kernels of their own: products
// in the place of shifts take registers that the largest tiles have not.
struct Group {
#if PS_ANY_GROUP
    u32 both;  // the group, and from bit 8 on its inverse (`group_by`)

    __device__ __forceinline__ explicit Group(const DecodeParams& p) : both(p.group | p.group_by << 8) {}
    __device__ __forceinline__ u32 times(u32 queries) const { return queries * (both & 0xff); }
    // Query of row `row` of a tile, counted from the tile's first. The division is exact: a tile has fewer than 128
    // rows, and rounding up adds less than 64 / 65,536 of a query per row.
    __device__ __forceinline__ u32 query_of(u32 row) const { return row * (both >> 8) >> 16; }
#else
    u32 shift;

    __device__ __forceinline__ explicit Group(const DecodeParams& p) : shift(p.group_by) {}
    __device__ __forceinline__ u32 times(u32 queries) const { return queries << shift; }
    __device__ __forceinline__ u32 query_of(u32 row) const { return row >> shift; }
#endif
};
__device__ __forceinline__ u32 group_times(const DecodeParams& p, u32 n) {
#if PS_ANY_GROUP
    return n * p.group;
#else
    return Group(p).times(n);
#endif
}
__device__ __forceinline__ u32 query_of_row(const DecodeParams& p, u32 row) {
#if PS_ANY_GROUP
    return row * p.group_by >> 16;
#else
    return Group(p).query_of(row);
#endif
}
// Place of a row of a pack in Q, whose places are the heads of query after query; from the first head of its KV head on.
__device__ __forceinline__ u64 place_of_row(const DecodeParams& p, const PackQuery* queries, u32 row) {
    const u32 nth = query_of_row(p, row);
    return (u64)queries[nth].query * p.q_heads + (row - group_times(p, nth));
}

// One row of a merge: partials of one query, joined in order.
struct alignas(16) MergeRow {
    u32 first;    // first slot, or first entry of `row_slots` where there is such a list
    u32 count;
    u32 target;   // the query whose output this is, or the slot that gets the result
    u32 to_slot;  // 1 for a slot
};
static_assert(sizeof(MergeRow) == 16, "MergeRow is 16 bytes");

struct MergeParams {
    float* part_out;           // [slots, Hq, D]
    float* part_lse;           // [slots, Hq]
    const MergeRow* rows;      // one a CTA
    const u32* row_slots;      // slots of the rows; null where those of each row follow each other
    u16* out;                  // [Q, Hq, D]
    float* out_lse;            // [Q, Hq]; may be null
    u32* trace;                // as in DecodeParams
    u32 trace_capacity;
    u32 q_heads;
    u32 number;                // of this merge launch, from 0
    u32 trace_begin;           // place of the first row's record
    u32 unused[2];
};
static_assert(sizeof(MergeParams) == 80, "MergeParams is 80 bytes");

// Some query rows of a prefill chunk over a range of KV, for every query head, or for every KV head whose query heads they fold.
struct alignas(16) PrefillItem {
    u32 row_begin;    // first row in Q and the output, or first entry of `rows`
    u32 num_rows;
    u32 block_begin;  // entry in `block_ids` of the request's first block
    u32 kv_begin;     // tokens of the request: a multiple of what a bulk copy takes
    u32 kv_end;
    u32 position;     // row (or query, where heads are folded) r sees the tokens before position + r + 1
    u32 slot_begin;   // slot of the first row's partial; kNoSlot where the rows are output
    u32 slot_step;    // from one row's (or query's) slot to the next
    u32 task;         // the caller's number, for the trace
    u32 kind;         // kListed, kFolded
    u32 unused[2];
};
PS_ASSERT_OFFSET(PrefillItem, kind, 36);
static_assert(sizeof(PrefillItem) == 48, "PrefillItem is 48 bytes");
static constexpr u32 kNoSlot = 0xffffffffu;
static constexpr u32 kListed = 1;  // row_begin is an entry of `rows`
static constexpr u32 kFolded = 2;  // rows are the query heads of a KV head: query after query, in it head after head

struct alignas(64) PrefillParams {
    TensorMap k_map;           // K cache as [block, kv_head, token, d] with any strides
    TensorMap v_map;           // V cache, likewise
    const u16* queries;        // [rows, Hq, D]
    const u16* k;              // K cache
    const u16* v;              // V cache
    u16* out;                  // [rows, Hq, D]
    float* out_lse;            // [rows, Hq], natural logarithm; may be null
    float* part_out;           // [slots, Hq, D], normalised
    float* part_lse;           // [slots, Hq]
    const PrefillItem* items;  // in the order in which they are to start, for each KV head
    const u32* rows;           // rows of the items that list them
    const u32* block_ids;      // KV blocks of the requests, from their first token on
    u32* queue;                // [2]: next (item, head), CTAs done; zero before and after each launch
    u32* trace;                // as in DecodeParams
    u64 stride_block;          // elements between blocks
    u64 stride_head;           // elements between KV heads of one block
    u64 stride_token;          // elements between tokens of one block
    u32 num_items;
    u32 q_heads;
    u32 group;                 // query heads of a KV head
    u32 block_shift;           // log2(tokens per block)
    u32 box_shift;             // log2(tokens per bulk tensor copy)
    float scale_log2;          // softmax scale times log2(e)
    u32 trace_capacity;        // records that fit
    u32 trace_begin;           // place of task 0's first record
    u32 num_folded;            // of the items the last so many are folded: one task a KV head
    u32 group_inverse;         // 2^16 / group, rounded up: row * it / 2^16 is row / group for the rows of a task
    u32 unused[14];
};
static_assert(sizeof(PrefillParams) == 512, "PrefillParams is 512 bytes");
PS_ASSERT_OFFSET(PrefillParams, num_folded, 408);
PS_ASSERT_OFFSET(PrefillParams, queries, 256);
PS_ASSERT_OFFSET(PrefillParams, num_items, 376);

// Prefill and decode in one launch, an item of either or of both to a CTA.
struct alignas(64) HybridParams {
    PrefillParams prefill;
    DecodeParams decode;
    u32* counters;        // next prefill, next decode, CTAs that have their item, unused, tickets of each SM; zero
                          // before and after each launch
    u32 prefill_items;    // (task, query head) pairs
    u32 decode_items;     // entries of the decodes
    u32 period;           // tickets after which the pattern begins again; 0 where the index of a CTA says what it does
    u32 prefill_tickets;  // how many of them, from the first, are prefill
    u32 sm_counters;      // SMs that have a counter
    u32 unused[9];
    static constexpr u32 kSms = 4;
};
static_assert(sizeof(HybridParams) == 1280, "HybridParams is 1280 bytes");
PS_ASSERT_OFFSET(HybridParams, decode, 512);
PS_ASSERT_OFFSET(HybridParams, counters, 1216);

// Added to the number of a prefill item in the trace, whose `kv_head` is then the query head.
static constexpr u32 kPrefillTask = 1u << 30;

// `task` of the records of the first merge launch, whose `kv_head` is the row; later ones count down.
static constexpr u32 kMergeTask = 0xffffffffu;

// What one CTA did for one (pack, KV head), or a merge launch for one row.
struct alignas(16) TraceRecord {
    u32 sm_and_widths;   // bits 0..15 %smid; 16..23 and 24..31 width of the reading at the begin and at the end
    u32 task;
    u32 kv_head;
    u32 cta;
    u64 begin_ns;        // %globaltimer, read within 16 * width cycles after begin_clock
    u64 end_ns;          // likewise after end_clock
    u64 begin_clock;     // %clock64 of this SM
    u64 first_tile_clock;
    u64 main_done_clock;
    u64 end_clock;
};
static_assert(sizeof(TraceRecord) == 64, "TraceRecord is 64 bytes");
