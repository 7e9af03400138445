// Pointwise convolution, clip and mean on tiles of kPictures images x kColumns channels: the tile of
// common/block_mma.cuh, whose rows are kPictureRows for each image, those from the last pixel on zeros. A warp owns
// all rows of its image, and adds its clipped results up by shuffles. Shared memory: ring of (W slice, X slice).
#pragma once

#include "kernels/common/block_mma.cuh"
#include "kernels/common/clip.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::pooled_tile {

inline constexpr int kPictures = 2;
inline constexpr int kPictureRows = 64;
inline constexpr int kColumns = 128;

struct TileConfig {
  int bm, bn, bk;
  int warps_m, warps_n, warps_k;
};
using Tile = BlockMma<TileConfig{kPictures * kPictureRows, kColumns, 64, kPictures, 4, 1}>;
inline constexpr int kStages = 3;
inline constexpr int kMinBlocks = 2;
static_assert(Tile::kGroups == 1, "a thread's runs are of the same columns");

inline constexpr int kSlotBytes = kWSliceBytes<Tile> + kXSliceBytes<Tile>;
inline constexpr int kSharedBytes = kStages * kSlotBytes;

struct Arguments {
  int n, pixels, c_in, c;
  int k_slices;
  Clip clip;
};

__device__ __forceinline__ void fill_w(const Arguments& a, const __half* weight, int slice, unsigned char* ring) {
  unsigned char* const slot = ring + slice % kStages * kSlotBytes;
  fill_slice<Tile, kColumns, Tile::kWPeriod, false>(slot, weight, kColumns, a.c_in, slice * Tile::kBk, a.c_in,
                                                    [](int n) { return Tile::w_row(n); });
}

__device__ __forceinline__ void fill_x(const Arguments& a, const __half* x, int first_picture, int slice,
                                       unsigned char* ring) {
  unsigned char* const slot = ring + slice % kStages * kSlotBytes + kWSliceBytes<Tile>;
  const std::size_t picture_elements = static_cast<std::size_t>(a.pixels) * static_cast<std::size_t>(a.c_in);
#pragma unroll
  for (int i = 0; i < kPictures; ++i) {
    const bool is_there = first_picture + i < a.n;
    const __half* const picture = x + static_cast<std::size_t>(is_there ? first_picture + i : 0) * picture_elements;
    fill_slice<Tile, kPictureRows, Tile::kXPeriod, false>(slot + i * kPictureRows * Tile::kRowBytes, picture,
                                                          is_there ? a.pixels : 0, a.c_in, slice * Tile::kBk, a.c_in,
                                                          [](int row) { return row; });
  }
}

__global__ void __launch_bounds__(Tile::kThreads, kMinBlocks)
    // NOLINTNEXTLINE(misc-definitions-in-headers): one source includes this
    pooled_tile_kernel(const Arguments a, const __half* x, const __half* weight, const float* bias, __half* y) {
  constexpr int kRun = Tile::kRun;
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, ring);
  const int first_column = static_cast<int>(blockIdx.x) * kColumns;
  const int first_picture = static_cast<int>(blockIdx.y) * kPictures;
  weight += static_cast<std::size_t>(first_column) * static_cast<std::size_t>(a.c_in);

  constexpr int kAhead = kStages - 1;
  for (int slice = 0; slice < min(kAhead, a.k_slices); ++slice) fill_w(a, weight, slice, ring);
  wait_for_predecessor();
#pragma unroll
  for (int slice = 0; slice < kAhead; ++slice) {
    if (slice < a.k_slices) fill_x(a, x, first_picture, slice, ring);
    ptx::copy_async_commit();
  }

  Tile::Accumulators sums;
#pragma unroll 1
  for (int slice = 0; slice < a.k_slices; ++slice) {
    ptx::copy_async_wait<kAhead - 1>();
    __syncthreads();
    if (slice + kAhead < a.k_slices) {
      fill_w(a, weight, slice + kAhead, ring);
      fill_x(a, x, first_picture, slice + kAhead, ring);
    }
    ptx::copy_async_commit();
    const unsigned char* const slot = ring + slice % kStages * kSlotBytes;
    sums.add(slot + kWSliceBytes<Tile>, slot);
  }

  float total[kRun] = {};
  int in_block = 0;
  int first = 0;
  sums.visit_runs([&](int row, int column, const Packet<float, kRun>& run) {
    in_block = row / kPictureRows;
    first = first_column + column;
    if (row % kPictureRows >= a.pixels) return;
#pragma unroll
    for (int e = 0; e < kRun; ++e) {
      total[e] += apply(a.clip, run.item[e] + (bias != nullptr ? __ldg(bias + first + e) : 0.0F));
    }
  });
#pragma unroll
  for (int distance = 4; distance < 32; distance *= 2) {
#pragma unroll
    for (int e = 0; e < kRun; ++e) total[e] += __shfl_xor_sync(0xFFFFFFFFU, total[e], distance);
  }
  const int picture = first_picture + in_block;
  if (threadIdx.x % 32 >= 4 || picture >= a.n) return;
  Packet<__half, kRun> mean;
#pragma unroll
  for (int e = 0; e < kRun; ++e) mean.item[e] = from_float<__half>(total[e] / static_cast<float>(a.pixels));
  store(y + static_cast<std::size_t>(picture) * static_cast<std::size_t>(a.c) + first, mean);
}

}  // namespace mobicuda::kernels::pooled_tile
