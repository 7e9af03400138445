// From exact sums to bytes. A result v is clipped while it is still a float, and then added to 1.5 * 2^23:
//   1. The clip's limits are whole numbers, low - zero_point and high - zero_point, and rounding is monotonic, so that
//      clipping first gives what rounding first gives. |v| is at most 255 then, whatever the sum was.
//   2. Floats between 2^23 and 2^24 are whole numbers, so the addition rounds v to one, ties to even; 1.5 * 2^23 is
//      even, so what is even of the sum is even of rint(v).
//   3. The bits of the sum are those of 1.5 * 2^23 plus rint(v), as the exponent is the same. Four of them, shifted by
//   a
//      byte each and added, are the bytes once rint(v) is made positive: with zero_point + 128 it lies in [0, 255], so
//      that no byte carries into the next. The constant parts of all four are added at once (`offset`), and XOR takes
//      the 128 away again.
// That is 2 instructions for the clip, 1 for rounding and 5 for four bytes, none of which converts.
#pragma once

#include "kernels/common/quantization.h"
#include "kernels/common/std.h"
#include "kernels/ptx/rounded.cuh"

namespace mobicuda::kernels {

inline constexpr float kRoundToWhole = 12582912.0F;  // 1.5 * 2^23
inline constexpr std::uint32_t kBitsOfRoundToWhole = 0x4B400000U;
inline constexpr std::uint32_t kSignsOfBytes = 0x80808080U;

/// Sums of bytes' products are right modulo 2^32: on their way to an int32 they may leave its range and return.
__device__ __forceinline__ std::int32_t add_wrapping(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}

/// A ByteRange as device code wants it.
struct Requantize {
  float low, high;       ///< less the zero point
  std::uint32_t offset;  ///< of four bytes
};

constexpr Requantize requantize_to(const ByteRange& range) {
  constexpr std::uint32_t kFourConstants =
      kBitsOfRoundToWhole + (kBitsOfRoundToWhole << 8U) + (kBitsOfRoundToWhole << 16U) + (kBitsOfRoundToWhole << 24U);
  return {static_cast<float>(range.low - range.zero_point), static_cast<float>(range.high - range.zero_point),
          0x01010101U * static_cast<std::uint32_t>(range.zero_point - kLowestByte) - kFourConstants};
}

/// 1.5 * 2^23 + rint(v), clipped. NaN becomes the lowest.
__device__ __forceinline__ float round_clipped(const Requantize& to, float v) {
  return ptx::add_rounded(fminf(fmaxf(v, to.low), to.high), kRoundToWhole);
}

/// Bytes of four results of round_clipped().
__device__ __forceinline__ std::uint32_t pack_bytes(const Requantize& to, float first, float second, float third,
                                                    float fourth) {
  const std::uint32_t bytes = __float_as_uint(first) + (__float_as_uint(second) << 8U) +
                              (__float_as_uint(third) << 16U) + (__float_as_uint(fourth) << 24U);
  return (bytes + to.offset) ^ kSignsOfBytes;
}

/// q - zero_point of one of four bytes, exact. `biased` are the bytes XOR 0x80 and `offset` is offset_of_zero().
template <int kAt>
__device__ __forceinline__ float whole_of_byte(std::uint32_t biased, float offset) {
  // 0x4B0000uu are the bits of 2^23 + uu.
  return ptx::add_rounded(__uint_as_float(__byte_perm(biased, 0x4B000000U, 0x7540U | kAt)), offset);
}
constexpr float offset_of_zero(int zero_point) { return -8388608.0F + static_cast<float>(kLowestByte - zero_point); }

/// A ByteSum as device code wants it.
struct AddBytes {
  float a_scale, b_scale;
  float a_offset, b_offset;
  Requantize to;
};

constexpr AddBytes add_bytes_of(const ByteSum& sum) {
  return {sum.a_scale, sum.b_scale, offset_of_zero(sum.a_zero), offset_of_zero(sum.b_zero), requantize_to(sum.output)};
}

/// round_clipped() of the sum of a and b, less their zero points.
__device__ __forceinline__ float add_wholes(const AddBytes& add, float a, float b) {
  return round_clipped(add.to,
                       ptx::add_rounded(ptx::multiply_rounded(add.a_scale, a), ptx::multiply_rounded(add.b_scale, b)));
}

/// Four sums.
__device__ __forceinline__ std::uint32_t add_four_bytes(const AddBytes& add, std::uint32_t a, std::uint32_t b) {
  const std::uint32_t x = a ^ kSignsOfBytes;
  const std::uint32_t y = b ^ kSignsOfBytes;
  return pack_bytes(add.to, add_wholes(add, whole_of_byte<0>(x, add.a_offset), whole_of_byte<0>(y, add.b_offset)),
                    add_wholes(add, whole_of_byte<1>(x, add.a_offset), whole_of_byte<1>(y, add.b_offset)),
                    add_wholes(add, whole_of_byte<2>(x, add.a_offset), whole_of_byte<2>(y, add.b_offset)),
                    add_wholes(add, whole_of_byte<3>(x, add.a_offset), whole_of_byte<3>(y, add.b_offset)));
}

/// What becomes of four sums, to which the bias has been added: bytes, or with `adds` the sum of those and a residual.
struct FinishBytes {
  Requantize result;
  AddBytes add;
  bool adds;
};

__device__ __forceinline__ std::uint32_t finish_bytes(const FinishBytes& finish, const float (&values)[4],
                                                      std::uint32_t residual) {
  float rounded[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) rounded[i] = round_clipped(finish.result, values[i]);
  if (!finish.adds) return pack_bytes(finish.result, rounded[0], rounded[1], rounded[2], rounded[3]);
  const std::uint32_t biased = residual ^ kSignsOfBytes;
  const AddBytes& add = finish.add;
  // What round_clipped() left, less 1.5 * 2^23, is the byte less its zero point.
  const auto whole = [&](int i) { return ptx::add_rounded(rounded[i], -kRoundToWhole); };
  return pack_bytes(add.to, add_wholes(add, whole(0), whole_of_byte<0>(biased, add.b_offset)),
                    add_wholes(add, whole(1), whole_of_byte<1>(biased, add.b_offset)),
                    add_wholes(add, whole(2), whole_of_byte<2>(biased, add.b_offset)),
                    add_wholes(add, whole(3), whole_of_byte<3>(biased, add.b_offset)));
}

}  // namespace mobicuda::kernels
