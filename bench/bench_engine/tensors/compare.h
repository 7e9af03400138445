#pragma once

#include <cstdint>
#include <span>

namespace mobicuda::bench {

/// How far the logits of some pictures are from a reference.
struct Comparison {
  std::int64_t pictures = 0;
  double max_abs = 0;      ///< largest |got - reference|; infinity when one of them is not finite
  double relative_l2 = 0;  ///< ||got - reference|| / ||reference|| over all logits
  std::int64_t top1_equal = 0;

  double top1_agreement() const noexcept {
    return pictures == 0 ? 0 : static_cast<double>(top1_equal) / static_cast<double>(pictures);
  }
};

/// How far numbers are from others that they should equal: outputs from those of --golden, or what a layer computes.
struct GoldenComparison {
  std::int64_t elements = 0;
  std::int64_t pictures = 0;
  double max_abs = 0;      ///< this, mean_abs, relative_l2 and max_ulp: infinity when one of two is not finite
  double mean_abs = 0;     ///< mean |got - golden|
  double relative_l2 = 0;  ///< ||got - golden|| / ||golden||
  double cosine = 1;       ///< of the angle between both; NaN when one of two is not finite
  double max_ulp = 0;      ///< most float32 steps between two numbers
  std::int64_t top1_equal = 0;
};

/// Accumulates a Comparison picture by picture.
class Comparer {
 public:
  /// One or more pictures of `classes` logits each; both spans have the same size.
  void add(std::span<const float> got, std::span<const float> reference, std::size_t classes);
  Comparison result() const;

 private:
  Comparison sums_;
  double difference_squared_ = 0;
  double reference_squared_ = 0;
};

/// Index of the largest logit; the first of equal ones. NaN never wins. logits must not be empty.
std::size_t argmax(std::span<const float> logits);

/// Whether `label` is among the k largest logits; equal logits rank by index, NaN ranks last.
bool in_top(std::span<const float> logits, std::size_t label, std::size_t k);

}  // namespace mobicuda::bench
