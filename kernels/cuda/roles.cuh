// What the CTAs of a kernel compute, and how those of a hybrid launch find out.
//
//   PS_ALONE    prefill or decode, as all of the launch do
//   PS_EITHER   prefill or decode: the index of the CTA says which, or a ticket of the SM that it finds itself on
//   PS_BOTH     a prefill task and a decode item with the number of the CTA, while there are such, side by side
//
// Tickets are those of POD-Attention: of each `period` that an SM gives out, the first `prefill_tickets` are prefill.
// A CTA takes the next item of what its ticket says, or of the other where that is used up. Each CTA takes one item and
// there are as many CTAs as items, so that none is left over and none is taken twice.
#pragma once
#include "params.cuh"

#define PS_ALONE 0
#define PS_EITHER 1
#define PS_BOTH 2

constexpr int kWarpgroup = 128;

// The items of a CTA.
struct Roles {
    u32 prefill, decode;
    static constexpr u32 kNone = 0xffffffffu;
};

__device__ __forceinline__ Roles roles_of_index(const HybridParams& p) {
    const u32 cta = blockIdx.x;
#if PS_ROLES == PS_BOTH
    return {cta < p.prefill_items ? cta : Roles::kNone, cta < p.decode_items ? cta : Roles::kNone};
#else
    if (cta < p.prefill_items) return {cta, Roles::kNone};
    return {Roles::kNone, cta - p.prefill_items};
#endif
}

// What the ticket says, by one thread. SMs whose numbers are past the counters share one: their patterns mix, and
// everything is still computed once.
__device__ __forceinline__ Roles roles_of_ticket(const HybridParams& p) {
    u32 sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    const u32 ticket = atomicAdd(p.counters + HybridParams::kSms + min(sm, p.sm_counters - 1), 1u);
    u32* const next_prefill = p.counters;
    u32* const next_decode = p.counters + 1;
    if (ticket % p.period < p.prefill_tickets) {
        const u32 prefill = atomicAdd(next_prefill, 1u);
        if (prefill < p.prefill_items) return {prefill, Roles::kNone};
        return {Roles::kNone, atomicAdd(next_decode, 1u)};
    }
    const u32 decode = atomicAdd(next_decode, 1u);
    if (decode < p.decode_items) return {Roles::kNone, decode};
    return {atomicAdd(next_prefill, 1u), Roles::kNone};
}

// The last CTA to take its item sets the counters back, by a warp.
__device__ __forceinline__ void reset_tickets(const HybridParams& p, u32 lane) {
    u32 last = 0;
    if (lane == 0) {
        // All that this CTA counted comes before its being counted.
        __threadfence();
        last = atomicAdd(p.counters + 2, 1u) + 1 == gridDim.x;
        __threadfence();
    }
    if (!__shfl_sync(0xffffffffu, last, 0)) return;
#pragma unroll 1
    for (u32 i = lane; i < HybridParams::kSms + p.sm_counters; i += 32) p.counters[i] = 0;
}

// By all threads. `at` is anywhere in shared memory; when this returns, it may be used for something else once all
// threads have met again.
__device__ __forceinline__ Roles find_roles(const HybridParams& p, Roles* at) {
    if (p.period == 0) return roles_of_index(p);
    if (threadIdx.x < 32) {
        if (threadIdx.x == 0) *at = roles_of_ticket(p);
        __syncwarp();
        reset_tickets(p, threadIdx.x);
    }
    __syncthreads();
    // Read by one lane for its warp, so that the compiler sees that a warp goes one way.
    return {__shfl_sync(0xffffffffu, at->prefill, 0), __shfl_sync(0xffffffffu, at->decode, 0)};
}
