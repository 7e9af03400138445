#include "choose/forms.h"

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

constexpr FormOption kOptions[] = {{"block", kBlockForms},
                                   {"head", kTwoForms},
                                   {"stem", kTwoForms},
                                   {"gate", kTwoForms},
                                   {"pointwise", kPointwiseKernels}};

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

std::span<const FormOption> form_options() { return kOptions; }

}  // namespace mobicuda
