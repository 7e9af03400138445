#include "report/document.h"

#include <algorithm>

namespace mobicuda::bench::report {

std::string case_label(const std::string& implementation, const std::string& precision, std::optional<int> threads) {
  std::string label = implementation + ' ' + precision;
  if (!threads) return label;
  if (*threads == 0) return label + ", all cores";
  return label + ", " + std::to_string(*threads) + (*threads == 1 ? " thread" : " threads");
}

const ComparedLayer* LayerComparison::first_diverging() const {
  const auto found = std::find_if(layers.begin(), layers.end(), [](const ComparedLayer& one) { return one.diverged; });
  return found == layers.end() ? nullptr : &*found;
}

const ComparedLayer* LayerComparison::worst() const {
  const auto found = std::max_element(layers.begin(), layers.end(), [](const ComparedLayer& a, const ComparedLayer& b) {
    return a.difference.relative_l2 < b.difference.relative_l2;
  });
  return found == layers.end() ? nullptr : &*found;
}

std::size_t LayerComparison::diverging() const {
  return static_cast<std::size_t>(
      std::count_if(layers.begin(), layers.end(), [](const ComparedLayer& one) { return one.diverged; }));
}

std::string ImageReport::reference() const {
  const auto first =
      std::find_if(results.begin(), results.end(), [](const AccuracyResult& result) { return !result.with_reference; });
  return first == results.end() ? std::string() : first->label();
}

}  // namespace mobicuda::bench::report
