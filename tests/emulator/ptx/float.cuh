// kernels/ptx/float.cuh for the emulator.
#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels::ptx {

inline float clip_nan(float x, float lo, float hi) {
  if (std::isnan(x) || std::isnan(lo) || std::isnan(hi)) return std::numeric_limits<float>::quiet_NaN();
  return std::fmin(std::fmax(x, lo), hi);
}
inline float larger_or_nan(float x, float y) {
  return std::isnan(x) || std::isnan(y) ? std::numeric_limits<float>::quiet_NaN() : std::fmax(x, y);
}
inline float flush(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x; }
inline float exp2_approximately(float x) { return flush(std::exp2(flush(x))); }
inline float reciprocal_approximately(float x) { return flush(1.0F / flush(x)); }
inline std::uint32_t to_tf32(float x) {
  constexpr std::uint32_t kDropped = 1U << 13U;
  const std::uint32_t bits = __float_as_uint(x);
  return std::isfinite(x) ? (bits + kDropped / 2) & ~(kDropped - 1) : bits;
}

}  // namespace mobicuda::kernels::ptx
