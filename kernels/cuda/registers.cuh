// Registers that pass from one warpgroup of a CTA to another (sm_90a). The compiler has to know how many there are as
// the kernel starts, and in which branch which warpgroup is.
#pragma once
#include "params.cuh"

// What a warpgroup takes and gives of the registers of its CTA.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
