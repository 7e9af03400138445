// An inverted residual block for few images, of halves or of split products: a tile of up to 8 output pixels is the
// work of a cluster, whose blocks share the hidden channels and keep the weights of theirs.
//
// The patch of the input goes to shared memory. A warp expands units of 16 hidden channels: mma with the weights as A,
// the patch as B. Columns are dealt so that lane % 4 holds one row of the patch for the channel pair lane / 4; odd rows
// lie mirrored, so that both lanes of a pair keep sums of the same index. Depthwise is then a row of products in each
// lane and two exchanges. Its results pass through shared memory to project, whose warps share (output channels,
// hidden channels) of the block. Partial sums go to the block of the cluster that owns the output channels, which adds
// them in a fixed order. sm_90 and newer.
#pragma once

#include "kernels/inverted_residual/cluster_finish.cuh"
#include "kernels/inverted_residual/cluster_projection.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::inverted_cluster {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/// Patch and Unit: those of patch.cuh and stages.cuh, for half, or of the same form.
template <class S, class Patch, class Unit>
__device__ __forceinline__ void run_cluster(const typename S::Arguments& a, const typename S::Element* x,
                                            const unsigned char* packed, typename S::Element* y) {
  constexpr auto kConfig = S::kConfig;
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, dynamic_shared);

  std::uint32_t shared = ptx::shared_address(dynamic_shared);
  ptx::pin(shared);
  const int rank = static_cast<int>(blockIdx.x % kConfig.blocks);
  const std::uint32_t clusters = gridDim.x / kConfig.blocks;
  const int owned = (S::kFragmentsM - rank + kConfig.blocks - 1) / kConfig.blocks;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(shared, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_init(shared + kBarrierBytes, 1);
    ptx::fence_mbarrier_init();
  }
  // Weights are asked for first: nothing passes the arrival, a branch, that is computed behind it. Large
  // clusters arrive first: which order is faster for them was not measured.
  constexpr bool kArrivesFirst = kConfig.blocks > kPortableBlocks;
  if constexpr (kArrivesFirst) arrive_at_cluster_begin();

  // Warps past the last of all units repeat unit 0: what project multiplies by zero is finite where y is.
  const int first_unit = rank * S::kBlockUnits;
  Unit unit;
  unit.load(packed, first_unit + warp() < S::kUnits ? first_unit + warp() : 0);
  Projection<S> projection(packed, rank, shared);
  if constexpr (!kArrivesFirst) arrive_at_cluster_begin();
  Finish<S> finish(a, rank + warp() * kConfig.blocks, packed, shared);
  std::uint32_t filtered = shared + S::kFilteredAt + warp() * (S::kHalves * kColumns * 32);
  ptx::pin(filtered);

  std::uint32_t tile = blockIdx.x / kConfig.blocks;
  Place place = locate<S>(a, tile);
  Patch patch(shared, packed);
  patch.aim(a, place, x);
  Masks<S> masks;
  masks.set(a, place);
  finish.aim(a, place);
  unit.arrange(a);
  wait_for_cluster_begin();
  wait_for_predecessor();
  patch.start();
  finish.start(a, x);
#pragma unroll 1
  for (int step = 0; tile < a.tiles; ++step) {
    const int buffer = step % 2;
    const std::uint32_t arrived = shared + buffer * kBarrierBytes;
    if (threadIdx.x == 0) ptx::mbarrier_arrive_expect(arrived, owned * S::kSlots * kFragmentBytes);
    float sums[S::kPatches][4];
    unit.begin(sums);
    patch.land();
    __syncthreads();
    if (warp() < S::kBlockUnits) {
      unit.expand(patch, sums);
      unit.depthwise(a, sums, masks, filtered + buffer * S::kFilteredBytes);
    }
    __syncthreads();
    projection.run(buffer, arrived);
    // While the sums are on their way.
    tile += clusters;
    const bool more = tile < a.tiles;
    if (more) {
      place = locate<S>(a, tile);
      patch.aim(a, place, x);
      patch.start();
      masks.set(a, place);
    }
    if (warp() < owned) {
      ptx::mbarrier_wait(arrived, static_cast<std::uint32_t>(step / 2 % 2));
      finish.run(a, buffer, y);
    }
    if (more) {
      finish.aim(a, place);
      finish.start(a, x);
    }
  }
}

#endif

}  // namespace mobicuda::kernels::inverted_cluster
