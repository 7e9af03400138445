// Bytes between the layers of one kernel, stored as uint8: less the lower end of their range, which is 0. Results are
// 16-bit integers in the lower halves of floats' bits, 1.5 * 2^23 + rint(v); pairs of them are clipped at once.
#pragma once

#include "kernels/common/quantization.h"
#include "kernels/common/requantize.cuh"
#include "kernels/ptx/int8.cuh"
#include "kernels/ptx/rounded.cuh"

namespace mobicuda::kernels {

/// A ByteRange for two values at once.
struct UnsignedPair {
  std::uint32_t add;   ///< zero_point - low, of two 16 bits
  std::uint32_t most;  ///< high - low, likewise
};

/// The same 16 bits twice.
constexpr std::uint32_t two_halves(int value) { return 0x10001U * (static_cast<std::uint32_t>(value) & 0xFFFFU); }
constexpr UnsignedPair unsigned_pair_of(const ByteRange& range) {
  return {two_halves(range.zero_point - range.low), two_halves(range.high - range.low)};
}
/// The zero point as it is stored.
constexpr int stored_zero_point(const ByteRange& range) { return range.zero_point - range.low; }

/// The lower halves of two rounded values, clipped to 0 .. high - low.
__device__ __forceinline__ std::uint32_t clipped_pair(const UnsignedPair& to, std::uint32_t first,
                                                      std::uint32_t second) {
  constexpr unsigned kLowerHalves = 0x5410;
  return ptx::add_clipped_pairs(__byte_perm(first, second, kLowerHalves), to.add, to.most);
}

/// The bytes of two clipped pairs.
__device__ __forceinline__ std::uint32_t join_pairs(std::uint32_t first, std::uint32_t second) {
  constexpr unsigned kBytes = 0x6420;
  return __byte_perm(first, second, kBytes);
}

// Three ways from a sum with its bias to a rounded value. The sums of an mma begin at what begin_...() gives for the
// bias.

/// Where what is below 0 is clipped to 0. Sums begin at the bits of 2^23, so that they are floats, 2^23 + sum, as they
/// are; below 0 they are some float below 2^23, which becomes a number that is no more than 0. `offset` is -2^23 *
/// scale, exactly, so that the fused operation rounds sum * scale once. Right for sums above -2^23 and below 2^23.
inline constexpr std::int32_t kBitsOfClippedSum = 0x4B000000;
inline constexpr float kClippedSumOffset = -8388608.0F;
__device__ __forceinline__ std::uint32_t rounded_clipped_sum(std::int32_t sum, float scale, float offset) {
  const float value = ptx::fused_rounded(__uint_as_float(static_cast<std::uint32_t>(sum)), scale, offset);
  return __float_as_uint(ptx::add_rounded(value, kRoundToWhole));
}

/// For both signs: sums begin at the bits of 1.5 * 2^23, in whose binade they stay. Right below 2^22.
inline constexpr std::int32_t kBitsOfSmallSum = static_cast<std::int32_t>(kBitsOfRoundToWhole);
__device__ __forceinline__ std::uint32_t rounded_small_sum(std::int32_t sum, float scale) {
  const float value = ptx::add_rounded(__uint_as_float(static_cast<std::uint32_t>(sum)), -kRoundToWhole);
  return __float_as_uint(ptx::add_rounded(ptx::multiply_rounded(value, scale), kRoundToWhole));
}

/// For all: sums begin at 0, and are clipped while they are floats.
__device__ __forceinline__ std::uint32_t rounded_any_sum(std::int32_t sum, float scale) {
  constexpr float kMost = 1024.0F;  // any that all ranges lie within
  const float value = ptx::multiply_rounded(ptx::float_of(sum), scale);
  return __float_as_uint(ptx::add_rounded(fminf(fmaxf(value, -kMost), kMost), kRoundToWhole));
}

/// Of products that are rounded without being clipped first: 16 bits, with a zero point.
inline constexpr float kMostUnclipped = 30000.0F;

}  // namespace mobicuda::kernels
