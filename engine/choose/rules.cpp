#include "choose/rules.h"

#include "choose/rules/conv2d_products.h"
#include "kernels/common/variant_table.h"

namespace mobicuda {

void Rules::refuse_named(std::string_view kernel, const std::string& variant) {
  const char* why = kernels::kAllVariants
                        ? "does not run this layer's shape"
                        : "does not run this layer's shape, or is left out of this build (MOBICUDA_ALL_VARIANTS=OFF)";
  throw Error(ErrorCode::unsupported, "kernel variant '" + variant + "' of '" + std::string(kernel) + "'", why,
              "leave the choice to the planner");
}

PointwiseKernel Rules::pointwise(const kernels::Conv2dParams& params) const {
  if (const std::string* wanted = named_.find(kPointwise)) {
    return *wanted == name(PointwiseKernel::Conv2d) && runs(params) ? PointwiseKernel::Conv2d : PointwiseKernel::Gemm;
  }
  const bool faster = !named_.has_any({"gemm", "conv2d"}) && beats_gemm(params, gpu_);
  return faster ? PointwiseKernel::Conv2d : PointwiseKernel::Gemm;
}

FormChoice Rules::block_form(const kernels::InvertedResidualParams* fused,
                             const kernels::ExpandDepthwiseParams* expand_depthwise) const {
  // A variant that was asked for by name fuses the blocks that it runs, and no others.
  const bool can_fuse = fused != nullptr && runs(*fused);
  const bool can_split = expand_depthwise != nullptr && runs(*expand_depthwise);
  const std::string* form_named = named_.find("block");
  // Why a form is wanted, empty where it is not.
  const auto wanted = [&](BlockForm form, std::string_view kernel, std::string_view why_it_pays) -> std::string_view {
    if (form_named != nullptr) return *form_named == name(form) ? kNamed : std::string_view();
    return named_.find(kernel) != nullptr ? kNamed : why_it_pays;
  };
  if (can_fuse) {
    const auto why = wanted(BlockForm::Fused, kernels::kernel_of(*fused).name, why_fused(*fused, gpu_));
    if (!why.empty()) return {BlockForm::Fused, why};
  }
  if (can_split) {
    const auto why = wanted(BlockForm::ExpandDepthwise, kernels::kernel_of(*expand_depthwise).name,
                            why_fused(*expand_depthwise, gpu_));
    if (!why.empty()) return {BlockForm::ExpandDepthwise, why};
  }
  if (const auto why = wanted(BlockForm::Layers, "", {}); !why.empty()) return {BlockForm::Layers, why};
  return {BlockForm::Layers, can_fuse || can_split ? "three kernels are faster" : kNoFusedVariant};
}

}  // namespace mobicuda
