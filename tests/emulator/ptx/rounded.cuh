// kernels/ptx/rounded.cuh for the emulator, which is compiled without fused multiply-adds.
#pragma once

#include <cmath>

#include "kernels/common/std.h"

namespace mobicuda::kernels::ptx {

inline float multiply_rounded(float a, float b) { return a * b; }
inline float add_rounded(float a, float b) { return a + b; }
inline float fused_rounded(float a, float b, float c) { return std::fma(a, b, c); }
inline float divide_rounded(float a, float b) { return a / b; }
inline float float_of(std::int32_t x) { return static_cast<float>(x); }

}  // namespace mobicuda::kernels::ptx
