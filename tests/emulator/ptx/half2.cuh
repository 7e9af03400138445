// kernels/ptx/half2.cuh for the emulator.
#pragma once

#include <cuda_fp16.h>

#include "kernels/common/std.h"

namespace mobicuda::kernels::ptx {

inline __half2 halves_of(std::uint32_t word) { return __builtin_bit_cast(__half2_raw, word); }
inline std::uint32_t bits(__half2 x) { return __builtin_bit_cast(std::uint32_t, static_cast<__half2_raw>(x)); }
inline std::uint32_t to_half2(float first, float second) { return bits(__floats2half2_rn(first, second)); }
inline std::uint32_t clip_half2(std::uint32_t halves, std::uint32_t lo, std::uint32_t hi) {
  return bits(__hmin2_nan(__hmax2_nan(halves_of(halves), halves_of(lo)), halves_of(hi)));
}
inline std::uint32_t to_half2_clipped(float first, float second, std::uint32_t hi) {
  return clip_half2(to_half2(first, second), 0, hi);
}
inline std::uint32_t to_finite_half2(float first, float second) {
  constexpr std::uint32_t kLowest = 0xFBFFFBFF;
  constexpr std::uint32_t kLargest = 0x7BFF7BFF;
  return clip_half2(to_half2(first, second), kLowest, kLargest);
}
inline void to_floats_volatile(std::uint32_t halves, float& first, float& second) {
  first = emulator::float_of_half(halves);
  second = emulator::float_of_half(halves >> 16U);
}

}  // namespace mobicuda::kernels::ptx
