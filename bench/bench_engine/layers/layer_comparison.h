#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <mobicuda/types.h>

#include "bench_engine/tensors/compare.h"

namespace mobicuda::bench {

/// A tensor that two implementations computed.
struct ComparedLayer {
  std::string tensor;            ///< its name in the model
  std::string layer;             ///< what finishes it, as LayerInfo::name
  std::string kernel;            ///< that runs that layer
  std::string reference_kernel;  ///< that finishes the tensor in the reference
  std::string shape;             ///< per picture, "1x32x112x112"
  GoldenComparison difference;
  bool diverged = false;  ///< its relative L2 is not within the threshold
};

struct UncomparedLayer {
  std::string layer;
  std::string reason;
};

/// One implementation against another, layer by layer, in the order in which the first runs them.
struct LayerComparison {
  std::string reference;  ///< "cpu fp32"
  double threshold = 0;   ///< of the relative L2 of each tensor
  std::vector<ComparedLayer> layers;
  std::vector<UncomparedLayer> not_compared;

  /// Null when all tensors are within the threshold.
  const ComparedLayer* first_diverging() const;
  /// The one with the largest relative L2; null when there is none.
  const ComparedLayer* worst() const;
  std::size_t diverging() const;
};

/// What --compare allows without --compareThreshold: docs/numerics.md derives it.
double default_layer_threshold(Precision precision, Precision reference);

/// What a comparison misses, as a sentence that `who` begins; empty when it misses nothing.
std::string missed_layers(const LayerComparison& comparison, const std::string& who);

}  // namespace mobicuda::bench
