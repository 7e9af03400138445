// The kernels that have variants, each once: its header, its line in for_each_kernel() and what its rule,
// rules/<kernel>.cpp, answers: which variant it takes for a shape, and when one kernel for several layers pays. Rules
// are measured; the pages beside the kernels have the times.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "choose/rule.h"
#include "choose/timed_kernel.h"
#include "kernels/common/device_traits.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/depthwise_conv/depthwise_conv.h"
#include "kernels/expand_depthwise/expand_depthwise.h"
#include "kernels/gated_pointwise/gated_pointwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/int8_conv2d/int8_conv2d.h"
#include "kernels/int8_depthwise_conv/int8_depthwise_conv.h"
#include "kernels/int8_inverted_residual/int8_inverted_residual.h"
#include "kernels/int8_stem_block/int8_stem_block.h"
#include "kernels/inverted_residual/inverted_residual.h"
#include "kernels/pointwise_pool/pointwise_pool.h"
#include "kernels/split_gemm/split_gemm.h"
#include "kernels/squeeze_excite/squeeze_excite.h"
#include "kernels/stem_block/stem_block.h"

namespace mobicuda {

/// Calls visit(KernelTable) for every kernel that has variants.
template <class Visit>
void for_each_kernel(Visit&& visit) {
  visit(kernels::kernel_of(kernels::GemmParams{}));
  visit(kernels::kernel_of(kernels::DepthwiseConvParams{}));
  visit(kernels::kernel_of(kernels::Conv2dParams{}));
  visit(kernels::kernel_of(kernels::InvertedResidualParams{}));
  visit(kernels::kernel_of(kernels::ExpandDepthwiseParams{}));
  visit(kernels::kernel_of(kernels::PointwisePoolParams{}));
  visit(kernels::kernel_of(kernels::StemBlockParams{}));
  visit(kernels::kernel_of(kernels::SqueezeExciteParams{}));
  visit(kernels::kernel_of(kernels::GatedPointwiseParams{}));
  visit(kernels::kernel_of(kernels::SplitGemmParams{}));
  visit(kernels::kernel_of(kernels::Int8Conv2dParams{}));
  visit(kernels::kernel_of(kernels::Int8DepthwiseConvParams{}));
  visit(kernels::kernel_of(kernels::Int8InvertedResidualParams{}));
  visit(kernels::kernel_of(kernels::Int8StemBlockParams{}));
}

/// Variants in the order in which the rule takes them; the first that supports the parameters runs the layer.
Preferences<kernels::GemmVariant> preferences(const kernels::GemmParams& params, const kernels::DeviceTraits& gpu);
Preferences<kernels::DepthwiseConvVariant> preferences(const kernels::DepthwiseConvParams& params,
                                                       const kernels::DeviceTraits& gpu);
Preferences<kernels::Conv2dVariant> preferences(const kernels::Conv2dParams& params, const kernels::DeviceTraits& gpu);
Preferences<kernels::InvertedResidualVariant> preferences(const kernels::InvertedResidualParams& params,
                                                          const kernels::DeviceTraits& gpu);
Preferences<kernels::ExpandDepthwiseVariant> preferences(const kernels::ExpandDepthwiseParams& params,
                                                         const kernels::DeviceTraits& gpu);
Preferences<kernels::PointwisePoolVariant> preferences(const kernels::PointwisePoolParams& params,
                                                       const kernels::DeviceTraits& gpu);
Preferences<kernels::StemBlockVariant> preferences(const kernels::StemBlockParams& params,
                                                   const kernels::DeviceTraits& gpu);
Preferences<kernels::SqueezeExciteVariant> preferences(const kernels::SqueezeExciteParams& params,
                                                       const kernels::DeviceTraits& gpu);
Preferences<kernels::GatedPointwiseVariant> preferences(const kernels::GatedPointwiseParams& params,
                                                        const kernels::DeviceTraits& gpu);
Preferences<kernels::SplitGemmVariant> preferences(const kernels::SplitGemmParams& params,
                                                   const kernels::DeviceTraits& gpu);
Preferences<kernels::Int8Conv2dVariant> preferences(const kernels::Int8Conv2dParams& params,
                                                    const kernels::DeviceTraits& gpu);
Preferences<kernels::Int8DepthwiseConvVariant> preferences(const kernels::Int8DepthwiseConvParams& params,
                                                           const kernels::DeviceTraits& gpu);
Preferences<kernels::Int8InvertedResidualVariant> preferences(const kernels::Int8InvertedResidualParams& params,
                                                              const kernels::DeviceTraits& gpu);
Preferences<kernels::Int8StemBlockVariant> preferences(const kernels::Int8StemBlockParams& params,
                                                       const kernels::DeviceTraits& gpu);

/// Why the kernel of several layers is faster than theirs; empty where it is not. One of its variants runs the shape.
std::string_view why_fused(const kernels::InvertedResidualParams& params, const kernels::DeviceTraits& gpu);
std::string_view why_fused(const kernels::ExpandDepthwiseParams& params, const kernels::DeviceTraits& gpu);
std::string_view why_fused(const kernels::PointwisePoolParams& params, const kernels::DeviceTraits& gpu);
std::string_view why_fused(const kernels::StemBlockParams& params, const kernels::DeviceTraits& gpu);
/// With max_pool or a second convolution.
std::string_view why_fused(const kernels::Conv2dParams& params, const kernels::DeviceTraits& gpu);
std::string_view why_fused(const kernels::SqueezeExciteParams& params, const kernels::DeviceTraits& gpu);
std::string_view why_fused(const kernels::GatedPointwiseParams& params, const kernels::DeviceTraits& gpu);
/// The layer is gemm's, in exact float.
std::string_view why_fused(const kernels::SplitGemmParams& params, const kernels::DeviceTraits& gpu);
std::string_view why_fused(const kernels::Int8InvertedResidualParams& params, const kernels::DeviceTraits& gpu);
std::string_view why_fused(const kernels::Int8StemBlockParams& params, const kernels::DeviceTraits& gpu);

/// Why a block in exact float is slower in one launch than its layers are whose pointwise convolutions have split
/// products; empty where it is not.
std::string_view why_split_layers(const kernels::InvertedResidualParams& block, const kernels::DeviceTraits& gpu);

/// How a kernel of several layers is asked for: form_options().
struct FusedOption {
  std::string_view option;
  std::string_view other{};  ///< that decides where `option` is not there
};
FusedOption fused_option(const kernels::ExpandDepthwiseParams&);
FusedOption fused_option(const kernels::PointwisePoolParams&);
FusedOption fused_option(const kernels::StemBlockParams&);
FusedOption fused_option(const kernels::Conv2dParams&);
FusedOption fused_option(const kernels::SqueezeExciteParams&);
FusedOption fused_option(const kernels::GatedPointwiseParams&);
FusedOption fused_option(const kernels::SplitGemmParams&);
FusedOption fused_option(const kernels::Int8InvertedResidualParams&);
FusedOption fused_option(const kernels::Int8StemBlockParams&);

/// A layer that a kernel of several layers stands for, with a bias: one that is chosen in its turn, a block and a gate
/// among them, or one whose kernel has no variants. gemm may run a Conv2dParams that is pointwise, too; GemmParams are
/// a product that is not to be split.
using LayerApart = std::variant<kernels::GemmParams, kernels::Conv2dParams, kernels::DepthwiseConvParams,
                                kernels::InvertedResidualParams, kernels::SqueezeExciteParams,
                                kernels::Int8Conv2dParams, kernels::Int8DepthwiseConvParams, TimedKernel>;
std::vector<LayerApart> layers_apart(const kernels::ExpandDepthwiseParams& params);
std::vector<LayerApart> layers_apart(const kernels::PointwisePoolParams& params);
std::vector<LayerApart> layers_apart(const kernels::StemBlockParams& params);
std::vector<LayerApart> layers_apart(const kernels::Conv2dParams& params);
std::vector<LayerApart> layers_apart(const kernels::SqueezeExciteParams& params);
std::vector<LayerApart> layers_apart(const kernels::GatedPointwiseParams& params);
std::vector<LayerApart> layers_apart(const kernels::SplitGemmParams& params);
std::vector<LayerApart> layers_apart(const kernels::Int8InvertedResidualParams& params);
std::vector<LayerApart> layers_apart(const kernels::Int8StemBlockParams& params);

/// The rows of a kernel's rule, as its page has them. The arguments tell kernels apart only.
std::vector<RuleText> rule_texts(const kernels::GemmParams&);
std::vector<RuleText> rule_texts(const kernels::DepthwiseConvParams&);
std::vector<RuleText> rule_texts(const kernels::Conv2dParams&);
std::vector<RuleText> rule_texts(const kernels::InvertedResidualParams&);
std::vector<RuleText> rule_texts(const kernels::ExpandDepthwiseParams&);
std::vector<RuleText> rule_texts(const kernels::PointwisePoolParams&);
std::vector<RuleText> rule_texts(const kernels::StemBlockParams&);
std::vector<RuleText> rule_texts(const kernels::SqueezeExciteParams&);
std::vector<RuleText> rule_texts(const kernels::GatedPointwiseParams&);
std::vector<RuleText> rule_texts(const kernels::SplitGemmParams&);
std::vector<RuleText> rule_texts(const kernels::Int8Conv2dParams&);
std::vector<RuleText> rule_texts(const kernels::Int8DepthwiseConvParams&);
std::vector<RuleText> rule_texts(const kernels::Int8InvertedResidualParams&);
std::vector<RuleText> rule_texts(const kernels::Int8StemBlockParams&);

}  // namespace mobicuda
