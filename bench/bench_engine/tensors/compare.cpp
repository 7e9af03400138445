#include "bench_engine/tensors/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mobicuda::bench {

std::size_t argmax(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best] || (std::isnan(logits[best]) && !std::isnan(logits[i]))) best = i;
  }
  return best;
}

bool in_top(std::span<const float> logits, std::size_t label, std::size_t k) {
  if (label >= logits.size() || std::isnan(logits[label])) return false;
  std::size_t ahead = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > logits[label] || (logits[i] == logits[label] && i < label)) ++ahead;
  }
  return ahead < k;
}

void Comparer::add(std::span<const float> got, std::span<const float> reference, std::size_t classes) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - static_cast<double>(reference[i]));
    sums_.max_abs =
        std::isfinite(difference) ? std::max(sums_.max_abs, difference) : std::numeric_limits<double>::infinity();
    difference_squared_ += difference * difference;
    reference_squared_ += static_cast<double>(reference[i]) * static_cast<double>(reference[i]);
  }
  for (std::size_t start = 0; start + classes <= got.size(); start += classes) {
    ++sums_.pictures;
    if (argmax(got.subspan(start, classes)) == argmax(reference.subspan(start, classes))) ++sums_.top1_equal;
  }
}

Comparison Comparer::result() const {
  Comparison result = sums_;
  if (!std::isfinite(result.max_abs)) {
    result.relative_l2 = std::numeric_limits<double>::infinity();
  } else if (reference_squared_ > 0) {
    result.relative_l2 = std::sqrt(difference_squared_ / reference_squared_);
  } else {
    result.relative_l2 = difference_squared_ > 0 ? std::numeric_limits<double>::infinity() : 0;
  }
  return result;
}

}  // namespace mobicuda::bench
