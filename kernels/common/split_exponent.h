// The scaling of factors that are split into two halves, on the host: docs/numerics.md, "Split products".
#pragma once

#include <algorithm>
#include <cmath>

namespace mobicuda::kernels {

/// The exponent of the power of two that brings values up to `largest` below 2^15, half of what a half holds, and no
/// further than their products stay floats.
inline int split_exponent(float largest) {
  constexpr int kLargestExponent = 15;
  constexpr int kMost = 60;
  if (!(largest > 0.0F)) return 0;
  int exponent = 0;
  std::frexp(largest, &exponent);  // largest < 2^exponent
  return std::clamp(kLargestExponent - exponent, -kMost, kMost);
}

}  // namespace mobicuda::kernels
