// In-kernel trace. With PS_TRACE 0 every function below is empty and costs nothing.
#pragma once
#include "params.cuh"

__device__ __forceinline__ u64 read_clock() {
    u64 t;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
    return t;
}

__device__ __forceinline__ u64 read_timer() {
    u64 t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
    return t;
}

// Keeps a record, or counts it as lost when the buffer is full.
__device__ __forceinline__ void keep_record(u32* trace, u32 capacity, const TraceRecord& r) {
    if (trace == nullptr) return;
    u32 at = atomicAdd(trace, 1u);
    if (at < capacity) {
        ((TraceRecord*)(trace + 16))[at] = r;
    } else {
        atomicAdd(trace + 1, 1u);
    }
}

// The times of the task at hand, in shared memory: in registers they would make the decode
// kernels spill. One per consumer warp; only the lane that will write the record touches it.
struct TraceTimes {
    u64 begin_ns, begin_clock, first_clock, main_clock;
};

struct TraceSpan {
#if PS_TRACE
    TraceTimes& at;

    __device__ __forceinline__ explicit TraceSpan(TraceTimes* times) : at(times[threadIdx.x >> 5]) {}
    __device__ __forceinline__ bool mine() const { return (threadIdx.x & 31) == 0; }
#else
    __device__ __forceinline__ explicit TraceSpan(TraceTimes*) {}
#endif

    __device__ __forceinline__ void begin() {
#if PS_TRACE
        if (!mine()) return;
        // Both before either is stored: a store may wait, and the two must be of one moment.
        u64 ns = read_timer(), clock = read_clock();
        at.begin_ns = ns;
        at.begin_clock = clock;
        at.first_clock = at.main_clock = at.begin_clock;
#endif
    }

    __device__ __forceinline__ void first_tile() {
#if PS_TRACE
        if (mine()) at.first_clock = read_clock();
#endif
    }

    __device__ __forceinline__ void main_done() {
#if PS_TRACE
        if (mine()) at.main_clock = read_clock();
#endif
    }

    // One thread writes the record, or counts it as lost when the buffer is full.
    template <bool kPerWarp, class Task>
    __device__ __forceinline__ void end(const DecodeParams& p, const Task& task) {
#if PS_TRACE
        if (!mine() || !(kPerWarp || threadIdx.x == 0) || task.count == 0 || p.trace == nullptr) return;
        u64 end_clock = read_clock(), end_ns = read_timer();
        u32 nth = atomicAdd(p.trace, 1u);
        if (nth >= p.trace_capacity) {
            atomicAdd(p.trace + 1, 1u);
            return;
        }
        TraceRecord& r = ((TraceRecord*)(p.trace + 16))[nth];
        u32 sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        r.sm = sm;
        r.task = task.task;
        r.kv_head = task.kv_head;
        r.cta = blockIdx.x;
        r.begin_ns = at.begin_ns;
        r.begin_clock = at.begin_clock;
        r.first_tile_clock = at.first_clock;
        r.main_done_clock = at.main_clock;
        r.end_clock = end_clock;
        r.end_ns = end_ns;
#endif
    }
};
