// Quantised values as kernels have them: r = scale * (q - zero_point), q an int8. What a model has as uint8 are the
// same numbers with q and zero point less by 128: its bytes XOR 0x80. For host and device.
#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels {

inline constexpr int kLowestByte = -128;
inline constexpr int kHighestByte = 127;

/// How a result v, in units of the output's scale, becomes a byte: min(max(rint(v) + zero_point, low), high), where
/// rint rounds halves to even.
struct ByteRange {
  int zero_point = 0;
  int low = kLowestByte;
  int high = kHighestByte;
};

constexpr bool is_byte(int value) { return value >= kLowestByte && value <= kHighestByte; }
constexpr bool is_valid(const ByteRange& range) {
  return is_byte(range.zero_point) && is_byte(range.low) && is_byte(range.high) && range.low <= range.high;
}

/// A sum of bytes a and b, each with its own quantisation: output of a_scale * (a - a_zero) + b_scale * (b - b_zero),
/// both products and the sum rounded to float. The scales are those of the inputs, divided by the output's.
struct ByteSum {
  float a_scale = 1.0F;
  float b_scale = 1.0F;
  int a_zero = 0;
  int b_zero = 0;
  ByteRange output{};
};

constexpr bool is_scale(float scale) { return scale > 0.0F && scale <= 3.402823466e38F; }
constexpr bool is_valid(const ByteSum& sum) {
  return is_scale(sum.a_scale) && is_scale(sum.b_scale) && is_byte(sum.a_zero) && is_byte(sum.b_zero) &&
         is_valid(sum.output);
}

/// Channels of a pixel are stored in so many bytes, or a multiple. Kernels write the bytes behind the last channel as
/// well, and multiply them by zero.
inline constexpr int kChannelStep = 16;

/// Bytes of a pixel of up to four channels that a first layer reads.
inline constexpr int kSmallBytePitch = 4;

/// int8 quantisation of four bytes at once.
constexpr std::uint32_t four_bytes(int value) { return 0x01010101U * (static_cast<std::uint32_t>(value) & 0xFFU); }

}  // namespace mobicuda::kernels
