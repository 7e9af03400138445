#include "plan/choose_variant.h"

#include <algorithm>
#include <span>
#include <string_view>

#include <mobicuda/error.h>

namespace mobicuda {
namespace {

using namespace kernels;

template <class Variant>
std::string names_of(std::span<const Variant> variants) {
  std::string text;
  for (const Variant variant : variants) text += (text.empty() ? "" : ", ") + std::string(name(variant));
  return text;
}

template <class Variant>
void require_name(std::span<const Variant> variants, const std::string& kernel, const std::string& wanted) {
  const bool exists = std::any_of(variants.begin(), variants.end(), [&](Variant v) { return name(v) == wanted; });
  if (exists) return;
  throw Error(ErrorCode::invalid_argument, "kernel variant of '" + kernel + "'", "there is no '" + wanted + "'",
              "choose one of " + names_of(variants));
}

// The named variant if there is a name, else the first of `preferred` that runs the shape, else any.
template <class Variant, class Params>
Variant pick(const std::map<std::string, std::string>& by_name, const char* kernel, std::span<const Variant> variants,
             const Params& params, int capability, std::span<const std::string_view> preferred) {
  if (const auto named = by_name.find(kernel); named != by_name.end()) {
    for (const Variant variant : variants) {
      if (name(variant) != named->second) continue;
      if (supports(variant, params, capability)) return variant;
      throw Error(ErrorCode::unsupported, "kernel variant '" + named->second + "' of '" + kernel + "'",
                  "does not run this layer's shape", "leave the choice to the planner");
    }
  }
  for (const std::string_view wanted : preferred) {
    for (const Variant variant : variants) {
      if (name(variant) == wanted && supports(variant, params, capability)) return variant;
    }
  }
  for (const Variant variant : variants) {
    if (supports(variant, params, capability)) return variant;
  }
  throw Error(ErrorCode::unsupported, kernel, "no variant runs this layer's shape on this GPU");
}

}  // namespace

VariantChooser::VariantChooser(int compute_capability, const std::map<std::string, std::string>& by_name)
    : compute_capability_(compute_capability), by_name_(by_name) {
  for (const auto& [kernel, variant] : by_name_) {
    if (kernel == "gemm")
      require_name(gemm_variants(), kernel, variant);
    else if (kernel == "depthwise_conv")
      require_name(depthwise_conv_variants(), kernel, variant);
    else if (kernel == "conv2d")
      require_name(conv2d_variants(), kernel, variant);
    else
      throw Error(ErrorCode::invalid_argument, "kernel variant", "no kernel '" + kernel + "' has variants",
                  "choose one of gemm, depthwise_conv, conv2d");
  }
}

GemmVariant VariantChooser::gemm(const GemmParams& params) const {
  return pick(by_name_, "gemm", gemm_variants(), params, compute_capability_, {});
}

DepthwiseConvVariant VariantChooser::depthwise_conv(const DepthwiseConvParams& params) const {
  return pick(by_name_, "depthwise_conv", depthwise_conv_variants(), params, compute_capability_, {});
}

Conv2dVariant VariantChooser::conv2d(const Conv2dParams& params) const {
  return pick(by_name_, "conv2d", conv2d_variants(), params, compute_capability_, {});
}

}  // namespace mobicuda
