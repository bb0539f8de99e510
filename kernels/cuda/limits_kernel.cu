// What this GPU can do at best: plain reads, the tensor rate of mma.sync, its clock, and when its memory gives nothing.
#include "async_copy.cuh"
#include "mma.cuh"

struct ReadParams {
    const uint4* from;
    u64 vectors;  // 16-byte vectors to read
    u32* sink;
};
static_assert(sizeof(ReadParams) == 24, "ReadParams is 24 bytes");

struct StampParams {
    u64* to;
};
static_assert(sizeof(StampParams) == 8, "StampParams is 8 bytes");

struct PulseParams {
    u64* mark;  // first and last moment
    u64 nanos;
};
static_assert(sizeof(PulseParams) == 16, "PulseParams is 16 bytes");

struct PlaceParams {
    u32* sms;   // the SM of each CTA
    u64 nanos;  // the shortest stay of one
};
static_assert(sizeof(PlaceParams) == 16, "PlaceParams is 16 bytes");

struct ArrivalParams {
    const uint4* from;
    u64 vectors;   // 16-byte vectors of a pass
    u64* to;       // moments of each CTA, one CTA's after another's
    u32 passes;
    u32 moments;   // of a pass and a CTA
};
static_assert(sizeof(ArrivalParams) == 32, "ArrivalParams is 32 bytes");

// 16-byte loads, eight in flight per thread.
extern "C" __global__ void __launch_bounds__(512) packscope_read(const ReadParams p) {
    constexpr u32 kUnroll = 8;
    u64 step = (u64)gridDim.x * blockDim.x;
    u32 folded = 0;
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + (kUnroll - 1) * step < p.vectors; i += kUnroll * step) {
        uint4 v[kUnroll];
#pragma unroll
        for (u32 k = 0; k < kUnroll; ++k) v[k] = __ldg(p.from + i + k * step);
#pragma unroll
        for (u32 k = 0; k < kUnroll; ++k) folded ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
    for (; i < p.vectors; i += step) {
        uint4 v = __ldg(p.from + i);
        folded ^= v.x ^ v.y ^ v.z ^ v.w;
    }
    // Never true for the data used, but the compiler cannot know: the loads stay.
    if (folded == 0x9e3779b9u) *p.sink = folded;
}

#if PS_ARCH >= 90
// Bulk copies of 8 KiB into a ring of 8 stages, issued by one thread; the data is only counted.
extern "C" __global__ void __launch_bounds__(32) packscope_read_bulk(const ReadParams p) {
    constexpr u32 kBytes = 8192, kRing = 6;
    extern __shared__ __align__(128) u8 ring[];
    __shared__ u64 full[kRing];
    if (threadIdx.x != 0) return;
    for (u32 i = 0; i < kRing; ++i) barrier_init(smem_address(&full[i]), 1);
    fence_barrier_init();
    u64 chunks = p.vectors * 16 / kBytes;
    u64 next = blockIdx.x;
    u32 parity = 0;
    auto issue = [&](u32 stage) {
        u32 bar = smem_address(&full[stage]);
        barrier_expect(bar, kBytes);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         smem_address(ring) + stage * kBytes),
                     "l"((const u8*)p.from + next * kBytes), "r"(kBytes), "r"(bar)
                     : "memory");
        next += gridDim.x;
    };
    u32 in_flight = 0;
    for (u32 s = 0; s < kRing && next < chunks; ++s, ++in_flight) issue(s);
    for (u32 stage = 0; in_flight > 0; stage = stage + 1 == kRing ? 0 : stage + 1, --in_flight) {
        barrier_wait(smem_address(&full[stage]), (parity >> stage) & 1);
        parity ^= 1u << stage;
        if (next < chunks) {
            issue(stage);
            ++in_flight;
        }
    }
}
#endif

struct MmaParams {
    float* sink;
    u32 rounds;  // each: 16 instructions of 16 x 8 x 16 per warp
    u32 unused;
};
static_assert(sizeof(MmaParams) == 16, "MmaParams is 16 bytes");

extern "C" __global__ void __launch_bounds__(256) packscope_mma(const MmaParams p) {
    float c[16][4];
    u32 lane = threadIdx.x;
    // Random-looking operands in [1, 2): zeros would run faster than real data.
    u32 x = lane * 2654435761u;
    u32 a[4] = {0x3c003c00u | (x & 0x03ff03ffu), 0x3c003c00u | ((x >> 3) & 0x03ff03ffu),
                0xbc00bc00u | ((x >> 5) & 0x03ff03ffu), 0xbc003c00u | ((x >> 7) & 0x03ff03ffu)};
    for (auto& row : c)
        for (float& v : row) v = 0.0f;
    for (u32 i = 0; i < p.rounds; ++i) {
#pragma unroll
        for (u32 k = 0; k < 16; ++k) mma_16x8x16(c[k], a, a[k & 3] ^ k, a[(k + 1) & 3]);
    }
    float sum = 0.0f;
    for (auto& row : c)
        for (float v : row) sum += v;
    if (sum == 1.2345f) *p.sink = sum;
}

struct FillParams {
    u16* to;
    u64 count;
    u64 first;  // number of the first value
    u32 seed;
    u32 kind;  // kBf16, kNormal
};
static constexpr u32 kBf16 = 1;
static constexpr u32 kNormal = 2;  // near the normal distribution, with whole mantissas
static_assert(sizeof(FillParams) == 32, "FillParams is 32 bytes");

__device__ __forceinline__ u64 hash_of(u32 seed, u64 i) {
    u64 x = (i + 1) * 0x9e3779b97f4a7c15ull ^ ((u64)seed << 32 | seed);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    return (x ^ (x >> 27)) * 0x94d049bb133111ebull;
}

// Steps of 1/64 within [-2, 2): exact in both 16-bit types, and the host can compute any one of them without the
// others.
__device__ __forceinline__ float exact_value(u32 seed, u64 i) {
    return (float)((int)(hash_of(seed, i) >> 56) - 128) * (1.0f / 64.0f);
}

// Twelve uniform values added. Their mantissas switch as many wires as real ones do: a clock under load depends on it.
__device__ __forceinline__ float normal_value(u32 seed, u64 i) {
    u32 sum = 0;
#pragma unroll
    for (u32 part = 0; part < 3; ++part) {
        u64 x = hash_of(seed + part, i * 3 + part);
        x ^= x >> 31;
        sum += (u32)(x & 0xffff) + (u32)(x >> 16 & 0xffff) + (u32)(x >> 32 & 0xffff) + (u32)(x >> 48);
    }
    return ((float)sum - 6.0f * 65535.0f) * (1.0f / 65536.0f);
}

extern "C" __global__ void __launch_bounds__(256) packscope_fill(const FillParams p) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) {
        const float value = p.kind & kNormal ? normal_value(p.seed, p.first + i) : exact_value(p.seed, p.first + i);
        u32 packed;
        if (p.kind & kBf16) {
            asm("cvt.rn.bf16x2.f32 %0, %1, %1;" : "=r"(packed) : "f"(value));
        } else {
            asm("cvt.rn.f16x2.f32 %0, %1, %1;" : "=r"(packed) : "f"(value));
        }
        p.to[i] = (u16)packed;
    }
}

__device__ __forceinline__ u64 read_timer() {
    u64 t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
    return t;
}

// Plain reads of a whole buffer, some passes over it. The first warp of each CTA writes down when what it asked for has come, so that
// a stretch in which nothing comes to any SM is one without a moment.
extern "C" __global__ void __launch_bounds__(512) packscope_arrivals(const ArrivalParams p) {
    constexpr u32 kUnroll = 4;
    const u64 step = (u64)gridDim.x * blockDim.x;
    u64* to = p.to + (u64)blockIdx.x * p.passes * p.moments;
    for (u32 pass = 0; pass < p.passes; ++pass, to += p.moments) {
        u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
        for (u32 k = 0; k < p.moments; ++k, i += kUnroll * step) {
            uint4 v[kUnroll];
            u32 folded = 0;
#pragma unroll
            for (u32 j = 0; j < kUnroll; ++j) v[j] = __ldg(p.from + i + j * step);
#pragma unroll
            for (u32 j = 0; j < kUnroll; ++j) folded ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
            // Hardly ever true, but asked: so the data has come before the timer is read.
            if (folded == 0x9e3779b9u) to[k] = 0;
            const u64 now = read_timer();
            if (threadIdx.x == 0) to[k] = now;
        }
    }
}

// %globaltimer, for the start and the end of a call on the device's own clock.
extern "C" __global__ void packscope_stamp(const StampParams p) {
    if (threadIdx.x == 0) *p.to = read_timer();
}

// The step of %globaltimer: the least difference of two readings that differ, in ns.
extern "C" __global__ void packscope_clock_step(const StampParams p) {
    if (threadIdx.x != 0) return;
    u64 least = ~0ull, last = read_timer();
    for (u32 i = 0; i < 100000; ++i) {
        u64 now = read_timer();
        if (now != last && now - last < least) least = now - last;
        last = now;
    }
    *p.to = least;
}

// Keeps every SM busy for `nanos` and leaves its first and last moment: a mark that other clocks see too.
extern "C" __global__ void packscope_pulse(const PulseParams p) {
    u64 start = read_timer(), end = start;
    while (end - start < p.nanos) end = read_timer();
    if (threadIdx.x == 0) {
        atomicMin(p.mark, start);
        atomicMax(p.mark + 1, end);
    }
}

// Where each CTA runs. They stay for unequal times, so that SMs fall free in ever other orders, and clusters that come
// later join SMs that no earlier one has joined.
extern "C" __global__ void packscope_places(const PlaceParams p) {
    if (threadIdx.x != 0) return;
    u32 sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    p.sms[blockIdx.x] = sm;
    u64 stay = p.nanos * (1 + (blockIdx.x * 2654435761u >> 29)), start = read_timer();
    while (read_timer() - start < stay) {
    }
}
