// The stages of an inverted residual block whose 1x1 convolutions are split products on tensor cores, on one tile of
// the output. A lane has four neighbouring k of a row where mma has two times two, as in split_gemm: a run of four
// channels of a pixel is half of a lane's fragment. sm_80 and newer.
#pragma once

#include "kernels/common/clip.cuh"
#include "kernels/common/packet.cuh"
#include "kernels/common/split_halves.cuh"
#include "kernels/inverted_residual/split/arguments.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/mma.cuh"

namespace mobicuda::kernels::inverted_split {

__device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }
using ptx::as_int::lane;
using ptx::as_int::warp;

using Words = Packet<std::uint32_t, 4>;

__device__ __forceinline__ Words load_words(const float* from) {
  return load<4>(reinterpret_cast<const std::uint32_t*>(from));
}

/// Begins to copy.
template <int kThreads, int kFloats>
__device__ __forceinline__ void copy_floats(float* to, const float* from) {
  static_assert(kFloats % 4 == 0);
#pragma unroll 1
  for (int at = thread() * 4; at < kFloats; at += kThreads * 4) {
    ptx::copy_async_cg_128_or_zero(reinterpret_cast<unsigned char*>(to + at), from + at, true);
  }
}

/// A tile of the output; its patch of the input starts at (iy, ix), which may lie outside the image.
struct Place {
  std::size_t n;
  int oy, ox;
  int iy, ix;
};

template <Config kConfig>
__device__ __forceinline__ Place locate(const Arguments& a) {
  std::uint32_t column;
  std::uint32_t row;
  Place place;
  place.n = a.tiles_y.divide(a.tiles_x.divide(blockIdx.x, column), row);
  place.oy = static_cast<int>(row) * kConfig.tile_h;
  place.ox = static_cast<int>(column) * kConfig.tile_w;
  place.iy = place.oy * kConfig.stride - a.pad_top;
  place.ix = place.ox * kConfig.stride - a.pad_left;
  return place;
}

/// 16 rows and k of the left factor, in the order in which mma has them.
struct Fragment {
  std::uint32_t hi[4], lo[4];

  /// Four k of row lane / 4, or, as the second half, of the row 8 below.
  __device__ __forceinline__ void set(int half, const Packet<float, 4>& values) {
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      const Halves halves = split(values.item[2 * pair], values.item[2 * pair + 1]);
      hi[pair * 2 + half] = halves.hi;
      lo[pair * 2 + half] = halves.lo;
    }
  }

  /// From shared memory, where a lane's halves of one row are side by side.
  __device__ __forceinline__ void load(const float* from) {
    const Words upper = load_words(from);
    const Words lower = load_words(from + kFragment);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      hi[i % 2 * 2 + i / 2] = upper.item[i];
      lo[i % 2 * 2 + i / 2] = lower.item[i];
    }
  }
};

/// sum += left * right but for the products of two upper halves. `right`: hi of four k, lo of four k.
__device__ __forceinline__ void add_lower(float (&sum)[4], const Fragment& left, const Words& right) {
  ptx::mma_16x8x16(sum, left.lo, right.item[0], right.item[1]);
  ptx::mma_16x8x16(sum, left.hi, right.item[2], right.item[3]);
}

__device__ __forceinline__ void add_upper(float (&sum)[4], const Fragment& left, const Words& right) {
  ptx::mma_16x8x16(sum, left.hi, right.item[0], right.item[1]);
}

/// hidden = clip(x * expand + bias), 0 outside the image. A lane's pixels of the patch stay in its registers, split
/// once for all hidden channels.
template <class S>
class Expand {
 public:
  /// Loads the patch, zeros outside the image.
  __device__ __forceinline__ void load(const Arguments& a, const Place& place, const float* x, float scale) {
    x += place.n * static_cast<std::size_t>(a.h * a.w) * kConfig.c_in;
    Pixel pixels[kTiles][2];
    outside_ = 0;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int pixel = (warp_m() + i * S::kSizes.expand_m) * kRows + half * 8 + lane() / 4;
        const int row = pixel / kPatchW;
        const int column = pixel % kPatchW;
        const int iy = place.iy + row;
        const int ix = place.ix + column;
        const bool present = pixel < S::kSizes.patch_pixels;
        const bool inside = present && static_cast<unsigned>(iy) < static_cast<unsigned>(a.h) &&
                            static_cast<unsigned>(ix) < static_cast<unsigned>(a.w);
        to_[i][half] = present ? row * S::kSizes.hidden_row + column * kUnit + lane() % 4 * 4 : -1;
        if (present && !inside) outside_ |= 1U << (2 * i + half);
        pixels[i][half].load(x + (iy * a.w + ix) * kConfig.c_in, inside);
      }
    }
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Pixel& pixel = pixels[i][half];
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          Packet<float, 4> values = pixel.runs[step];
#pragma unroll
          for (float& value : values.item) value *= scale;
          steps_[i][step].set(half, values);
        }
        if constexpr (kRest) {
          const Halves halves = split(pixel.rest.item[0] * scale, pixel.rest.item[1] * scale);
          rest_hi_[i][half] = halves.hi;
          rest_lo_[i][half] = halves.lo;
        }
      }
    }
  }

  __device__ __forceinline__ void run(const Arguments& a, const float* front, float* hidden) const {
#pragma unroll 1
    for (int unit = warp() / S::kSizes.expand_m; unit < S::kSizes.units; unit += kConfig.expand_n) {
      const float* const weights = front + unit * S::kSizes.unit_floats + lane() * 4;
      const float* const columns = front + unit * S::kSizes.unit_floats + kConfig.c_in * kUnit + lane() % 4 * 4;
      const auto scale = kernels::load<4>(columns);
      const auto bias = kernels::load<4>(columns + kUnit);
      float sums[kTiles][2][4];
#pragma unroll
      for (int step = 0; step < kSteps + (kRest ? 1 : 0); step += 2) add_slice(step, weights, sums);
      float* const plane = hidden + unit * S::kSizes.hidden_plane;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          Packet<float, 4> values;
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            values.item[e] = apply(a.expand_clip, fmaf(sums[i][e / 2][half * 2 + e % 2], scale.item[e], bias.item[e]));
          }
          if (to_[i][half] >= 0) store(plane + to_[i][half], values);
        }
      }
      if (outside_ != 0) put_zeros(plane);  // in tiles at the border
    }
  }

 private:
  static constexpr Config kConfig = S::kConfig;
  static constexpr int kTiles = S::kSizes.expand_tiles;
  static constexpr int kSteps = kConfig.c_in / kUnit;
  static constexpr bool kRest = kConfig.c_in % kUnit != 0;  // of 8 channels
  static constexpr int kPatchW = S::kSizes.patch_w;
  static_assert(kTiles <= 16, "bits of outside_");

  // A lane's channels of a pixel.
  struct Pixel {
    Packet<float, 4> runs[kSteps + 1];
    Packet<float, 2> rest;

    __device__ __forceinline__ void load(const float* from, bool inside) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        runs[step] = {};
        if (inside) runs[step] = kernels::load<4>(from + step * kUnit + lane() % 4 * 4);
      }
      rest = {};
      if (kRest && inside) rest = kernels::load<2>(from + kSteps * kUnit + lane() % 4 * 2);
    }
  };

  __device__ __forceinline__ static int warp_m() { return warp() % S::kSizes.expand_m; }

  // In pixels outside the image.
  __device__ __forceinline__ void put_zeros(float* plane) const {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if ((outside_ >> (2 * i + half) & 1U) != 0) store(plane + to_[i][half], Packet<float, 4>{});
      }
    }
  }

  // Adds the products of up to 32 k, two steps: their sum begins at zero.
  __device__ __forceinline__ void add_slice(int first, const float* weights, float (&sums)[kTiles][2][4]) const {
    const int steps = first + 2 <= kSteps ? 2 : kSteps - first;
    const bool rest = kRest && first + 2 > kSteps;
    Words right[2][2];
#pragma unroll
    for (int step = 0; step < steps; ++step) {
#pragma unroll
      for (int j = 0; j < 2; ++j) right[step][j] = load_words(weights + ((first + step) * 2 + j) * kFragment);
    }
    Words last{};  // hi, lo of either tile of columns
    if (rest) last = load_words(weights + kSteps * 2 * kFragment);
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float part[4] = {};
#pragma unroll
        for (int step = 0; step < steps; ++step) add_lower(part, steps_[i][first + step], right[step][j]);
        if (rest) {
          ptx::mma_16x8x8(part, rest_lo_[i][0], rest_lo_[i][1], last.item[2 * j]);
          ptx::mma_16x8x8(part, rest_hi_[i][0], rest_hi_[i][1], last.item[2 * j + 1]);
        }
#pragma unroll
        for (int step = 0; step < steps; ++step) add_upper(part, steps_[i][first + step], right[step][j]);
        if (rest) ptx::mma_16x8x8(part, rest_hi_[i][0], rest_hi_[i][1], last.item[2 * j]);
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][j][e] = first == 0 ? part[e] : sums[i][j][e] + part[e];
      }
    }
  }

  Fragment steps_[kTiles][kSteps + 1];
  std::uint32_t rest_hi_[kTiles][2], rest_lo_[kTiles][2];
  int to_[kTiles][2];  // in a plane of the hidden tensor; -1: behind the patch
  unsigned outside_;   // a bit for each pixel
};

/// Row number i of the filtered tensor that a strip's output has: strips side by side, then the next output of each.
/// Its place within 16 rows lets four strips side by side store to different banks.
__device__ __forceinline__ int row_offset(int row) {
  return ((row & 1) * 4 + (row >> 2 & 3) * 8) * 4 + (row >> 1 & 1) * 2;
}

/// filtered = clip(3x3 of hidden + bias), as factors of project: weights, bias and clip are of the scaled values. Each
/// thread has a strip of outputs for some channels, and meets every row of hidden once. Neighbouring lanes have the
/// channels of one unit, then the next strip below.
template <class S>
__device__ __forceinline__ void depthwise(Clip clip, const float* hidden, const float* front, float* filtered) {
  constexpr Config kConfig = S::kConfig;
  constexpr int kC = kConfig.strip_c;
  constexpr int kH = kConfig.strip_h;
  constexpr int kW = kConfig.strip_w;
  constexpr int kStride = kConfig.stride;
  constexpr int kInputs = (kW - 1) * kStride + 3;  // of a row
  constexpr int kLanes = kUnit / kC;               // for one unit
  if (S::kSizes.strip_items < S::kThreads && thread() >= S::kSizes.strip_items) return;
  const int unit = thread() / (kLanes * S::kSizes.strips);
  const int strip = thread() / kLanes % S::kSizes.strips;
  const int oy = min(strip % S::kSizes.strips_y * kH, kConfig.tile_h - kH);
  const int ox = min(strip / S::kSizes.strips_y * kW, kConfig.tile_w - kW);
  const int c = thread() % kLanes * kC;
  const float* const weights = front + unit * S::kSizes.unit_floats + (kConfig.c_in + 2) * kUnit + c;
  const float* const from =
      hidden + unit * S::kSizes.hidden_plane + oy * kStride * S::kSizes.hidden_row + ox * kStride * kUnit + c;
  Packet<float, kC> taps[kTaps];
#pragma unroll
  for (int tap = 0; tap < kTaps; ++tap) taps[tap] = load<kC>(weights + tap * kUnit);
  const auto bias = load<kC>(weights + kTaps * kUnit);
  Packet<float, kC> sums[kH][kW];
#pragma unroll
  for (auto& row : sums) {
#pragma unroll
    for (auto& sum : row) sum = bias;
  }
#pragma unroll
  for (int row = 0; row < (kH - 1) * kStride + 3; ++row) {
    Packet<float, kC> values[kInputs];
#pragma unroll
    for (int column = 0; column < kInputs; ++column) {
      values[column] = load<kC>(from + row * S::kSizes.hidden_row + column * kUnit);
    }
#pragma unroll
    for (int ky = 0; ky < 3; ++ky) {
      if ((row - ky) % kStride != 0 || row < ky || (row - ky) / kStride >= kH) continue;
      const int y = (row - ky) / kStride;
#pragma unroll
      for (int kx = 0; kx < 3; ++kx) {
#pragma unroll
        for (int e = 0; e < kC; ++e) {
#pragma unroll
          for (int x = 0; x < kW; ++x) {
            sums[y][x].item[e] = fmaf(values[x * kStride + kx].item[e], taps[ky * 3 + kx].item[e], sums[y][x].item[e]);
          }
        }
      }
    }
  }
  constexpr int kTileWords = 2 * kFragment;  // of a step: hi, lo
  auto* const to = reinterpret_cast<std::uint32_t*>(filtered) + strip / kRows * (S::kSizes.units * kTileWords) +
                   unit * kTileWords + row_offset(strip % kRows) + c / 4 * 4 + c % 4 / 2;
#pragma unroll
  for (int y = 0; y < kH; ++y) {
#pragma unroll
    for (int x = 0; x < kW; ++x) {
      constexpr int kSlots = S::kSizes.slots;
      const int row = (y * kW + x) * kSlots;
      std::uint32_t* const at =
          to + row / kRows * (S::kSizes.units * kTileWords) + (kSlots < kRows ? row_offset(row % kRows) : 0);
      Packet<std::uint32_t, kC / 2> hi;
      Packet<std::uint32_t, kC / 2> lo;
#pragma unroll
      for (int e = 0; e < kC; e += 2) {
        const Halves halves = split(apply(clip, sums[y][x].item[e]), apply(clip, sums[y][x].item[e + 1]));
        hi.item[e / 2] = halves.hi;
        lo.item[e / 2] = halves.lo;
      }
      store(at, hi);
      store(at + kFragment, lo);
    }
  }
}

/// y = filtered * project + bias [+ x]: sums stay in registers over all chunks of a tile.
template <class S>
class Project {
 public:
  __device__ __forceinline__ Project() {
#pragma unroll
    for (auto& row : sums_) {
#pragma unroll
      for (auto& tile : row) {
#pragma unroll
        for (float& sum : tile) sum = 0.0F;
      }
    }
  }

  __device__ __forceinline__ void add(const float* filtered, const float* weights) {
#pragma unroll
    for (int first = 0; first < S::kSizes.units; first += kSlice) {
      constexpr int kUnits = S::kSizes.units;
      Fragment left[kM][kSlice];
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        if (is_nobodys(m)) continue;
#pragma unroll
        for (int step = 0; step < kSlice; ++step) {
          if (first + step >= kUnits) break;
          left[m][step].load(filtered + (tile(m) * kUnits + first + step) * (2 * kFragment) + lane() * 4);
        }
      }
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        Words right[kSlice];
#pragma unroll
        for (int step = 0; step < kSlice; ++step) {
          if (first + step >= kUnits) break;
          right[step] = load_words(
              weights + ((first + step) * (kConfig.c_out / kColumns) + column_tile(n)) * kFragment + lane() * 4);
        }
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          if (is_nobodys(m)) continue;
          float part[4] = {};
#pragma unroll
          for (int step = 0; step < kSlice; ++step) {
            if (first + step < kUnits) add_lower(part, left[m][step], right[step]);
          }
#pragma unroll
          for (int step = 0; step < kSlice; ++step) {
            if (first + step < kUnits) add_upper(part, left[m][step], right[step]);
          }
#pragma unroll
          for (int e = 0; e < 4; ++e) sums_[m][n][e] += part[e];
        }
      }
    }
  }

  __device__ __forceinline__ void finish(const Arguments& a, const Place& place, const float* shared, const float* x,
                                         float* y) const {
    y += place.n * static_cast<std::size_t>(a.out_h * a.out_w) * kConfig.c_out;
    x += place.n * static_cast<std::size_t>(a.h * a.w) * kConfig.c_in;
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int pixel = pixel_of(a, place, tile(m) * kRows + row_in_tile(half));
        if (pixel < 0) continue;
#pragma unroll
        for (int n = 0; n + 2 <= kN; n += 2) {
          Packet<float, 4> values;
#pragma unroll
          for (int e = 0; e < 4; ++e) values.item[e] = sums_[m][n + e / 2][half * 2 + e % 2];
          store_outputs(a, shared, x, y, pixel, column_tile(n) * kColumns + lane() % 4 * 4, values);
        }
        if constexpr (kN % 2 != 0) {
          const Packet<float, 2> values{sums_[m][kN - 1][half * 2], sums_[m][kN - 1][half * 2 + 1]};
          store_outputs(a, shared, x, y, pixel, column_tile(kN - 1) * kColumns + lane() % 4 * 2, values);
        }
      }
    }
  }

 private:
  static constexpr Config kConfig = S::kConfig;
  static constexpr int kM = S::kSizes.project_rows;
  static constexpr int kN = S::kSizes.project_columns;
  static constexpr int kSlice = S::kSizes.units < 2 ? 1 : 2;  // units whose sum begins at zero

  __device__ __forceinline__ static int tile(int m) { return warp() % S::kSizes.project_m + m * S::kSizes.project_m; }
  __device__ __forceinline__ static bool is_nobodys(int m) {
    return kM * S::kSizes.project_m > S::kSizes.row_tiles && m == kM - 1 && tile(m) >= S::kSizes.row_tiles;
  }
  __device__ __forceinline__ static int column_tile(int n) { return warp() / S::kSizes.project_m * kN + n; }

  // The inverse of row_offset().
  __device__ __forceinline__ static int row_in_tile(int half) {
    const int row = lane() / 4;
    return (row & 1) + half * 2 + (row >> 1) * 4;
  }

  // The pixel of the output whose sums are in a row of the filtered tensor; -1 where it lies outside, or is another
  // row's.
  __device__ __forceinline__ static int pixel_of(const Arguments& a, const Place& place, int row) {
    constexpr int kH = kConfig.strip_h;
    constexpr int kW = kConfig.strip_w;
    const int strip = row % S::kSizes.slots;
    const int output = row / S::kSizes.slots;
    const int strip_y = strip % S::kSizes.strips_y * kH;
    const int strip_x = strip / S::kSizes.strips_y * kW;
    const int tile_y = min(strip_y, kConfig.tile_h - kH) + output / kW;
    const int tile_x = min(strip_x, kConfig.tile_w - kW) + output % kW;
    const int oy = place.oy + tile_y;
    const int ox = place.ox + tile_x;
    const bool own = strip < S::kSizes.strips && output < kH * kW && tile_y >= strip_y && tile_x >= strip_x;
    return own && oy < a.out_h && ox < a.out_w ? oy * a.out_w + ox : -1;
  }

  template <int N>
  __device__ __forceinline__ static void store_outputs(const Arguments& a, const float* shared, const float* x,
                                                       float* y, int pixel, int column, Packet<float, N> values) {
    const auto bias = load<N>(shared + S::kSizes.bias_at + column);
    const auto scale = load<N>(shared + S::kSizes.scale_at + column);
    Packet<float, N> residual{};
    if constexpr (kConfig.stride == 1 && kConfig.c_in == kConfig.c_out) {
      // y has x's shape. What is split would have lost bits.
      if (a.residual) residual = load<N>(x + (pixel * kConfig.c_in + column));
    }
#pragma unroll
    for (int e = 0; e < N; ++e) {
      values.item[e] = apply(a.project_clip, fmaf(values.item[e], scale.item[e], bias.item[e]) + residual.item[e]);
    }
    store(y + (pixel * kConfig.c_out + column), values);
  }

  float sums_[kM][kN][4];
};

}  // namespace mobicuda::kernels::inverted_split
