// A network's first convolution with mma.sync (half, float sums), sm_80 and newer: up to 4 channels in float or bytes
// and any layout, any window and stride. The input is rounded to half. A block owns 8 * kBlocksN channels, whose
// weights stay in shared memory, and walks over tiles of kRows x 16 output pixels; a warp has two rows of a tile. A
// tile's input window is staged as half with 4 channels a pixel, so that the sum over a row of the window runs along
// contiguous memory: k counts rows of the window, columns rounded up to 4, and 4 channels. Shared memory: weights (k, 8
// * kBlocksN), swizzled chunks, then the window.
#pragma once

#include "kernels/common/swizzle.cuh"
#include "kernels/conv2d/gemm_arguments.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::conv_first {

inline constexpr int kWarps = 4;
inline constexpr int kThreads = kWarps * 32;
inline constexpr int kRows = kWarps * 2;
inline constexpr int kColumns = 16;
inline constexpr int kMostIn = 4;
inline constexpr int kPixelBytes = kMostIn * 2;
inline constexpr int kStepColumns = 4;  ///< of the window, in a product

struct Arguments : conv_gemm::Arguments {
  int out_h, out_w, kernel_h, kernel_w;
  int row_steps;                    ///< products of a row of the window
  int window_rows, window_columns;  ///< of a tile, columns rounded up for the last product
  int tiles;                        ///< of all images
  FastDivision of_tile_columns, of_tile_rows;
  FastDivision of_window_columns;
  std::int64_t x_picture;
  int x_pixel, x_channel;
  float scale[kMostIn], shift[kMostIn];
};

__host__ __device__ constexpr int weight_bytes(int kernel_h, int row_steps, int channels) {
  return kernel_h * row_steps * 16 * channels * 2;
}

/// Weights to shared memory, zeros where a step has no column or channel.
template <int kBlocksN>
__device__ __forceinline__ void stage_weights(const Arguments& a, int n0, unsigned char* shared) {
  constexpr int kChunks = kBlocksN;
  const int rows = a.kernel_h * a.row_steps * 16;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kChunks; i += kThreads) {
    const int row = i / kChunks;
    const int chunk = i - row * kChunks;
    const int ky = row / (a.row_steps * 16);
    const int kx = row / kMostIn - ky * a.row_steps * kStepColumns;
    const int ci = row % kMostIn;
    const int n = n0 + chunk * 8;
    const bool inside = kx < a.kernel_w && ci < a.c_in && n < a.c_out;
    const std::int64_t from = (static_cast<std::int64_t>(ky * a.kernel_w + kx) * a.c_in + ci) * a.weight_pitch + n;
    ptx::copy_async_cg_128_or_zero(shared + swizzled_offset<kChunks * 16>(row, chunk),
                                   inside ? a.weight + from : a.weight, inside);
  }
  ptx::copy_async_commit();
}

/// A tile's input as half, zeros outside the image.
template <class X>
__device__ __forceinline__ void stage_window(const Arguments& a, const X* picture, int y0, int x0,
                                             unsigned char* window) {
  for (int i = static_cast<int>(threadIdx.x); i < a.window_rows * a.window_columns; i += kThreads) {
    std::uint32_t column;
    const auto row = static_cast<int>(a.of_window_columns.divide(static_cast<std::uint32_t>(i), column));
    const int y = y0 + row;
    const int x = x0 + static_cast<int>(column);
    const bool inside =
        static_cast<unsigned>(y) < static_cast<unsigned>(a.h) && static_cast<unsigned>(x) < static_cast<unsigned>(a.w);
    const X* const pixel = picture + static_cast<std::int64_t>(y * a.w + x) * a.x_pixel;
    Packet<__half, kMostIn> values;
#pragma unroll
    for (int ci = 0; ci < kMostIn; ++ci) {
      float value = 0.0F;
      if (inside && ci < a.c_in) {
        value = static_cast<float>(pixel[static_cast<std::int64_t>(ci) * a.x_channel]);
        if constexpr (std::is_same_v<X, std::uint8_t>) value = fmaf(value, a.scale[ci], a.shift[ci]);
      }
      values.item[ci] = __float2half_rn(value);
    }
    store(reinterpret_cast<__half*>(window + i * kPixelBytes), values);
  }
}

template <int kBlocksN>
using Sums = float[2][kBlocksN][4];

/// Sums of a warp's two rows of 16 pixels. `pixel` is where this thread's values of the first row begin.
template <int kBlocksN>
__device__ __forceinline__ void multiply(const Arguments& a, Sums<kBlocksN>& sums, const unsigned char* weights,
                                         const unsigned char* pixel) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int row_bytes = a.window_columns * kPixelBytes;
  const int column = lane % 4 / 2;  // of the thread's first values of a step; the others are 2 further
  int k = 0;
  for (int ky = 0; ky < a.kernel_h; ++ky) {
    for (int step = 0; step < a.row_steps; ++step, k += 16) {
      std::uint32_t b[kBlocksN / 2][4];
#pragma unroll
      for (int j = 0; j < kBlocksN / 2; ++j) {
        ptx::ldmatrix_x4_trans(b[j], weights + swizzled_offset<kBlocksN * 16>(k + lane % 16, j * 2 + lane / 16));
      }
      // Columns behind the window have zero weights, but infinity times zero is not zero.
      const int kx = step * kStepColumns + column;
      const bool has_first = kx < a.kernel_w;
      const bool has_second = kx + 2 < a.kernel_w;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const unsigned char* const from = pixel + (i * a.stride_h + ky) * row_bytes + step * kStepColumns * kPixelBytes;
        std::uint32_t values[4];
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          const int further = part % 2 * 8 * a.stride_w + part / 2 * 2;
          const bool has = part < 2 ? has_first : has_second;
          values[part] = has ? *reinterpret_cast<const std::uint32_t*>(from + further * kPixelBytes) : 0;
        }
#pragma unroll
        for (int j = 0; j < kBlocksN; ++j) {
          ptx::mma_16x8x16(sums[i][j], values, b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
      }
    }
  }
}

template <class X, int kBlocksN>
__global__ void __launch_bounds__(kThreads) first_kernel(const __grid_constant__ Arguments a, const X* x) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, shared);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int n0 = static_cast<int>(blockIdx.x) * kBlocksN * 8;
  unsigned char* const window = shared + weight_bytes(a.kernel_h, a.row_steps, kBlocksN * 8);
  stage_weights<kBlocksN>(a, n0, shared);
  wait_for_predecessor();
  const unsigned char* const pixel =
      window + ((warp * 2 * a.stride_h * a.window_columns) + lane / 4 * a.stride_w) * kPixelBytes + lane % 4 * 4;
  for (int index = static_cast<int>(blockIdx.y); index < a.tiles; index += static_cast<int>(gridDim.y)) {
    std::uint32_t tile_x;
    std::uint32_t tile_y;
    const std::uint32_t above = a.of_tile_columns.divide(static_cast<std::uint32_t>(index), tile_x);
    const std::uint32_t n = a.of_tile_rows.divide(above, tile_y);
    const int oy0 = static_cast<int>(tile_y) * kRows;
    const int ox0 = static_cast<int>(tile_x) * kColumns;
    stage_window(a, x + static_cast<std::int64_t>(n) * a.x_picture, oy0 * a.stride_h - a.pad_top,
                 ox0 * a.stride_w - a.pad_left, window);
    ptx::copy_async_wait<0>();
    __syncthreads();
    Sums<kBlocksN> sums = {};
    multiply<kBlocksN>(a, sums, shared, pixel);
    __syncthreads();  // the window is free
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int y = oy0 + warp * 2 + i;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int ox = ox0 + half * 8 + lane / 4;
        const std::int64_t m = (static_cast<std::int64_t>(n) * a.out_h + y) * a.out_w + ox;
        const bool inside = y < a.out_h && ox < a.out_w;
#pragma unroll
        for (int block = 0; block < kBlocksN; block += 4) {
          float value[8];
          conv_gemm::gather_quad(sums[i] + block, half, value);
          const int channel = n0 + (block + lane % 4) * 8;
          if (inside && channel < a.c_out) {
            conv_gemm::finish_run<8>(a, static_cast<int>(m), channel, a.c_out, value);
          }
        }
      }
    }
  }
}

}  // namespace mobicuda::kernels::conv_first
