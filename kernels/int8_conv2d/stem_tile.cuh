// First layers with wide windows, of pixels of four bytes: up to eight taps of a row of the window are 32 bytes that
// lie side by side in the image, an instruction's k. A block computes 16 x 16 pixels of y; the part of the image under
// them, x_zero where there is none, lies in shared memory, and so do the weights of 32 channels at a time, in the order
// of the fragments. A warp has four rows of 16 pixels. Shared memory: weights | image.
#pragma once

#include "kernels/int8_conv2d/arguments.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/int8.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::int8_conv {

inline constexpr int kStemTileThreads = 128;
inline constexpr int kStemTileSide = 16;
inline constexpr int kStemTileTaps = 8;  // of a row of the window, at most
inline constexpr int kStemTileChannels = 32;
inline constexpr int kStemTileRowBytes =
    kStemTileTaps * 4 * kStemTileChannels;  // of the weights of a row of the window

/// Pixels of the image under a tile.
struct StemTileImage {
  int rows, columns;

  __host__ __device__ StemTileImage(const Arguments& a, int window_h)
      : rows((kStemTileSide - 1) * a.stride_h + (window_h - 1) * a.dilation_h + 1),
        columns((kStemTileSide - 1) * a.stride_w + kStemTileTaps) {}
};

struct StemTileArguments : Arguments {
  int window_h, window_w;
  int out_h, out_w;
  FastDivision of_tile_row;  ///< tiles of a row of an image
  FastDivision of_tiles;     ///< of an image
  FastDivision of_columns;   ///< pixels of a row of the image under a tile
};

/// Weights of 32 channels from n0 on: for each row of the window and lane those of the columns of four fragments, two
/// words each. Column c of fragment j is channel c / 2 * 8 + 2 j + c % 2: a lane's columns are eight neighbours.
__device__ __forceinline__ void load_stem_weights(const StemTileArguments& a, int n0, std::uint32_t weights) {
  constexpr int kWords = kStemTileRowBytes / 4;
  for (int i = static_cast<int>(threadIdx.x); i < a.window_h * kWords; i += kStemTileThreads) {
    const int lane = i / 8 % 32;
    const int fragment = i / 2 % 4;
    const int kx = i % 2 * 4 + lane % 4;
    const int n = n0 + lane / 8 * 8 + 2 * fragment + lane / 4 % 2;
    const int tap = i / kWords * a.window_w + kx;
    const bool is_there = kx < a.window_w && n < a.columns;
    const std::size_t at = is_there ? static_cast<std::size_t>(n) * static_cast<std::size_t>(a.k) + tap * 4 : 0;
    ptx::store_shared(weights + i * 4, is_there ? __ldg(reinterpret_cast<const unsigned*>(a.w + at)) : 0U);
  }
}

/// The image from (y, x) on.
__device__ __forceinline__ void load_stem_image(const StemTileArguments& a, const StemTileImage& under, int image,
                                                int y, int x, std::uint32_t to) {
  const std::int8_t* const from = a.x + static_cast<std::int64_t>(image) * a.h * a.w_extent * 4;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < under.rows * under.columns; i += kStemTileThreads) {
    std::uint32_t column;
    const int iy = y + static_cast<int>(a.of_columns.divide(static_cast<std::uint32_t>(i), column));
    const int ix = x + static_cast<int>(column);
    const bool inside = is_inside(a, iy, ix);
    const std::int64_t at = inside ? (static_cast<std::int64_t>(iy) * a.w_extent + ix) * 4 : 0;
    ptx::store_shared(to + i * 4, ptx::load_global_or(from + at, inside, a.x_zero));
  }
}

static __global__ void __launch_bounds__(kStemTileThreads, 4) stem_tile_kernel(const StemTileArguments a) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, shared);
  constexpr int kTiles = kStemTileSide / (kStemTileThreads / 32);  // rows of pixels of a warp
  constexpr int kFragments = kStemTileChannels / 8;
  constexpr int kRun = 8;
  const std::uint32_t weights = ptx::shared_address(shared);
  const std::uint32_t pixels = weights + a.window_h * kStemTileRowBytes;
  const StemTileImage under(a, a.window_h);
  std::uint32_t tile;
  std::uint32_t tile_x;
  const auto image = static_cast<int>(a.of_tiles.divide(blockIdx.x, tile));
  const int y0 = static_cast<int>(a.of_tile_row.divide(tile, tile_x)) * kStemTileSide;
  const int x0 = static_cast<int>(tile_x) * kStemTileSide;
  const int lane = ptx::as_int::lane();
  const int first_row = ptx::as_int::warp() * kTiles;

  int n0 = static_cast<int>(blockIdx.y) * kStemTileChannels;
  load_stem_weights(a, n0, weights);
  wait_for_predecessor();
  load_stem_image(a, under, image, y0 * a.stride_h - a.pad_top, x0 * a.stride_w - a.pad_left, pixels);
  const std::uint32_t row_bytes = under.columns * 4;
  const std::uint32_t own = pixels + first_row * a.stride_h * row_bytes + (lane / 4 * a.stride_w + lane % 4) * 4;
  const std::uint32_t below = 8 * a.stride_w * 4;  // the lane's other pixel
  const std::uint32_t next_tile = a.stride_h * row_bytes;
  while (true) {
    __syncthreads();
    std::int32_t sums[kTiles][kFragments][4] = {};
#pragma unroll 1
    for (int ky = 0; ky < a.window_h; ++ky) {
      std::uint32_t b[kFragments * 2];
      const std::uint32_t b_at = weights + ky * kStemTileRowBytes + lane * 32;
      ptx::load_shared_words<4>(b_at, b);
      ptx::load_shared_words<4>(b_at + 16, b + 4);
      const std::uint32_t row = own + ky * a.dilation_h * row_bytes;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        const std::uint32_t at = row + i * next_tile;
        const std::uint32_t words[4] = {
            ptx::load_shared<std::uint32_t>(at), ptx::load_shared<std::uint32_t>(at + below),
            ptx::load_shared<std::uint32_t>(at + 16), ptx::load_shared<std::uint32_t>(at + below + 16)};
#pragma unroll
        for (int j = 0; j < kFragments; ++j) ptx::mma_s8_16x8x32(sums[i][j], words, b[j * 2], b[j * 2 + 1]);
      }
    }
    const int n = n0 + lane % 4 * kRun;
    if (n < a.columns) {
      const auto channels = load_channels<kRun>(a.bias + n, a.multiplier + n);
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int oy = y0 + first_row + i;
          const int ox = x0 + half * 8 + lane / 4;
          std::int32_t run[kRun];
#pragma unroll
          for (int e = 0; e < kRun; ++e) run[e] = sums[i][e / 2][half * 2 + e % 2];
          if (oy < a.out_h && ox < a.out_w)
            finish_run<kRun>(a, (image * a.out_h + oy) * a.out_w + ox, n, run, channels);
        }
      }
    }
    n0 += static_cast<int>(gridDim.y) * kStemTileChannels;
    if (n0 >= a.columns) return;
    __syncthreads();
    load_stem_weights(a, n0, weights);
  }
}

}  // namespace mobicuda::kernels::int8_conv
