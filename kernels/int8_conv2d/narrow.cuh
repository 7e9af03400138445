// Pointwise convolutions of few input channels, as expansions are: a warp has its 32 output channels' weights, biases
// and multipliers in registers, and goes through the pixels, 16 at a time, whose bytes come straight from global memory
// into the fragments. The order of k within a sum is free: a lane of a quad takes neighbouring bytes of a pixel, as
// many as a load has, and the same bytes of the weights. Neither shared memory nor barriers.
#pragma once

#include "kernels/int8_conv2d/arguments.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/int8.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/memory.cuh"

namespace mobicuda::kernels::int8_conv {

inline constexpr int kNarrowThreads = 128;
inline constexpr int kNarrowChannels = 32;
inline constexpr int kNarrowTiles = 2;  // of 16 pixels, of a warp at once
inline constexpr int kNarrowPixels = kNarrowThreads / 32 * kNarrowTiles * 16;

/// kWords: of a pixel for each lane of a quad; 16 * kWords bytes of k at most.
template <int kWords>
__global__ void __launch_bounds__(kNarrowThreads) narrow_kernel(const Arguments a) {
  constexpr int kRun = 8;  // neighbouring channels of a lane
  constexpr int kFragments = kNarrowChannels / 8;
  constexpr int kSteps = (kWords + 1) / 2;
  const int lane = ptx::as_int::lane();
  const int n0 = static_cast<int>(blockIdx.y) * kNarrowChannels;
  const int quad_row = lane / 4;
  const int first_byte = lane % 4 * 4 * kWords;
  const bool has_bytes = first_byte < a.k;  // of the lane

  std::uint32_t weights[kFragments][kSteps][2] = {};
#pragma unroll
  for (int j = 0; j < kFragments; ++j) {
    // Column c of fragment j is channel c / 2 * kRun + 2 * j + c % 2: a lane's columns are kRun neighbours.
    const int n = n0 + quad_row / 2 * kRun + 2 * j + quad_row % 2;
    if (n >= a.w_rows || !has_bytes) continue;
    const auto* const from = reinterpret_cast<const std::uint32_t*>(
        a.w + static_cast<std::size_t>(n) * static_cast<std::size_t>(a.k) + first_byte);
#pragma unroll
    for (int word = 0; word < kWords; ++word) weights[j][word / 2][word % 2] = __ldg(from + word);
  }
  const int n = n0 + lane % 4 * kRun;
  Channels<kRun> channels{};
  if (n < a.w_rows) channels = load_channels<kRun>(a.bias + n, a.multiplier + n);
  wait_for_predecessor();

  const int stride = static_cast<int>(gridDim.x) * kNarrowPixels;
  int m0 = static_cast<int>(blockIdx.x) * kNarrowPixels + ptx::as_int::warp() * (kNarrowTiles * 16);
  for (; m0 < a.m; m0 += stride) {
    std::uint32_t words[kNarrowTiles][2][2 * kSteps] = {};
#pragma unroll
    for (int i = 0; i < kNarrowTiles; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int m = min(m0 + i * 16 + half * 8 + quad_row, a.m - 1);
        const std::int8_t* const from =
            a.x + static_cast<std::size_t>(m) * static_cast<std::size_t>(a.x_pitch) + first_byte;
        ptx::load_global_words_if<kWords>(has_bytes, reinterpret_cast<const unsigned char*>(from), words[i][half]);
      }
    }
    std::int32_t sums[kNarrowTiles][kFragments][4] = {};
#pragma unroll
    for (int i = 0; i < kNarrowTiles; ++i) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const std::uint32_t of_x[4] = {words[i][0][2 * step], words[i][1][2 * step], words[i][0][2 * step + 1],
                                       words[i][1][2 * step + 1]};
#pragma unroll
        for (int j = 0; j < kFragments; ++j) {
          ptx::mma_s8_16x8x32(sums[i][j], of_x, weights[j][step][0], weights[j][step][1]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kNarrowTiles; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        std::int32_t run[kRun];
#pragma unroll
        for (int e = 0; e < kRun; ++e) run[e] = sums[i][e / 2][half * 2 + e % 2];
        finish_run<kRun>(a, m0 + i * 16 + half * 8 + quad_row, n, run, channels);
      }
    }
  }
}

}  // namespace mobicuda::kernels::int8_conv
