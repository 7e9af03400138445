#include "stream/assignment.h"

#include <cmath>
#include <vector>

#include "support/catch.h"

using mobicuda::stream::Assignment;

namespace {

constexpr std::uint64_t kItems = 100'000;

std::vector<double> counts(const std::vector<double>& shares, std::uint64_t seed) {
  const Assignment assignment(shares, seed);
  std::vector<double> found(shares.size());
  for (std::uint64_t item = 0; item < kItems; ++item) ++found.at(assignment.model_of(item));
  return found;
}

}  // namespace

TEST_CASE("stream: models are drawn by their shares", "[stream]") {
  const std::uint64_t seed = GENERATE(0, 1, 77);
  const std::vector<double> shares = {1, 2, 0.5, 4.5};
  const std::vector<double> found = counts(shares, seed);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double p = shares[i] / 8;
    // Six standard deviations of a binomial distribution; seeds are fixed, so it passes always or never.
    CHECK(std::abs(found[i] - p * kItems) <= 6 * std::sqrt(kItems * p * (1 - p)));
  }
}

TEST_CASE("stream: neighbouring items are independent", "[stream]") {
  const Assignment assignment({1, 1}, 5);
  double equal = 0;
  for (std::uint64_t item = 0; item < kItems; ++item) {
    equal += assignment.model_of(item) == assignment.model_of(item + 1) ? 1 : 0;
  }
  CHECK(std::abs(equal - kItems / 2.0) <= 6 * std::sqrt(kItems / 4.0));
}

TEST_CASE("stream: a seed draws the same models on every machine", "[stream]") {
  const Assignment one({1, 1, 1}, 42);
  const Assignment again({1, 1, 1}, 42);
  const Assignment other({1, 1, 1}, 43);
  std::vector<std::size_t> first;
  std::size_t differ = 0;
  for (std::uint64_t item = 0; item < 1000; ++item) {
    CHECK(one.model_of(item) == again.model_of(item));
    differ += one.model_of(item) != other.model_of(item) ? 1 : 0;
    if (item < 16) first.push_back(one.model_of(item));
  }
  CHECK(differ > 500);
  // Worked out with another implementation.
  CHECK(first == std::vector<std::size_t>{2, 0, 0, 1, 0, 2, 0, 2, 1, 1, 0, 1, 1, 1, 1, 0});
}

TEST_CASE("stream: a single model takes all", "[stream]") { CHECK(counts({3}, 9) == std::vector<double>{kItems}); }
