// Floats as sums of two halves: factors of split products (docs/numerics.md).
#pragma once

#include <cuda_fp16.h>

#include "kernels/common/std.h"

namespace mobicuda::kernels {

/// Pairs of halves of two values: hi + lo is within 2^-22 of the value.
struct Halves {
  std::uint32_t hi, lo;
};

__device__ __forceinline__ std::uint32_t as_word(__half2 pair) {
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

__device__ __forceinline__ Halves split(float a, float b) {
  const __half2 hi = __floats2half2_rn(a, b);
  const float2 rounded = __half22float2(hi);
  return {as_word(hi), as_word(__floats2half2_rn(a - rounded.x, b - rounded.y))};
}

}  // namespace mobicuda::kernels
