// The stages of an inverted residual block in exact float, on one tile of the output. The two 1x1 convolutions are FFMA
// on register tiles. The register file gives one operand of each parity a clock, so what counts is that neighbouring
// FFMAs share an operand, which is then read once: X lies in rows of pixels, of which a thread reads 4 channels at a
// time, weights with the output channels side by side. stem_block in exact float has the last two stages from here; the
// namespace is both kernels'.
#pragma once

#include "kernels/common/clip.cuh"
#include "kernels/common/packet.cuh"
#include "kernels/common/simt_tile.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/lane.cuh"

namespace mobicuda::kernels::inverted_simt {

__device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }
using ptx::as_int::lane;
using ptx::as_int::warp;

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

/// Begins to copy the patch, zeros outside the image: as the input of expand, or, without that, as the hidden tensor.
template <class S>
__device__ __forceinline__ void copy_patch(const Arguments& a, const Place& place, const float* x, float* shared) {
  constexpr Config kConfig = S::kConfig;
  constexpr int kVectors = kConfig.c_in / 4;
  constexpr int kPixels = S::kThreads / kVectors;  // at once
  if (S::kThreads % kVectors != 0 && thread() >= kPixels * kVectors) return;
  const int c = thread() % kVectors * 4;
  x += place.n * static_cast<std::size_t>(a.h * a.w) * kConfig.c_in + c;
  int pixel = thread() / kVectors;
  int row = pixel / S::kPatchW;
  int column = pixel % S::kPatchW;
#pragma unroll 2
  for (; pixel < S::kPatchPixels; pixel += kPixels) {
    const int iy = place.iy + row;
    const int ix = place.ix + column;
    const bool inside = static_cast<unsigned>(iy) < static_cast<unsigned>(a.h) &&
                        static_cast<unsigned>(ix) < static_cast<unsigned>(a.w);
    float* const to = shared + (S::kExpand ? S::kPatchAt + pixel * S::kPatchStride
                                           : S::kHiddenAt + row * S::kHiddenRow + column * S::kHiddenPixel);
    ptx::copy_async_cg_128_or_zero(reinterpret_cast<unsigned char*>(to + c),
                                   inside ? x + (iy * a.w + ix) * kConfig.c_in : x, inside);
    if (S::kExpand && c == 0) to[kConfig.c_in] = inside ? 1.0F : 0.0F;
    row += kPixels / S::kPatchW;
    column += kPixels % S::kPatchW;
    if (column >= S::kPatchW) {
      column -= S::kPatchW;
      ++row;
    }
  }
}

template <int N>
__device__ __forceinline__ void load_floats(float (&to)[N], const float* from) {
  const auto packet = load<N>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = packet.item[i];
}

/// Columns of a thread among the kLanes * kN of its warp: runs of four, then one of two; neighbouring lanes have
/// neighbouring runs.
template <int kN, int kLanes>
__device__ __forceinline__ int column_of(int lane_x, int j) {
  constexpr int kWide = kN / 4 * 4;
  return j < kWide ? j / 4 * (4 * kLanes) + lane_x * 4 + j % 4 : kWide * kLanes + lane_x * 2 + (j - kWide);
}

template <int kN, int kLanes>
__device__ __forceinline__ void load_columns(float (&to)[kN], const float* from, int lane_x) {
#pragma unroll
  for (int j = 0; j + 4 <= kN; j += 4) {
    const auto packet = load<4>(from + column_of<kN, kLanes>(lane_x, j));
#pragma unroll
    for (int e = 0; e < 4; ++e) to[j + e] = packet.item[e];
  }
  if constexpr (kN % 4 != 0) {
    const auto packet = load<2>(from + column_of<kN, kLanes>(lane_x, kN / 4 * 4));
    to[kN - 2] = packet.item[0];
    to[kN - 1] = packet.item[1];
  }
}

/// sums = start + x * w for four k; x in rows kStrideX apart, w in rows of k kStrideW apart.
template <int kM, int kN, int kLanes, int kStrideX, int kStrideW, class Start>
__device__ __forceinline__ void multiply_add(float (&sums)[kM][kN], const Start& start, const float* x, const float* w,
                                             int lane_x) {
  float a[kM][4];
#pragma unroll
  for (int m = 0; m < kM; ++m) load_floats(a[m], x + m * kStrideX);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    float b[kN];
    load_columns<kN, kLanes>(b, w + k * kStrideW, lane_x);
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int n = 0; n < kN; ++n) sums[m][n] = fmaf(a[m][k], b[n], k == 0 ? start(m, n) : sums[m][n]);
    }
  }
}

/// hidden = clip(patch * expand + bias), 0 outside the image. A warp has 16 channels, of which two lanes side by side
/// have 8 each. `border`: some of the patch lies outside.
template <class S>
__device__ __forceinline__ void expand(const Arguments& a, bool border, const float* patch, const float* front,
                                       float* hidden) {
  constexpr Config kConfig = S::kConfig;
  constexpr int kM = kConfig.expand_rows;
  constexpr int kN = kExpandColumns;
  constexpr int kRows = kExpandLanes;
  constexpr int kWarpsM = kConfig.warps / S::kUnits;
  const int unit = warp() % S::kUnits;
  const int lane_x = lane() % 2;
  const float* const weights = front + unit * S::kUnitFloats;
#pragma unroll 1
  for (int first = warp() / S::kUnits * (kM * kRows); first < S::kPatchPixels; first += kWarpsM * kM * kRows) {
    const int row0 = first + lane() / 2;
    const float* const rows = patch + row0 * S::kPatchStride;
    float bias[kN];
    load_columns<kN, 2>(bias, weights + kConfig.c_in * kExpandUnit, lane_x);
    float sums[kM][kN];
    const auto quad = [&](int k, const auto& start) {
      multiply_add<kM, kN, 2, kRows * S::kPatchStride, kExpandUnit>(sums, start, rows + k, weights + k * kExpandUnit,
                                                                    lane_x);
    };
    quad(0, [&](int, int n) { return bias[n]; });
#pragma unroll 1
    for (int k = 4; k < kConfig.c_in; k += 4) quad(k, [&](int m, int n) { return sums[m][n]; });
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      const int row = row0 + m * kRows;
      if (row >= S::kPatchPixels) break;
      float* const to = hidden + row * S::kHiddenPixel + row / S::kPatchW * kConfig.hidden_row_pad + unit * kExpandUnit;
      const bool outside = border && rows[m * kRows * S::kPatchStride + kConfig.c_in] == 0.0F;
#pragma unroll
      for (int n = 0; n < kN; n += 4) {
        Packet<float, 4> values;
#pragma unroll
        for (int e = 0; e < 4; ++e) values.item[e] = apply(a.expand_clip, sums[m][n + e]);
        if (outside) values = {};
        store(to + column_of<kN, 2>(lane_x, n), values);
      }
    }
  }
}

/// filtered = clip(3x3 of hidden + bias). Each thread has a strip of outputs for some channels, and meets every row of
/// hidden once. Neighbouring lanes have the channels of one unit, then the next strip below.
template <class S>
__device__ __forceinline__ void depthwise(const Arguments& a, const float* hidden, const float* front,
                                          float* filtered) {
  constexpr Config kConfig = S::kConfig;
  constexpr int kC = kConfig.strip_c;
  constexpr int kH = kConfig.strip_h;
  constexpr int kW = kConfig.strip_w;
  constexpr int kStride = kConfig.stride;
  constexpr int kColumns = (kW - 1) * kStride + 3;
  constexpr int kLanes = S::kUnit / kC;  // for one unit
  const bool busy = thread() < S::kStripItems;
  float sums[kH][kW][kC];
  const int unit = thread() / (kLanes * S::kStrips);
  const int strip = thread() / kLanes % S::kStrips;
  const int oy = strip % S::kStripsY * kH;
  const int ox = strip / S::kStripsY * kW;
  const int c = thread() % kLanes * kC;
  if (busy) {
    const float* const weights = front + unit * S::kUnitFloats + S::kExpandFloats + c;
    const float* const from =
        hidden + oy * kStride * S::kHiddenRow + ox * kStride * S::kHiddenPixel + unit * S::kUnit + c;
    float taps[kTaps][kC];
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) load_floats(taps[tap], weights + tap * S::kUnit);
    float bias[kC];
    load_floats(bias, weights + kTaps * S::kUnit);
#pragma unroll
    for (int y = 0; y < kH; ++y) {
#pragma unroll
      for (int x = 0; x < kW; ++x) {
#pragma unroll
        for (int e = 0; e < kC; ++e) sums[y][x][e] = bias[e];
      }
    }
#pragma unroll
    for (int row = 0; row < (kH - 1) * kStride + 3; ++row) {
      float values[kColumns][kC];
#pragma unroll
      for (int column = 0; column < kColumns; ++column) {
        load_floats(values[column], from + row * S::kHiddenRow + column * S::kHiddenPixel);
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
              sums[y][x][e] = fmaf(values[x * kStride + kx][e], taps[ky * 3 + kx][e], sums[y][x][e]);
            }
          }
        }
      }
    }
  }
  if constexpr (S::kInPlace) __syncthreads();
  if (busy) {
    float* const to = filtered + (oy * kConfig.tile_w + ox) * S::kFilteredStride + unit * S::kUnit + c;
#pragma unroll
    for (int y = 0; y < kH; ++y) {
#pragma unroll
      for (int x = 0; x < kW; ++x) {
        Packet<float, kC> values;
#pragma unroll
        for (int e = 0; e < kC; ++e) values.item[e] = apply(a.depthwise_clip, sums[y][x][e]);
        store(to + (y * kConfig.tile_w + x) * S::kFilteredStride, values);
      }
    }
  }
}

/// y = filtered * project + bias [+ x]: sums stay in registers over all chunks of a tile. A warp has 8 rows of lanes
/// and 4 columns.
template <class S>
class Project {
 public:
  __device__ __forceinline__ Project() {
#pragma unroll
    for (auto& row : sums_) {
#pragma unroll
      for (float& sum : row) sum = 0.0F;
    }
  }

  __device__ __forceinline__ void add(const float* filtered, const float* project) {
    if (!busy()) return;
    constexpr int kK = kConfig.chunk / kConfig.project_k;
    const float* const x = filtered + row(0) * S::kFilteredStride + group() * kK;
    const float* const w = project + group() * kK * S::kProjectColumns + column0();
#pragma unroll 1
    for (int k = 0; k < kK; k += 4) {
      multiply_add<kM, kN, kLanes, kRows * S::kFilteredStride, S::kProjectColumns>(
          sums_, [&](int m, int n) { return sums_[m][n]; }, x + k, w + k * S::kProjectColumns, lane_x());
    }
  }

  /// `partial`: shared memory that nobody reads any more.
  __device__ __forceinline__ void finish(const Arguments& a, const Place& place, const float* shared, float* partial,
                                         float* y) const {
    y += place.n * static_cast<std::size_t>(a.out_h * a.out_w) * kConfig.c_out;
    if constexpr (kConfig.project_k > 1) {
      constexpr int kSize = S::kOutPixels * kConfig.c_out;
      __syncthreads();
      for_each_run([&](int pixel, int column, const auto& values) {
        store(partial + group() * kSize + pixel * kConfig.c_out + column, values);
      });
      __syncthreads();
#pragma unroll 1
      for (int at = thread() * 4; at < kSize; at += S::kThreads * 4) {
        auto values = load<4>(partial + at);
#pragma unroll
        for (int k = 1; k < kConfig.project_k; ++k) {
          const auto more = load<4>(partial + k * kSize + at);
#pragma unroll
          for (int e = 0; e < 4; ++e) values.item[e] += more.item[e];
        }
        store_outputs(a, place, shared, y, at / kConfig.c_out, at % kConfig.c_out, values);
      }
    } else {
      for_each_run([&](int pixel, int column, const auto& values) {
        store_outputs(a, place, shared, y, pixel, column, values);
      });
    }
  }

 private:
  static constexpr Config kConfig = S::kConfig;
  static constexpr int kM = kConfig.project_rows;
  static constexpr int kN = kConfig.project_columns;
  static constexpr int kRows = kProjectLanesM;
  static constexpr int kLanes = kProjectLanesN;
  static constexpr int kWarpsN = S::kProjectN;

  __device__ __forceinline__ static bool busy() { return warp() < kConfig.project_m * kWarpsN * kConfig.project_k; }
  // Lanes 0, 1 and 0, 2 differ in row and column, so that half of all lanes share each 16 bytes that they read.
  __device__ __forceinline__ static int lane_x() { return lane() / 2 % 2 + lane() / 8 % 2 * 2; }
  __device__ __forceinline__ static int lane_y() { return lane() % 2 + lane() / 4 % 2 * 2 + lane() / 16 * 4; }
  __device__ __forceinline__ static int group() { return warp() / (kConfig.project_m * kWarpsN); }
  __device__ __forceinline__ static int row(int m) {
    return warp() / kWarpsN % kConfig.project_m * (kM * kRows) + lane_y() + m * kRows;
  }
  __device__ __forceinline__ static int column0() { return warp() % kWarpsN * (kN * kLanes); }

  template <class Use>
  __device__ __forceinline__ void for_each_run(const Use& use) const {
    if (!busy()) return;
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      if (row(m) >= S::kOutPixels) break;
#pragma unroll
      for (int n = 0; n + 4 <= kN; n += 4) use_run<4>(m, n, use);
      if constexpr (kN % 4 != 0) use_run<2>(m, kN - 2, use);
    }
  }

  /// Columns behind the last output channel are nobody's.
  template <int kRun, class Use>
  __device__ __forceinline__ void use_run(int m, int n, const Use& use) const {
    const int column = column0() + column_of<kN, kLanes>(lane_x(), n);
    if (S::kProjectColumns > kConfig.c_out && column >= kConfig.c_out) return;
    Packet<float, kRun> values;
#pragma unroll
    for (int e = 0; e < kRun; ++e) values.item[e] = sums_[m][n + e];
    use(row(m), column, values);
  }

  template <int N>
  __device__ __forceinline__ static void store_outputs(const Arguments& a, const Place& place, const float* shared,
                                                       float* y, int pixel, int column, Packet<float, N> values) {
    const int tile_y = pixel / kConfig.tile_w;
    const int tile_x = pixel % kConfig.tile_w;
    const int oy = place.oy + tile_y;
    const int ox = place.ox + tile_x;
    if (oy >= a.out_h || ox >= a.out_w) return;
    const auto bias = load<N>(shared + S::kBiasAt + column);
    Packet<float, N> residual{};
    if constexpr (S::kExpand && kConfig.stride == 1 && kConfig.c_in == kConfig.c_out) {
      // y has x's shape, so the pixel lies pad_top rows and pad_left columns into the patch.
      if (a.residual) {
        residual = load<N>(shared + S::kPatchAt +
                           ((tile_y + a.pad_top) * S::kPatchW + tile_x + a.pad_left) * S::kPatchStride + column);
      }
    }
#pragma unroll
    for (int e = 0; e < N; ++e) {
      values.item[e] = apply(a.project_clip, values.item[e] + bias.item[e] + residual.item[e]);
    }
    store(y + ((oy * a.out_w + ox) * kConfig.c_out + column), values);
  }

  float sums_[kM][kN];
};

}  // namespace mobicuda::kernels::inverted_simt
