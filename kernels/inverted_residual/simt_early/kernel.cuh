// An early inverted residual block in exact float for few images: a tile of output pixels is the work of a cluster
// whose blocks share the hidden channels, or of one block.
//
// All weights of both 1x1 convolutions are in registers before the wait for the predecessor. Two lanes have some hidden
// channels in expand, whose input channels are few, and 8 or 16 lanes some output channels in project; what they share
// they exchange as those of simt_cluster do. sm_90 and newer.
#pragma once

#include "kernels/inverted_residual/simt_early/stages.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::inverted_simt_early {

template <class S>
__global__ void __launch_bounds__(S::kConfig.threads, S::kConfig.min_blocks)
    early_kernel(const Arguments a, const float* x, const float* packed, float* y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr Config kConfig = S::kConfig;
  MOBICUDA_DYNAMIC_SHARED(float, 128, shared_floats);
  float* const shared = shared_floats;
  float* const hidden = shared + S::kHiddenAt;
  float* const filtered = shared + S::kFilteredAt;
  const std::uint32_t arrived = ptx::shared_address(shared);
  const int rank = static_cast<int>(blockIdx.x % kConfig.blocks);
  if constexpr (kConfig.blocks > 1) {
    if (threadIdx.x == 0) {
      ptx::mbarrier_init(arrived, 1);
      ptx::fence_mbarrier_init();
    }
  }

  const float* const slice = packed + rank * S::kSliceFloats;
  Expand<S> expand;
  expand.load(slice);
  Project<S> project(rank, arrived);
  project.load(slice);
  copy_constants<S>(slice, shared);
  // Behind the loads, which would else wait for all that is computed before the wait.
  if constexpr (kConfig.blocks > 1) arrive_at_cluster_begin();
  const Place place = inverted_simt_early::locate<S>(a, blockIdx.x / kConfig.blocks);
  expand.aim(a, place);
  Patch<S> patch;
  patch.aim(a, place);
  x += static_cast<std::size_t>(place.n) * static_cast<std::size_t>(a.h * a.w) * kConfig.c_in;
  if constexpr (kConfig.blocks > 1) {
    wait_for_cluster_begin();
    constexpr int kPixels = S::kProjectGroups * S::kProjectPixels;
    if (threadIdx.x == 0) ptx::mbarrier_arrive_expect(arrived, kConfig.blocks * kPixels * owned_by<S>(rank) * 4);
  }
  wait_for_predecessor();
  patch.start(x, shared + S::kPatchAt);
  ptx::copy_async_wait_all();
  __syncthreads();
  expand.run(a, shared + S::kPatchAt, hidden);
  inverted_simt_cluster::Depthwise<S> depthwise;
  depthwise.load_shared(shared + S::kSharedConstantsAt);
  __syncthreads();
  depthwise.run(a, hidden, filtered);
  __syncthreads();
  project.run(filtered);
  const Finish<S> finish(a, place, rank);
  y += static_cast<std::size_t>(place.n) * static_cast<std::size_t>(a.out_h * a.out_w) * kConfig.c_out;
  if constexpr (kConfig.blocks > 1) {
    ptx::mbarrier_wait(arrived, 0);  // all: no block of a cluster may end while others write to it
  } else {
    __syncthreads();
  }
  finish.run(a, shared, y);
#endif
}

}  // namespace mobicuda::kernels::inverted_simt_early
