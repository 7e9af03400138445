// A network's first layer with mma.sync and an input that keeps its bits: 3x3, stride 2, three channels in float to 16
// or 32 channels in half, sm_80 and newer. A float is the sum of two tf32 numbers but for 2^-22 of itself, and weights
// in half are tf32 numbers: two products on tensor cores stand for one in float.
//
// A block walks over tiles of kRows x kColumns outputs; the windows of the next tiles are under way, by asynchronous
// copies to a ring of buffers, while one is multiplied. A warp has two rows of a tile, and all weights in registers.
// k counts the window's 27 values and one zero, in the order of slot_of().
#pragma once

#include "kernels/common/conv_vector.cuh"
#include "kernels/conv2d/arguments.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/float.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::conv_split {

using convolution::Arguments;

inline constexpr int kWarps = 4;
inline constexpr int kThreads = kWarps * 32;
inline constexpr int kTilesOfWarp = 2;  ///< rows of 16 outputs
inline constexpr int kRows = kWarps * kTilesOfWarp;
inline constexpr int kColumns = 16;
inline constexpr int kStride = 2;
inline constexpr int kIn = 3;
inline constexpr int kStages = 3;
inline constexpr int kBlocks = 4;  ///< blocks that a multiprocessor must be able to hold
inline constexpr int kChunk = 4;   ///< floats of the wide copies
inline constexpr int kWindowRows = (kRows - 1) * kStride + 3;
inline constexpr int kWindowColumns = (kColumns - 1) * kStride + 3;
inline constexpr int kChunks = ceil_div(kWindowColumns + kChunk - 1, kChunk);  ///< of a row, wherever it starts
inline constexpr int kPitch = 48;  ///< 16 more than the 32 banks, so that two rows' even and odd columns fill them
inline constexpr int kPlane = kWindowRows * kPitch;
inline constexpr int kWindow = kIn * kPlane;
inline constexpr int kQuads = 7;  ///< of k: one value of each for a thread
inline constexpr std::size_t kSharedBytes = sizeof(float) * kStages * kWindow;
static_assert(kChunks * kChunk <= kPitch && kPitch % 32 == 16 && kPlane % 32 == 16);

/// Row of the window, numbered through the channels, and column of the k-th product; row 9 is the zero's.
struct Slot {
  int row, column;
};
__device__ __forceinline__ Slot slot_of(int k) {
  // Two rows' columns 0 and 1 together have no bank in common.
  constexpr int kPairs = 18;
  return k < kPairs ? Slot{k / 2, k % 2} : Slot{k - kPairs, 2};
}

/// What a thread copies of every window, 16 bytes at a time: one chunk of every kStep-th line, which is a row of a
/// channel.
class WideCopies {
 public:
  __device__ __forceinline__ explicit WideCopies(const Arguments& a)
      : line_(static_cast<int>(threadIdx.x) / kChunks),
        column_((static_cast<int>(threadIdx.x) - line_ * kChunks) * kChunk) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int line = line_ + i * kStep;
      row_[i] = line % kWindowRows;
      offset_[i] = line / kWindowRows * a.x_channel + row_[i] * a.w + column_;
    }
  }

  __device__ __forceinline__ void enqueue(const Arguments& a, const float* picture, int iy0, int ix0,
                                          float* window) const {
    const int origin = iy0 * a.w + ix0;
    const bool column_inside = line_ < kStep && static_cast<unsigned>(ix0 + column_) < static_cast<unsigned>(a.w);
    unsigned char* const to = reinterpret_cast<unsigned char*>(window + line_ * kPitch + column_);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (line_ >= (i + 1 < kCount ? kStep : kLines - i * kStep)) break;
      const bool inside = column_inside && static_cast<unsigned>(iy0 + row_[i]) < static_cast<unsigned>(a.h);
      ptx::copy_async_cg_128_or_zero(to + sizeof(float) * i * kStep * kPitch,
                                     picture + (inside ? origin + offset_[i] : 0), inside);
    }
  }

 private:
  static constexpr int kLines = kIn * kWindowRows;
  static constexpr int kStep = kThreads / kChunks;  ///< lines at once; the threads left over copy nothing
  static constexpr int kCount = (kLines + kStep - 1) / kStep;

  int line_, column_;
  int row_[kCount], offset_[kCount];
};

/// The same for any layout and alignment, float by float.
class NarrowCopies {
 public:
  __device__ __forceinline__ explicit NarrowCopies(const Arguments&) {}

  __device__ __forceinline__ void enqueue(const Arguments& a, const float* picture, int iy0, int ix0,
                                          float* window) const {
    constexpr int kCopies = kIn * kWindowRows * kWindowColumns;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < kCopies; i += kThreads) {
      const int line = i / kWindowColumns;
      const int column = i - line * kWindowColumns;
      const int ci = line / kWindowRows;
      const int iy = iy0 + line - ci * kWindowRows;
      const int ix = ix0 + column;
      const bool inside = static_cast<unsigned>(iy) < static_cast<unsigned>(a.h) &&
                          static_cast<unsigned>(ix) < static_cast<unsigned>(a.w);
      ptx::copy_async_ca_or_zero(window + line * kPitch + column,
                                 picture + (inside ? (iy * a.w + ix) * a.x_pixel + ci * a.x_channel : 0), inside);
    }
  }
};

/// Two tf32 numbers. The first is x without its last 13 bits, so that it overflows for no finite x; infinity has no
/// rest.
struct Split {
  std::uint32_t high, low;
};
__device__ __forceinline__ Split split(float x) {
  constexpr std::uint32_t kKept = 0xffffe000U;
  Split parts;
  parts.high = __float_as_uint(x) & kKept;
  const float high = __uint_as_float(parts.high);
  const float rest = high == x ? 0.0F : x - high;
#if __CUDA_ARCH__ >= 800
  parts.low = ptx::to_tf32(rest);
#else
  parts.low = __float_as_uint(rest);
#endif
  return parts;
}

/// A thread's weights and biases. Column n of block j of the products is channel n / 2 * 2 kBlocksN + 2 j + n % 2, so
/// that a thread's sums of a pixel are a run of channels.
template <int kBlocksN>
struct Factors {
  static constexpr int kRun = 2 * kBlocksN;  ///< channels
  std::uint32_t weight[kQuads][kBlocksN];
  float bias[kRun] = {};

  __device__ __forceinline__ Factors(const __half* packed, const float* biases) {
    constexpr int kOut = 4 * kRun;
    const int lane = ptx::as_int::lane();
    const int n = lane / 4;
    if (biases != nullptr) load_constants<float>(biases + lane % 4 * kRun, bias);
#pragma unroll
    for (int quad = 0; quad < kQuads; ++quad) {
      const Slot slot = slot_of(quad * 4 + lane % 4);
      const bool zero = slot.row == kIn * 3;
      const int row = zero ? 0 : slot.row;
      const int tap = row % 3 * 3 + slot.column;
      float values[kRun];
      load_constants<__half>(packed + (tap * kIn + row / 3) * kOut + n / 2 * kRun, values);
#pragma unroll
      for (int j = 0; j < kBlocksN; ++j) {
        const float value = n % 2 == 0 ? values[2 * j] : values[2 * j + 1];
        weight[quad][j] = zero ? 0U : __float_as_uint(value);
      }
    }
  }
};

/// Sums of 16 pixels of a row. `values`: where this thread's value of each quad lies, of the row's first pixel.
template <int kBlocksN>
__device__ __forceinline__ void multiply(const Factors<kBlocksN>& factors, const float* window,
                                         const int (&values)[kQuads], float (&sums)[kBlocksN][4]) {
  constexpr int kLower = 8 * kStride;  // from a pixel to the one that a thread has as well
#pragma unroll
  for (int quad = 0; quad + 1 < kQuads; quad += 2) {
    std::uint32_t high[4];
    std::uint32_t low[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Split parts = split(window[values[quad + i / 2] + i % 2 * kLower]);
      high[i] = parts.high;
      low[i] = parts.low;
    }
#pragma unroll
    for (int j = 0; j < kBlocksN; ++j) {
      ptx::mma_tf32_16x8x8(sums[j], low, factors.weight[quad][j], factors.weight[quad + 1][j]);
    }
#pragma unroll
    for (int j = 0; j < kBlocksN; ++j) {
      ptx::mma_tf32_16x8x8(sums[j], high, factors.weight[quad][j], factors.weight[quad + 1][j]);
    }
  }
  std::uint32_t high[2];
  std::uint32_t low[2];
  const bool zero = threadIdx.x % 4 == 3;  // infinity times a weight of zero is not zero
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const Split parts = split(zero ? 0.0F : window[values[kQuads - 1] + i * kLower]);
    high[i] = parts.high;
    low[i] = parts.low;
  }
#pragma unroll
  for (int j = 0; j < kBlocksN; ++j) ptx::mma_tf32_16x8x4(sums[j], low, factors.weight[kQuads - 1][j]);
#pragma unroll
  for (int j = 0; j < kBlocksN; ++j) ptx::mma_tf32_16x8x4(sums[j], high, factors.weight[kQuads - 1][j]);
}

/// `lead`: columns that a tile's window is staged from before its first, so that wide copies are aligned. `y_pitch`:
/// elements from a pixel of y to the next.
template <bool kWide, int kBlocksN>
__global__ void __launch_bounds__(kThreads, kBlocks)
    split_kernel(const __grid_constant__ Arguments a, int lead, int y_pitch, const float* x, const __half* packed,
                 const float* biases, __half* y) {
  constexpr int kRun = Factors<kBlocksN>::kRun;
  MOBICUDA_DYNAMIC_SHARED(float, 16, shared);
  const int lane = ptx::as_int::lane();
  const int first_row = ptx::as_int::warp() * kTilesOfWarp;
  const Factors<kBlocksN> factors(packed, biases);
  int values[kQuads];
#pragma unroll
  for (int quad = 0; quad < kQuads; ++quad) {
    const Slot slot = slot_of(quad * 4 + lane % 4);
    const int row = slot.row == kIn * 3 ? 0 : slot.row;
    values[quad] =
        row / 3 * kPlane + (row % 3 + first_row * kStride) * kPitch + slot.column + lead + lane / 4 * kStride;
  }
  const std::conditional_t<kWide, WideCopies, NarrowCopies> copies(a);
  const auto stage = [&](std::uint32_t tile, int buffer) {
    if (tile < a.grid.items) {
      const Item item = decode(a.grid, tile);
      copies.enqueue(a, x + item.n * a.x_picture(), static_cast<int>(item.tile_y) * kRows * kStride - a.pad_top,
                     static_cast<int>(item.tile_x) * kColumns * kStride - a.pad_left - lead, shared + buffer * kWindow);
    }
    ptx::copy_async_commit();
  };
  wait_for_predecessor();

#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) stage(blockIdx.x + i * gridDim.x, i);
  int buffer = 0;
  for (std::uint32_t tile = blockIdx.x; tile < a.grid.items; tile += gridDim.x) {
    ptx::copy_async_wait<kStages - 2>();
    __syncthreads();  // the window is there, and the one before it has been read
    stage(tile + (kStages - 1) * gridDim.x, buffer == 0 ? kStages - 1 : buffer - 1);
    const Item item = decode(a.grid, tile);
#pragma unroll
    for (int i = 0; i < kTilesOfWarp; ++i) {
      float sums[kBlocksN][4];
#pragma unroll
      for (int j = 0; j < kBlocksN; ++j) {
#pragma unroll
        for (int part = 0; part < 4; ++part) sums[j][part] = factors.bias[2 * j + part % 2];
      }
      multiply<kBlocksN>(factors, shared + buffer * kWindow + i * kStride * kPitch, values, sums);
      const int oy = static_cast<int>(item.tile_y) * kRows + first_row + i;
      const std::size_t row = (static_cast<std::size_t>(item.n) * a.out_h + oy) * a.out_w;
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const int ox = static_cast<int>(item.tile_x) * kColumns + lower * 8 + lane / 4;
        float run[kRun];
#pragma unroll
        for (int c = 0; c < kRun; ++c) run[c] = sums[c / 2][lower * 2 + c % 2];
        apply(a.activation, run);
        if (oy >= a.out_h || ox >= a.out_w) continue;
        *reinterpret_cast<Words<2 * kRun>*>(y + (row + ox) * y_pitch + lane % 4 * kRun) =
            pack<__half, Words<2 * kRun>>(run);
      }
    }
    buffer = buffer == kStages - 1 ? 0 : buffer + 1;
  }
}

}  // namespace mobicuda::kernels::conv_split
