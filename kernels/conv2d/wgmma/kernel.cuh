// Convolution as an implicit matrix product with wgmma (half, float sums). A block computes a tile of kBm output pixels
// x kBn channels of one group. One thread fills a ring in shared memory by tensor copies: a slice of A is 64 channels
// of kBm windows at one tap, as the copy engine gathers them from the image; a slice of B is 64 rows of the packed
// weights. Two groups of four warps have half of the rows each. The tile of y may pass through shared memory:
// finish.cuh. Shared memory: the ring, then its barriers; at the end the tile of y in the ring.
#pragma once

#include "kernels/conv2d/wgmma/finish.cuh"
#include "kernels/conv2d/wgmma/shape.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace mobicuda::kernels::conv_wgmma {

template <class S>
__device__ __forceinline__ void copy_weights(const Arguments& a, const TilePlace& place, const Ring& ring, int stage,
                                             int slice) {
  const int tap = slice / a.tap_slices;
  const int ci = (slice - tap * a.tap_slices) * kSliceK;
  const std::uint32_t full = ring.full + stage * 8;
  const std::uint32_t to = ring.stages + stage * S::kStageBytes + S::kABytes;
  ptx::mbarrier_arrive_expect(full, S::kStageBytes);
#pragma unroll
  for (int panel = 0; panel < S::kPanels; ++panel) {
    ptx::copy_box<1>(to + panel * S::kPanelBytes, a.weights, place.n0 + panel * kPanelColumns, ci, tap, full);
  }
}

/// What the thread that fills the ring does.
template <class S>
__device__ __forceinline__ void fill(const typename S::Arguments& a, const TilePlace& place, const Ring& ring) {
  std::uint32_t pixel;
  std::uint32_t ox;
  const auto n = static_cast<int>(a.of_picture.divide(static_cast<std::uint32_t>(place.m0), pixel));
  const auto oy = static_cast<int>(a.of_row.divide(pixel, ox));
  const int y = oy * a.stride_h - a.pad_top;
  const int x = static_cast<int>(ox) * a.stride_w - a.pad_left;
  const auto copy_a = [&](int stage, int step) {
    const int tap = step / a.tap_slices;
    const int ci = (step - tap * a.tap_slices) * kSliceK;
    const int ky = tap / a.kernel_w;
    const int kx = tap - ky * a.kernel_w;
    ptx::copy_im2col(ring.stages + stage * S::kStageBytes, a.pixels, place.group * a.group_in + ci, x, y, n,
                     kx * a.dilation_w, ky * a.dilation_h, ring.full + stage * 8);
  };
  const int early = min(S::kStages, a.slices);
#pragma unroll 1
  for (int step = 0; step < early; ++step) copy_weights<S>(a, place, ring, step, step);
  wait_for_predecessor();
#pragma unroll 1
  for (int step = 0; step < early; ++step) copy_a(step, step);
  int stage = 0;
  std::uint32_t parity = 0;
#pragma unroll 1
  for (int step = early; step < a.slices; ++step) {
    ptx::mbarrier_wait(ring.empty + stage * 8, parity);
    copy_weights<S>(a, place, ring, stage, step);
    copy_a(stage, step);
    if (++stage == S::kStages) {
      stage = 0;
      parity ^= 1U;
    }
  }
  if constexpr (S::kTile) fill_tile<S>(a, place, ring);
}

/// What the groups of warps do.
template <class S>
__device__ __forceinline__ void multiply(const typename S::Arguments& a, const TilePlace& place, const Ring& ring) {
  constexpr std::uint32_t kNextPanel = S::kPanelBytes / 16;
  const int group = static_cast<int>(threadIdx.x / kGroupThreads);
  const int lane = ptx::as_int::lane();
  const std::uint32_t own_rows = ring.stages + group * S::kRowBlocks * 64 * kRowBytes;
  float sums[S::kRowBlocks][S::kSums];
  int stage = 0;
  int before = 0;
  std::uint32_t parity = 0;
#pragma unroll
  for (int i = 0; i < S::kRowBlocks; ++i) ptx::pin_accumulators(sums[i]);
#pragma unroll 1
  for (int step = 0; step < a.slices; ++step) {
    ptx::mbarrier_wait(ring.full + stage * 8, parity);
    const std::uint32_t rows = (own_rows + stage * S::kStageBytes) >> 4U | 1U << 16U;
    const std::uint32_t columns = (ring.stages + stage * S::kStageBytes + S::kABytes) >> 4U | kNextPanel << 16U;
    ptx::wgmma_fence();
#pragma unroll
    for (int k16 = 0; k16 < kSliceK / 16; ++k16) {
#pragma unroll
      for (int i = 0; i < S::kRowBlocks; ++i) {
        ptx::start_wgmma_transposed_b(sums[i], rows + (i * 64 * kRowBytes + k16 * 32) / 16,
                                      columns + k16 * 16 * kRowBytes / 16, step + k16 > 0 ? 1 : 0);
      }
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();
    if (step > 0 && lane == 0) ptx::mbarrier_arrive(ring.empty + before * 8);
    before = stage;
    if (++stage == S::kStages) {
      stage = 0;
      parity ^= 1U;
    }
  }
  ptx::wgmma_wait<0>();
#pragma unroll
  for (int i = 0; i < S::kRowBlocks; ++i) ptx::pin_accumulators(sums[i]);
  const int warp_row = group * S::kRowBlocks * 64 + static_cast<int>(threadIdx.x % kGroupThreads / 32) * kWarpRows;
  if constexpr (S::kTile) {
    finish_in_tile<S>(a, place, ring, warp_row, sums, stage, parity);
  } else {
#pragma unroll
    for (int i = 0; i < S::kRowBlocks; ++i) finish_rows(a, place, place.m0 + warp_row + i * 64 + lane / 4, sums[i]);
  }
}

template <class S>
__global__ void __launch_bounds__(kBlockThreads, S::kMinBlocks)
    wgmma_kernel(const __grid_constant__ typename S::Arguments a) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 1024, shared);
  const std::uint32_t stages = ptx::shared_address(shared);
  const std::uint32_t full = stages + S::kRingBytes;
  const Ring ring{stages, full, full + S::kStages * 8};
  const TilePlace place = conv_gemm::place_of<S::kBm, S::kBn>(a, static_cast<int>(blockIdx.x));
  if (threadIdx.x == kGroups * kGroupThreads) {
    ptx::prefetch_tensor_map(a.weights);
    ptx::prefetch_tensor_map(a.pixels);
    if constexpr (S::kTile) {
      ptx::prefetch_tensor_map(a.result);
      if (a.residual != nullptr) ptx::prefetch_tensor_map(a.added);
    }
    for (int i = 0; i < S::kStages; ++i) {
      ptx::mbarrier_init(ring.full + i * 8, 1);
      ptx::mbarrier_init(ring.empty + i * 8, kGroups * 4);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == kGroups * kGroupThreads) {
    fill<S>(a, place, ring);
  } else {
    wait_for_predecessor();
    if (threadIdx.x < kGroups * kGroupThreads) multiply<S>(a, place, ring);
  }
}

}  // namespace mobicuda::kernels::conv_wgmma
