#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mobicuda/engine.h>

#include "choose/choice_record.h"
#include "choose/choices.h"
#include "choose/rules.h"
#include "choose/timed_choices.h"

namespace mobicuda {

/// Decides how each layer runs and says why: as saved before, by name where the user gave one, by measured time where
/// there is a timing cache, else by rule. `layer` is the name that messages use. The choices are kept in the order in
/// which they are asked for.
class Chooser {
 public:
  /// `saved` (SavedEngine::choices) is null where choices are made now.
  Chooser(const EngineOptions& options, const kernels::DeviceTraits& gpu, const std::vector<SavedChoice>* saved);

  const Rules& rules() const { return rules_; }

  /// Which variant of the kernel that takes `params` runs the layer.
  template <class Params>
  Chosen<VariantOf<Params>> choose(const std::string& layer, const Params& params);

  /// The same of a kernel of several layers, where layers_apart() names those. `may_fuse`: the answer is of use; else
  /// it is the rule's, and nothing is measured.
  template <class Params>
  ChosenFused<Params> choose_fused(const std::string& layer, const Params& params, bool may_fuse = true);

  /// Which of the two runs a pointwise convolution.
  PointwiseKernel pointwise(const std::string& layer, const kernels::Conv2dParams& params);

  /// `may_fuse`: the block's residual, if it has one, is its own input. `expand_depthwise` is null without expand.
  ChosenBlock block(const std::string& layer, const kernels::InvertedResidualParams& params, bool may_fuse,
                    const kernels::ExpandDepthwiseParams* expand_depthwise);

  /// After the last choice.
  void finish();
  ChosenLayers take() && { return std::move(record_).take(); }

 private:
  // These make a choice, and keep nothing.
  template <class Params>
  Chosen<VariantOf<Params>> decide(const std::string& layer, const Params& params);
  template <class Params>
  ChosenFused<Params> decide_fused(const std::string& layer, const Params& params, bool may_fuse);
  PointwiseKernel decide_pointwise(const std::string& layer, const kernels::Conv2dParams& params);
  ChosenBlock decide_block(const std::string& layer, const kernels::InvertedResidualParams& params, bool may_fuse,
                           const kernels::ExpandDepthwiseParams* expand_depthwise);
  ChosenBlock block_by_rule(const kernels::InvertedResidualParams& params, bool may_fuse,
                            const kernels::ExpandDepthwiseParams* expand_depthwise) const;

  // Whether kernels that are asked for by name run these layers.
  bool apart_runs(const std::vector<LayerApart>& layers) const;
  // The kernels of the layers that a kernel of several layers stands for, each as it is chosen.
  TimedKernels apart(const std::string& layer, const std::vector<LayerApart>& layers);
  // The same of a block.
  struct Layers {
    TimedKernels kernels;
    std::optional<ChosenPointwise> project{};  ///< where it is not chosen by itself
  };
  // A pointwise convolution by itself: in the kernel that is chosen for it, and where that may be and is faster, split.
  TimedKernel pointwise_apart(const std::string& layer, const kernels::Conv2dParams& params, bool split = false);
  Layers block_apart(const std::string& layer, const kernels::InvertedResidualParams& block);
  // The last layer of a block behind the kernels that run before it.
  ChosenPointwise project_behind(const TimedKernels& before, const std::string& layer,
                                 const kernels::InvertedResidualParams& block);

  void keep_block(const std::string& layer, const ChosenBlock& chosen);
  ChosenBlock replay_block(const std::string& layer, const kernels::InvertedResidualParams& params, bool may_fuse,
                           const kernels::ExpandDepthwiseParams* expand_depthwise);

  Rules rules_;
  std::optional<TimedChoices> times_;
  ChoiceRecord record_;
};

/// LayerInfo::reason of a choice by rule.
inline std::string reason_of(std::string_view why) {
  return why == kNamed || why == kNoFusedVariant ? std::string(why) : "rule: " + std::string(why);
}

template <class Value>
std::size_t position_of(const Value& value, const std::vector<Value>& values) {
  return static_cast<std::size_t>(std::find(values.begin(), values.end(), value) - values.begin());
}

/// `variants` are the first candidates.
template <class Variant>
std::optional<Rival<Variant>> rival_of(const TimedAnswer& answer, const std::vector<Variant>& variants) {
  if (!answer.rival) return std::nullopt;
  return Rival<Variant>{variants.at(answer.rival->candidate), answer.rival->reason};
}

template <class Params>
Chosen<VariantOf<Params>> Chooser::choose(const std::string& layer, const Params& params) {
  const std::string_view kernel = kernels::kernel_of(params).name;
  if (record_.replays()) {
    const SavedChoice& saved = record_.next(kernel, layer);
    return {record_.find(saved, layer, params, rules_.gpu()), saved.reason};
  }
  auto chosen = decide(layer, params);
  record_.keep_answer(kernel, layer, chosen);
  return chosen;
}

template <class Params>
Chosen<VariantOf<Params>> Chooser::decide(const std::string& layer, const Params& params) {
  const auto& kernel = kernels::kernel_of(params);
  const auto expected = rules_.variant(params);
  if (!times_ || rules_.named().find(kernel.name) != nullptr) return {expected.variant, reason_of(expected.why)};
  const auto variants = rules_.supported(params);
  std::vector<TimedKernels> candidates;
  for (const auto variant : variants) candidates.push_back({timed(variant, params)});
  const TimedAnswer answer = times_->fastest(layer, kernel.shape(params), candidates,
                                             position_of(expected.variant, variants), candidates.size());
  return {variants[answer.candidate], answer.reason, rival_of(answer, variants)};
}

template <class Params>
ChosenFused<Params> Chooser::choose_fused(const std::string& layer, const Params& params, bool may_fuse) {
  const std::string_view kernel = kernels::kernel_of(params).name;
  if (record_.replays()) {
    const SavedChoice& saved = record_.next(kernel, layer);
    ChosenFused<Params> chosen{std::nullopt, saved.reason};
    if (!saved.variant.empty()) chosen.variant = record_.find(saved, layer, params, rules_.gpu());
    return chosen;
  }
  auto chosen = decide_fused(layer, params, may_fuse);
  record_.keep_answer(kernel, layer, chosen);
  return chosen;
}

template <class Params>
ChosenFused<Params> Chooser::decide_fused(const std::string& layer, const Params& params, bool may_fuse) {
  const auto& kernel = kernels::kernel_of(params);
  // Ranking what can be compiled takes long, so that all of it is listed only where it is timed.
  if (rules_.named().find(kernel.name) == nullptr && !rules_.runs(params)) {
    return {std::nullopt, std::string(kNoFusedVariant)};
  }
  const auto expected = rules_.fused(params);
  const FusedOption asked = fused_option(params);
  if (rules_.named().has_any({kernel.name, asked.option, asked.other})) {
    return {expected ? std::optional(expected->variant) : std::nullopt, std::string(kNamed)};
  }
  const std::vector<LayerApart> layers = layers_apart(params);
  if (!times_ || !may_fuse || !apart_runs(layers)) {
    if (!expected) return {std::nullopt, reason_of("several kernels are faster for this batch")};
    return {expected->variant, reason_of(expected->why)};
  }
  const auto variants = rules_.supported(params);
  std::vector<TimedKernels> candidates;
  for (const auto variant : variants) candidates.push_back({timed(variant, params)});
  candidates.push_back(apart(layer, layers));
  const std::size_t position = expected ? position_of(expected->variant, variants) : variants.size();
  const TimedAnswer answer = times_->fastest(layer, kernel.shape(params), candidates, position, variants.size());
  if (answer.candidate == variants.size()) return {std::nullopt, answer.reason};
  ChosenFused<Params> chosen{variants[answer.candidate], answer.reason};
  if (const auto rival = rival_of(answer, variants)) {
    chosen.rival = Rival<std::optional<VariantOf<Params>>>{rival->variant, rival->reason};
  }
  return chosen;
}

}  // namespace mobicuda
