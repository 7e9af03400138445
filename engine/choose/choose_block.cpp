// How an inverted residual block runs: in one kernel, in two or in three.
#include "choose/block_layers.h"
#include "choose/chooser.h"

namespace mobicuda {
namespace {

using kernels::DepthwiseConvParams;
using kernels::ExpandDepthwiseParams;
using kernels::ExpandDepthwiseVariant;
using kernels::GemmParams;
using kernels::GemmVariant;
using kernels::InvertedResidualParams;
using kernels::InvertedResidualVariant;
using kernels::SplitGemmParams;

// What the record calls these choices.
constexpr std::string_view kBlock = "block";
constexpr std::string_view kProject = "project";
constexpr std::string_view kFusedBlock = "inverted_residual";
constexpr std::string_view kPair = "expand_depthwise";

}  // namespace

ChosenBlock Chooser::block(const std::string& layer, const InvertedResidualParams& params, bool may_fuse,
                           const ExpandDepthwiseParams* expand_depthwise) {
  if (record_.replays()) return replay_block(layer, params, may_fuse, expand_depthwise);
  ChosenBlock chosen = decide_block(layer, params, may_fuse, expand_depthwise);
  keep_block(layer, chosen);
  return chosen;
}

ChosenBlock Chooser::block_by_rule(const InvertedResidualParams& params, bool may_fuse,
                                   const ExpandDepthwiseParams* expand_depthwise) const {
  const FormChoice choice = rules_.block_form(may_fuse ? &params : nullptr, expand_depthwise);
  ChosenBlock chosen;
  chosen.form = choice.form;
  chosen.reason = reason_of(choice.why);
  if (choice.form == BlockForm::Fused) chosen.fused = rules_.variant(params).variant;
  if (choice.form == BlockForm::ExpandDepthwise) {
    chosen.expand_depthwise = rules_.variant(*expand_depthwise).variant;
  }
  return chosen;
}

Chosen<GemmVariant> Chooser::project_behind(const TimedKernels& before, const std::string& layer,
                                            const InvertedResidualParams& block) {
  const GemmParams project = project_layer(block);
  if (rules_.named().find(kernel_of(project).name) != nullptr) return decide(layer, project);
  const auto variants = rules_.supported(project);
  std::vector<TimedKernels> candidates;
  for (const auto variant : variants) candidates.emplace_back(before).push_back(timed(variant, project));
  const TimedAnswer answer = times_->fastest(layer, kernel_of(block).shape(block), candidates,
                                             position_of(rules_.variant(project).variant, variants), candidates.size(),
                                             TimedChoices::kMarginInPlace);
  return {variants[answer.candidate], answer.reason, rival_of(answer, variants)};
}

TimedKernel Chooser::product_apart(const std::string& layer, const GemmParams& product, bool split) {
  if (split) {
    const SplitGemmParams params = split_layer(product);
    if (const auto chosen = decide_fused(layer, params, true); chosen.variant) return timed(*chosen.variant, params);
  }
  return timed(decide(layer, product).variant, product);
}

Chooser::Layers Chooser::block_apart(const std::string& layer, const InvertedResidualParams& block) {
  Layers layers;
  if (block.expand) layers.kernels.push_back(product_apart(layer, expand_layer(block), block.split));
  const DepthwiseConvParams depthwise = depthwise_layer(block);
  layers.kernels.push_back(timed(decide(layer, depthwise).variant, depthwise));
  if (block.split) {
    layers.kernels.push_back(product_apart(layer, project_layer(block), true));
    return layers;
  }
  layers.project = project_behind(layers.kernels, layer, block);
  layers.kernels.push_back(timed(layers.project->variant, project_layer(block)));
  return layers;
}

ChosenBlock Chooser::decide_block(const std::string& layer, const InvertedResidualParams& params, bool may_fuse,
                                  const ExpandDepthwiseParams* expand_depthwise) {
  ChosenBlock expected = block_by_rule(params, may_fuse, expand_depthwise);
  if (!times_ || rules_.named().has_any({kBlock, kFusedBlock, kPair})) return expected;
  std::vector<ChosenBlock> blocks;
  std::vector<TimedKernels> candidates;
  std::size_t position = 0;
  const auto add = [&](ChosenBlock block, TimedKernels kernels) {
    if (block.form == expected.form && block.fused == expected.fused) position = blocks.size();
    blocks.push_back(std::move(block));
    candidates.push_back(std::move(kernels));
  };
  const auto fused = may_fuse ? rules_.supported(params) : std::vector<InvertedResidualVariant>();
  for (const auto variant : fused) add({BlockForm::Fused, variant, {}, {}, {}}, {timed(variant, params)});
  const Layers layers = block_apart(layer, params);
  const std::string shape = kernel_of(params).shape(params);
  if (const auto variants =
          expand_depthwise == nullptr ? std::vector<ExpandDepthwiseVariant>() : rules_.supported(*expand_depthwise);
      !variants.empty()) {
    std::vector<TimedKernels> pairs;
    for (const auto variant : variants) pairs.push_back({timed(variant, *expand_depthwise), layers.kernels.back()});
    const std::size_t by_rule = position_of(rules_.variant(*expand_depthwise).variant, variants);
    const TimedAnswer pair = times_->fastest(layer, shape, pairs, by_rule, pairs.size(), TimedChoices::kMarginInPlace);
    ChosenBlock block{BlockForm::ExpandDepthwise, {}, variants[pair.candidate], {}, {}};
    if (const auto rival = rival_of(pair, variants)) block.expand_depthwise_rival = rival->variant;
    TimedKernels kernels{timed(block.expand_depthwise, *expand_depthwise)};
    block.project = project_behind(kernels, layer, params);
    kernels.push_back(timed(block.project->variant, project_layer(params)));
    add(std::move(block), std::move(kernels));
  }
  add({BlockForm::Layers, {}, {}, layers.project, expected.reason}, layers.kernels);
  if (blocks.size() == 1) return blocks.front();
  const TimedAnswer answer = times_->fastest(layer, shape, candidates, position, fused.size());
  ChosenBlock chosen = blocks[answer.candidate];
  chosen.reason = answer.reason;
  chosen.fused_rival = rival_of(answer, fused);
  return chosen;
}

// The form, then the variant of a fused form, then how the last layer runs. The form has the reason of the variant.
void Chooser::keep_block(const std::string& layer, const ChosenBlock& chosen) {
  record_.keep(kBlock, name_of(chosen.form), chosen.reason);
  const std::size_t form = record_.last();
  if (chosen.form == BlockForm::Fused) {
    record_.keep(kFusedBlock, name_of(chosen.fused), {});
    if (const auto& rival = chosen.fused_rival) {
      record_.contest(layer, kFusedBlock, name_of(rival->variant), rival->reason, form);
    }
    return;
  }
  if (chosen.form == BlockForm::ExpandDepthwise) {
    record_.keep(kPair, name_of(chosen.expand_depthwise), {});
    // The reason is the form's, whichever variant it takes.
    if (const auto& rival = chosen.expand_depthwise_rival) {
      record_.contest(layer, kPair, name_of(*rival), chosen.reason, form);
    }
  }
  if (!chosen.project) {
    record_.keep(kProject, {}, {});
    return;
  }
  record_.keep(kProject, name_of(chosen.project->variant), chosen.project->reason);
  if (const auto& rival = chosen.project->rival) {
    record_.contest(layer, kernel_of(GemmParams{}).name, name_of(rival->variant), rival->reason, record_.last());
  }
}

ChosenBlock Chooser::replay_block(const std::string& layer, const InvertedResidualParams& params, bool may_fuse,
                                  const ExpandDepthwiseParams* expand_depthwise) {
  const SavedChoice& form = record_.next(kBlock, layer);
  const auto variant_of = [&](const SavedChoice& choice, const auto& shape) {
    return record_.find(choice, layer, shape, rules_.gpu());
  };
  ChosenBlock chosen;
  chosen.reason = form.reason;
  if (form.variant == name(BlockForm::Fused)) {
    if (!may_fuse) record_.refuse(layer, "the block cannot be fused");
    chosen.form = BlockForm::Fused;
    chosen.fused = variant_of(record_.next(kFusedBlock, layer), params);
    return chosen;
  }
  if (form.variant == name(BlockForm::ExpandDepthwise)) {
    if (expand_depthwise == nullptr) record_.refuse(layer, "the block has no expansion");
    chosen.form = BlockForm::ExpandDepthwise;
    chosen.expand_depthwise = variant_of(record_.next(kPair, layer), *expand_depthwise);
  } else if (form.variant != name(BlockForm::Layers)) {
    record_.refuse(layer, "a block has no form '" + form.variant + "'");
  }
  const SavedChoice& project = record_.next(kProject, layer);
  if (!project.variant.empty()) {
    chosen.project = Chosen<GemmVariant>{variant_of(project, project_layer(params)), project.reason};
  }
  return chosen;
}

}  // namespace mobicuda
