// What tensor cores and memory do at once: a loop with the products and exponentials of attention, and a reader that
// streams memory through a ring of shared memory, each for a given time. Alone they are limits too.
//
// PS_D is 128: a step is a 64 x 128 tile of scores and its share of the output, as in prefill.
#include "async_copy.cuh"
#include "softmax.cuh"
#include "wgmma.cuh"

struct CoRunParams {
    const u8* from;  // for the reader: `bytes` of memory, a multiple of its stage
    u64 bytes;
    u64* done;       // tensor steps, bytes read, clocks and nanoseconds of a tensor CTA
    u64 nanos;       // for so long
    float* sink;
};
static_assert(sizeof(CoRunParams) == 40, "CoRunParams is 40 bytes");

__device__ __forceinline__ u64 read_timer() {
    u64 t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
    return t;
}

__device__ __forceinline__ u64 read_clock() {
    u64 t;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
    return t;
}

// Two values between 1 and 2 or -1 and -2 with random mantissas: zeros would take less power than real data.
__device__ __forceinline__ u32 random_halves(u32 seed) {
    u32 x = seed * 2654435761u;
    x ^= x >> 15;
    x *= 2246822519u;
    return 0x3c003c00u | (x & 0x83ff83ffu);
}

// Two warpgroups, each with 64 rows. Operands lie where they are; only the scores change from step to step.
extern "C" __global__ void __launch_bounds__(256, 1) packscope_co_tensor(const CoRunParams p) {
    extern __shared__ __align__(1024) u8 memory[];
    constexpr u32 kBytes = 64 << 10, kSteps = 64;
    for (u32 i = threadIdx.x; i < kBytes / 4; i += 256) ((u32*)memory)[i] = random_halves(i + blockIdx.x * 7919u);
    fence_async_proxy();
    __syncthreads();
    // 64 rows of Q for each warpgroup, then K and V of 128 tokens in the place of one.
    const u64 q = matrix_descriptor(smem_address(memory) + threadIdx.x / 128 * (16 << 10));
    const u64 k = matrix_descriptor(smem_address(memory) + (32 << 10));
    const u64 v = matrix_descriptor(smem_address(memory) + (32 << 10), 128 * 128);
    float s[16][4], o[16][4] = {};
    u32 weights[8][4] = {};
    u64 steps = 0;
    const u64 start = read_timer(), clock = read_clock();
    u64 now = start;
    // All warps end with the same step: a product of a warpgroup without one of its warps is an illegal instruction.
    for (bool over = false; !over; over = __syncthreads_or(threadIdx.x == 0 && now - start >= p.nanos)) {
#pragma unroll 1
        for (u32 step = 0; step < kSteps; ++step) {
            warpgroup_fence();
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const u32 at = (j % 4) * 32;
                warpgroup_mma_128(s, descriptor_at(q, j / 4 * (64 * 128) + at), descriptor_at(k, j / 4 * (128 * 128) + at), j > 0);
            }
            warpgroup_commit();
            warpgroup_fence();
#pragma unroll
            for (int j = 0; j < 8; ++j) warpgroup_mma_transposed_128(o, weights[j], descriptor_at(v, j * 2048));
            warpgroup_commit();
            warpgroup_wait<1>();
#pragma unroll
            for (int j = 0; j < 16; ++j) {
#pragma unroll
                for (int c = 0; c < 4; ++c) s[j][c] = exp2_fast(s[j][c] * 0.01f - 4.0f);
            }
            warpgroup_wait<0>();
            pack_weights(weights, s);
        }
        steps += kSteps;
        now = read_timer();
    }
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 16; ++j) sum += o[j][0] + o[j][1] + o[j][2] + o[j][3];
    if (sum == 1.2345f) *p.sink = sum;
    if (threadIdx.x % 128 == 0) atomicAdd(p.done, steps);
    if (threadIdx.x == 0) {
        atomicAdd(p.done + 2, read_clock() - clock);
        atomicAdd(p.done + 3, now - start);
    }
}

// Four warps that read what bulk copies bring, four stages of 16 KiB.
extern "C" __global__ void __launch_bounds__(128) packscope_co_read(const CoRunParams p) {
    constexpr u32 kStage = 16384, kRing = 4;
    extern __shared__ __align__(128) u8 ring[];
    __shared__ u64 full[kRing];
    const u64 chunks = p.bytes / kStage, start = read_timer();
    u64 next = blockIdx.x, count = 0;
    auto issue = [&](u32 stage) {
        const u32 bar = smem_address(&full[stage]);
        barrier_expect(bar, kStage);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         smem_address(ring) + stage * kStage),
                     "l"(p.from + next % chunks * kStage), "r"(kStage), "r"(bar)
                     : "memory");
        next += gridDim.x;
    };
    if (threadIdx.x == 0) {
        for (u32 i = 0; i < kRing; ++i) barrier_init(smem_address(&full[i]), 1);
        fence_barrier_init();
        for (u32 i = 0; i < kRing; ++i) issue(i);
    }
    __syncthreads();
    u32 folded = 0;
    RingCursor<kRing> at;
    for (bool over = false; !over; at.advance()) {
        barrier_wait(smem_address(&full[at.stage]), at.parity);
        const uint4* from = (const uint4*)(ring + at.stage * kStage) + threadIdx.x;
#pragma unroll
        for (u32 i = 0; i < kStage / 16 / 128; ++i) {
            const uint4 x = from[i * 128];
            folded ^= x.x ^ x.y ^ x.z ^ x.w;
        }
        fence_async_proxy();
        ++count;
        over = __syncthreads_or(threadIdx.x == 0 && read_timer() - start >= p.nanos);
        if (threadIdx.x == 0 && !over) issue(at.stage);
    }
    // What is on its way must land before the CTA gives its memory back.
    for (u32 i = 1; i < kRing; ++i, at.advance()) barrier_wait(smem_address(&full[at.stage]), at.parity);
    // Never true for the data used, but the compiler cannot know: the loads stay.
    if (folded == 0x9e3779b9u) *p.sink = 1.0f;
    if (threadIdx.x == 0) atomicAdd(p.done + 1, count * kStage);
}
