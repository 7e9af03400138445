// The stem block in exact float: a block of threads makes one tile of the output. The stem's pixels that the tile's
// depthwise windows see come to shared memory, where the stages of inverted_residual's exact-float kernel take them as
// they take the input of a block without expansion.
#pragma once

#include "kernels/inverted_residual/simt/stages.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/stem_block/simt.h"
#include "kernels/stem_block/values.cuh"

namespace mobicuda::kernels::stem_block_simt {

using inverted_simt::Place;
using inverted_simt::thread;
using stem_block_detail::InputForm;

/// The compile-time side of a variant for some channels.
template <Tile kTile>
struct TileShape : inverted_simt::Shape<kTile.block> {
  using Block = inverted_simt::Shape<kTile.block>;
  static constexpr int kPixels = kTile.stem_pixels;
  static constexpr int kColumns = kTile.stem_channels;
  static constexpr int kChannels = kTile.block.c_hidden;
  static constexpr int kLanes = kChannels / kColumns;  // of a group of pixels
  static constexpr int kItems = kLanes * Block::kPatchH * (Block::kPatchW / kPixels);
  static constexpr int kInputH = input_extent(Block::kPatchH);
  static constexpr int kInputW = input_extent(Block::kPatchW);
  static constexpr int kInputRow = input_row_floats(kTile);
  static constexpr int kStemAt = Block::kSizes.floats;  // weights, then their bias
  static constexpr int kStemFloats = stem_floats(kChannels);
  static constexpr int kStemBias = kWindow * kChannels;
  static constexpr int kInputAt = kStemAt + kStemFloats;
  static_assert(kChannels % kColumns == 0 && kColumns % 4 == 0);
  static_assert(Block::kPatchW % kPixels == 0 && kPixels % 2 == 0);  // 16 bytes of input at a time
};

/// Puts a tile's window of the input into shared memory, (row, channel, column), zeros outside the image. The last column is
/// by itself: the others are 32, or 16 pairs.
template <class S, InputForm kForm>
class InputWindow {
 public:
  __device__ __forceinline__ InputWindow(const Arguments& a, const Place& place, const void* x, float* to)
      : a_(a),
        picture_(static_cast<const unsigned char*>(x) +
                 static_cast<std::int64_t>(place.n) * a.input_h * a.input_w * kPixelBytes),
        to_(to),
        y_(place.iy * 2 - a.input_top),
        x_(place.ix * 2 - a.input_left) {}

  /// Begins to copy floats; has put bytes.
  __device__ __forceinline__ void load() const {
    constexpr int kWidth = kForm == InputForm::FloatPairs ? 2 : 1;
    constexpr int kLanesOfRow = (S::kInputW - 1) / kWidth;
    static_assert((S::kInputW - 1) % kWidth == 0 && 32 % kLanesOfRow == 0);
    const int column = thread() % kLanesOfRow * kWidth;
#pragma unroll 4
    for (int row = thread() / kLanesOfRow; row < kRows; row += S::kThreads / kLanesOfRow) put<kWidth>(row, column);
    static_assert(kRows <= S::kThreads);
    if (thread() < kRows) put<1>(thread(), S::kInputW - 1);
  }

 private:
  static constexpr bool kBytes = kForm == InputForm::Bytes;
  static constexpr int kPixelBytes = 3 * (kBytes ? 1 : static_cast<int>(sizeof(float)));
  static constexpr int kRows = S::kInputH * (kBytes ? 1 : 3);

  /// Row `row` of the window; of floats, the three planes' rows counted on.
  template <int kWidth>
  __device__ __forceinline__ void put(int row, int column) const {
    const int c = kBytes ? 0 : row % 3;
    const int y = y_ + (kBytes ? row : row / 3);
    const int x = x_ + column;
    const bool inside = static_cast<unsigned>(y) < static_cast<unsigned>(a_.input_h) &&
                        static_cast<unsigned>(x) < static_cast<unsigned>(a_.input_w);
    float* const to = to_ + (kBytes ? 3 : 1) * row * S::kInputRow + column;
    if constexpr (kBytes) {
      const unsigned char* const from = picture_ + (y * a_.input_w + x) * 3;
#pragma unroll
      for (int i = 0; i < 3; ++i) {
        to[i * S::kInputRow] = inside ? fmaf(static_cast<float>(from[i]), a_.scale[i], a_.shift[i]) : 0.0F;
      }
    } else {
      const float* const from = reinterpret_cast<const float*>(picture_) + ((c * a_.input_h + y) * a_.input_w + x);
      ptx::copy_async_ca_or_zero<kWidth* static_cast<int>(sizeof(float))>(ptx::shared_address(to), from, inside);
    }
  }

  const Arguments& a_;
  const unsigned char* picture_;
  float* to_;
  int y_, x_;
};

/// hidden = clip(3x3 of the input + bias), 0 outside the image. A thread has kPixels of a row and kColumns channels;
/// neighbouring lanes have the channels of the same pixels, then those of the next row.
template <class S>
__device__ __forceinline__ void stem(const Arguments& a, const Place& place, const float* shared, float* hidden) {
  constexpr int kM = S::kPixels;
  constexpr int kN = S::kColumns;
  const float* const weights = shared + S::kStemAt;
  const bool border = place.iy < 0 || place.ix < 0 || place.iy + S::kPatchH > a.h || place.ix + S::kPatchW > a.w;
#pragma unroll 1
  for (int item = thread(); item < S::kItems; item += S::kThreads) {
    const int lane_x = item % S::kLanes;
    const int row = item / S::kLanes % S::kPatchH;
    const int column = item / S::kLanes / S::kPatchH * kM;
    float bias[kN];
    inverted_simt::load_columns<kN, S::kLanes>(bias, weights + S::kStemBias, lane_x);
    float sums[kM][kN];
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int n = 0; n < kN; ++n) sums[m][n] = bias[n];
    }
    const float* from = shared + S::kInputAt + row * 2 * 3 * S::kInputRow + column * 2;
    const float* factors = weights;
    // Rows of the window, each of three channels.
#pragma unroll 3
    for (int k = 0; k < 9; ++k, from += S::kInputRow, factors += 3 * S::kChannels) {
      float values[2 * kM + 1];
#pragma unroll
      for (int i = 0; i < 2 * kM; i += 4) {
        const auto four = load<4>(from + i);
#pragma unroll
        for (int e = 0; e < 4; ++e) values[i + e] = four.item[e];
      }
      values[2 * kM] = from[2 * kM];
#pragma unroll
      for (int kx = 0; kx < 3; ++kx) {
        float factor[kN];
        inverted_simt::load_columns<kN, S::kLanes>(factor, factors + kx * S::kChannels, lane_x);
#pragma unroll
        for (int m = 0; m < kM; ++m) {
#pragma unroll
          for (int n = 0; n < kN; ++n) sums[m][n] = fmaf(values[2 * m + kx], factor[n], sums[m][n]);
        }
      }
    }
    const bool row_inside = static_cast<unsigned>(place.iy + row) < static_cast<unsigned>(a.h);
    float* const to = hidden + row * S::kHiddenRow + column * S::kHiddenPixel;
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      const bool outside =
          border && !(row_inside && static_cast<unsigned>(place.ix + column + m) < static_cast<unsigned>(a.w));
#pragma unroll
      for (int n = 0; n < kN; n += 4) {
        Packet<float, 4> values;
#pragma unroll
        for (int e = 0; e < 4; ++e) values.item[e] = apply(a.expand_clip, sums[m][n + e]);
        if (outside) values = {};
        store(to + m * S::kHiddenPixel + inverted_simt::column_of<kN, S::kLanes>(lane_x, n), values);
      }
    }
  }
}

template <class S, InputForm kForm>
__global__ void __launch_bounds__(S::kThreads, S::kConfig.min_blocks)
    stem_block_simt_kernel(const Arguments a, const void* x, const float* packed, float* y) {
  using Block = typename S::Block;
  MOBICUDA_DYNAMIC_SHARED(float4, 16, shared_memory);
  float* const shared = reinterpret_cast<float*>(shared_memory);
  float* const hidden = shared + S::kHiddenAt;
  float* const filtered = shared + S::kFilteredAt;
  float* const project_weights = shared + S::kProjectAt;

  // Packed and in shared memory alike: the block's, then the stem's.
  constexpr int kBlockFloats = S::kConfig.c_out + S::kFrontFloats + S::kProjectFloats;
  static_assert(S::kProjectAt == S::kConfig.c_out + S::kFrontFloats);
  inverted_simt::copy_floats<S::kThreads, kBlockFloats>(shared, packed);
  inverted_simt::copy_floats<S::kThreads, S::kStemFloats>(shared + S::kStemAt, packed + kBlockFloats);
  const Place place = inverted_simt::locate<S::kConfig>(a);
  const InputWindow<S, kForm> window(a, place, x, shared + S::kInputAt);
  wait_for_predecessor();
  window.load();
  ptx::copy_async_commit();
  ptx::copy_async_wait<0>();
  __syncthreads();

  stem<S>(a, place, shared, hidden);
  __syncthreads();
  inverted_simt::depthwise<Block>(a, hidden, shared + S::kFrontAt, filtered);
  __syncthreads();
  inverted_simt::Project<Block> sums;
  sums.add(filtered, project_weights);
  sums.finish(a, place, shared, hidden, y);
}

}  // namespace mobicuda::kernels::stem_block_simt
