#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench_engine/pictures/dataset.h"

namespace mobicuda::bench {

/// A class that some of the pictures have.
struct ClassCount {
  std::size_t index = 0;
  std::string name;
  std::int64_t pictures = 0;
};

/// One implementation's hits among the pictures of a class.
struct ClassHits {
  std::int64_t top1 = 0;
  std::int64_t top5 = 0;
};

/// Pictures that the reference puts into one class and an implementation into another.
struct Confusion {
  std::size_t reference = 0;
  std::string reference_name;
  std::size_t own = 0;
  std::string own_name;
  std::int64_t pictures = 0;
};

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
