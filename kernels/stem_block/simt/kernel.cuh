// The stem block in exact float: a block of threads makes one tile of the output. The stem's pixels that the tile's
// depthwise windows see come to shared memory, where the stages of inverted_residual's exact-float kernel take them as
// they take the input of a block without expansion.
#pragma once

#include "kernels/common/simt_stages.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/stem_block/simt/arguments.cuh"
#include "kernels/stem_block/values.cuh"

namespace mobicuda::kernels::stem_block_simt {

using inverted_simt::Place;
using inverted_simt::thread;
using stem_block_detail::InputForm;

/// The compile-time side of a variant for some channels.
template <Tile kTile>
struct TileShape : inverted_simt::Shape<kTile.block> {
  using Block = inverted_simt::Shape<kTile.block>;
  static constexpr bool kTensorCores = on_tensor_cores(kTile);
  static constexpr int kPixels = kTile.stem_pixels;
  static constexpr int kColumns = kTile.stem_channels;
  static constexpr int kChannels = kTile.block.c_hidden;
  static constexpr int kInputH = input_extent(Block::kPatchH);
  static constexpr int kInputW = input_extent(Block::kPatchW);
  static constexpr int kInputRow = input_row_floats(kTile);
  static constexpr int kStemAt = Block::kSizes.floats;  // weights, then their bias
  static constexpr int kStemFloats = stem_floats(kTile);
  static constexpr int kStemBias = kWindow * kChannels;
  static constexpr int kInputAt = kStemAt + kStemFloats;
};

/// Puts a tile's window of the input into shared memory, (row, channel, column), zeros outside the image. The last
/// column is by itself: the others are 32, or 16 pairs.
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
  constexpr int kLanes = S::kChannels / kN;  // of a group of pixels
  constexpr int kItems = kLanes * S::kPatchH * (S::kPatchW / kM);
  static_assert(S::kChannels % kN == 0 && kN % 4 == 0);
  static_assert(S::kPatchW % kM == 0 && kM % 2 == 0);  // 16 bytes of input at a time
  const float* const weights = shared + S::kStemAt;
  const bool border = place.iy < 0 || place.ix < 0 || place.iy + S::kPatchH > a.h || place.ix + S::kPatchW > a.w;
#pragma unroll 1
  for (int item = thread(); item < kItems; item += S::kThreads) {
    const int lane_x = item % kLanes;
    const int row = item / kLanes % S::kPatchH;
    const int column = item / kLanes / S::kPatchH * kM;
    float bias[kN];
    inverted_simt::load_columns<kN, kLanes>(bias, weights + S::kStemBias, lane_x);
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
        inverted_simt::load_columns<kN, kLanes>(factor, factors + kx * S::kChannels, lane_x);
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
        store(to + m * S::kHiddenPixel + inverted_simt::column_of<kN, kLanes>(lane_x, n), values);
      }
    }
  }
}

/// Where the window's value number k lies behind the window's first.
template <class S>
__host__ __device__ constexpr int window_offset(int k) {
  return k < kWindow ? k / 3 * S::kInputRow + k % 3 : 0;
}

/// The same as stem(), products and sums in double. A warp has some rows of pixels, which are the rows of the
/// instruction; k is the window, and a one that meets the bias. Columns of two neighbouring instructions are dealt so
/// that a lane has four channels side by side.
template <class S>
__device__ __forceinline__ void stem_on_tensor_cores(const Arguments& a, const Place& place, const float* shared,
                                                     float* hidden) {
  constexpr int kRows = S::kPixels / kTensorRows;
  constexpr int kTiles = S::kChannels / kTensorColumns;
  static_assert(S::kPatchW == kTensorRows && S::kPatchH % kRows == 0 && kTiles % 2 == 0);
  const int g = inverted_simt::lane() / 4;
  const int t = inverted_simt::lane() % 4;
  const auto* const weights = reinterpret_cast<const double*>(shared + S::kStemAt) + inverted_simt::lane() * 2;
  int offsets[kTensorSteps][2];
#pragma unroll
  for (int s = 0; s < kTensorSteps; ++s) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int low = t == 0 ? window_offset<S>(s * 8 + e) : window_offset<S>(s * 8 + 2 + e);
      const int high = t == 2 ? window_offset<S>(s * 8 + 4 + e) : window_offset<S>(s * 8 + 6 + e);
      offsets[s][e] = t < 2 ? low : high;
    }
  }
  const bool border = place.iy < 0 || place.ix < 0 || place.iy + S::kPatchH > a.h || place.ix + S::kPatchW > a.w;
#pragma unroll 1
  for (int first = inverted_simt::warp() * kRows; first < S::kPatchH; first += S::kConfig.warps * kRows) {
    const float* const from = shared + S::kInputAt + first * 2 * 3 * S::kInputRow + g * 2;
    double sums[kRows][kTiles][2][2] = {};
#pragma unroll
    for (int s = 0; s < kTensorSteps; ++s) {
      double b[kTiles][2];
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const auto pair = load<2>(weights + (s * kTiles + j) * 64);
        b[j][0] = pair.item[0];
        b[j][1] = pair.item[1];
      }
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        double x[2][2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const float value = from[row * 2 * 3 * S::kInputRow + half * 16 + offsets[s][e]];
            const bool in_window = s * 8 + 6 + e < kWindow || s * 8 + 2 * t + e < kWindow;
            x[half][e] = static_cast<double>(in_window ? value : (s * 8 + 2 * t + e == kWindow ? 1.0F : 0.0F));
          }
        }
#pragma unroll
        for (int j = 0; j < kTiles; ++j) ptx::mma_f64_16x8x8(sums[row][j][0], sums[row][j][1], x[0], x[1], b[j]);
      }
    }
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const bool row_inside = static_cast<unsigned>(place.iy + first + row) < static_cast<unsigned>(a.h);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int column = g + half * 8;
        const bool outside =
            border && !(row_inside && static_cast<unsigned>(place.ix + column) < static_cast<unsigned>(a.w));
        float* const to = hidden + (first + row) * S::kHiddenRow + column * S::kHiddenPixel + t * 4;
#pragma unroll
        for (int j = 0; j < kTiles; j += 2) {
          Packet<float, 4> values;
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            values.item[e] = apply(a.expand_clip, static_cast<float>(sums[row][j + e / 2][half][e % 2]));
          }
          if (outside) values = {};
          store(to + j * kTensorColumns, values);
        }
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

  if constexpr (S::kTensorCores) {
    stem_on_tensor_cores<S>(a, place, shared, hidden);
  } else {
    stem<S>(a, place, shared, hidden);
  }
  __syncthreads();
  inverted_simt::depthwise<Block>(a, hidden, shared + S::kFrontAt, filtered);
  __syncthreads();
  inverted_simt::Project<Block> sums;
  sums.add(filtered, project_weights);
  sums.finish(a, place, shared, hidden, y);
}

}  // namespace mobicuda::kernels::stem_block_simt
