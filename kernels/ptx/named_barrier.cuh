// bar: barriers of some of a block's warps, by number. Number 0 is that of __syncthreads().
#pragma once

namespace mobicuda::kernels::ptx {

__device__ __forceinline__ void sync_threads_of(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/// The number of threads as an immediate.
template <int kThreads>
__device__ __forceinline__ void sync_threads_of(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

/// Counts as one that waits, and goes on.
__device__ __forceinline__ void arrive_for_threads_of(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

}  // namespace mobicuda::kernels::ptx
