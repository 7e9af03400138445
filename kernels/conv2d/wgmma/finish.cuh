// How the sums of conv2d's kernel on wgmma become y.
#pragma once

#include <cuda_fp16.h>

#include "kernels/conv2d/wgmma/shape.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mbarrier.cuh"

namespace mobicuda::kernels::conv_wgmma {

/// Stores the sums of 64 rows, of which m is the thread's first.
template <int kSums>
__device__ __forceinline__ void finish_rows(const Arguments& a, const TilePlace& place, int m,
                                            const float (&sums)[kSums]) {
  const int quad = static_cast<int>(threadIdx.x % 4);
#pragma unroll
  for (int block = 0; block < kSums / 4; block += 4) {
    const int n = place.n0 + (block + quad) * 8;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float value[8];
      conv_gemm::gather_quad(reinterpret_cast<const float(*)[4]>(sums + block * 4), half, value);
      if (m + half * 8 < a.m && n < place.n_end) conv_gemm::finish_run<8, true>(a, m + half * 8, n, place.n_end, value);
    }
  }
}

/// For the thread that fills the ring: brings what is added to the tile into the stages behind those of the slices.
/// Where nothing is added it only says that they are free.
template <class S>
__device__ __forceinline__ void fill_tile(const TileArguments& a, const TilePlace& place, const Ring& ring) {
#pragma unroll
  for (int i = 0; i < S::kTileStages; ++i) {
    const int step = a.slices + i;
    const int stage = step % S::kStages;
    const std::uint32_t full = ring.full + stage * 8;
    constexpr int kLast = S::kPanels - (S::kTileStages - 1) * S::kStagePanels;
    const int panels = i + 1 < S::kTileStages ? S::kStagePanels : kLast;
    if (step >= S::kStages)
      ptx::mbarrier_wait(ring.empty + stage * 8, static_cast<std::uint32_t>(step / S::kStages - 1) & 1U);
    ptx::mbarrier_arrive_expect(full, a.residual == nullptr ? 0 : panels * S::kTilePanelBytes);
    if (a.residual == nullptr) continue;
    for (int panel = 0; panel < panels; ++panel) {
      const int column = place.n0 - place.group * a.group_out + (i * S::kStagePanels + panel) * kPanelColumns;
      ptx::copy_box<1>(ring.stages + stage * S::kStageBytes + panel * S::kTilePanelBytes, a.added, column, place.group,
                       place.m0, full);
    }
  }
}

/// Finishes 16 rows x 64 columns, from n on, of a warp in their place in shared memory. A thread has pairs of columns
/// of two rows, as the sums are; four blocks of 8 x 8 are moved at a time.
__device__ __forceinline__ void finish_panel(const Arguments& a, int n, int n_end, std::uint32_t rows,
                                             const float* sums) {
  const int lane = ptx::as_int::lane();
  const std::uint32_t row = rows + lane % 16 * kRowBytes;
#pragma unroll
  for (int block = 0; block < kPanelColumns / 8; block += 2) {
    const std::uint32_t at = row + ((block + lane / 16) ^ (lane & 7)) * 16;
    float2 bias[2] = {};
    std::uint32_t pairs[4] = {};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = n + (block + i) * 8 + lane % 4 * 2;
      if (a.bias != nullptr && column < n_end) bias[i] = *reinterpret_cast<const float2*>(a.bias + column);
    }
    if (a.residual != nullptr) ptx::ldmatrix_x4(pairs, at);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* const sum = sums + (block + i / 2) * 4 + i % 2 * 2;
      const float2 added = __half22float2(reinterpret_cast<const __half2&>(pairs[i]));
      const Clip clip{a.activation.lo, a.activation.hi};
      const __half2 result = __floats2half2_rn(apply(clip, sum[0] + (bias[i / 2].x + added.x)),
                                               apply(clip, sum[1] + (bias[i / 2].y + added.y)));
      pairs[i] = reinterpret_cast<const std::uint32_t&>(result);
    }
    ptx::stmatrix_x4(at, pairs);
  }
}

/// Finishes the rows of a group of warps. Each warp writes its own as soon as they are done. `stage` and `parity` are
/// those of the step behind the slices.
template <class S>
__device__ __forceinline__ void finish_in_tile(const TileArguments& a, const TilePlace& place, const Ring& ring,
                                               int first_row, const float (&sums)[S::kRowBlocks][S::kSums], int stage,
                                               std::uint32_t parity) {
  const bool leads = threadIdx.x % 32 == 0;
#pragma unroll
  for (int panel = 0; panel < S::kPanels; ++panel) {
    const int n = place.n0 + panel * kPanelColumns;
    if (panel > 0 && panel % S::kStagePanels == 0 && ++stage == S::kStages) {
      stage = 0;
      parity ^= 1U;
    }
    if (panel % S::kStagePanels == 0) ptx::mbarrier_wait(ring.full + stage * 8, parity);
    const std::uint32_t rows =
        ring.stages + stage * S::kStageBytes + panel % S::kStagePanels * S::kTilePanelBytes + first_row * kRowBytes;
#pragma unroll
    for (int i = 0; i < S::kRowBlocks; ++i) {
      const int m = place.m0 + first_row + i * 64;
      if (n >= place.n_end || m >= a.m) continue;
      finish_panel(a, n, place.n_end, rows + i * 64 * kRowBytes, sums[i] + panel * kPanelColumns / 2);
      ptx::fence_proxy_async();
      __syncwarp();
      if (leads) ptx::copy_box_out(a.result, n - place.group * a.group_out, place.group, m, rows + i * 64 * kRowBytes);
    }
  }
  if (leads) ptx::copy_out_wait_read();
}

}  // namespace mobicuda::kernels::conv_wgmma
