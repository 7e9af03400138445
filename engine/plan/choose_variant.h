#pragma once

#include <map>
#include <string>

#include "kernels/conv2d.h"
#include "kernels/depthwise_conv.h"
#include "kernels/gemm.h"

namespace mobicuda {

/// What the choice depends on besides the shape.
struct GpuTraits {
  int compute_capability = 0;  ///< major * 10 + minor
  int multiprocessors = 0;
};

/// Decides which variant of a kernel runs a shape: by name where the user gave one, by the rules measured
/// in docs/performance.md elsewhere. Deterministic; the same on every GPU of one kind.
class VariantChooser {
 public:
  /// Throws Error(invalid_argument) on a kernel or variant that does not exist.
  VariantChooser(GpuTraits gpu, const std::map<std::string, std::string>& by_name);

  /// These throw Error(unsupported) when the named variant does not run the shape.
  kernels::GemmVariant gemm(const kernels::GemmParams& params) const;
  kernels::DepthwiseConvVariant depthwise_conv(const kernels::DepthwiseConvParams& params) const;
  kernels::Conv2dVariant conv2d(const kernels::Conv2dParams& params) const;

 private:
  GpuTraits gpu_;
  std::map<std::string, std::string> by_name_;
};

}  // namespace mobicuda
