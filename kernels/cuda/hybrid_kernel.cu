// Prefill and decode in one launch, an item of either or of both to a CTA.
//
//   PS_EITHER   warpgroup 0 ──► prefill of 64 rows, or four decode warps      two CTAs an SM
//             warpgroup 1 ──► fetches for it
//
//   PS_BOTH     warpgroup 0 ──► four decode warps                             one CTA an SM
//             warpgroup 1 ──► fetches: three warps for prefill, one for decode
//             warpgroups 2 and 3 ──► prefill of 128 rows
//
// The bodies are those of the other kernels. Each computes its item and ends; what is merged is merged by a launch of
// its own.
#include "consumer.cuh"
#include "producer.cuh"
#include "prefill_wgmma.cuh"
#include "roles.cuh"

// Threads, and registers of one in each warpgroup, which starts with 128.
#if PS_ROLES == PS_BOTH
constexpr int kHybridFetch = 64, kHybridDecode = 112, kHybridPrefill = 168;
constexpr int kHybridThreads = 4 * kWarpgroup;
constexpr int kHybridCtas = 1;
struct HybridShared {
    SharedMemory decode;
    prefill::PrefillShared prefill;
};
#else
constexpr int kHybridFetch = 80, kHybridCompute = 176;
constexpr int kHybridThreads = 2 * kWarpgroup;
constexpr int kHybridCtas = 2;
union HybridShared {
    SharedMemory decode;
    prefill::PrefillShared prefill;
};
#endif
static_assert(sizeof(HybridShared) <= PS_HYBRID_BYTES, "the host gives the kernel enough shared memory");

// The warp that fetches K, V and Q of a decode item.
__device__ __forceinline__ void fetch_decode(const DecodeParams& p, SharedMemory& shared, u32 item) {
    Scout scout(p, shared);
    scout.work = load_work(p, item, scout.lane);
    Producer(p, shared, 0).run_with(scout);
}

__device__ __forceinline__ void fetch_prefill(const PrefillParams& p, prefill::PrefillShared& shared, u32 task) {
    prefill::PrefillFetch<prefill::OneTask>(p, shared, prefill::OneTask{task}).run();
}

extern "C" __global__ void __launch_bounds__(kHybridThreads, kHybridCtas)
    packscope_hybrid(const __grid_constant__ HybridParams p) {
    extern __shared__ __align__(1024) u8 memory[];
    HybridShared& shared = *(HybridShared*)memory;
    const Roles roles = find_roles(p, (Roles*)memory);
    const bool prefills = roles.prefill != Roles::kNone, decodes = roles.decode != Roles::kNone;
    const u32 group = alike(threadIdx.x / kWarpgroup);
    const u32 warp = alike(threadIdx.x / 32);
    if (threadIdx.x == 0) {
        if (prefills) shared.prefill.scratch.init();
        if (decodes) shared.decode.scratch.init();
    }
    __syncthreads();
#if PS_ROLES == PS_BOTH
    if (group == 0) {
        give_registers<kHybridDecode>();
        if (decodes) Consumer(p.decode, shared.decode).run();
    } else if (group == 1) {
        give_registers<kHybridFetch>();
        if (warp < (prefill::kFetchThread + prefill::kFetchThreads) / 32) {
            if (prefills) fetch_prefill(p.prefill, shared.prefill, roles.prefill);
        } else if (decodes) {
            fetch_decode(p.decode, shared.decode, roles.decode);
        }
    } else {
        take_registers<kHybridPrefill>();
        if (prefills) prefill::PrefillConsumer(p.prefill, shared.prefill).run();
    }
#else
    if (group == 0) {
        take_registers<kHybridCompute>();
        if (prefills) {
            prefill::PrefillConsumer(p.prefill, shared.prefill).run();
        } else {
            Consumer(p.decode, shared.decode).run();
        }
    } else {
        give_registers<kHybridFetch>();
        if (prefills) {
            fetch_prefill(p.prefill, shared.prefill, roles.prefill);
        } else if (warp == kWarpgroup / 32) {
            fetch_decode(p.decode, shared.decode, roles.decode);
        }
    }
#endif
}
