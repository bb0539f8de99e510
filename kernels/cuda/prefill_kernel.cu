// Causal attention of prefill chunks over a paged KV cache.
#if PS_WGMMA
#include "dependent.cuh"
#include "prefill_wgmma.cuh"
#else
#include "prefill_mma.cuh"
#endif

#if PS_SLIM
// The compiler's option caps the registers at entry; a launch bound would void it.
#define PS_BOUNDS
#else
#define PS_BOUNDS __launch_bounds__(prefill::kThreads, 1)
#endif

extern "C" __global__ void PS_BOUNDS packscope_prefill(const __grid_constant__ PrefillParams p) {
    using namespace prefill;
    extern __shared__ __align__(1024) u8 memory[];
    PrefillShared& shared = *(PrefillShared*)memory;
#if PS_WGMMA
    // Decode that is to run beside this kernel may take what it leaves of its SMs.
    start_dependents();
#endif
    if (threadIdx.x == 0) shared.scratch.init();
    __syncthreads();
#if PS_WGMMA
    if (threadIdx.x < kWarpgroup) {
        give_registers<kFetchRegisters>();
        PrefillFetch<QueuedTasks>(p, shared, QueuedTasks()).run();
    } else {
        take_registers<kComputeRegisters>();
        PrefillConsumer(p, shared).run();
    }
#else
    PrefillWarps(p, shared).run();
#endif
}
