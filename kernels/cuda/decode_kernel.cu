// Packed decode attention: warps 0 .. PS_WARPS-1 consume, the last warp produces.
#include "producer.cuh"
#include "consumer.cuh"

extern "C" __global__ void __launch_bounds__((PS_WARPS + 1) * 32, PS_MIN_CTAS)
    packscope_decode(const __grid_constant__ DecodeParams p) {
    extern __shared__ __align__(1024) u8 memory[];
    SharedMemory& shared = *(SharedMemory*)memory;
    Producer producer(p, shared);
    if (threadIdx.x >= kConsumers) producer.start();
    if (threadIdx.x == 0) {
        for (int i = 0; i < kStages; ++i) {
            barrier_init(smem_address(&shared.scratch.full[i]), 33);
            barrier_init(smem_address(&shared.scratch.empty[i]), kReleases);
        }
        fence_barrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= kConsumers) {
        producer.run();
    } else {
        Consumer(p, shared).run();
    }
}
