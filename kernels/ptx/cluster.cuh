// Where the blocks of a cluster meet (sm_90 and newer). README.md, "Clusters", has the rules that these serve. All
// threads of all blocks call each of them, warps whole.
#pragma once

namespace mobicuda::kernels {

// The host's compiler reads kernels as well.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/// Begin of a cluster, first half: this block runs, and has the barriers that its threads initialised before this and
/// published (fence.mbarrier_init.release.cluster). Relaxed: that fence is all that others need to see.
__device__ __forceinline__ void arrive_at_cluster_begin() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

/// Begin of a cluster, second half: until all blocks run. Before this a block touches no shared memory but its own.
/// What may go on without the others stands between the halves.
__device__ __forceinline__ void wait_for_cluster_begin() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Until all threads are here, and see what the others did to shared memory.
__device__ __forceinline__ void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// End of a cluster: until all that threads did to shared memory of other blocks has arrived there: loads, stores, and
/// arrivals at barriers. A block without it may end, and give its shared memory away, while such an access is on its
/// way, which then ends the whole context in cudaErrorLaunchFailure. Release is what waits for them.
__device__ __forceinline__ void end_cluster() { sync_cluster(); }

#endif

}  // namespace mobicuda::kernels
