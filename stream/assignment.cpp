#include "stream/assignment.h"

#include <algorithm>

namespace mobicuda::stream {
namespace {

// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014): its n-th output, for any n.
std::uint64_t drawn(std::uint64_t seed, std::uint64_t n) {
  std::uint64_t z = seed + (n + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

}  // namespace

Assignment::Assignment(const std::vector<double>& shares, std::uint64_t seed) : seed_(seed) {
  double sum = 0;
  for (const double share : shares) sum += share;
  double end = 0;
  for (const double share : shares) ends_.push_back((end += share) / sum);
  ends_.back() = 1;
}

std::size_t Assignment::model_of(std::uint64_t item) const {
  constexpr double kStep = 0x1p-53;
  const double at = static_cast<double>(drawn(seed_, item) >> 11U) * kStep;  // in [0, 1)
  return static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), at) - ends_.begin());
}

}  // namespace mobicuda::stream
