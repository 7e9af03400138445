#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace mobicuda::bench {

/// What the sets of images are answered with when nothing else runs, and how far later answers may lie from that:
/// rounding differs between batch sizes, other images' answers are further away.
class Answers {
 public:
  /// `of_sets`: the outputs of each set, `classes` numbers an image.
  Answers(std::vector<std::vector<float>> of_sets, std::size_t classes);

  /// The largest distance of an image's output from what was expected, relative to its length; NaN counts as infinite.
  double difference(std::size_t set, std::span<const float> output) const;

  /// The least such distance between different images.
  double least_distance() const noexcept { return least_distance_; }

  /// Whether an answer of that difference() is another image's, or nobody's.
  bool wrong(double difference) const noexcept { return !(difference < least_distance_ / 2); }

 private:
  std::vector<std::vector<float>> of_sets_;
  std::size_t classes_;
  double least_distance_ = std::numeric_limits<double>::infinity();
};

}  // namespace mobicuda::bench
