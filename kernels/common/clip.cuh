#pragma once

#include "kernels/common/types.h"
#include "kernels/ptx/float.cuh"

namespace mobicuda::kernels {

/// min(max(x, lo), hi). NaN propagates, unlike with fmaxf and fminf; lo > hi gives hi. The sign of a zero
/// that equals a bound is unspecified.
__device__ __forceinline__ float apply(Clip clip, float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return ptx::clip_nan(x, clip.lo, clip.hi);
#else
  const float raised = x < clip.lo ? clip.lo : x;
  return raised > clip.hi ? clip.hi : raised;
#endif
}

}  // namespace mobicuda::kernels
