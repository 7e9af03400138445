#include "bench_engine/pictures/per_class.h"

#include <algorithm>

#include "bench_engine/tensors/compare.h"

namespace mobicuda::bench {

std::string class_name(const Labels& labels, std::size_t index) {
  return index < labels.names.size() ? labels.names[index] : "class " + std::to_string(index);
}

void ConfusionCounter::add(std::span<const float> own, std::span<const float> reference, std::size_t classes) {
  for (std::size_t start = 0; start + classes <= own.size(); start += classes) {
    const std::size_t expected = argmax(reference.subspan(start, classes));
    const std::size_t got = argmax(own.subspan(start, classes));
    if (got != expected) ++pairs_[{expected, got}];
  }
}

std::vector<Confusion> ConfusionCounter::result(const Labels& labels) const {
  std::vector<Confusion> confusions;
  for (const auto& [pair, pictures] : pairs_) {
    confusions.push_back(
        {pair.first, class_name(labels, pair.first), pair.second, class_name(labels, pair.second), pictures});
  }
  std::stable_sort(confusions.begin(), confusions.end(),
                   [](const Confusion& a, const Confusion& b) { return a.pictures > b.pictures; });
  return confusions;
}

}  // namespace mobicuda::bench
