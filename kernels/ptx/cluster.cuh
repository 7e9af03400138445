// Clusters of blocks, sm_90 and newer: where their blocks meet, and access to each other's shared memory. README.md,
// "Clusters", has the rules that these serve. All threads of all blocks call each of the meetings, warps whole; those
// are in the kernels' own namespace.
#pragma once

#include "kernels/common/std.h"

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

namespace mobicuda::kernels::ptx {

/// This block's rank in its cluster.
__device__ __forceinline__ int rank_in_cluster() {
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// The cluster's address of the place in the shared memory of block `rank` that is `here` in this one's.
__device__ __forceinline__ std::uint32_t map_to_rank(std::uint32_t here, int rank) {
  std::uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
  return there;
}

/// From a cluster's address. Without a memory clobber: a meeting of the cluster, which has one, is between this and the
/// stores.
__device__ __forceinline__ float4 load_cluster(std::uint32_t from) {
  float4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(from));
  return v;
}

/// Stores a float at a cluster's address, in the background; the mbarrier at `barrier`, of the same block, counts its
/// bytes.
__device__ __forceinline__ void send(std::uint32_t to, float value, std::uint32_t barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to), "f"(value),
               "r"(barrier)
               : "memory");
}

/// Four floats; `to` and `barrier` are places as in this block, and are mapped to block `rank`.
__device__ __forceinline__ void send(std::uint32_t to, float4 value, std::uint32_t barrier, int rank) {
  asm volatile(
      "{\n"
      ".reg .b32 there, told;\n"
      "mapa.shared::cluster.u32 there, %0, %6;\n"
      "mapa.shared::cluster.u32 told, %1, %6;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [there], {%2, %3, %4, %5}, [told];\n"
      "}\n" ::"r"(to),
      "r"(barrier), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(rank)
      : "memory");
}

/// Two floats.
__device__ __forceinline__ void send(std::uint32_t to, float2 value, std::uint32_t barrier, int rank) {
  asm volatile(
      "{\n"
      ".reg .b32 there, told;\n"
      "mapa.shared::cluster.u32 there, %0, %4;\n"
      "mapa.shared::cluster.u32 told, %1, %4;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [there], {%2, %3}, [told];\n"
      "}\n" ::"r"(to),
      "r"(barrier), "f"(value.x), "f"(value.y), "r"(rank)
      : "memory");
}

/// send() of four integers.
__device__ __forceinline__ void send_integers(std::uint32_t to, int4 value, std::uint32_t barrier, int rank) {
  asm volatile(
      "{\n"
      ".reg .b32 there, told;\n"
      "mapa.shared::cluster.u32 there, %0, %6;\n"
      "mapa.shared::cluster.u32 told, %1, %6;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.s32 [there], {%2, %3, %4, %5}, [told];\n"
      "}\n" ::"r"(to),
      "r"(barrier), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "r"(rank)
      : "memory");
}

}  // namespace mobicuda::kernels::ptx
