// The triangle filter that grows with the reduction, as Pillow's BILINEAR computes it: for the CPU and the GPU, which
// must agree in every bit. So no multiplication here may be fused with an addition (-ffp-contract=off, -fmad=false).
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define MOBICUDA_ON_BOTH __host__ __device__ __forceinline__
#else
#define MOBICUDA_ON_BOTH inline
#endif

namespace mobicuda::pictures {

/// Weights are fixed-point: 8 bits of pixel, 2 bits of headroom, the rest for the fraction.
inline constexpr int kFractionBits = 32 - 8 - 2;
inline constexpr std::int32_t kHalf = 1 << (kFractionBits - 1);  ///< what a sum begins with, to be rounded

/// The source pixels that one pixel of the result is made of, along one axis: `count` of them from `first` on.
struct Window {
  double centre;
  double inverse;  ///< 1 / support
  double sum;      ///< of the triangle over the window
  int first;
  int count;
};

MOBICUDA_ON_BOTH double triangle_at(const Window& window, int source) {
  double x = (source - window.centre + 0.5) * window.inverse;
  if (x < 0) x = -x;
  return x < 1.0 ? 1.0 - x : 0.0;
}

/// Of pixel i of `to` that are made of `from`.
MOBICUDA_ON_BOTH Window make_window(int i, int from, int to) {
  const double scale = static_cast<double>(from) / to;
  const double support = scale < 1.0 ? 1.0 : scale;
  Window window;
  window.centre = (i + 0.5) * scale;
  window.inverse = 1.0 / support;
  // NOLINTBEGIN(bugprone-incorrect-roundings): as Pillow rounds
  const int first = static_cast<int>(window.centre - support + 0.5);
  const int last = static_cast<int>(window.centre + support + 0.5);
  // NOLINTEND(bugprone-incorrect-roundings)
  window.first = first < 0 ? 0 : first;
  window.count = (last < from ? last : from) - window.first;
  window.sum = 0;
  for (int k = 0; k < window.count; ++k) window.sum += triangle_at(window, window.first + k);
  return window;
}

/// The most pixels of a window.
MOBICUDA_ON_BOTH int most_taps(int from, int to) {
  const int support = from <= to ? 1 : from / to + 1;  // rounded up
  return 2 * support + 1;
}

/// Fixed-point weight of pixel k of a window.
MOBICUDA_ON_BOTH std::int32_t weight_of(const Window& window, int k) {
  double weight = triangle_at(window, window.first + k);
  if (window.sum != 0) weight /= window.sum;
  // NOLINTNEXTLINE(bugprone-incorrect-roundings): as Pillow rounds
  return static_cast<std::int32_t>(weight * (1 << kFractionBits) + 0.5);
}

MOBICUDA_ON_BOTH std::uint8_t to_byte(std::int32_t fixed) {
  const std::int32_t value = fixed >> kFractionBits;
  return static_cast<std::uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}

}  // namespace mobicuda::pictures
