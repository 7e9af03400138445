#include "choose/forms.h"

#include <type_traits>

#include "choose/kernels.h"

namespace mobicuda {
namespace {

constexpr std::string_view kLayers = "layers";
constexpr std::string_view kExpandDepthwise = "expand_depthwise";
constexpr std::string_view kFused = "fused";
constexpr std::string_view kGemm = "gemm";
constexpr std::string_view kConv2d = "conv2d";

constexpr std::string_view kBlockForms[] = {kLayers, kExpandDepthwise, kFused};
constexpr std::string_view kTwoForms[] = {kLayers, kFused};
constexpr std::string_view kPointwiseKernels[] = {kGemm, kConv2d};

}  // namespace

std::string_view name(BlockForm form) {
  switch (form) {
    case BlockForm::Layers:
      return kLayers;
    case BlockForm::ExpandDepthwise:
      return kExpandDepthwise;
    case BlockForm::Fused:
      return kFused;
  }
  return "";
}

std::string_view name(PointwiseKernel kernel) { return kernel == PointwiseKernel::Gemm ? kGemm : kConv2d; }

std::vector<FormOption> form_options() {
  std::vector<FormOption> options{{"block", kBlockForms}};
  for_each_kernel([&](const auto& kernel) {
    using Params = typename std::remove_cvref_t<decltype(kernel)>::Params;
    if constexpr (requires { fused_option(Params{}); }) options.push_back({fused_option(Params{}).option, kTwoForms});
  });
  kernels::Conv2dParams sum;
  sum.second.c_in = 1;
  options.push_back({fused_option(sum).option, kTwoForms});
  options.push_back({kPointwise, kPointwiseKernels});
  return options;
}

}  // namespace mobicuda
