// Arithmetic on floats that the language has no words for.
#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels::ptx {

/// min(max(x, lo), hi); NaN propagates, unlike with fmaxf and fminf. sm_80 and newer.
__device__ __forceinline__ float clip_nan(float x, float lo, float hi) {
  float raised;
  float clipped;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(raised) : "f"(x), "f"(lo));
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(clipped) : "f"(raised), "f"(hi));
  return clipped;
}

/// The larger one; NaN if either is. sm_80 and newer.
__device__ __forceinline__ float larger_or_nan(float x, float y) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(x), "f"(y));
  return larger;
}

/// 2^x and 1 / x, approximately; what is subnormal counts as zero. Their errors: docs/numerics.md.
__device__ __forceinline__ float exp2_approximately(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ __forceinline__ float reciprocal_approximately(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// Rounded to tf32, ties away from zero. sm_80 and newer.
__device__ __forceinline__ std::uint32_t to_tf32(float x) {
  std::uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

}  // namespace mobicuda::kernels::ptx
