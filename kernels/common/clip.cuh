#pragma once

#include "kernels/common/launch.h"

namespace mobicuda::kernels {

/// min(max(x, lo), hi). NaN propagates, unlike with fmaxf and fminf; lo > hi gives hi. The sign of a zero
/// that equals a bound is unspecified.
__device__ __forceinline__ float apply(Clip clip, float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float raised;
  float clipped;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(raised) : "f"(x), "f"(clip.lo));
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(clipped) : "f"(raised), "f"(clip.hi));
  return clipped;
#else
  const float raised = x < clip.lo ? clip.lo : x;
  return raised > clip.hi ? clip.hi : raised;
#endif
}

}  // namespace mobicuda::kernels
