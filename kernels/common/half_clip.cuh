// Clips of halves.
#pragma once

#include <cuda_fp16.h>

namespace mobicuda::kernels {

/// Bounds as two equal halves. Rounding is monotone: to clip after it with rounded bounds gives the same half.
struct HalfClip {
  __half2 lo;
  __half2 hi;
};

/// min(max(x, lo), hi); NaN propagates. sm_80 and newer.
__device__ __forceinline__ __half2 apply([[maybe_unused]] HalfClip clip, __half2 x) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  return __hmin2_nan(__hmax2_nan(x, clip.lo), clip.hi);
#else
  return x;
#endif
}

}  // namespace mobicuda::kernels
