// An inverted residual block in exact float for few images: a tile of output pixels is the work of a cluster, whose
// blocks share the hidden channels and keep the weights of theirs in registers.
//
// Eight neighbouring lanes, a unit, have some output channels of a 1x1 convolution and an eighth of its products each;
// their sums meet by exchanges between lanes, which leave each lane with the sum of one channel. So a value of the
// input that is read from shared memory meets 8 weights (or 4), and each weight is read once. Depthwise lies between
// the two, in shared memory. Sums over the hidden channels of a block go to the block of the cluster that owns the
// output channel, which adds them in the order of the blocks. sm_90 and newer.
#pragma once

#include "kernels/inverted_residual/simt_cluster/stages.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::inverted_simt_cluster {

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kConfig.min_blocks)
    cluster_kernel(const Arguments a, const float* x, const float* packed, float* y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr Config kConfig = S::kConfig;
  MOBICUDA_DYNAMIC_SHARED(float, 128, shared_floats);
  float* const shared = shared_floats;
  float* const hidden = shared + S::kHiddenAt;
  float* const filtered = shared + S::kFilteredAt;
  const std::uint32_t arrived = ptx::shared_address(shared);
  const int rank = static_cast<int>(blockIdx.x % kConfig.blocks);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(arrived, 1);
    ptx::fence_mbarrier_init();
  }

  const float* const slice = packed + kConfig.c_out + rank * S::kSliceFloats;
  Expand<S> expand;
  expand.load(slice);
  Depthwise<S> depthwise;
  depthwise.load(slice + S::kExpandFloats);
  Project<S> project(rank, arrived);
  if constexpr (kConfig.early != 0) project.load(slice);
  arrive_at_cluster_begin();  // behind the loads, which would else wait for all that is computed before the wait
  const Place place = locate<S>(a, blockIdx.x / kConfig.blocks);
  expand.aim(a, place);
  Patch<S> patch;
  patch.aim(a, place, x);
  Finish<S> finish(a, place, rank, packed);
  fill_with_zeros<S>(hidden);
  wait_for_cluster_begin();
  if (threadIdx.x == 0) {
    const int owned = min(S::kOwned, kConfig.c_out - rank * S::kOwned);
    ptx::mbarrier_arrive_expect(arrived, kConfig.blocks * S::kOutPixels * owned * 4);
  }
  wait_for_predecessor();
  patch.start(shared + S::kPatchAt);
  finish.start(a, x);
  ptx::copy_async_wait_all();
  __syncthreads();
  expand.run(a, place, shared + S::kPatchAt, hidden);
  if constexpr (kConfig.early == 0) project.load(slice);
  __syncthreads();
  depthwise.run(a, hidden, filtered);
  __syncthreads();
  project.run(filtered);
  finish.run(a, arrived, shared + S::kPartialAt, y);
#endif
}

}  // namespace mobicuda::kernels::inverted_simt_cluster
