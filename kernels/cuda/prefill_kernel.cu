// Causal attention of prefill chunks over a paged KV cache.
#if PS_WGMMA
#include "prefill_wgmma.cuh"
#else
#include "prefill_mma.cuh"
#endif

extern "C" __global__ void __launch_bounds__(kThreads, 1) packscope_prefill(const __grid_constant__ PrefillParams p) {
    extern __shared__ __align__(1024) u8 memory[];
    PrefillShared& shared = *(PrefillShared*)memory;
    if (threadIdx.x == 0) shared.scratch.init();
    __syncthreads();
#if PS_WGMMA
    if (threadIdx.x < kWarpgroup) {
        give_registers<40>();
        PrefillFetch(p, shared).run();
    } else {
        take_registers<232>();
        PrefillConsumer(p, shared).run();
    }
#else
    PrefillWarps(p, shared).run();
#endif
}
