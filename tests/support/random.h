#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace mobicuda::test {

/// `count` numbers in [lo, hi), of random sign where lo < 0 < hi. The same seed gives the same numbers with
/// every compiler and standard library.
inline std::vector<float> random_uniform(std::uint32_t seed, std::size_t count, float lo = -1.0F, float hi = 1.0F) {
  constexpr float kScale = 1.0F / 16777216.0F;  // 2^-24: 24 random bits to [0, 1)
  std::mt19937 engine(seed);
  std::vector<float> values(count);
  for (float& value : values) value = lo + (hi - lo) * (static_cast<float>(engine() >> 8U) * kScale);
  return values;
}

/// Whole numbers in [-4, 4]: sums of their products are exact in float while |sum| < 2^24, so that a kernel
/// must agree with the oracle bit for bit, in any order of summation.
inline std::vector<float> random_integers(std::uint32_t seed, std::size_t count) {
  constexpr std::uint32_t kValues = 9;
  constexpr int kLowest = -4;
  std::mt19937 engine(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int>(engine() % kValues) + kLowest);
  return values;
}

/// Different numbers at all places: 0, 1, 2, ... modulo 2048, all of them exact in half.
inline std::vector<float> counting(std::size_t count) {
  constexpr std::size_t kExactInHalf = 2048;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % kExactInHalf);
  return values;
}

}  // namespace mobicuda::test
