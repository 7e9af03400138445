// Any shape: a thread computes one output, channels fastest, four products at a time where a group's channels are
// words.
#pragma once

#include "kernels/int8_conv2d/arguments.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/int8.cuh"

namespace mobicuda::kernels::int8_conv {

inline constexpr int kDirectThreads = 128;

/// kWords: a group's channels are whole words.
template <bool kWords>
__global__ void __launch_bounds__(kDirectThreads) direct_kernel(const Arguments a) {
  wait_for_predecessor();
  const int n = static_cast<int>(blockIdx.y) * kDirectThreads + static_cast<int>(threadIdx.x);
  const int m = static_cast<int>(blockIdx.x);
  if (n >= a.columns) return;
  const WindowPlace place = window_of(a, m);
  const int group = n < a.n ? n / a.group_out : 0;  // weights behind the last channel are zeros
  const std::int8_t* w = a.w + static_cast<std::size_t>(n) * static_cast<std::size_t>(a.k);
  const auto x_zero = static_cast<std::int8_t>(a.x_zero & 0xFFU);

  std::int32_t sum = 0;
  for (int tap = 0; tap < a.taps; ++tap, w += a.tap_bytes) {
    std::uint32_t kx;
    const int dy = static_cast<int>(a.of_window_row.divide(static_cast<std::uint32_t>(tap), kx)) * a.dilation_h;
    const int dx = static_cast<int>(kx) * a.dilation_w;
    const bool inside = is_inside(a, place.iy + dy, place.ix + dx);
    const std::int64_t at = place.at + (static_cast<std::int64_t>(dy) * a.w_extent + dx) * a.x_pitch;
    const std::int8_t* const x = inside ? a.x + at + static_cast<std::int64_t>(group) * a.group_in : a.x;
    if constexpr (kWords) {
      for (int c = 0; c < a.group_in; c += 4) {
        const std::uint32_t values = ptx::load_global_or(x + (inside ? c : 0), inside, a.x_zero);
        sum = ptx::dp4a(values, *reinterpret_cast<const std::uint32_t*>(w + c), sum);
      }
    } else {
      for (int c = 0; c < a.group_in; ++c) sum = add_wrapping(sum, (inside ? x[c] : x_zero) * w[c]);
    }
  }
  finish_one(a, m, n, sum);
}

}  // namespace mobicuda::kernels::int8_conv
