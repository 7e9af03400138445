// How an inverted residual block runs: in one kernel, in two or in three.
#include "choose/block_layers.h"
#include "choose/chooser.h"
#include "choose/pointwise_layer.h"

namespace mobicuda {
namespace {

using kernels::Conv2dParams;
using kernels::Conv2dVariant;
using kernels::DepthwiseConvParams;
using kernels::ExpandDepthwiseParams;
using kernels::ExpandDepthwiseVariant;
using kernels::GemmParams;
using kernels::GemmVariant;
using kernels::InvertedResidualParams;
using kernels::InvertedResidualVariant;

// What the record calls these choices.
constexpr std::string_view kBlock = "block";
constexpr std::string_view kProject = "project";
constexpr std::string_view kFusedBlock = "inverted_residual";
constexpr std::string_view kPair = "expand_depthwise";

// Whether a variant writes a block's output wherever that comes to lie: perhaps among the channels of a wider value,
// which is found out when all blocks are chosen.
bool runs_project(Conv2dVariant variant) { return on_tensor_cores(variant); }

TimedKernel timed_project(const ChosenPointwise& project, const InvertedResidualParams& block) {
  const Conv2dParams params = project_layer(block);
  const auto* conv2d = std::get_if<Chosen<Conv2dVariant>>(&project);
  if (conv2d != nullptr) return timed(conv2d->variant, params);
  return timed(std::get<Chosen<GemmVariant>>(project).variant, product_of(params));
}

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

ChosenPointwise Chooser::project_behind(const TimedKernels& before, const std::string& layer,
                                        const InvertedResidualParams& block) {
  const Conv2dParams project = project_layer(block);
  const GemmParams product = product_of(project);
  if (rules_.named().find(kernel_of(product).name) != nullptr) return decide(layer, product);
  const auto variants = rules_.supported(product);
  std::vector<TimedKernels> candidates;
  for (const auto variant : variants) candidates.emplace_back(before).push_back(timed(variant, product));
  std::size_t expected = position_of(rules_.variant(product).variant, variants);
  // As of a pointwise layer by itself: of conv2d the fastest in a chain of its own, as it has many variants.
  std::optional<Chosen<Conv2dVariant>> conv2d;
  if (rules_.pointwise(project) == PointwiseKernel::Conv2d) {
    conv2d = decide(layer, project);
    if (runs_project(conv2d->variant)) {
      expected = candidates.size();
      candidates.emplace_back(before).push_back(timed(conv2d->variant, project));
    }
  }
  const TimedAnswer answer = times_->fastest(layer, kernel_of(block).shape(block), candidates, expected,
                                             variants.size(), TimedChoices::kMarginInPlace);
  if (answer.candidate == variants.size()) {
    conv2d->reason = answer.reason;
    if (conv2d->rival && !runs_project(conv2d->rival->variant)) conv2d->rival.reset();
    return *conv2d;
  }
  return Chosen<GemmVariant>{variants[answer.candidate], answer.reason, rival_of(answer, variants)};
}

Chooser::Layers Chooser::block_apart(const std::string& layer, const InvertedResidualParams& block) {
  Layers layers;
  if (block.expand) layers.kernels.push_back(pointwise_apart(layer, expand_layer(block), block.split));
  const DepthwiseConvParams depthwise = depthwise_layer(block);
  layers.kernels.push_back(timed(decide(layer, depthwise).variant, depthwise));
  // By itself where it may be split, or one of the two kernels is asked for.
  if (block.split || rules_.named().find(kPointwise) != nullptr) {
    layers.kernels.push_back(pointwise_apart(layer, project_layer(block), block.split));
    return layers;
  }
  layers.project = project_behind(layers.kernels, layer, block);
  layers.kernels.push_back(timed_project(*layers.project, block));
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
    if (layers.project) block.project = project_behind(kernels, layer, params);
    kernels.push_back(block.project ? timed_project(*block.project, params) : layers.kernels.back());
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

// The form, then the variant of a fused form, then how the last layer runs: a variant of gemm, or conv2d, behind which
// its variant stands. The form has the reason of the variant.
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
  if (const auto* conv2d = std::get_if<Chosen<Conv2dVariant>>(&*chosen.project)) {
    record_.keep(kProject, name_of(PointwiseKernel::Conv2d), {});
    record_.keep_answer(kernel_of(Conv2dParams{}).name, layer, *conv2d);
    return;
  }
  const auto& gemm = std::get<Chosen<GemmVariant>>(*chosen.project);
  record_.keep(kProject, name_of(gemm.variant), gemm.reason);
  if (const auto& rival = gemm.rival) {
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
  if (project.variant == name(PointwiseKernel::Conv2d)) {
    const SavedChoice& conv2d = record_.next(kernel_of(Conv2dParams{}).name, layer);
    const Conv2dVariant variant = variant_of(conv2d, project_layer(params));
    if (!runs_project(variant)) record_.refuse(layer, "conv2d variant '" + conv2d.variant + "' ends no block");
    chosen.project = Chosen<Conv2dVariant>{variant, conv2d.reason};
  } else if (!project.variant.empty()) {
    chosen.project = Chosen<GemmVariant>{variant_of(project, product_of(project_layer(params))), project.reason};
  }
  return chosen;
}

}  // namespace mobicuda
