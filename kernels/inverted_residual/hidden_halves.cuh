// What the hidden values of families on tensor cores become behind their sums: clipped, or hard-swished.
#pragma once

#include "kernels/common/activation.cuh"
#include "kernels/ptx/half2.cuh"

namespace mobicuda::kernels {

/// Of expand, rounded to halves. `bound` is a pixel's: the upper bound, or all bits where the values are hard-swished;
/// zero where the pixel lies outside the image, which gives zeros. Finite but for NaN: infinities would meet the zeros
/// of depthwise's diagonal matrices.
template <bool kHardSwish>
__device__ __forceinline__ std::uint32_t expanded_halves(float first, float second, std::uint32_t bound) {
  if constexpr (kHardSwish) {
    return ptx::to_finite_half2(hard_swish(first), hard_swish(second)) & bound;
  } else {
    return ptx::to_half2_clipped(first, second, bound);
  }
}

/// Of depthwise. `bound`: the upper bound, without meaning where the values are hard-swished.
template <bool kHardSwish>
__device__ __forceinline__ std::uint32_t filtered_halves(float first, float second,
                                                         [[maybe_unused]] std::uint32_t bound) {
  if constexpr (kHardSwish) {
    return ptx::to_half2(hard_swish(first), hard_swish(second));
  } else {
    return ptx::to_half2_clipped(first, second, bound);
  }
}

}  // namespace mobicuda::kernels
