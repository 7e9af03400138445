#pragma once

#include <cstdint>

namespace mobicuda::zoo {

/// SplitMix64: the same numbers on every platform, unlike the distributions of <random>.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() noexcept {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }

  /// Mean 0, variance 1, |x| < 6: the sum of twelve 16-bit uniform numbers. Integer arithmetic up to the last
  /// exact step, so that no library's logarithm or rounding has a say.
  double normal() noexcept {
    constexpr std::uint64_t kEverySecond = 0x0000FFFF0000FFFFU;
    std::uint64_t sums = 0;  // two of 32 bits: a network draws a hundred million weights
    for (int draw = 0; draw < 3; ++draw) {
      const std::uint64_t bits = next();
      sums += (bits & kEverySecond) + ((bits >> 16U) & kEverySecond);
    }
    const auto sum = static_cast<std::int64_t>((sums & 0xFFFFFFFFU) + (sums >> 32U));
    constexpr std::int64_t kTwiceMean = 12 * 65535;
    return static_cast<double>(2 * sum - kTwiceMean) / 131072.0;
  }

 private:
  std::uint64_t state_;
};

}  // namespace mobicuda::zoo
