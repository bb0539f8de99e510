// Packed decode attention: warps 0 .. PS_WARPS-1 consume, the next produces, and in the persistent
// kernel one more scouts ahead.
#include "producer.cuh"
#include "consumer.cuh"

extern "C" __global__ void __launch_bounds__(kThreads, PS_MIN_CTAS)
    packscope_decode(const __grid_constant__ DecodeParams p) {
    extern __shared__ __align__(1024) u8 memory[];
    SharedMemory& shared = *(SharedMemory*)memory;
    const u32 warp = threadIdx.x >> 5;
    Scout scout(p, shared);
    if (warp == kWarps + kFetchers - 1) scout.work = load_work(p, blockIdx.x, scout.lane);
    if (threadIdx.x == 0) shared.scratch.init();
    __syncthreads();
    if (warp < kWarps) {
        Consumer(p, shared).run();
    } else {
        Producer producer(p, shared);
#if PS_FUSED
        if (warp > kWarps) {
            scout.run();
        } else {
            producer.prefetch_maps();
            producer.run();
        }
#else
        producer.run_with(scout);
#endif
    }
}
