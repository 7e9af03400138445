// The stages of an inverted residual block on one tile of the output, all from shared memory to shared memory or
// registers. sm_80 and newer.
#pragma once

#include "kernels/common/clip.cuh"
#include "kernels/inverted_residual/tile/arguments.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mma.cuh"

namespace mobicuda::kernels::inverted {

using ptx::as_int::lane;
using ptx::as_int::warp;

/// A tile of the output; its patch of the input starts at (iy, ix), which may lie outside the image.
struct Place {
  std::uint32_t n;
  int oy, ox;
  int iy, ix;
};

template <Config kConfig>
__device__ __forceinline__ Place locate(const Arguments& a, std::uint32_t tile) {
  std::uint32_t column;
  std::uint32_t row;
  Place place;
  place.n = a.tiles_y.divide(a.tiles_x.divide(tile, column), row);
  place.oy = static_cast<int>(row) * kConfig.tile_h;
  place.ox = static_cast<int>(column) * kConfig.tile_w;
  place.iy = place.oy * kConfig.stride - a.pad_top;
  place.ix = place.ox * kConfig.stride - a.pad_left;
  return place;
}

/// Begins to copy `bytes`, a multiple of 16.
template <int kThreads>
__device__ __forceinline__ void copy_bytes(unsigned char* to, const unsigned char* from, int bytes) {
  for (int at = static_cast<int>(threadIdx.x) * 16; at < bytes; at += kThreads * 16)
    ptx::copy_async_cg_128_or_zero(to + at, from + at, true);
}

/// Begins to copy the input of a tile, zeros outside the image and beyond c_in. Splits in two so that the addresses
/// of a thread's first copy are known before wait_for_predecessor().
template <Config kConfig>
class PatchCopy {
 public:
  __device__ __forceinline__ PatchCopy(const Arguments& a, const Place& place, const __half* x, unsigned char* patch)
      : a_(a),
        place_(place),
        x_(x +
           static_cast<std::size_t>(place.n) * static_cast<std::size_t>(a.h * a.w) * static_cast<std::size_t>(a.c_in)),
        patch_(patch),
        items_(S::kPatchPixels * (kConfig.expand ? a.k_steps : a.units) * 2) {
    prepare(static_cast<int>(threadIdx.x));
  }

  __device__ __forceinline__ void start() {
    for (int item = static_cast<int>(threadIdx.x); item < items_; item += S::kThreads) {
      if (item >= S::kThreads) prepare(item);
      ptx::copy_async_cg_128_or_zero(to_, from_, present_);
      if (c_ == 0) {
        auto* const masks = reinterpret_cast<std::uint32_t*>(patch_ + S::kPatchRows * a_.patch_row_bytes);
        masks[pixel_] = inside_ ? ~0U : 0U;
      }
    }
  }

 private:
  using S = Shape<kConfig>;

  __device__ __forceinline__ void prepare(int item) {
    std::uint32_t vector;
    pixel_ = static_cast<int>(a_.patch_vectors.divide(static_cast<std::uint32_t>(item), vector));
    c_ = static_cast<int>(vector) * 8;
    const int iy = place_.iy + pixel_ / S::kPatchW;
    const int ix = place_.ix + pixel_ % S::kPatchW;
    inside_ = iy >= 0 && iy < a_.h && ix >= 0 && ix < a_.w;
    present_ = inside_ && c_ < a_.c_in;
    to_ = patch_ + pixel_ * a_.patch_row_bytes + c_ * 2;
    from_ = present_ ? x_ + ((iy * a_.w + ix) * a_.c_in + c_) : x_;
  }

  const Arguments& a_;
  Place place_;
  const __half* x_;  // of the image
  unsigned char* patch_;
  int items_;
  int pixel_;
  int c_;
  bool inside_;
  bool present_;
  unsigned char* to_;
  const __half* from_;
};

/// hidden (pixels of the patch, channels of the chunk) = clip(patch * expand + bias), 0 outside the image.
template <Config kConfig>
__device__ __forceinline__ void expand(const Arguments& a, const unsigned char* patch, const unsigned char* units,
                                       int live_units, unsigned char* hidden) {
  using S = Shape<kConfig>;
  constexpr int kM = kConfig.expand_m;
  constexpr int kN = kConfig.expand_n;
  constexpr int kItemsM = S::kPatchRows / 16 / kM;
  constexpr int kItems = kItemsM * (S::kUnits / kN);
  const auto* const masks = reinterpret_cast<const std::uint32_t*>(patch + S::kPatchRows * a.patch_row_bytes);
#pragma unroll 1
  for (int item = warp(); item < kItems; item += S::kWarps) {
    const int row0 = item % kItemsM * (16 * kM);
    const int unit0 = item / kItemsM * kN;
    if (unit0 >= live_units) break;
    const unsigned char* const unit = units + unit0 * a.unit.bytes;
    float sums[kM][kN][2][4];
#pragma unroll
    for (int n = 0; n < kN; ++n) {
      const auto bias =
          *reinterpret_cast<const float4*>(unit + n * a.unit.bytes + a.unit.expand_bias + lane() % 4 * 16);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        sums[m][n][0][0] = sums[m][n][0][2] = bias.x;
        sums[m][n][0][1] = sums[m][n][0][3] = bias.y;
        sums[m][n][1][0] = sums[m][n][1][2] = bias.z;
        sums[m][n][1][1] = sums[m][n][1][3] = bias.w;
      }
    }
    const unsigned char* const rows = patch + (row0 + lane() % 16) * a.patch_row_bytes + lane() / 16 * 16;
#pragma unroll 2
    for (int k = 0; k < a.k_steps; ++k) {
      std::uint32_t pixels[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m) ptx::ldmatrix_x4(pixels[m], rows + m * 16 * a.patch_row_bytes + k * 32);
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        const auto weights =
            *reinterpret_cast<const uint4*>(unit + n * a.unit.bytes + k * kFragmentBytes + lane() * 16);
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          ptx::mma_16x8x16(sums[m][n][0], pixels[m], weights.x, weights.y);
          ptx::mma_16x8x16(sums[m][n][1], pixels[m], weights.z, weights.w);
        }
      }
    }
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const int row = row0 + m * 16 + lower * 8 + lane() / 4;
        const std::uint32_t mask = masks[row];
        unsigned char* const to = hidden + row * S::kHiddenRowBytes + unit0 * 32 + lane() % 4 * 8;
#pragma unroll
        for (int n = 0; n < kN; ++n) {
          const auto& sum = sums[m][n];
          const __half2 values[2] = {apply(a.expand_clip, __floats2half2_rn(sum[0][lower * 2], sum[0][lower * 2 + 1])),
                                     apply(a.expand_clip, __floats2half2_rn(sum[1][lower * 2], sum[1][lower * 2 + 1]))};
          uint2 words;
          memcpy(&words, values, sizeof words);
          words.x &= mask;
          words.y &= mask;
          *reinterpret_cast<uint2*>(to + n * 32) = words;
        }
      }
    }
  }
}

/// filtered (output pixels, channels of the chunk) = clip(3x3 of hidden + bias). A thread walks down a strip of
/// outputs, for two channels.
template <Config kConfig>
__device__ __forceinline__ void depthwise(const Arguments& a, const unsigned char* hidden, int hidden_row_bytes,
                                          const unsigned char* units, int live_units, unsigned char* filtered) {
  using S = Shape<kConfig>;
  constexpr int kRows = kConfig.strip_h;
  constexpr int kColumns = kConfig.strip_w;
  constexpr int kStride = kConfig.stride;
#pragma unroll 1
  for (int item = static_cast<int>(threadIdx.x); item < S::kStrips * S::kChannelPairs; item += S::kThreads) {
    const int pair = item % S::kChannelPairs;
    const int strip = item / S::kChannelPairs;
    if (pair >= live_units * (kUnit / 2)) continue;
    const unsigned char* const unit = units + pair / 8 * a.unit.bytes;
    const int oy = strip / S::kStripsX * kRows;
    const int ox = strip % S::kStripsX * kColumns;
    const unsigned char* const from = hidden + (oy * S::kPatchW + ox) * kStride * hidden_row_bytes + pair * 4;
    unsigned char* const to = filtered + (oy * kConfig.tile_w + ox) * S::kFilteredRowBytes + pair * 4;

    float2 taps[9];
#pragma unroll
    for (int tap = 0; tap < 9; ++tap) {
      taps[tap] =
          __half22float2(*reinterpret_cast<const __half2*>(unit + a.unit.taps + tap * kTapBytes + pair % 8 * 4));
    }
    const auto bias = *reinterpret_cast<const float2*>(unit + a.unit.depthwise_bias + pair % 8 * 8);
    float2 sums[kRows][kColumns];
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
#pragma unroll
      for (int column = 0; column < kColumns; ++column) sums[row][column] = bias;
    }
#pragma unroll
    for (int row = 0; row < (kRows - 1) * kStride + 3; ++row) {
#pragma unroll
      for (int j = 0; j < (kColumns - 1) * kStride + 3; ++j) {
        const float2 value =
            __half22float2(*reinterpret_cast<const __half2*>(from + (row * S::kPatchW + j) * hidden_row_bytes));
#pragma unroll
        for (int ky = 0; ky < 3; ++ky) {
          const int below = row - ky;
          if (below < 0 || below % kStride != 0 || below / kStride >= kRows) continue;
#pragma unroll
          for (int kx = 0; kx < 3; ++kx) {
            const int right = j - kx;
            if (right < 0 || right % kStride != 0 || right / kStride >= kColumns) continue;
            float2& sum = sums[below / kStride][right / kStride];
            sum.x = fmaf(value.x, taps[ky * 3 + kx].x, sum.x);
            sum.y = fmaf(value.y, taps[ky * 3 + kx].y, sum.y);
          }
        }
      }
      if (row < 2 || (row - 2) % kStride != 0) continue;

      const int done = (row - 2) / kStride;
#pragma unroll
      for (int column = 0; column < kColumns; ++column) {
        const float2 sum = sums[done][column];
        *reinterpret_cast<__half2*>(to + (done * kConfig.tile_w + column) * S::kFilteredRowBytes) =
            apply(a.depthwise_clip, __floats2half2_rn(sum.x, sum.y));
      }
    }
  }
}

/// Adds bias and residual to 4 neighbouring sums of an output pixel, clips, rounds and stores them.
template <Config kConfig>
__device__ __forceinline__ void finish(const Arguments& a, const Place& place, const unsigned char* patch,
                                       const float* bias, int pixel, int column, float4 sum, __half* y) {
  const int ty = pixel / kConfig.tile_w;
  const int tx = pixel % kConfig.tile_w;
  if (place.oy + ty >= a.out_h || place.ox + tx >= a.out_w || column >= a.c_out) return;
  const auto offset = *reinterpret_cast<const float4*>(bias + column);
  float values[4] = {sum.x + offset.x, sum.y + offset.y, sum.z + offset.z, sum.w + offset.w};
  if (a.residual) {
    const int center = (ty + a.pad_top) * Shape<kConfig>::kPatchW + tx + a.pad_left;
    const auto words = *reinterpret_cast<const uint2*>(patch + center * a.patch_row_bytes + column * 2);
    __half2 pairs[2];
    memcpy(pairs, &words, sizeof pairs);
    const float2 low = __half22float2(pairs[0]);
    const float2 high = __half22float2(pairs[1]);
    values[0] += low.x;
    values[1] += low.y;
    values[2] += high.x;
    values[3] += high.y;
  }
#pragma unroll
  for (float& value : values) value = apply(a.project_clip, value);
  const __half2 rounded[2] = {__floats2half2_rn(values[0], values[1]), __floats2half2_rn(values[2], values[3])};
  __half* const picture = y + static_cast<std::size_t>(place.n) * static_cast<std::size_t>(a.out_h * a.out_w) *
                                  static_cast<std::size_t>(a.c_out);
  uint2 words;
  memcpy(&words, rounded, sizeof words);
  *reinterpret_cast<uint2*>(picture + (((place.oy + ty) * a.out_w + place.ox + tx) * a.c_out + column)) = words;
}

/// The sums of project, which a warp keeps in registers over all chunks of a tile.
template <Config kConfig>
class Projection {
 public:
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (auto& row : sums_) {
#pragma unroll
      for (auto& pair : row) {
#pragma unroll
        for (auto& fragment : pair) {
#pragma unroll
          for (float& sum : fragment) sum = 0.0F;
        }
      }
    }
  }

  __device__ __forceinline__ void add(const Arguments& a, const unsigned char* filtered, const unsigned char* units,
                                      int live_units) {
#pragma unroll 2
    for (int k = warp_k(); k < live_units; k += kConfig.warps_k) {
      const unsigned char* const weights = units + k * a.unit.bytes + a.unit.project + lane() * 16;
      uint4 w[S::kProjectN];
#pragma unroll
      for (int j = 0; j < S::kProjectN; ++j) {
        if (pair(j) < a.n_pairs) w[j] = *reinterpret_cast<const uint4*>(weights + pair(j) * kFragmentBytes);
      }
#pragma unroll
      for (int i = 0; i < S::kProjectM; ++i) {
        if (!has_rows(i)) break;
        std::uint32_t pixels[4];
        ptx::ldmatrix_x4(pixels, filtered + (row(i) + lane() % 16) * S::kFilteredRowBytes + k * 32 + lane() / 16 * 16);
#pragma unroll
        for (int j = 0; j < S::kProjectN; ++j) {
          if (pair(j) >= a.n_pairs) continue;
          ptx::mma_16x8x16(sums_[i][j][0], pixels, w[j].x, w[j].y);
          ptx::mma_16x8x16(sums_[i][j][1], pixels, w[j].z, w[j].w);
        }
      }
    }
  }

  /// Finishes the tile. `partial` is the hidden tensor's memory, which no thread reads any more.
  __device__ __forceinline__ void finish_tile(const Arguments& a, const Place& place, const unsigned char* patch,
                                              const float* bias, float* partial, __half* y) const {
    const int stride = S::partial_row(a.n_pairs);
#pragma unroll
    for (int i = 0; i < S::kProjectM; ++i) {
      if (!has_rows(i)) break;
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const int pixel = row(i) + lower * 8 + lane() / 4;
#pragma unroll
        for (int j = 0; j < S::kProjectN; ++j) {
          if (pair(j) >= a.n_pairs) continue;
          const auto& sums = sums_[i][j];
          const float4 sum{sums[0][lower * 2], sums[0][lower * 2 + 1], sums[1][lower * 2], sums[1][lower * 2 + 1]};
          const int column = pair(j) * 16 + lane() % 4 * 4;
          if constexpr (kConfig.warps_k == 1) {
            if (pixel < S::kOutPixels) finish<kConfig>(a, place, patch, bias, pixel, column, sum, y);
          } else {
            *reinterpret_cast<float4*>(partial + (warp_k() * S::kOutRows + pixel) * stride + column) = sum;
          }
        }
      }
    }
    if constexpr (kConfig.warps_k > 1) {
      __syncthreads();
      reduce(a, place, patch, bias, partial, y);
    }
  }

 private:
  using S = Shape<kConfig>;

  __device__ __forceinline__ static int warp_m() { return warp() % kConfig.warps_m; }
  __device__ __forceinline__ static int warp_n() { return warp() / kConfig.warps_m % kConfig.warps_n; }
  __device__ __forceinline__ static int warp_k() { return warp() / (kConfig.warps_m * kConfig.warps_n); }
  __device__ __forceinline__ static int row(int i) { return (warp_m() + i * kConfig.warps_m) * 16; }
  __device__ __forceinline__ static bool has_rows(int i) {
    return S::kOutRows / 16 % kConfig.warps_m == 0 || row(i) < S::kOutRows;
  }
  __device__ __forceinline__ static int pair(int j) { return warp_n() + j * kConfig.warps_n; }

  __device__ __forceinline__ static void reduce(const Arguments& a, const Place& place, const unsigned char* patch,
                                                const float* bias, const float* partial, __half* y) {
    const int stride = S::partial_row(a.n_pairs);
    const int quads = a.c_out / 4;
    for (int item = static_cast<int>(threadIdx.x); item < S::kOutPixels * quads; item += S::kThreads) {
      std::uint32_t quad;
      const auto pixel = static_cast<int>(a.out_quads.divide(static_cast<std::uint32_t>(item), quad));
      const int column = static_cast<int>(quad) * 4;
      float4 sum{};
#pragma unroll
      for (int k = 0; k < kConfig.warps_k; ++k) {
        const auto part = *reinterpret_cast<const float4*>(partial + (k * S::kOutRows + pixel) * stride + column);
        sum.x += part.x;
        sum.y += part.y;
        sum.z += part.z;
        sum.w += part.w;
      }
      finish<kConfig>(a, place, patch, bias, pixel, column, sum, y);
    }
  }

  float sums_[S::kProjectM][S::kProjectN][2][4];
};

}  // namespace mobicuda::kernels::inverted
