// A network's first convolution with mma.sync (half, float sums), sm_80 and newer: up to 4 channels in float or bytes
// and any layout, any window and stride. The input is rounded to half. A block owns some channels, whose weights stay
// in shared memory, and walks over tiles of kRows x 16 output pixels. A tile's input window is staged as half with 4
// channels a pixel, so that the sum over a row of the window runs along contiguous memory: k counts rows of the window,
// columns rounded up to 4, and 4 channels. There are two windows: while a tile is multiplied, the input of the next one
// comes into registers, a few pixels a thread at a time, and goes on to the other window.
//
// Shared memory: weights (k, channels), the two windows, a row of pixels of y for each warp, bias.
#pragma once

#include "kernels/conv2d/gemm_arguments.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/half2.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/load_word.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::conv_first {

inline constexpr int kWarpRows = 2;     ///< of a tile, that a warp has
inline constexpr int kWarpsOfTile = 4;  ///< one below the other
inline constexpr int kRows = kWarpsOfTile * kWarpRows;
inline constexpr int kColumns = 16;
inline constexpr int kMostIn = 4;
inline constexpr int kPixelBytes = kMostIn * 2;
inline constexpr int kStepColumns = 4;  ///< of the window, in a product
inline constexpr int kStepBytes = kStepColumns * kPixelBytes;

/// A warp has kBlocksN_ blocks of 8 channels, a block kWarpsN_ such warps beside each other; an SM has registers for
/// kResident_ blocks.
template <int kBlocksN_, int kWarpsN_, int kResident_>
struct Shape {
  static constexpr int kResident = kResident_;
  static constexpr int kBlocksN = kBlocksN_;
  static constexpr int kWarpChannels = kBlocksN * 8;
  static constexpr int kChannels = kWarpChannels * kWarpsN_;
  static constexpr int kWarps = kWarpsOfTile * kWarpsN_;
  static constexpr int kThreads = kWarps * 32;
  // Rows in shared memory have an odd number of 16 bytes, so that 8 of them one below the other lie in different banks.
  static constexpr int kWeightPitch = kChannels * 2 + 16;
  static constexpr int kOutPitch = kWarpChannels * 2 + 16;
  static constexpr int kOutBytes = kColumns * kOutPitch;  ///< of a warp
};

struct Arguments : conv_gemm::Arguments {
  int out_h, out_w, kernel_h, kernel_w;
  int row_steps;                      ///< products of a row of the window
  int window_columns, window_pixels;  ///< of a tile, columns rounded up for the last product
  int weight_bytes, window_bytes;     ///< of shared memory
  int tiles;                          ///< of all images
  FastDivision of_tile_columns, of_tile_rows;
  FastDivision of_window_columns, of_row_steps;
  std::int64_t x_picture;
  int x_pixel, x_channel;
  float scale[kMostIn], shift[kMostIn];
  std::uint32_t lo, hi;  ///< pairs of halves: of Clip, or infinity
};

/// Weights to shared memory, zeros where a step has no column or channel. Within a step k is ordered such that a lane's
/// four values of a row of A are the channels of one pixel: of mma's k, 2 i and 2 i + 1 are the first two channels of
/// pixel i, 2 i + 8 and 2 i + 9 the others.
template <class S>
__device__ __forceinline__ void stage_weights(const Arguments& a, int n0, unsigned char* shared) {
  constexpr int kChunks = S::kChannels / 8;
  const int rows = a.kernel_h * a.row_steps * 16;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kChunks; i += S::kThreads) {
    const int row = i / kChunks;
    const int chunk = i - row * kChunks;
    std::uint32_t step;
    const auto ky = static_cast<int>(a.of_row_steps.divide(static_cast<std::uint32_t>(row / 16), step));
    const int kx = static_cast<int>(step) * kStepColumns + row % 8 / 2;
    const int ci = row % 16 / 8 * 2 + row % 2;
    const int n = n0 + chunk * 8;
    const bool inside = kx < a.kernel_w && ci < a.c_in && n < a.c_out;
    const std::int64_t from = (static_cast<std::int64_t>(ky * a.kernel_w + kx) * a.c_in + ci) * a.weight_pitch + n;
    ptx::copy_async_cg_128_or_zero(shared + row * S::kWeightPitch + chunk * 16, inside ? a.weight + from : a.weight,
                                   inside);
  }
  ptx::copy_async_commit();
}

/// A tile of all images.
struct Tile {
  int n, oy0, ox0;

  __device__ __forceinline__ Tile(const Arguments& a, int index) {
    std::uint32_t column;
    std::uint32_t row;
    const std::uint32_t above = a.of_tile_columns.divide(static_cast<std::uint32_t>(index), column);
    n = static_cast<int>(a.of_tile_rows.divide(above, row));
    oy0 = static_cast<int>(row) * kRows;
    ox0 = static_cast<int>(column) * kColumns;
  }
};

/// Brings a tile's input into a window as half, zeros outside the image, kPixels a thread at a time.
template <class X, int kThreads, int kPixels>
class Staging {
 public:
  /// `pixels` of the window, or 0 where there is no tile.
  __device__ __forceinline__ Staging(const Arguments& a, const X* x, const Tile& tile, int pixels,
                                     unsigned char* window)
      : picture_(x + tile.n * a.x_picture),
        y0_(tile.oy0 * a.stride_h - a.pad_top),
        x0_(tile.ox0 * a.stride_w - a.pad_left),
        pixels_(pixels),
        window_(window) {
    ptx::pin(picture_);  // or each load begins with the picture's number
  }

  /// Whether some of the window have not been asked for.
  __device__ __forceinline__ bool has_more() const { return asked_ < pixels_; }

  /// Stores what was asked for, asks for the next.
  __device__ __forceinline__ void advance(const Arguments& a) {
    store(a);
#pragma unroll
    for (int j = 0; j < kPixels; ++j) {
      const int i = asked_ + j * kThreads + static_cast<int>(threadIdx.x);
      std::uint32_t column;
      const int y = y0_ + static_cast<int>(a.of_window_columns.divide(static_cast<std::uint32_t>(i), column));
      const int x = x0_ + static_cast<int>(column);
      inside_[j] = i < pixels_ && static_cast<unsigned>(y) < static_cast<unsigned>(a.h) &&
                   static_cast<unsigned>(x) < static_cast<unsigned>(a.w);
      const int pixel = (y * a.w + x) * a.x_pixel;
#pragma unroll
      for (int ci = 0; ci < kMostIn; ++ci) {
        const X* const from = picture_ + (pixel + ci * a.x_channel);
        const auto present = static_cast<unsigned>(inside_[j] && ci < a.c_in);
        if constexpr (kBytes) {
          ptx::load_global_byte_or_zero(from, present, words_[j][ci]);
        } else {
          ptx::load_global_or_zero(from, present, words_[j][ci]);
        }
      }
    }
    stored_ = asked_;
    asked_ += kPixels * kThreads;
  }

  /// Stores what was asked for last.
  __device__ __forceinline__ void store(const Arguments& a) {
#pragma unroll
    for (int j = 0; j < kPixels; ++j) {
      const int i = stored_ + j * kThreads + static_cast<int>(threadIdx.x);
      Packet<__half, kMostIn> halves;
#pragma unroll
      for (int ci = 0; ci < kMostIn; ++ci) {
        float value;
        if constexpr (kBytes) {
          const bool present = inside_[j] && ci < a.c_in;
          value = present ? fmaf(static_cast<float>(words_[j][ci]), a.scale[ci], a.shift[ci]) : 0.0F;
        } else {
          value = __uint_as_float(words_[j][ci]);
        }
        halves.item[ci] = __float2half_rn(value);
      }
      if (i < min(asked_, pixels_)) kernels::store(reinterpret_cast<__half*>(window_ + i * kPixelBytes), halves);
    }
  }

 private:
  static constexpr bool kBytes = std::is_same_v<X, std::uint8_t>;

  const X* picture_;
  int y0_, x0_;
  int pixels_;
  int asked_ = 0;   // pixels of the window
  int stored_ = 0;  // where those that are under way begin
  unsigned char* window_;
  std::uint32_t words_[kPixels][kMostIn]{};  // floats or bytes
  bool inside_[kPixels]{};
};

template <int kBlocksN>
using Sums = float[kWarpRows][kBlocksN][4];

/// Walks over the products of a tile.
template <class S>
class Products {
 public:
  /// `weights`: this thread's row of the first product; `pixel`: its values of the first row.
  __device__ __forceinline__ Products(const Arguments& a, const unsigned char* weights, const unsigned char* pixel)
      : weights_(weights),
        pixel_(pixel),
        left_(a.kernel_h * a.row_steps),
        row_bytes_(a.window_columns * kPixelBytes),
        below_(a.stride_h * row_bytes_),
        right_(kColumns / 2 * a.stride_w * kPixelBytes),
        in_last_((a.row_steps - 1) * kStepColumns + ptx::as_int::lane() % 4 < a.kernel_w) {}

  __device__ __forceinline__ bool has_next() const { return left_ > 0; }

  __device__ __forceinline__ void multiply_next(const Arguments& a, Sums<S::kBlocksN>& sums) {
    --left_;
    const bool last = ++step_ == a.row_steps;
    // Columns behind the window have zero weights, but infinity times zero is not zero.
    const std::uint32_t mask = !last || in_last_ ? ~0U : 0U;
    std::uint32_t b[S::kBlocksN / 2][4];
#pragma unroll
    for (int j = 0; j < S::kBlocksN / 2; ++j) ptx::ldmatrix_x4_trans(b[j], weights_ + j * 32);
#pragma unroll
    for (int i = 0; i < kWarpRows; ++i) {
      std::uint32_t values[4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint2 channels = *reinterpret_cast<const uint2*>(pixel_ + i * below_ + half * right_);
        values[half] = channels.x & mask;
        values[half + 2] = channels.y & mask;
      }
#pragma unroll
      for (int j = 0; j < S::kBlocksN; ++j) {
        ptx::mma_16x8x16(sums[i][j], values, b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
    weights_ += 16 * S::kWeightPitch;
    pixel_ += kStepBytes;
    if (last) {
      step_ = 0;
      pixel_ += row_bytes_ - a.row_steps * kStepBytes;
    }
  }

 private:
  const unsigned char* weights_;
  const unsigned char* pixel_;
  int left_;
  int step_ = 0;  // of a row of the window
  int row_bytes_, below_, right_;
  bool in_last_;
};

/// Sums of a warp's rows of 16 pixels. Calls between() before every other product.
template <class S, class Between>
__device__ __forceinline__ void multiply_all(const Arguments& a, Products<S> products, Sums<S::kBlocksN>& sums,
                                             const Between& between) {
  while (products.has_next()) {
    between();
    products.multiply_next(a, sums);
    if (!products.has_next()) return;
    products.multiply_next(a, sums);
  }
}

/// Sums plus bias, of which `bias` points to this thread's first, through the activation, but for Clip, which
/// store_row() applies to halves: rounding keeps their order.
template <int kBlocksN>
__device__ __forceinline__ void finish(const Arguments& a, Sums<kBlocksN>& sums, const float* bias) {
#pragma unroll
  for (int j = 0; j < kBlocksN; ++j) {
    const float2 pair = *reinterpret_cast<const float2*>(bias + j * 8);
#pragma unroll
    for (auto& row : sums) {
      row[j][0] += pair.x;
      row[j][1] += pair.y;
      row[j][2] += pair.x;
      row[j][3] += pair.y;
    }
  }
  if (a.activation.kind != ActivationKind::Clip) {
    apply(a.activation, reinterpret_cast<float(&)[kWarpRows * kBlocksN * 4]>(sums));
  }
}

/// Stores the first `columns` of a row of 16 pixels, 16 bytes at a time in the order of memory, which the fragments
/// take on in the warp's `rows` of shared memory. m: the first pixel; n: the warp's first channel.
template <class S>
__device__ __forceinline__ void store_row(const Arguments& a, const float (&sums)[S::kBlocksN][4], std::uint32_t rows,
                                          std::int64_t m, int columns, int n) {
  const int lane = ptx::as_int::lane();
  const std::uint32_t row = rows + lane % 16 * S::kOutPitch + lane / 16 * 16;
  __syncwarp();  // the row before has left
#pragma unroll
  for (int j = 0; j < S::kBlocksN; j += 2) {
    std::uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* const pair = sums[j + i / 2] + i % 2 * 2;
      pairs[i] = ptx::clip_half2(ptx::bits(__floats2half2_rn(pair[0], pair[1])), a.lo, a.hi);
    }
    ptx::stmatrix_x4(row + j * 16, pairs);
  }
  __syncwarp();
  __half* y = a.y + m * a.y_pitch + n;
  ptx::pin(y);  // or each store multiplies anew
#pragma unroll
  for (int i = 0; i < kColumns * S::kBlocksN / 32; ++i) {
    const int pixel = (i * 32 + lane) / S::kBlocksN;
    const int chunk = (i * 32 + lane) % S::kBlocksN;
    std::uint32_t halves[4];
    ptx::load_shared_words<4>(rows + pixel * S::kOutPitch + chunk * 16, halves);
    ptx::store_global_if(pixel < columns && n + chunk * 8 < a.c_out, y + (pixel * a.y_pitch + chunk * 8), halves);
  }
}

template <class X, class S>
__global__ void __launch_bounds__(S::kThreads, S::kResident)
    first_kernel(const __grid_constant__ Arguments a, const X* x) {
  constexpr int kPixelsAtFirst = 8;  // a thread has few other registers then
  constexpr int kPixelsBeside = 2;
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, shared);
  const int lane = ptx::as_int::lane();
  const int warp = ptx::as_int::warp();
  const int n0 = static_cast<int>(blockIdx.x) * S::kChannels;
  const int warp_n = warp / kWarpsOfTile * S::kWarpChannels;
  const int warp_row = warp % kWarpsOfTile * kWarpRows;
  unsigned char* const windows = shared + a.weight_bytes;
  const std::uint32_t out = ptx::shared_address(windows + 2 * a.window_bytes + warp * S::kOutBytes);
  auto* const bias = reinterpret_cast<float*>(windows + 2 * a.window_bytes + S::kWarps * S::kOutBytes);
  stage_weights<S>(a, n0, shared);
  for (int i = static_cast<int>(threadIdx.x); i < S::kChannels; i += S::kThreads) {
    bias[i] = a.bias != nullptr && n0 + i < a.c_out ? a.bias[n0 + i] : 0.0F;
  }
  wait_for_predecessor();

  const unsigned char* const weights = shared + lane % 16 * S::kWeightPitch + lane / 16 * 16 + warp_n * 2;
  const int pixel = (warp_row * a.stride_h * a.window_columns + lane / 4 * a.stride_w + lane % 4) * kPixelBytes;
  auto index = static_cast<int>(blockIdx.y);
  Tile tile(a, index);
  {
    Staging<X, S::kThreads, kPixelsAtFirst> staging(a, x, tile, a.window_pixels, windows);
    while (staging.has_more()) staging.advance(a);
    staging.store(a);
  }
  ptx::copy_async_wait<0>();
  __syncthreads();
  for (int window = 0; index < a.tiles; window = a.window_bytes - window) {
    index += static_cast<int>(gridDim.y);
    const Tile next(a, index);
    Staging<X, S::kThreads, kPixelsBeside> staging(a, x, next, index < a.tiles ? a.window_pixels : 0,
                                                   windows + a.window_bytes - window);
    Sums<S::kBlocksN> sums = {};
    multiply_all<S>(a, Products<S>(a, weights, windows + window + pixel), sums, [&] {
      if (staging.has_more()) staging.advance(a);
    });
    finish<S::kBlocksN>(a, sums, bias + warp_n + lane % 4 * 2);
#pragma unroll
    for (int i = 0; i < kWarpRows; ++i) {
      const int y = tile.oy0 + warp_row + i;
      if (y < a.out_h) {
        store_row<S>(a, sums[i], out, (static_cast<std::int64_t>(tile.n) * a.out_h + y) * a.out_w + tile.ox0,
                     a.out_w - tile.ox0, n0 + warp_n);
      }
    }
    while (staging.has_more()) staging.advance(a);
    staging.store(a);
    __syncthreads();  // the next window is whole, this one is free
    tile = next;
  }
}

}  // namespace mobicuda::kernels::conv_first
