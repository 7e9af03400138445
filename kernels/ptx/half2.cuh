// Pairs of halves as words, the first in the lower half. sm_80 and newer; before, the functions that say so return 0.
#pragma once

#include <cuda_fp16.h>

#include "kernels/common/std.h"

namespace mobicuda::kernels::ptx {

__device__ __forceinline__ std::uint32_t bits(__half2 x) { return *reinterpret_cast<std::uint32_t*>(&x); }

/// Rounds.
__device__ __forceinline__ std::uint32_t to_half2(float first, float second) {
  std::uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}

/// Rounds; what is beyond the largest half becomes that, with its sign. NaN stays NaN. Zero before sm_80.
__device__ __forceinline__ std::uint32_t to_finite_half2([[maybe_unused]] float first, [[maybe_unused]] float second) {
  std::uint32_t word = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
#endif
  return word;
}

/// min(max(., lo), hi); NaN propagates. Zero before sm_80.
__device__ __forceinline__ std::uint32_t clip_half2([[maybe_unused]] std::uint32_t halves,
                                                    [[maybe_unused]] std::uint32_t lo,
                                                    [[maybe_unused]] std::uint32_t hi) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(halves) : "r"(lo));
  asm("min.NaN.f16x2 %0, %0, %1;" : "+r"(halves) : "r"(hi));
  return halves;
#else
  return 0;
#endif
}

/// Rounds, then min(max(., 0), hi); NaN propagates. Zero before sm_80.
__device__ __forceinline__ std::uint32_t to_half2_clipped([[maybe_unused]] float first, [[maybe_unused]] float second,
                                                          [[maybe_unused]] std::uint32_t hi) {
  std::uint32_t halves = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(second), "f"(first));
  asm("min.NaN.f16x2 %0, %0, %1;" : "+r"(halves) : "r"(hi));
#endif
  return halves;
}

/// Volatile, so that results are not kept for a later use of the same word: they are twice as many registers.
__device__ __forceinline__ void to_floats_volatile(std::uint32_t halves, float& first, float& second) {
  asm volatile(
      "{\n"
      "  .reg .f16 low, high;\n"
      "  mov.b32 {low, high}, %2;\n"
      "  cvt.f32.f16 %0, low;\n"
      "  cvt.f32.f16 %1, high;\n"
      "}\n"
      : "=f"(first), "=f"(second)
      : "r"(halves));
}

}  // namespace mobicuda::kernels::ptx
