#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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
  std::size_t diverging() const;
};

}  // namespace mobicuda::bench
