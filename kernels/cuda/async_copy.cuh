// Asynchronous copies into shared memory and the barriers they complete on.
//
// sm_80: 16-byte cp.async by every lane of the producer warp, each lane's arrival on the
// stage's barrier triggered by its own copies. sm_90: bulk tensor copies issued by single
// lanes, whose bytes count on the same barrier. The consumers see no difference.
#pragma once
#include "params.cuh"

// What all lanes of a warp have. The compiler sees that they do, so that descriptors that come of it are in uniform
// registers: without, each tensor instruction waits for its own to be moved there.
__device__ __forceinline__ u32 alike(u32 value) { return __shfl_sync(0xffffffffu, value, 0); }

__device__ __forceinline__ u32 smem_address(const void* p) {
    return (u32)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void barrier_init(u32 bar, u32 count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}

__device__ __forceinline__ void barrier_arrive(u32 bar) {
    asm volatile("{\n .reg .b64 t;\n mbarrier.arrive.shared.b64 t, [%0];\n}" ::"r"(bar) : "memory");
}

__device__ __forceinline__ bool barrier_test(u32 bar, u32 parity) {
    u32 ok;
#if PS_ARCH >= 90
    asm volatile(
        "{\n .reg .pred p;\n mbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
        : "=r"(ok)
        : "r"(bar), "r"(parity)
        : "memory");
#else
    asm volatile(
        "{\n .reg .pred p;\n mbarrier.test_wait.parity.shared.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
        : "=r"(ok)
        : "r"(bar), "r"(parity)
        : "memory");
#endif
    return ok != 0;
}

__device__ __forceinline__ void barrier_wait(u32 bar, u32 parity) {
    while (!barrier_test(bar, parity)) {
    }
}

// The barrier counts this lane as arrived once its cp.async issued so far have landed.
__device__ __forceinline__ void barrier_arrive_on_copies(u32 bar) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(bar) : "memory");
}

// Fills what a warp has copied and stored to: 33 arrivals, one of each lane, tied to its copies, and one
// of lane 0 for what the warp wrote by ordinary stores.
__device__ __forceinline__ void warp_arrive_on_copies(u32 bar, u32 lane) {
    __syncwarp();
    barrier_arrive_on_copies(bar);
    if (lane == 0) barrier_arrive(bar);
}
constexpr int kWarpArrivals = 33;

// 8 bytes from global to shared memory.
__device__ __forceinline__ void copy_8(u32 dst, const void* src) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(dst), "l"(src) : "memory");
}

// 16 bytes; zeros where `valid` is false.
__device__ __forceinline__ void copy_16(u32 dst, const void* src, bool valid) {
    u32 bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}

// Until those of this thread are there.
__device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

#if PS_ARCH >= 90
__device__ __forceinline__ void barrier_expect(u32 bar, u32 bytes) {
    asm volatile("{\n .reg .b64 t;\n mbarrier.arrive.expect_tx.shared.b64 t, [%0], %1;\n}" ::"r"(bar), "r"(bytes)
                 : "memory");
}

// What comes with this leaves L2 first. To those that others need no policy is given: on an H200 reads with the normal one
// take 10 to 18 % longer than those without.
__device__ __forceinline__ u64 leaves_l2_first() {
    u64 policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__device__ __forceinline__ void copy_box(u32 dst, const TensorMap* map, u32 bar, u32 d, u32 token, u32 head,
                                         u32 block) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%2, %3, %4, %5}], [%6];" ::"r"(dst),
        "l"(map), "r"(d), "r"(token), "r"(head), "r"(block), "r"(bar)
        : "memory");
}

__device__ __forceinline__ void copy_box(u32 dst, const TensorMap* map, u32 bar, u32 d, u32 token, u32 head, u32 block,
                                         u64 policy) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
        "[%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(dst),
        "l"(map), "r"(d), "r"(token), "r"(head), "r"(block), "r"(bar), "l"(policy)
        : "memory");
}

// `bytes` (a multiple of 16) that other SMs have written during this launch. The caller has
// acquired them; the fence takes that over to the copy engine.
__device__ __forceinline__ void copy_rows(u32 dst, const void* src, u32 bytes, u32 bar) {
    asm volatile(
        "fence.proxy.async.global;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst),
        "l"(src), "r"(bytes), "r"(bar)
        : "memory");
}

// Makes fresh barriers visible to the copy engine.
__device__ __forceinline__ void fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void prefetch_map(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Brings `bytes` to L2, a multiple of 16, from an address that is one.
__device__ __forceinline__ void prefetch_bulk(const void* from, u32 bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

// Orders this thread's ordinary shared-memory accesses before later bulk copies and wgmma.
__device__ __forceinline__ void fence_async_proxy() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#else
__device__ __forceinline__ void fence_async_proxy() {}
__device__ __forceinline__ void fence_barrier_init() { __threadfence_block(); }
#endif

// A ring of `Stages` equal stages. Both sides walk it in the same order.
template <int Stages>
struct RingCursor {
    u32 stage;
    u32 parity;

    __device__ __forceinline__ RingCursor() : stage(0), parity(0) {}

    __device__ __forceinline__ void advance() {
        if (++stage == Stages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

__device__ __forceinline__ void sync_threads(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Arrives where others wait by `sync_threads`.
__device__ __forceinline__ void arrive_threads(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
