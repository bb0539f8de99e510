// Programmatic dependent launch (sm_90): a kernel that begins beside the one before it on its stream.
#pragma once
#include "params.cuh"

#if PS_ARCH >= 90
// What follows on the stream and was launched so may begin once every CTA of this launch has come here or ended.
__device__ __forceinline__ void start_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// Waits until the launch before this one has ended and what it wrote can be seen. At once where this one was launched
// to begin after it anyway.
__device__ __forceinline__ void wait_for_primary() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#endif
