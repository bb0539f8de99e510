// In-kernel trace. With PS_TRACE 0 every function below is empty and costs nothing.
#pragma once
#include "params.cuh"

__device__ __forceinline__ u64 read_clock() {
    u64 t;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
    return t;
}

// Both clocks at one moment: the timer was read between `clock` and `clock` plus about 16 * `width` cycles. A width
// far above the usual one shows that something came between the reads, such as a wait for their own code.
struct Moment {
    u64 clock, ns;
    u32 width;  // kMostWidth: that or more
};
static constexpr u32 kMostWidth = 255;

__device__ __forceinline__ Moment read_moment() {
    Moment m;
    u64 after;
    // One statement, so that the compiler has nothing to put between; whole reads, as a 32-bit one may become a
    // slower instruction. The second clock is read on a condition of the timer, so not before the timer is there.
    asm volatile(
        "{\n .reg .pred p;\n"
        " mov.u64 %0, %%clock64;\n"
        " mov.u64 %1, %%globaltimer;\n"
        " setp.ne.u64 p, %1, 0;\n"
        " mov.u64 %2, %0;\n"
        " @p mov.u64 %2, %%clock64;\n}"
        : "=&l"(m.clock), "=&l"(m.ns), "=&l"(after)::"memory");
    m.width = min((after - m.clock) >> 4, (u64)kMostWidth);
    return m;
}

// The first word of a record.
__device__ __forceinline__ u32 sm_and_widths(u32 begin_width, u32 end_width) {
    u32 sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm | begin_width << 16 | end_width << 24;
}

// Keeps a record in its own place, or counts it as lost where the buffer has no such place. To take the
// next free one would be a way to L2 and back at the end of every task.
__device__ __forceinline__ void keep_record(u32* trace, u32 capacity, u32 place, const TraceRecord& r) {
    if (trace == nullptr) return;
    if (place < capacity) {
        const uint4* from = (const uint4*)&r;
        uint4* to = (uint4*)(trace + 16) + place * (sizeof(TraceRecord) / 16);
#pragma unroll
        for (int i = 0; i < sizeof(TraceRecord) / 16; ++i) to[i] = from[i];
    } else {
        atomicAdd(trace, 1u);
    }
}

// The times of the task at hand, in shared memory: in registers they would make the decode
// kernels spill. One per consumer warp; only the lane that will write the record touches it.
struct TraceTimes {
    u64 begin_ns, begin_clock;
    u32 first_clock, main_clock;  // lower halves: with four whole clocks the decode kernels spill
    u32 begin_width, unused;

    __device__ __forceinline__ u64 whole(u32 clock) const { return begin_clock + (clock - (u32)begin_clock); }
};
static_assert(sizeof(TraceTimes) == 32, "the host counts 32 bytes a warp");

struct TraceSpan {
#if PS_TRACE
    TraceTimes& at;

    // `times` has a place for each warp from number `first_warp` on.
    __device__ __forceinline__ explicit TraceSpan(TraceTimes* times, u32 first_warp = 0)
        : at(times[(threadIdx.x >> 5) - first_warp]) {}
    __device__ __forceinline__ bool mine() const { return (threadIdx.x & 31) == 0; }
#else
    __device__ __forceinline__ explicit TraceSpan(TraceTimes*, u32 = 0) {}
#endif

    __device__ __forceinline__ void begin() {
#if PS_TRACE
        if (!mine()) return;
        const Moment now = read_moment();
        at.begin_ns = now.ns;
        at.begin_clock = now.clock;
        at.first_clock = at.main_clock = (u32)now.clock;
        at.begin_width = now.width;
#endif
    }

    __device__ __forceinline__ void first_tile() {
#if PS_TRACE
        if (mine()) at.first_clock = (u32)read_clock();
#endif
    }

    __device__ __forceinline__ void main_done() {
#if PS_TRACE
        if (mine()) at.main_clock = (u32)read_clock();
#endif
    }

    // What a merge waits for is there. Only the cycle counter is read: the timer takes 100 ns, and the run ends with merges.
    __device__ __forceinline__ void waited() { first_tile(); }

    // Takes over the end of the last wait among so many warps from this one on.
    __device__ __forceinline__ void waited_as_last(u32 warps) {
#if PS_TRACE
#pragma unroll 1
        for (u32 i = 1; i < warps; ++i) {
            const u32 other = (&at)[i].first_clock;
            if ((int)(other - at.first_clock) > 0) at.first_clock = other;
        }
#endif
    }

    // The record of a decode task, by one thread.
    template <class Task>
    __device__ __forceinline__ void end(const DecodeParams& p, const Task& task) {
#if PS_TRACE
        if (!mine() || task.count == 0) return;
        keep(p.trace, p.trace_capacity, task.task * p.kv_heads + task.kv_head, task.task, task.kv_head);
#endif
    }

#if PS_TRACE
    // Ends here, and keeps the record of `task` and `head` in its place.
    __device__ __forceinline__ void keep(u32* trace, u32 capacity, u32 place, u32 task, u32 head) {
        const Moment now = read_moment();
        TraceRecord r;
        r.sm_and_widths = sm_and_widths(at.begin_width, now.width);
        r.task = task;
        r.kv_head = head;
        r.cta = blockIdx.x;
        r.begin_ns = at.begin_ns;
        r.begin_clock = at.begin_clock;
        r.first_tile_clock = at.whole(at.first_clock);
        r.main_done_clock = at.whole(at.main_clock);
        r.end_clock = now.clock;
        r.end_ns = now.ns;
        keep_record(trace, capacity, place, r);
    }
#endif
};
