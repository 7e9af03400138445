#include "plan/recorded_choices.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "plan/timed_kernels.h"

namespace mobicuda {
namespace {

using namespace kernels;

template <class Variant>
std::string name_of(Variant variant) {
  return std::string(name(variant));
}

template <class Variant>
std::string name_of(const std::optional<Variant>& variant) {
  return variant ? name_of(*variant) : std::string();
}

constexpr const char* kProject = "project";

}  // namespace

void RecordedChoices::refuse(const std::string& layer, const std::string& why) const {
  throw Error(ErrorCode::invalid_model, "saved engine, choice " + std::to_string(position_) + ", layer '" + layer + "'",
              why, "make it again from the model with this version, on this machine");
}

const SavedChoice& RecordedChoices::next(const char* kernel, const std::string& layer) {
  if (position_ >= saved_->size()) refuse(layer, "no choice is left");
  const SavedChoice& choice = (*saved_)[position_];
  if (choice.kernel != kernel) {
    refuse(layer, "should be of '" + std::string(kernel) + "', is of '" + choice.kernel + "'");
  }
  ++position_;
  made_.choices.push_back(choice);
  return choice;
}

template <class Variants, class Params>
auto RecordedChoices::find(const SavedChoice& choice, const std::string& layer, const Variants& variants,
                           const Params& params) const {
  const auto found =
      std::find_if(variants.begin(), variants.end(), [&](auto variant) { return name(variant) == choice.variant; });
  if (found == variants.end()) refuse(layer, choice.kernel + " has no variant '" + choice.variant + "'");
  if (!supports(*found, params, gpu_)) {
    refuse(layer, choice.kernel + " variant '" + choice.variant + "' does not run this shape");
  }
  return *found;
}

template <class Variants, class Params>
auto RecordedChoices::replay(const char* kernel, const std::string& layer, const Variants& variants,
                             const Params& params) {
  const SavedChoice& choice = next(kernel, layer);
  const auto variant = find(choice, layer, variants, params);
  return Chosen<std::remove_const_t<decltype(variant)>>{variant, choice.reason};
}

template <class Variants, class Params>
auto RecordedChoices::replay_optional(const char* kernel, const std::string& layer, const Variants& variants,
                                      const Params& params) {
  const SavedChoice& choice = next(kernel, layer);
  Chosen<std::optional<std::remove_cv_t<typename Variants::element_type>>> chosen{std::nullopt, choice.reason};
  if (!choice.variant.empty()) chosen.variant = find(choice, layer, variants, params);
  return chosen;
}

template <class Answer>
Answer RecordedChoices::keep(const char* kernel, const std::string& layer, Answer answer) {
  made_.choices.push_back({kernel, name_of(answer.variant), answer.reason});
  if (answer.rival) {
    contest(layer, kernel, name_of(answer.rival->variant), answer.rival->reason, made_.choices.size() - 1);
  }
  return answer;
}

void RecordedChoices::contest(const std::string& layer, const char* kernel, std::string rival, std::string reason,
                              std::size_t reason_at) {
  made_.contested.push_back({made_.choices.size() - 1, layer, kernel, std::move(rival), std::move(reason), reason_at});
}

Chosen<GemmVariant> RecordedChoices::choose(const std::string& layer, const GemmParams& params) {
  if (saved_ != nullptr) return replay("gemm", layer, gemm_variants(), params);
  return keep("gemm", layer, chooser_.choose(layer, params));
}

Chosen<DepthwiseConvVariant> RecordedChoices::choose(const std::string& layer, const DepthwiseConvParams& params) {
  if (saved_ != nullptr) return replay("depthwise_conv", layer, depthwise_conv_variants(), params);
  return keep("depthwise_conv", layer, chooser_.choose(layer, params));
}

Chosen<Conv2dVariant> RecordedChoices::choose(const std::string& layer, const Conv2dParams& params) {
  if (saved_ != nullptr) return replay("conv2d", layer, conv2d_variants(), params);
  return keep("conv2d", layer, chooser_.choose(layer, params));
}

// Whether the kernel runs the layer is checked when its variant is chosen.
PointwiseKernel RecordedChoices::pointwise(const std::string& layer, const GemmParams& gemm,
                                           const Conv2dParams& conv2d) {
  if (saved_ == nullptr) {
    const PointwiseKernel chosen = chooser_.pointwise(layer, gemm, conv2d);
    made_.choices.push_back({"pointwise", name_of(chosen), {}});
    return chosen;
  }
  const std::string& kernel = next("pointwise", layer).variant;
  if (kernel == name(PointwiseKernel::Gemm)) return PointwiseKernel::Gemm;
  if (kernel != name(PointwiseKernel::Conv2d)) refuse(layer, "no pointwise convolution runs in '" + kernel + "'");
  return PointwiseKernel::Conv2d;
}

Chosen<std::optional<StemBlockVariant>> RecordedChoices::stem_block(const std::string& layer,
                                                                    const StemBlockParams& params) {
  if (saved_ != nullptr) return replay_optional("stem_block", layer, stem_block_variants(), params);
  return keep("stem_block", layer, chooser_.stem_block(layer, params));
}

Chosen<std::optional<PointwisePoolVariant>> RecordedChoices::pointwise_pool(const std::string& layer,
                                                                            const PointwisePoolParams& params) {
  if (saved_ != nullptr) return replay_optional("pointwise_pool", layer, pointwise_pool_variants(), params);
  return keep("pointwise_pool", layer, chooser_.pointwise_pool(layer, params));
}

Chosen<std::optional<SqueezeExciteVariant>> RecordedChoices::squeeze_excite(const std::string& layer,
                                                                            const SqueezeExciteParams& params) {
  if (saved_ != nullptr) return replay_optional("squeeze_excite", layer, squeeze_excite_variants(), params);
  return keep("squeeze_excite", layer, chooser_.squeeze_excite(params));
}

ChosenBlock RecordedChoices::block(const std::string& layer, const InvertedResidualParams& params, bool may_fuse,
                                   const ExpandDepthwiseParams* expand_depthwise) {
  if (saved_ != nullptr) return replay_block(layer, params, may_fuse, expand_depthwise);
  return keep_block(layer, chooser_.block(layer, params, may_fuse, expand_depthwise));
}

// The form, then the variant of a fused form, then how the last layer runs. The form has the reason of the variant.
ChosenBlock RecordedChoices::keep_block(const std::string& layer, ChosenBlock chosen) {
  const std::size_t form = made_.choices.size();
  made_.choices.push_back({"block", name_of(chosen.form), chosen.reason});
  if (chosen.form == BlockForm::Fused) {
    made_.choices.push_back({"inverted_residual", name_of(chosen.fused), {}});
    if (const auto& rival = chosen.fused_rival) {
      contest(layer, "inverted_residual", name_of(rival->variant), rival->reason, form);
    }
    return chosen;
  }
  if (chosen.form == BlockForm::ExpandDepthwise) {
    made_.choices.push_back({"expand_depthwise", name_of(chosen.expand_depthwise), {}});
    // The reason is the form's, whichever variant it takes.
    if (const auto& rival = chosen.expand_depthwise_rival) {
      contest(layer, "expand_depthwise", name_of(*rival), chosen.reason, form);
    }
  }
  if (!chosen.project) {
    made_.choices.push_back({kProject, {}, {}});
    return chosen;
  }
  made_.choices.push_back({kProject, name_of(chosen.project->variant), chosen.project->reason});
  if (const auto& rival = chosen.project->rival) {
    contest(layer, "gemm", name_of(rival->variant), rival->reason, made_.choices.size() - 1);
  }
  return chosen;
}

ChosenBlock RecordedChoices::replay_block(const std::string& layer, const InvertedResidualParams& params, bool may_fuse,
                                          const ExpandDepthwiseParams* expand_depthwise) {
  const SavedChoice& form = next("block", layer);
  ChosenBlock chosen;
  chosen.reason = form.reason;
  if (form.variant == name(BlockForm::Fused)) {
    if (!may_fuse) refuse(layer, "the block cannot be fused");
    chosen.form = BlockForm::Fused;
    chosen.fused = find(next("inverted_residual", layer), layer, inverted_residual_variants(), params);
    return chosen;
  }
  if (form.variant == name(BlockForm::ExpandDepthwise)) {
    if (expand_depthwise == nullptr) refuse(layer, "the block has no expansion");
    chosen.form = BlockForm::ExpandDepthwise;
    chosen.expand_depthwise =
        find(next("expand_depthwise", layer), layer, expand_depthwise_variants(), *expand_depthwise);
  } else if (form.variant != name(BlockForm::Layers)) {
    refuse(layer, "a block has no form '" + form.variant + "'");
  }
  const SavedChoice& project = next(kProject, layer);
  if (!project.variant.empty()) {
    chosen.project = Chosen<GemmVariant>{find(project, layer, gemm_variants(), project_layer(params)), project.reason};
  }
  return chosen;
}

void RecordedChoices::finish() {
  if (saved_ == nullptr) {
    chooser_.finish();
  } else if (position_ != saved_->size()) {
    refuse("", "belongs to no layer");
  }
}

}  // namespace mobicuda
