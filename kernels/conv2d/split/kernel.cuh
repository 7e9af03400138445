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
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/pin.cuh"
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
inline constexpr int kChunk = 4;  ///< floats of the wide copies
inline constexpr int kWindowRows = (kRows - 1) * kStride + 3;
inline constexpr int kWindowColumns = (kColumns - 1) * kStride + 3;
inline constexpr int kChunks = ceil_div(kWindowColumns + kChunk - 1, kChunk);  ///< of a row, wherever it starts
inline constexpr int kPitch =
    48;  ///< 16 more than the 32 banks, as kPlane then is of a multiple: two channels' columns fill them
inline constexpr int kPlane = kWindowRows * kPitch;
inline constexpr int kWindow = kIn * kPlane;
inline constexpr int kQuads = 7;        ///< of k: one value of each for a thread
inline constexpr int kGroup = 8;        ///< of k: two quads, that one instruction multiplies
inline constexpr int kWholeGroups = 3;  ///< the last quad is alone
inline constexpr std::size_t kSharedBytes = sizeof(float) * kStages * kWindow;
/// Blocks that a multiprocessor must be able to hold, by blocks of 8 channels.
constexpr int blocks_of(int blocks_n) { return blocks_n == 2 ? 6 : 4; }
static_assert(kChunks * kChunk <= kPitch && kPitch % 32 == 16 && kPlane % 32 == 16);

/// Row of the window that a group of k has.
__device__ __forceinline__ constexpr int row_of(int group) { return group == 0 ? 0 : 3 - group; }

/// What the k-th product takes of the window.
struct Slot {
  int channel, row, column;
  bool zero;  ///< nothing
};
__device__ __forceinline__ Slot slot_of(int k) {
  constexpr int kOfColumns01 = 6;
  constexpr int kWhole = kWholeGroups * kGroup;
  if (k >= kWhole) return {kIn - 1, k - kWhole < 3 ? k - kWhole : 0, 2, k - kWhole == 3};
  const int n = k % kGroup;
  // Two channels' columns 0 and 1 together have no bank in common.
  return n < kOfColumns01 ? Slot{n / 2, row_of(k / kGroup), n % 2, false}
                          : Slot{kGroup - 1 - n, row_of(k / kGroup), 2, false};
}

/// What a thread copies of every window, 16 bytes at a time: one chunk of every kStep-th line, which is a row of a
/// channel.
class WideCopies {
 public:
  __device__ __forceinline__ explicit WideCopies(const Arguments& a)
      : line_(static_cast<int>(threadIdx.x) / kChunks),
        column_((static_cast<int>(threadIdx.x) - line_ * kChunks) * kChunk),
        to_(line_ * kPitch + column_) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int line = line_ + i * kStep;
      row_[i] = line % kWindowRows;
      offset_[i] = line / kWindowRows * a.x_channel + row_[i] * a.w + column_;
      ptx::pin(row_[i]);
      ptx::pin(offset_[i]);
    }
    ptx::pin(to_);
  }

  __device__ __forceinline__ void enqueue(const Arguments& a, const float* picture, int iy0, int ix0,
                                          float* window) const {
    const int origin = iy0 * a.w + ix0;
    const bool column_inside = line_ < kStep && static_cast<unsigned>(ix0 + column_) < static_cast<unsigned>(a.w);
    unsigned char* const to = reinterpret_cast<unsigned char*>(window + to_);
    ptx::pin(picture);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (line_ >= (i + 1 < kCount ? kStep : kLines - i * kStep)) break;
      const bool row_inside = static_cast<unsigned>(iy0 + row_[i]) < static_cast<unsigned>(a.h);
      const bool inside = column_inside && row_inside;
      const unsigned offset = inside ? static_cast<unsigned>(origin + offset_[i]) : 0U;  // no sign to extend
      ptx::copy_async_cg_128_or_zero(to + sizeof(float) * i * kStep * kPitch, picture + offset, inside);
    }
  }

 private:
  static constexpr int kLines = kIn * kWindowRows;
  static constexpr int kStep = kThreads / kChunks;  ///< lines at once; the threads left over copy nothing
  static constexpr int kCount = (kLines + kStep - 1) / kStep;

  int line_, column_;
  int to_;  ///< where the first chunk goes in a window
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
/// rest. The rest of another one has 13 bits too: with 2^-12 of itself added, what truncation leaves of it is as close
/// as what rounding does, 2^-22 of x.
struct Split {
  std::uint32_t high, low;
};
__device__ __forceinline__ Split split(float x) {
  constexpr std::uint32_t kKept = 0xffffe000U;
  Split parts;
  parts.high = __float_as_uint(x) & kKept;
  const float high = __uint_as_float(parts.high);
  const float rest = high == x ? 0.0F : x - high;
  parts.low = __float_as_uint(rest * (1.0F + 0x1p-12F)) & kKept;
  return parts;
}

/// kCount of a thread's values of A.
template <int kCount>
struct Values {
  std::uint32_t high[kCount], low[kCount];

  __device__ __forceinline__ void set(int i, float x) {
    const Split parts = split(x);
    high[i] = parts.high;
    low[i] = parts.low;
  }
};

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
      const int tap = slot.row * 3 + slot.column;
      float values[kRun];
      load_constants<__half>(packed + (tap * kIn + slot.channel) * kOut + n / 2 * kRun, values);
#pragma unroll
      for (int j = 0; j < kBlocksN; ++j) {
        const float value = n % 2 == 0 ? values[2 * j] : values[2 * j + 1];
        weight[quad][j] = slot.zero ? 0U : __float_as_uint(value);
      }
    }
  }
};

/// Where a thread's values of 16 pixels lie in a window, in floats from the pixels' first row on.
struct Places {
  static constexpr int kLower = 8 * kStride;  ///< from a pixel to the one that a thread has as well
  int quad[2];                                ///< of a group in row 0
  int last;

  __device__ __forceinline__ Places(int first_row, int lead) {
    const int lane = ptx::as_int::lane();
    const auto place = [&](int k) {
      const Slot slot = slot_of(k);
      return slot.channel * kPlane + (first_row * kStride + slot.row) * kPitch + slot.column + lead +
             lane / 4 * kStride;
    };
    quad[0] = place(lane % 4);
    quad[1] = place(4 + lane % 4);
    last = place(kWholeGroups * kGroup + lane % 4);
    ptx::pin(quad[0]);
    ptx::pin(quad[1]);
    ptx::pin(last);
  }

  __device__ __forceinline__ Values<4> load_group(const float* row) const {
    Values<4> values;
#pragma unroll
    for (int i = 0; i < 4; ++i) values.set(i, row[quad[i / 2] + i % 2 * kLower]);
    return values;
  }

  __device__ __forceinline__ Values<2> load_last(const float* row) const {
    const bool zero = threadIdx.x % 4 == 3;  // infinity times a weight of zero is not zero
    Values<2> values;
#pragma unroll
    for (int i = 0; i < 2; ++i) values.set(i, zero ? 0.0F : row[last + i * kLower]);
    return values;
  }
};

/// A thread's sums of 16 pixels.
template <int kBlocksN>
struct Sums {
  float of_block[kBlocksN][4];

  __device__ __forceinline__ explicit Sums(const Factors<kBlocksN>& factors) {
#pragma unroll
    for (int j = 0; j < kBlocksN; ++j) {
#pragma unroll
      for (int part = 0; part < 4; ++part) of_block[j][part] = factors.bias[2 * j + part % 2];
    }
  }

  __device__ __forceinline__ void add_group(const Factors<kBlocksN>& factors, int group, const Values<4>& values) {
    const auto add = [&](const std::uint32_t(&part)[4]) {
#pragma unroll
      for (int j = 0; j < kBlocksN; ++j) {
        ptx::mma_tf32_16x8x8(of_block[j], part, factors.weight[2 * group][j], factors.weight[2 * group + 1][j]);
      }
    };
    add(values.low);
    add(values.high);
  }

  __device__ __forceinline__ void add_last(const Factors<kBlocksN>& factors, const Values<2>& values) {
    const auto add = [&](const std::uint32_t(&part)[2]) {
#pragma unroll
      for (int j = 0; j < kBlocksN; ++j) ptx::mma_tf32_16x8x4(of_block[j], part, factors.weight[kQuads - 1][j]);
    };
    add(values.low);
    add(values.high);
  }
};

/// decode() for one vector of channels.
__device__ __forceinline__ Item decode_tile(const ItemGrid& grid, std::uint32_t tile) {
  Item item;
  item.vector = 0;
  item.n = grid.tile_rows.divide(grid.tile_columns.divide(tile, item.tile_x), item.tile_y);
  return item;
}

/// `lead`: columns that a tile's window is staged from before its first, so that wide copies are aligned. `y_pitch`:
/// elements from a pixel of y to the next.
template <bool kWide, int kBlocksN>
__global__ void __launch_bounds__(kThreads, blocks_of(kBlocksN))
    split_kernel(const __grid_constant__ Arguments a, int lead, int y_pitch, const float* x, const __half* packed,
                 const float* biases, __half* y) {
  constexpr int kRun = Factors<kBlocksN>::kRun;
  MOBICUDA_DYNAMIC_SHARED(float, 16, shared);
  const int lane = ptx::as_int::lane();
  const int first_row = ptx::as_int::warp() * kTilesOfWarp;
  const Factors<kBlocksN> factors(packed, biases);
  const Places places(first_row, lead);
  const std::conditional_t<kWide, WideCopies, NarrowCopies> copies(a);
  const auto stage = [&](std::uint32_t tile, float* window) {
    if (tile < a.grid.items) {
      const Item item = decode_tile(a.grid, tile);
      copies.enqueue(a, x + item.n * a.x_picture(), static_cast<int>(item.tile_y) * kRows * kStride - a.pad_top,
                     static_cast<int>(item.tile_x) * kColumns * kStride - a.pad_left - lead, window);
    }
    ptx::copy_async_commit();
  };
  std::int64_t y_row = std::int64_t{a.out_w} * y_pitch;
  std::int64_t y_picture = a.out_h * y_row;
  std::int64_t y_lower = std::int64_t{8} * y_pitch;
  ptx::pin(y_row);
  ptx::pin(y_picture);
  ptx::pin(y_lower);
  __half* const y_own = y + lane % 4 * kRun;
  wait_for_predecessor();

#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) stage(blockIdx.x + i * gridDim.x, shared + i * kWindow);
  int at = 0;  // the window's in shared memory
  for (std::uint32_t tile = blockIdx.x; tile < a.grid.items; tile += gridDim.x) {
    ptx::copy_async_wait<kStages - 2>();
    __syncthreads();  // the window is there, and the one before it has been read
    stage(tile + (kStages - 1) * gridDim.x, shared + (at == 0 ? (kStages - 1) * kWindow : at - kWindow));
    const Item item = decode_tile(a.grid, tile);
    const int oy = static_cast<int>(item.tile_y) * kRows + first_row;
    const int ox = static_cast<int>(item.tile_x) * kColumns + lane / 4;
    __half* to = y_own + item.n * y_picture + oy * y_row + std::int64_t{ox} * y_pitch;
    ptx::pin(to);
    const float* const window = shared + at;
    Values<4> first = places.load_group(window);
#pragma unroll
    for (int i = 0; i < kTilesOfWarp; ++i) {
      const float* const row = window + i * kStride * kPitch;
      Sums<kBlocksN> sums(factors);
      sums.add_group(factors, 0, first);
      first = places.load_group(row + row_of(1) * kPitch);
      sums.add_group(factors, 1, first);
      sums.add_group(factors, 2, places.load_group(row + row_of(2) * kPitch));
      sums.add_last(factors, places.load_last(row));
      float results[2 * kRun];
#pragma unroll
      for (int c = 0; c < 2 * kRun; ++c) results[c] = sums.of_block[c % kRun / 2][c / kRun * 2 + c % 2];
      apply(a.activation, results);
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        std::uint32_t words[kRun / 2];
#pragma unroll
        for (int c = 0; c < kRun; c += 2) {
          const float pair[] = {results[lower * kRun + c], results[lower * kRun + c + 1]};
          words[c / 2] = pack<__half, std::uint32_t>(pair);
        }
        ptx::store_global_if(oy + i < a.out_h && ox + lower * 8 < a.out_w, to + i * y_row + lower * y_lower, words);
      }
    }
    at = at == (kStages - 1) * kWindow ? 0 : at + kWindow;
  }
}

}  // namespace mobicuda::kernels::conv_split
