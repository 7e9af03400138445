#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels {

/// Division of unsigned numbers below 2^31 by a divisor in [1, 2^31) that is known before the launch: a multiplication
/// and a shift instead of the ~20 instructions of a division.
///
/// With s = ceil(log2 d) and m = floor(2^32 (2^s - d) / d) + 1, floor(x / d) = (mulhi(x, m) + x) >> s; the sum does not
/// overflow because mulhi(x, m) <= x < 2^31.
class FastDivision {
 public:
  FastDivision() = default;
  explicit FastDivision(std::uint32_t divisor) : divisor_(divisor) {
    while ((std::uint64_t{1} << shift_) < divisor) ++shift_;
    const std::uint64_t numerator = ((std::uint64_t{1} << shift_) - divisor) << 32U;
    multiplier_ = static_cast<std::uint32_t>(numerator / divisor + 1);
  }

  __host__ __device__ std::uint32_t quotient(std::uint32_t x) const {
    const auto high = static_cast<std::uint32_t>((static_cast<std::uint64_t>(x) * multiplier_) >> 32U);
    return (high + x) >> shift_;
  }

  /// Returns x / divisor and leaves x % divisor in `remainder`.
  __host__ __device__ std::uint32_t divide(std::uint32_t x, std::uint32_t& remainder) const {
    const std::uint32_t q = quotient(x);
    remainder = x - q * divisor_;
    return q;
  }

 private:
  std::uint32_t divisor_ = 1;
  std::uint32_t multiplier_ = 1;
  std::uint32_t shift_ = 0;
};

}  // namespace mobicuda::kernels
