// Pixels of four bytes, of which up to four are channels: a first layer. One word is a tap, so that the words of a
// fragment are loaded from the image, by way of the first-level cache, with neither shared memory nor a transposition:
// of eight taps a lane has two for each of its pixels. A warp computes kStemTiles x 16 pixels x 32 channels.
#pragma once

#include "kernels/int8_conv2d/arguments.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/int8.cuh"
#include "kernels/ptx/lane.cuh"

namespace mobicuda::kernels::int8_conv {

inline constexpr int kStemThreads = 128;
inline constexpr int kStemTiles = 2;                                     // of 16 pixels, of a warp
inline constexpr int kStemPixels = kStemThreads / 32 * kStemTiles * 16;  // of a block
inline constexpr int kStemChannels = 32;
inline constexpr int kStemTaps = 8;   // of an instruction
inline constexpr int kStemSteps = 2;  // instructions whose loads are under way together

template <int kTiles>
__global__ void __launch_bounds__(kStemThreads) stem_kernel(const Arguments a) {
  constexpr int kRun = 8;  // neighbouring channels of a lane
  constexpr int kFragments = kStemChannels / 8;
  const int lane = ptx::as_int::lane();
  const int m0 = static_cast<int>(blockIdx.x) * kStemPixels + ptx::as_int::warp() * (kTiles * 16);
  const int n0 = static_cast<int>(blockIdx.y) * kStemChannels;
  const int quad_row = lane / 4;
  const int quad_lane = lane % 4;
  WindowPlace places[kTiles][2];
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    places[i][0] = window_of(a, m0 + i * 16 + quad_row);
    places[i][1] = window_of(a, m0 + i * 16 + quad_row + 8);
  }
  wait_for_predecessor();

  std::int32_t sums[kTiles][kFragments][4] = {};
  for (int first = 0; first < a.taps; first += kStemSteps * kStemTaps) {
    std::uint32_t weights[kStemSteps][kFragments][2];
    std::uint32_t words[kStemSteps][kTiles][4];
    // All loads come before the first product.
#pragma unroll
    for (int step = 0; step < kStemSteps; ++step) {
      const int first_tap = first + step * kStemTaps;
#pragma unroll
      for (int j = 0; j < kFragments; ++j) {
        // Column c of fragment j is channel c / 2 * kRun + 2 * j + c % 2: a lane's columns are kRun neighbours.
        const int n = n0 + quad_row / 2 * kRun + 2 * j + quad_row % 2;
        const bool is_there = n < a.columns && first_tap < a.taps;
        const std::int8_t* const w = a.w + static_cast<std::size_t>(is_there ? n : 0) * static_cast<std::size_t>(a.k) +
                                     (is_there ? first_tap + quad_lane : 0) * 4;
        weights[step][j][0] = is_there ? __ldg(reinterpret_cast<const unsigned*>(w)) : 0;
        weights[step][j][1] = is_there ? __ldg(reinterpret_cast<const unsigned*>(w + 16)) : 0;
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int tap = first_tap + half * 4 + quad_lane;
        std::uint32_t kx;
        const int dy = static_cast<int>(a.of_window_row.divide(static_cast<std::uint32_t>(tap), kx)) * a.dilation_h;
        const int dx = static_cast<int>(kx) * a.dilation_w;
        const std::int64_t offset = (static_cast<std::int64_t>(dy) * a.w_extent + dx) * a.x_pitch;
#pragma unroll
        for (int i = 0; i < kTiles; ++i) {
#pragma unroll
          for (int row = 0; row < 2; ++row) {
            const WindowPlace& place = places[i][row];
            const bool inside = tap < a.taps && is_inside(a, place.iy + dy, place.ix + dx);
            words[step][i][half * 2 + row] =
                ptx::load_global_or(a.x + (inside ? place.at + offset : 0), inside, a.x_zero);
          }
        }
      }
    }
#pragma unroll
    for (int step = 0; step < kStemSteps; ++step) {
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
#pragma unroll
        for (int j = 0; j < kFragments; ++j) {
          ptx::mma_s8_16x8x32(sums[i][j], words[step][i], weights[step][j][0], weights[step][j][1]);
        }
      }
    }
  }

  const int n = n0 + quad_lane * kRun;
  if (n >= a.columns) return;
  const auto channels = load_channels<kRun>(a.bias + n, a.multiplier + n);
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      std::int32_t run[kRun];
#pragma unroll
      for (int e = 0; e < kRun; ++e) run[e] = sums[i][e / 2][row * 2 + e % 2];
      finish_run<kRun>(a, m0 + i * 16 + row * 8 + quad_row, n, run, channels);
    }
  }
}

}  // namespace mobicuda::kernels::int8_conv
