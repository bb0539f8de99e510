// Packed decode attention: warps 0 .. PS_WARPS-1 consume, the next ones produce, and in the persistent
// kernel one more scouts ahead. With PS_APART four between them take what few queries see, and a last one fetches it.
#include "producer.cuh"
#include "consumer.cuh"
#if PS_FUSED && PS_ARCH >= 90
#include "dependent.cuh"
#endif
#include "registers.cuh"

#if PS_MIN_CTAS > 0
#define PS_BOUNDS __launch_bounds__(kThreads, PS_MIN_CTAS)
#else
// The compiler's option caps the registers; a launch bound would void it.
#define PS_BOUNDS
#endif

// Reads the first word of what results are written to: to find a page that the GPU has not used lately takes a while, and no one
// waits for it here, as at the last stores the end of the kernel does.
__device__ __forceinline__ void touch_results(const DecodeParams& p) {
    const u32 lane = threadIdx.x & 31;
    if (lane >= 3) return;
    const void* at = lane == 0 ? (const void*)p.out : lane == 1 ? (const void*)p.part_out : (const void*)p.part_lse;
    u32 unused;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(unused) : "l"(at) : "memory");
}

extern "C" __global__ void PS_BOUNDS packscope_decode(const __grid_constant__ DecodeParams p) {
    extern __shared__ __align__(1024) u8 memory[];
    SharedMemory& shared = *(SharedMemory*)memory;
    const u32 warp = alike(threadIdx.x >> 5);
    Scout scout(p, shared);
    if (!PS_BESIDE && warp == kScoutWarp) scout.begin();
    if (threadIdx.x == 0) shared.scratch.init();
    __syncthreads();
    if (warp == kWarps - 1) touch_results(p);
    if (warp < kWarps) {
        if constexpr (kRegistersMove) take_registers<kComputeRegisters>();
        Consumer(p, shared).run();
#if PS_APART
    } else if (warp < kFetchWarp) {
        give_registers<kFewRegisters>();
        FewTeam(p, shared).run();
#endif
    } else {
        if constexpr (kRegistersMove) give_registers<kFetchRegisters>();
        Producer producer(p, shared, warp - kFetchWarp);
        if (warp == kScoutWarp) {
#if PS_FUSED
            scout.run();
#else
            producer.run_with(scout);
#endif
        } else if (warp < kFetchWarp + kCopiers) {
            producer.run();
        }
#if PS_APART
        if (warp == kFetchWarp + 2) producer.run_few();
#endif
    }
#if PS_FUSED && PS_ARCH >= 90
    // Where this kernel began while the one before it ran, what follows waits for both through this CTA.
    if (blockIdx.x == 0) wait_for_primary();
#endif
}
