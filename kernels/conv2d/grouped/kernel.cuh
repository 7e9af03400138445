// 3x3 convolution of groups of 4, 8, 16 or 32 channels, as many in as out, with mma.sync (half, float sums), sm_80 and
// newer. A block owns 64 channels and walks over tiles of output pixels; the input window of a tile is copied to one of
// two buffers in shared memory while the other is used. A warp owns 16 of the channels, whose weights stay in registers
// as block-diagonal matrices: the groups of 16 channels share a product, where a weight between two groups is zero.
// Shared memory: two buffers of kMostPixels pixels x 64 channels, 144 bytes a pixel: 8 neighbouring pixels lie in
// different banks, and a tap is a constant distance.
#pragma once

#include "kernels/conv2d/gemm_arguments.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::conv_grouped {

inline constexpr int kThreads = 128;
inline constexpr int kChannels = 64;  ///< of a block
inline constexpr int kPixelBytes = kChannels * 2 + 16;
inline constexpr int kMostPixels = 192;  ///< of a window
inline constexpr int kBufferBytes = kMostPixels * kPixelBytes;
inline constexpr int kSharedBytes = 2 * kBufferBytes;
inline constexpr int kTaps = 9;

struct Arguments : conv_gemm::Arguments {
  int out_h, out_w;
  int rows, columns;  ///< of a tile
  int window_rows, window_columns;
  int tiles;                                   ///< of all images
  FastDivision of_tile_columns, of_tile_rows;  ///< tiles of an image
  FastDivision of_columns, of_window_columns;
};

struct Tile {
  int n, oy, ox;
};

__device__ __forceinline__ Tile tile_at(const Arguments& a, int index) {
  std::uint32_t column;
  std::uint32_t row;
  const std::uint32_t above = a.of_tile_columns.divide(static_cast<std::uint32_t>(index), column);
  const std::uint32_t n = a.of_tile_rows.divide(above, row);
  return {static_cast<int>(n), static_cast<int>(row) * a.rows, static_cast<int>(column) * a.columns};
}

/// Starts to copy the tile's window, zeros outside the image.
__device__ __forceinline__ void copy_window(const Arguments& a, const Tile& tile, int c0, unsigned char* buffer) {
  constexpr int kChunks = kChannels / 8;
  const int chunk = static_cast<int>(threadIdx.x) % kChunks;
  const int y0 = tile.oy * a.stride_h - a.pad_top;
  const int x0 = tile.ox * a.stride_w - a.pad_left;
  const __half* const picture = a.x + static_cast<std::int64_t>(tile.n) * a.h * a.w * a.c_in + c0 + chunk * 8;
  const bool is_channel = c0 + chunk * 8 < a.c_in;
  for (int pixel = static_cast<int>(threadIdx.x) / kChunks; pixel < a.window_rows * a.window_columns;
       pixel += kThreads / kChunks) {
    std::uint32_t column;
    const auto row = static_cast<int>(a.of_window_columns.divide(static_cast<std::uint32_t>(pixel), column));
    const int y = y0 + row;
    const int x = x0 + static_cast<int>(column);
    const bool inside = is_channel && static_cast<unsigned>(y) < static_cast<unsigned>(a.h) &&
                        static_cast<unsigned>(x) < static_cast<unsigned>(a.w);
    const __half* const from = inside ? picture + static_cast<std::int64_t>(y * a.w + x) * a.c_in : a.x;
    ptx::copy_async_cg_128_or_zero(buffer + pixel * kPixelBytes + chunk * 16, from, inside);
  }
}

/// The weights from inputs k, k + 1 to output n of a tap as one word; k and n count from the warp's first channel,
/// which is the first of a group.
template <int kGroup>
__device__ __forceinline__ std::uint32_t load_weights(const Arguments& a, int tap, int first, int k, int n) {
  std::uint32_t word = 0;
  if (k / kGroup != n / kGroup || first + n >= a.c_out) return word;
  const __half* const from =
      a.weight + static_cast<std::int64_t>(tap * kGroup + k % kGroup) * a.weight_pitch + first + n;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const auto bits = ptx::load_global<std::uint16_t>(from + static_cast<std::int64_t>(i) * a.weight_pitch);
    word |= static_cast<std::uint32_t>(bits) << (16 * i);
  }
  return word;
}

/// Weights of 16 outputs from 16 * kSteps inputs: {b0, b1} of 8 outputs, then of the next 8.
template <int kSteps>
using Weights = std::uint32_t[kTaps][kSteps][4];

/// Sums of 16 pixels x 16 channels: of pixels lane / 4 and + 8, channels lane % 4 * 2 and + 1 of each 8. `window` is
/// where this thread's pixel and chunk of the first tap lie.
template <int kSteps>
__device__ __forceinline__ void multiply(float (&sums)[2][4], const Weights<kSteps>& weights,
                                         const unsigned char* window, int window_columns) {
#pragma unroll
  for (int ky = 0; ky < 3; ++ky) {
    const unsigned char* const row = window + ky * window_columns * kPixelBytes;
#pragma unroll
    for (int kx = 0; kx < 3; ++kx) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const std::uint32_t(&b)[4] = weights[ky * 3 + kx][step];
        std::uint32_t values[4];
        ptx::ldmatrix_x4(values, row + kx * kPixelBytes + step * 32);
        ptx::mma_16x8x16(sums[0], values, b[0], b[1]);
        ptx::mma_16x8x16(sums[1], values, b[2], b[3]);
      }
    }
  }
}

/// Stores a thread's sums of pixel m from channel n on, which is the warp's first: of two channels of the first 8 and
/// of the second. Neighbouring threads exchange pairs, so that each has four channels.
__device__ __forceinline__ void store_sums(const Arguments& a, std::int64_t m, bool inside, int n, float2 first,
                                           float2 second) {
  const int quad = static_cast<int>(threadIdx.x % 4);
  const bool is_odd = quad % 2 != 0;
  float2 other = is_odd ? first : second;
  other.x = __shfl_xor_sync(~0U, other.x, 1);
  other.y = __shfl_xor_sync(~0U, other.y, 1);
  const float2 low = is_odd ? other : first;
  const float2 high = is_odd ? second : other;
  float value[4] = {low.x, low.y, high.x, high.y};
  const int own = n + (is_odd ? 8 : 0) + quad / 2 * 4;
  if (inside && own < a.c_out) conv_gemm::finish_run<4>(a, static_cast<int>(m), own, a.c_out, value);
}

template <int kGroup>
__global__ void __launch_bounds__(kThreads) grouped_kernel(const __grid_constant__ Arguments a) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, shared);
  const int lane = ptx::as_int::lane();
  const int warp = ptx::as_int::warp();
  const int c0 = static_cast<int>(blockIdx.x) * kChannels;
  constexpr int kSteps = kGroup > 16 ? 2 : 1;
  const int n0 = c0 + warp * 16;
  const int first_in = warp / kSteps * (kSteps * 16);  // of the inputs of these outputs
  Weights<kSteps> weights;
#pragma unroll
  for (int tap = 0; tap < kTaps; ++tap) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int k = step * 16 + i % 2 * 8 + lane % 4 * 2;
        const int n = warp * 16 - first_in + i / 2 * 8 + lane / 4;
        weights[tap][step][i] = load_weights<kGroup>(a, tap, c0 + first_in, k, n);
      }
    }
  }
  wait_for_predecessor();

  const int own_chunk = first_in * 2 + lane / 16 * 16;  // in bytes
  const int pixels = a.rows * a.columns;
  int index = static_cast<int>(blockIdx.y);
  Tile tile = tile_at(a, index);
  copy_window(a, tile, c0, shared);
  ptx::copy_async_commit();
  int buffer = 0;
  for (; index < a.tiles; index += static_cast<int>(gridDim.y)) {
    const int next = index + static_cast<int>(gridDim.y);
    const Tile next_tile = tile_at(a, next < a.tiles ? next : index);
    if (next < a.tiles) copy_window(a, next_tile, c0, shared + (buffer ^ 1) * kBufferBytes);
    ptx::copy_async_commit();
    ptx::copy_async_wait<1>();
    __syncthreads();
    for (int first = 0; first < pixels; first += 16) {
      std::uint32_t column;
      const int own = min(first + lane % 16, pixels - 1);
      const auto row = static_cast<int>(a.of_columns.divide(static_cast<std::uint32_t>(own), column));
      const int pixel = row * a.stride_h * a.window_columns + static_cast<int>(column) * a.stride_w;
      float sums[2][4] = {};
      multiply<kSteps>(sums, weights, shared + buffer * kBufferBytes + pixel * kPixelBytes + own_chunk,
                       a.window_columns);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = first + half * 8 + lane / 4;
        const auto y = static_cast<int>(a.of_columns.divide(static_cast<std::uint32_t>(at), column)) + tile.oy;
        const int x = static_cast<int>(column) + tile.ox;
        const std::int64_t m = (static_cast<std::int64_t>(tile.n) * a.out_h + y) * a.out_w + x;
        store_sums(a, m, at < pixels && y < a.out_h && x < a.out_w, n0,
                   make_float2(sums[0][half * 2], sums[0][half * 2 + 1]),
                   make_float2(sums[1][half * 2], sums[1][half * 2 + 1]));
      }
    }
    __syncthreads();  // the buffer is free
    tile = next_tile;
    buffer ^= 1;
  }
}

}  // namespace mobicuda::kernels::conv_grouped
