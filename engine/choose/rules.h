#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mobicuda/error.h>

#include "choose/forms.h"
#include "choose/kernels.h"
#include "choose/named_choices.h"
#include "kernels/common/device_traits.h"

namespace mobicuda {

struct FormChoice {
  BlockForm form = BlockForm::Layers;
  std::string_view why;  ///< for people; static
};

inline constexpr std::string_view kNamed = "named";
inline constexpr std::string_view kNoFusedVariant = "no fused variant runs this shape";

/// Which variant of a kernel runs a shape: by name where the user gave one, by rule elsewhere. Deterministic; the same
/// on every GPU of one kind. The functions are const and may be called from several threads.
class Rules {
 public:
  /// Throws Error(invalid_argument) on a kernel or variant that does not exist.
  Rules(const kernels::DeviceTraits& gpu, const std::map<std::string, std::string>& by_name)
      : gpu_(gpu), named_(by_name) {}

  const kernels::DeviceTraits& gpu() const { return gpu_; }
  const NamedChoices& named() const { return named_; }

  bool supports(auto variant, const auto& params) const {
    return kernels::kernel_of(params).supports(variant, params, gpu_);
  }

  /// All variants that run the shape, specialised ones last.
  template <class Params>
  std::vector<VariantOf<Params>> supported(const Params& params) const;

  /// Throws Error(unsupported) when the named variant does not run the shape, or none does.
  template <class Params>
  Preference<VariantOf<Params>> variant(const Params& params) const;
  /// Whether variant() finds one: the one that is named, one of the library's own, or what a family makes for the shape
  /// where a row of the rule names the family.
  template <class Params>
  bool runs(const Params& params) const;

  /// Of a kernel that several layers have together; nothing where their own kernels are faster, are asked for by name,
  /// or have to do.
  template <class Params>
  std::optional<Preference<VariantOf<Params>>> fused(const Params& params) const;

  /// By name ("pointwise"), else the one expected to be faster; gemm where one of its variants is named.
  PointwiseKernel pointwise(const kernels::Conv2dParams& params) const;

  /// The form of a block, the one asked for by name ("block") where its kernels run the shape. `fused` or
  /// `expand_depthwise` is null where the block itself rules that form out.
  FormChoice block_form(const kernels::InvertedResidualParams* fused,
                        const kernels::ExpandDepthwiseParams* expand_depthwise) const;

 private:
  [[noreturn]] static void refuse_named(std::string_view kernel, const std::string& variant);

  kernels::DeviceTraits gpu_;
  NamedChoices named_;
};

template <class Params>
std::vector<VariantOf<Params>> Rules::supported(const Params& params) const {
  std::vector<VariantOf<Params>> found;
  const auto& kernel = kernels::kernel_of(params);
  for (const auto variant : kernel.variants) {
    if (supports(variant, params)) found.push_back(variant);
  }
  if (kernel.specialised != nullptr) {
    for (const auto variant : kernel.specialised(params, gpu_)) found.push_back(variant);
  }
  return found;
}

template <class Params>
Preference<VariantOf<Params>> Rules::variant(const Params& params) const {
  const auto& kernel = kernels::kernel_of(params);
  if (const std::string* wanted = named_.find(kernel.name)) {
    const auto named = kernels::find_variant(kernel, *wanted);
    if (named && supports(*named, params)) return {*named, kNamed};
    refuse_named(kernel.name, *wanted);
  }
  for (const auto& preferred : preferences(params, gpu_)) {
    if (supports(preferred.variant, params)) return preferred;
  }
  for (const auto variant : kernel.variants) {
    if (supports(variant, params)) return {variant, "the first that runs this shape"};
  }
  throw Error(ErrorCode::unsupported, std::string(kernel.name), "no variant runs this layer's shape on this GPU");
}

template <class Params>
bool Rules::runs(const Params& params) const {
  const auto& kernel = kernels::kernel_of(params);
  if (const std::string* wanted = named_.find(kernel.name)) {
    const auto named = kernels::find_variant(kernel, *wanted);
    return named && supports(*named, params);
  }
  const auto runs_shape = [&](auto variant) { return supports(variant, params); };
  if (std::any_of(kernel.variants.begin(), kernel.variants.end(), runs_shape)) return true;
  if (kernel.specialised == nullptr || !gpu_.compiles) return false;
  const auto preferred = preferences(params, gpu_);
  return std::any_of(preferred.begin(), preferred.end(),
                     [&](const auto& preference) { return runs_shape(preference.variant); });
}

template <class Params>
std::optional<Preference<VariantOf<Params>>> Rules::fused(const Params& params) const {
  const FusedOption asked = fused_option(params);
  const std::string* form = named_.find(asked.option);
  if (form == nullptr && !asked.other.empty()) form = named_.find(asked.other);
  if (!runs(params)) return std::nullopt;
  std::string_view why = why_fused(params, gpu_);
  if (form != nullptr) {
    if (*form != name(BlockForm::Fused)) return std::nullopt;
    why = kNamed;
  } else if (named_.find(kernels::kernel_of(params).name) != nullptr) {
    why = kNamed;
  }
  if (why.empty()) return std::nullopt;
  return Preference<VariantOf<Params>>{variant(params).variant, why};
}

}  // namespace mobicuda
