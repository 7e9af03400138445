#include "bench_engine/model/comparison.h"

#include <algorithm>

namespace mobicuda::bench {

const ComparedLayer* LayerComparison::first_diverging() const {
  const auto found = std::find_if(layers.begin(), layers.end(), [](const ComparedLayer& one) { return one.diverged; });
  return found == layers.end() ? nullptr : &*found;
}

std::size_t LayerComparison::diverging() const {
  return static_cast<std::size_t>(
      std::count_if(layers.begin(), layers.end(), [](const ComparedLayer& one) { return one.diverged; }));
}

}  // namespace mobicuda::bench
