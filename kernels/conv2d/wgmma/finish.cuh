// How the sums of conv2d's kernel on wgmma become y.
#pragma once

#include <cuda_fp16.h>

#include "kernels/conv2d/wgmma/shape.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/named_barrier.cuh"

namespace mobicuda::kernels::conv_wgmma {

/// A warp's first row of the tile.
template <class S>
__device__ __forceinline__ int warp_row() {
  const int warp = static_cast<int>(threadIdx.x / 32);
  return warp / 4 * S::kRowBlocks * 64 + warp % 4 * kWarpRows;
}

/// Stores the sums of a warp's rows, of which `first_row` is the first. `pixel_of`: the output pixel of a row, counted
/// from that of the first tile; negative where there is none.
template <class S, int kSums, class PixelOf>
__device__ __forceinline__ void finish_rows(const conv_gemm::Arguments& a, const TilePlace& place, int first_row,
                                            const float (&sums)[S::kRowBlocks][kSums], const PixelOf& pixel_of) {
  const int quad = static_cast<int>(threadIdx.x % 4);
#pragma unroll
  for (int i = 0; i < S::kRowBlocks; ++i) {
    const int row = place.m0 + first_row + i * 64 + ptx::as_int::lane() / 4;
    const int pixels[2] = {pixel_of(row), pixel_of(row + 8)};
#pragma unroll
    for (int block = 0; block < kSums / 4; block += 4) {
      const int n = place.n0 + (block + quad) * 8;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float value[8];
        conv_gemm::gather_quad(reinterpret_cast<const float(*)[4]>(sums[i] + block * 4), half, value);
        if (pixels[half] >= 0 && n < place.n_end)
          conv_gemm::finish_run<8, true>(a, pixels[half], n, place.n_end, value);
      }
    }
  }
}

/// Where the sums lie in the ring that block `rank` of the cluster finishes: four of each thread side by side.
template <class S>
__device__ __forceinline__ int share_offset(int rank, int row_block, int sum) {
  const int four = ((rank * S::kRowBlocks + row_block) * S::kShare + sum) / 4;
  return (four * S::kComputeThreads + static_cast<int>(threadIdx.x)) * static_cast<int>(sizeof(float4));
}

template <class S>
__device__ __forceinline__ void put_shares(const Ring& ring, const float (&sums)[S::kRowBlocks][S::kSums]) {
#pragma unroll
  for (int rank = 0; rank < S::kSplit; ++rank) {
#pragma unroll
    for (int i = 0; i < S::kRowBlocks; ++i) {
#pragma unroll
      for (int sum = 0; sum < S::kShare; sum += 4) {
        const float* const from = sums[i] + rank * S::kShare + sum;
        ptx::store_shared(ring.stages + share_offset<S>(rank, i, sum), make_float4(from[0], from[1], from[2], from[3]));
      }
    }
  }
}

/// What this block finishes: the sums of all blocks of the cluster, in their order. Its own come from shared memory as
/// well, without a branch between the loads.
template <class S>
__device__ __forceinline__ void add_shares(const Ring& ring, float (&whole)[S::kRowBlocks][S::kShare]) {
  const int own = static_cast<int>(blockIdx.x) % S::kSplit;
#pragma unroll
  for (int rank = 0; rank < S::kSplit; ++rank) {
    const std::uint32_t there = ptx::map_to_rank(ring.stages, rank);
#pragma unroll
    for (int i = 0; i < S::kRowBlocks; ++i) {
#pragma unroll
      for (int sum = 0; sum < S::kShare; sum += 4) {
        const float4 part = ptx::load_cluster(there + share_offset<S>(own, i, sum));
        const float parts[4] = {part.x, part.y, part.z, part.w};
#pragma unroll
        for (int e = 0; e < 4; ++e) whole[i][sum + e] = rank == 0 ? parts[e] : whole[i][sum + e] + parts[e];
      }
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

/// Finishes the rows of a group of warps. Each warp writes its own as soon as they are done. `at` is behind the slices.
template <class S>
__device__ __forceinline__ void finish_in_tile(const TileArguments& a, const TilePlace& place, const Ring& ring,
                                               int first_row, const float (&sums)[S::kRowBlocks][S::kSums],
                                               RingPlace at) {
  const bool leads = threadIdx.x % 32 == 0;
#pragma unroll
  for (int panel = 0; panel < S::kPanels; ++panel) {
    const int n = place.n0 + panel * kPanelColumns;
    if (panel > 0 && panel % S::kStagePanels == 0) at.template advance<S>();
    if (panel % S::kStagePanels == 0) ptx::mbarrier_wait(ring.full + at.stage * 8, at.parity);
    const std::uint32_t rows =
        ring.stages + at.stage * S::kStageBytes + panel % S::kStagePanels * S::kTilePanelBytes + first_row * kRowBytes;
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
  if (leads) ptx::copy_out_wait_read<0>();
}

/// Strips of y in shared memory that a warp of a persistent block has for itself.
template <class S>
__device__ __forceinline__ std::uint32_t strips_of(const Ring& ring, unsigned warp) {
  return ring.stages + S::kRingBytes + warp * S::kStrips * kStripBytes;
}

/// The same in strips of shared memory that the warp has for itself, taken in turns, from number `next` on: a strip is
/// written anew when its last copy out has read it. The last copies go on beside the next tile's products.
template <class S>
__device__ __forceinline__ void finish_in_strips(const TileArguments& a, const TilePlace& place, std::uint32_t strips,
                                                 int first_row, const float (&sums)[S::kRowBlocks][S::kSums],
                                                 int& next) {
  const bool leads = threadIdx.x % 32 == 0;
#pragma unroll
  for (int panel = 0; panel < S::kPanels; ++panel) {
    const int n = place.n0 + panel * kPanelColumns;
#pragma unroll
    for (int i = 0; i < S::kRowBlocks; ++i) {
      const int m = place.m0 + first_row + i * 64;
      if (n >= place.n_end || m >= a.m) continue;
      const std::uint32_t rows = strips + next * kStripBytes;
      next = next + 1 == S::kStrips ? 0 : next + 1;
      if (leads) ptx::copy_out_wait_read<S::kStrips - 1>();
      __syncwarp();
      finish_panel(a, n, place.n_end, rows, sums[i] + panel * kPanelColumns / 2);
      ptx::fence_proxy_async();
      __syncwarp();
      if (leads) ptx::copy_box_out(a.result, n - place.group * a.group_out, place.group, m, rows);
    }
  }
}

/// Named barriers of the two groups of warps: the second one's strips are full, and are free again.
inline constexpr int kFull = 1;
inline constexpr int kFree = 2;

/// The larger of the halves of two pixels side by side in a row, finished: pairs of columns, as in finish_panel(), of
/// 16 columns from `block` on. Rounding, bias and clip keep the order, so that the largest of finished values is that
/// of sums. NaN stays.
template <class S>
__device__ __forceinline__ void pool_row(const Arguments& a, int n, int n_end, int panel, int block,
                                         const float (&sums)[S::kRowBlocks][S::kSums], __half2 (&pooled)[4]) {
  const Clip clip{a.activation.lo, a.activation.hi};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int column = n + (block + i / 2) * 8 + ptx::as_int::lane() % 4 * 2;
    float2 bias{};
    if (a.bias != nullptr && column < n_end) bias = *reinterpret_cast<const float2*>(a.bias + column);
    const int at = panel * kPanelColumns / 2 + (block + i / 2) * 4 + i % 2 * 2;
    const auto finish = [&](const float* sum) {
      return __floats2half2_rn(apply(clip, sum[0] + bias.x), apply(clip, sum[1] + bias.y));
    };
    pooled[i] = __hmax2_nan(finish(sums[0] + at), finish(sums[1] + at));
  }
}

/// Finishes a tile whose rows are the quarters of 2x2 pixels: the second group of warps, which has the lower pixels,
/// puts the larger of two side by side into its strips, a panel each; the first group's warps with the same pixels of y
/// join theirs, and write them as finish_in_strips() does. `again`: the block has made a tile before.
template <class S>
__device__ __forceinline__ void finish_pooled(const TileArguments& a, const TilePlace& place, const Ring& ring,
                                              const float (&sums)[S::kRowBlocks][S::kSums], bool again, int& next) {
  const int lane = ptx::as_int::lane();
  const unsigned warp = threadIdx.x / 32 % 4;
  const bool lower = threadIdx.x >= kGroupThreads;
  const std::uint32_t lent = strips_of<S>(ring, 4 + warp) + lane % 16 * kRowBytes;
  const auto packet = [&](int block) { return ((block + lane / 16) ^ (lane & 7)) * 16; };
  if (lower) {
    if (again) ptx::sync_threads_of(kFree, S::kComputeThreads);
#pragma unroll
    for (int panel = 0; panel < S::kPanels; ++panel) {
#pragma unroll
      for (int block = 0; block < kPanelColumns / 8; block += 2) {
        __half2 pooled[4];
        pool_row<S>(a, place.n0 + panel * kPanelColumns, place.n_end, panel, block, sums, pooled);
        std::uint32_t pairs[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) pairs[i] = reinterpret_cast<const std::uint32_t&>(pooled[i]);
        ptx::stmatrix_x4(lent + panel * kStripBytes + packet(block), pairs);
      }
    }
    ptx::arrive_for_threads_of(kFull, S::kComputeThreads);
    return;
  }
  const bool leads = lane == 0;
  const int m = place.m0 + static_cast<int>(warp) * kWarpRows;
  ptx::sync_threads_of(kFull, S::kComputeThreads);
#pragma unroll
  for (int panel = 0; panel < S::kPanels; ++panel) {
    const int n = place.n0 + panel * kPanelColumns;
    if (n >= place.n_end || m >= a.m) continue;
    const std::uint32_t strip = strips_of<S>(ring, warp) + next * kStripBytes;
    next = next + 1 == S::kStrips ? 0 : next + 1;
    if (leads) ptx::copy_out_wait_read<S::kStrips - 1>();
    __syncwarp();
#pragma unroll
    for (int block = 0; block < kPanelColumns / 8; block += 2) {
      __half2 pooled[4];
      pool_row<S>(a, n, place.n_end, panel, block, sums, pooled);
      std::uint32_t pairs[4];
      ptx::ldmatrix_x4(pairs, lent + panel * kStripBytes + packet(block));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const __half2 largest = __hmax2_nan(pooled[i], reinterpret_cast<const __half2&>(pairs[i]));
        pairs[i] = reinterpret_cast<const std::uint32_t&>(largest);
      }
      ptx::stmatrix_x4(strip + lane % 16 * kRowBytes + packet(block), pairs);
    }
    ptx::fence_proxy_async();
    __syncwarp();
    if (leads) ptx::copy_box_out(a.result, n - place.group * a.group_out, place.group, m, strip);
  }
  ptx::arrive_for_threads_of(kFree, S::kComputeThreads);
}

/// Behind a block's last tile: no arrival at a barrier is left over.
template <class S>
__device__ __forceinline__ void end_pooled() {
  if (threadIdx.x >= kGroupThreads) ptx::sync_threads_of(kFree, S::kComputeThreads);
}

}  // namespace mobicuda::kernels::conv_wgmma
