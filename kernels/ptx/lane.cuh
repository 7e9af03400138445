// Where a thread stands in its block.
#pragma once

namespace mobicuda::kernels::ptx {

__device__ __forceinline__ unsigned lane() { return threadIdx.x % 32; }
__device__ __forceinline__ unsigned warp() { return threadIdx.x / 32; }

/// The same, for arithmetic with other ints.
namespace as_int {
__device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x % 32); }
__device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x / 32); }
}  // namespace as_int

// The same as lane() and warp(), read from the special registers at every call. What the compiler derives from lane()
// it may keep in registers across a loop, or spill there; what it derives from these it computes anew.

__device__ __forceinline__ unsigned reread_lane() {
  unsigned lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}
__device__ __forceinline__ unsigned reread_warp() {
  unsigned thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread / 32;
}

}  // namespace mobicuda::kernels::ptx
