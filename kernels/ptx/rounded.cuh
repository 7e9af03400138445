// Float arithmetic of which each operation is rounded, to nearest and ties to even: the compiler makes no fused
// multiply-add of them, nor an approximation of the division. fused_rounded() is one operation.
#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels::ptx {

__device__ __forceinline__ float multiply_rounded(float a, float b) {
  float result;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
__device__ __forceinline__ float add_rounded(float a, float b) {
  float result;
  asm("add.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
/// a * b + c, rounded once.
__device__ __forceinline__ float fused_rounded(float a, float b, float c) {
  float result;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
  return result;
}
__device__ __forceinline__ float divide_rounded(float a, float b) {
  float result;
  asm("div.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
__device__ __forceinline__ float float_of(std::int32_t x) {
  float result;
  asm("cvt.rn.f32.s32 %0, %1;" : "=f"(result) : "r"(x));
  return result;
}

}  // namespace mobicuda::kernels::ptx
