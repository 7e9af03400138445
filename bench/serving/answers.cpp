#include "serving/answers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace mobicuda::bench {
namespace {

constexpr std::size_t kMostCompared = 64;  // images with each other
constexpr double kInfinite = std::numeric_limits<double>::infinity();

double distance(std::span<const float> expected, std::span<const float> given) {
  float off = 0;
  float length = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const float difference = given[i] - expected[i];
    off += difference * difference;
    length += expected[i] * expected[i];
  }
  const double relative =
      std::sqrt(static_cast<double>(off) / std::max<double>(length, std::numeric_limits<float>::min()));
  return std::isfinite(relative) ? relative : kInfinite;
}

}  // namespace

Answers::Answers(std::vector<std::vector<float>> of_sets, std::size_t classes)
    : of_sets_(std::move(of_sets)), classes_(classes) {
  std::vector<std::span<const float>> images;
  for (const std::vector<float>& set : of_sets_) {
    for (std::size_t from = 0; from < set.size() && images.size() < kMostCompared; from += classes_) {
      images.push_back(std::span(set).subspan(from, classes_));
    }
  }
  for (std::size_t i = 0; i < images.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double between = distance(images[i], images[j]);
      if (between > 0) least_distance_ = std::min(least_distance_, between);  // a picture may be there twice
    }
  }
}

double Answers::difference(std::size_t set, std::span<const float> output) const {
  const std::vector<float>& expected = of_sets_[set];
  if (output.size() != expected.size()) return kInfinite;
  double most = 0;
  for (std::size_t from = 0; from < expected.size(); from += classes_) {
    most = std::max(most, distance(std::span(expected).subspan(from, classes_), output.subspan(from, classes_)));
  }
  return most;
}

}  // namespace mobicuda::bench
