// How layers run that several kernels can run, or one for all of them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace mobicuda {

/// How an inverted residual block runs.
enum class BlockForm {
  Layers,           ///< three kernels
  ExpandDepthwise,  ///< expand and depthwise in one, project in another
  Fused,            ///< one kernel
};

/// "layers", "expand_depthwise", "fused".
std::string_view name(BlockForm form);

/// What runs a pointwise convolution by itself: conv2d has products with wgmma.
enum class PointwiseKernel { Gemm, Conv2d };

/// "gemm", "conv2d".
std::string_view name(PointwiseKernel kernel);

/// What a choice between the two is called where it is asked for by name or saved.
inline constexpr std::string_view kPointwise = "pointwise";

/// Of EngineOptions::kernel_variants, beside kernels: what can be asked for there, and the names for it.
struct FormOption {
  std::string_view option;  ///< "block", "head", ...
  std::span<const std::string_view> names;
};
std::vector<FormOption> form_options();

}  // namespace mobicuda
