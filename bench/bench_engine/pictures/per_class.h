#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench_engine/model/pictures.h"
#include "bench_engine/pictures/dataset.h"

namespace mobicuda::bench {

/// The label file's name of a class, "class 7" without one.
std::string class_name(const Labels& labels, std::size_t index);

/// Counts pairs of classes that differ, picture by picture.
class ConfusionCounter {
 public:
  /// One or more pictures of `classes` logits each; both spans have the same size.
  void add(std::span<const float> own, std::span<const float> reference, std::size_t classes);

  /// Most pictures first, then by class.
  std::vector<Confusion> result(const Labels& labels) const;

 private:
  std::map<std::pair<std::size_t, std::size_t>, std::int64_t> pairs_;  // (reference, own)
};

}  // namespace mobicuda::bench
