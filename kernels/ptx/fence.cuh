// Fences of sm_90 and newer.
#pragma once

namespace mobicuda::kernels::ptx {

/// The barriers that this thread initialised are there for the cluster, behind its next meeting, and for copies.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// What this thread wrote to shared memory is there, behind the next barrier, for the async proxy: for bulk copies, and
/// for wgmma's operands.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace mobicuda::kernels::ptx
