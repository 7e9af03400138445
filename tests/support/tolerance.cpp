#include "support/tolerance.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <sstream>

namespace mobicuda::test {
namespace {

std::string coordinates(std::size_t index, std::span<const int> shape) {
  std::string text = "element " + std::to_string(index);
  std::vector<std::size_t> at(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    const auto extent = static_cast<std::size_t>(std::max(shape[axis], 1));
    at[axis] = index % extent;
    index /= extent;
  }
  for (std::size_t axis = 0; axis < at.size(); ++axis) text += (axis == 0 ? " at [" : ", ") + std::to_string(at[axis]);
  return at.empty() ? text : text + "]";
}

Comparison wrong_size(std::size_t actual, std::size_t expected) {
  Comparison verdict;
  verdict.ok = false;
  verdict.reason = "has " + std::to_string(actual) + " elements, expected " + std::to_string(expected);
  return verdict;
}

void reject(Comparison& verdict, std::size_t index, std::span<const int> shape, double actual, double expected,
            double allowed) {
  if (!verdict.ok) return;  // the first one is reported
  std::ostringstream text;
  text.precision(std::numeric_limits<double>::max_digits10);
  text << coordinates(index, shape) << ": " << actual << ", expected " << expected << " +- " << allowed;
  verdict.ok = false;
  verdict.index = index;
  verdict.reason = text.str();
}

}  // namespace

double gamma(std::int64_t products, double unit) {
  const double steps = (static_cast<double>(products) + 2.0) * unit;
  return steps / (1.0 - steps);
}

double gamma_winograd(std::int64_t kernel, std::int64_t channels, double unit) {
  // Beside a product and a sum for each channel, and the residual: the filter's transform rounds once, the input's
  // twice, the output's four times.
  constexpr std::int64_t kTransforms = 7;
  return gamma((kernel == 3 ? 1 : 4) * channels + kTransforms, unit);
}

double gamma_tensor_core(std::int64_t products) {
  constexpr std::int64_t kSmallestBlock = 8;  // products that one instruction adds to the accumulator
  return gamma(products + (products + kSmallestBlock - 1) / kSmallestBlock, kUnitTruncatedF32);
}

double gamma_split(std::int64_t products) {
  constexpr std::int64_t kOfSlice = 32;            // of k, at least: a sum of the tensor cores
  constexpr std::int64_t kOthers = 432 + 12 + 13;  // see docs/numerics.md
  return gamma((products + kOfSlice - 1) / kOfSlice + kOthers);
}

double split_error_of_tiny(std::int64_t products, double x, double w) {
  return static_cast<double>(products) * 0x1p-38 * x * w;
}

double hard_bound(double gamma, double magnitude, double expected, Store store) {
  return gamma * magnitude + std::max(store.unit * (std::abs(expected) + gamma * magnitude), store.underflow);
}

std::vector<double> hard_bounds(double gamma, std::span<const double> magnitude, std::span<const double> expected,
                                Store store) {
  std::vector<double> bounds(expected.size());
  for (std::size_t i = 0; i < bounds.size(); ++i) bounds[i] = hard_bound(gamma, magnitude[i], expected[i], store);
  return bounds;
}

double rel_l2_alarm(std::int64_t products, Store store) {
  constexpr double kHalfStore = 4e-4;  // rounding to half alone is about 2.1e-4 of random data
  const double sum = 2.0 * kUnitF32 * std::sqrt(static_cast<double>(std::max<std::int64_t>(products, 1)));
  return store.unit == kUnitF16 ? kHalfStore + sum : sum;
}

double split_rel_l2_alarm(std::int64_t products) {
  constexpr std::int64_t kLeast = 64;
  return rel_l2_alarm(std::max(products, kLeast), kStoreF32);
}

double softmax_relative_error(double distance_to_max, double unit) { return (48.0 + std::abs(distance_to_max)) * unit; }

double log_softmax_error(double y, double unit) { return (48.0 + 3.0 * std::abs(y)) * unit; }

std::ostream& operator<<(std::ostream& out, const Comparison& comparison) {
  return out << (comparison.ok ? "equal within bounds" : comparison.reason) << " (worst " << comparison.worst << ")";
}

Comparison compare_elements(std::span<const float> actual, std::span<const double> expected,
                            std::span<const double> allowed, std::span<const int> shape) {
  if (actual.size() != expected.size()) return wrong_size(actual.size(), expected.size());
  if (allowed.size() != expected.size()) return wrong_size(allowed.size(), expected.size());
  Comparison verdict;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double value = static_cast<double>(actual[i]);
    if (std::isnan(expected[i]) || std::isinf(expected[i])) {
      const bool same = std::isnan(expected[i]) ? std::isnan(value) : value == expected[i];
      if (!same) reject(verdict, i, shape, value, expected[i], 0.0);
      continue;
    }
    const double error = std::abs(value - expected[i]);
    if (!(error <= allowed[i])) reject(verdict, i, shape, value, expected[i], allowed[i]);  // true for NaN
    if (allowed[i] > 0.0) verdict.worst = std::max(verdict.worst, error / allowed[i]);
  }
  return verdict;
}

Comparison compare_rel_l2(std::span<const float> actual, std::span<const double> expected, double limit) {
  if (actual.size() != expected.size()) return wrong_size(actual.size(), expected.size());
  double error = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = static_cast<double>(actual[i]) - expected[i];
    error += difference * difference;
    norm += expected[i] * expected[i];
  }
  Comparison verdict;
  verdict.worst = error == 0.0 ? 0.0 : std::sqrt(error / norm);
  if (!(verdict.worst <= limit)) {  // true for NaN
    std::ostringstream text;
    text << "relative L2 error " << verdict.worst << ", allowed " << limit;
    verdict.ok = false;
    verdict.reason = text.str();
  }
  return verdict;
}

Comparison compare_bits(std::span<const float> actual, std::span<const float> expected, std::span<const int> shape) {
  if (actual.size() != expected.size()) return wrong_size(actual.size(), expected.size());
  Comparison verdict;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const bool both_nan = std::isnan(actual[i]) && std::isnan(expected[i]);
    if (both_nan || std::bit_cast<std::uint32_t>(actual[i]) == std::bit_cast<std::uint32_t>(expected[i])) continue;
    reject(verdict, i, shape, static_cast<double>(actual[i]), static_cast<double>(expected[i]), 0.0);
  }
  return verdict;
}

Comparison compare_exact(std::span<const float> actual, std::span<const double> expected, std::span<const int> shape) {
  const std::vector<double> nothing(expected.size(), 0.0);
  return compare_elements(actual, expected, nothing, shape);
}

}  // namespace mobicuda::test
