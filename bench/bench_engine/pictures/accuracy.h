#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <mobicuda/engine.h>

#include "bench_engine/pictures/dataset.h"
#include "bench_engine/pictures/images.h"
#include "bench_engine/results.h"

namespace mobicuda::bench {

/// An implementation to classify pictures with.
struct Classifier {
  std::string implementation;
  Precision precision = Precision::Fp32;
  std::optional<int> threads;  ///< where several are compared
  Session* session = nullptr;
};

/// What to classify, and what to compare with.
struct ImageSet {
  std::filesystem::path folder;
  std::vector<Sample> samples;
  bool labels_given = false;
  Preprocessing preprocessing;
  bool bytes = false;                 ///< sessions take pictures in bytes
  std::vector<float> reference_rows;  ///< --referenceLogits, by Sample::row; may be empty
};

/// Runs all pictures through all classifiers, `batch` at a time. The pictures are read once, by all cores.
/// A picture that cannot be decoded is left out and named in the report. `stop` is asked before each
/// batch how many pictures are done, and ends the evaluation when it gives true.
ImageReport evaluate_images(const ImageSet& set, std::span<const Classifier> classifiers, std::size_t reference,
                            std::size_t batch, std::size_t classes, const std::function<bool(std::size_t done)>& stop);

}  // namespace mobicuda::bench
