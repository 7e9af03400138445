// The arithmetic of quantised operations, as docs/int8.md defines it: IEEE float32, each operation rounded once. Files
// that add with it are compiled with -ffp-contract=off. Everything is inlined always: the files of one instruction set
// must not leave a copy for the rest of the library.
#pragma once

#include <cstdint>

#include <mobicuda/graph.h>

namespace mobicuda {

/// A result's range and zero point, as rounding wants them.
struct IntegerRounding {
  float low = -128.0F;  ///< without the zero point
  float high = 127.0F;  ///< without the zero point
  std::int32_t zero_point = 0;
};

[[gnu::always_inline]] inline IntegerRounding rounding_of(const QuantizedResult& result) {
  const std::int32_t zero_point = result.quantization.zero_point;
  return {static_cast<float>(result.range.low - zero_point), static_cast<float>(result.range.high - zero_point),
          zero_point};
}

/// Real numbers in units of a scale as integers, halves to even. A clamp to whole numbers gives the same before
/// rounding as behind it, and keeps NaN, which becomes the lowest, and what no int32 has from the conversion.
[[gnu::always_inline]] inline std::int32_t nearest_integer(float x, const IntegerRounding& rounding) {
  constexpr float kWholeNumbers = 0x1.8p23F;  // floats near it are 1 apart: a sum is rounded to them
  x = x > rounding.low ? x : rounding.low;
  x = x < rounding.high ? x : rounding.high;
  return static_cast<std::int32_t>((x + kWholeNumbers) - kWholeNumbers) + rounding.zero_point;
}

[[gnu::always_inline]] inline std::int32_t quantized(float x, const QuantizedResult& result) {
  return nearest_integer(x / result.quantization.scale, rounding_of(result));
}

/// `difference`: q - zero point.
[[gnu::always_inline]] inline float dequantized(std::int32_t difference, float scale) {
  return static_cast<float>(difference) * scale;
}

/// What a sum of products is multiplied by; of a result in F32 without the division.
[[gnu::always_inline]] inline float product_multiplier(float x_scale, float w_scale, const QuantizedResult& result) {
  const float both = x_scale * w_scale;
  return result.dtype == DType::F32 ? both : both / result.quantization.scale;
}

/// What a sum over `count` pixels is multiplied by.
[[gnu::always_inline]] inline float average_multiplier(float x_scale, std::int64_t count, float y_scale) {
  return x_scale / (y_scale * static_cast<float>(count));
}

[[gnu::always_inline]] inline std::int32_t requantized(std::int32_t sum, float multiplier,
                                                       const IntegerRounding& rounding) {
  return nearest_integer(static_cast<float>(sum) * multiplier, rounding);
}

/// a and b without their zero points, with their factors.
[[gnu::always_inline]] inline std::int32_t added(std::int32_t a, float a_factor, std::int32_t b, float b_factor,
                                                 const IntegerRounding& rounding) {
  const float of_a = a_factor * static_cast<float>(a);
  const float of_b = b_factor * static_cast<float>(b);
  return nearest_integer(of_a + of_b, rounding);
}

}  // namespace mobicuda
