#pragma once

#include <cstddef>
#include <span>

#include "bench_engine/model/comparison.h"

namespace mobicuda::bench {

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
