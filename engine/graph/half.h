#pragma once

#include <bit>
#include <cstdint>

namespace mobicuda {

/// The value of an IEEE half; exact.
inline float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide_exponent = exponent == 31 ? 255U : exponent + 112U;
  return std::bit_cast<float>(sign | (wide_exponent << 23U) | (mantissa << 13U));
}

}  // namespace mobicuda
