// An inverted residual block: one kernel, or two, of which the first expands and filters.
#include <algorithm>

#include "kernels/expand_depthwise/expand_depthwise.h"
#include "kernels/inverted_residual/inverted_residual.h"
#include "lower/fusions.h"
#include "lower/ops.h"

namespace mobicuda {
namespace {

struct Block {
  std::vector<const Node*> nodes;
  BlockNodes parts;
  kernels::InvertedResidualParams params;
  kernels::ExpandDepthwiseParams pair;  // of expand and depthwise, where there is expand
  ChosenBlock chosen;
};

kernels::InvertedResidualParams block_params(Lowering& to, const BlockNodes& block, int kernel) {
  const auto& depthwise = std::get<Conv2d>(block.depthwise->op);
  const Shape& in = to.shape(block.first().inputs[Conv2d::kInput]);
  const Shape& out = to.shape(block.project->output);
  kernels::InvertedResidualParams params;
  params.elem = to.elem();
  params.n = to.max_batch();
  params.h = as_int(in[2]);
  params.w = as_int(in[3]);
  params.c_in = as_int(in[1]);
  params.c_hidden = as_int(to.shape(block.depthwise->output)[1]);
  params.c_out = as_int(out[1]);
  params.out_h = as_int(out[2]);
  params.out_w = as_int(out[3]);
  params.kernel = kernel;
  params.stride = as_int(depthwise.strides[0]);
  params.pad_top = as_int(depthwise.pads.top);
  params.pad_left = as_int(depthwise.pads.left);
  params.expand = block.expand != nullptr;
  params.residual = block.project->inputs[Conv2d::kResidual] != kNoValue;
  params.split = to.splits() && params.expand && to.in_split_range(block.expand->inputs[Conv2d::kInput]) &&
                 to.in_split_range(block.depthwise->output);
  if (params.expand) params.expand_activation = as_kernel_activation(std::get<Conv2d>(block.expand->op).activation);
  params.depthwise_activation = as_kernel_activation(depthwise.activation);
  params.project_clip = as_clip(std::get<Conv2d>(block.project->op).activation);
  return params;
}

class InvertedResidualFusion final : public FusionOf<Block> {
  std::optional<Block> match(Lowering& to, const Node& depthwise) const override {
    int kernel = 3;
    auto parts = block_around(to, depthwise, kernel);
    if (!parts) {
      kernel = 5;
      parts = block_around(to, depthwise, kernel);
      if (!parts || parts->expand == nullptr) return std::nullopt;
    }
    Block block;
    if (parts->expand != nullptr) block.nodes.push_back(parts->expand);
    block.nodes.insert(block.nodes.end(), {parts->depthwise, parts->project});
    if (!to.only_clips({parts->project}) || !runs_hidden(to, block)) return std::nullopt;
    block.parts = *parts;
    block.params = block_params(to, *parts, kernel);
    if (parts->expand != nullptr) block.pair = pair_params(to, *parts->expand, *parts->depthwise);
    return block;
  }

  // Whether some kernel runs the activations of the hidden values. Those made for a shape, and the pair, take
  // HardSwish, and the pair Silu, in half.
  static bool runs_hidden(Lowering& to, const Block& block) {
    const std::vector<const Node*> hidden(block.nodes.begin(), block.nodes.end() - 1);
    const bool swish = to.elem() == Elem::F16 && std::all_of(hidden.begin(), hidden.end(), [](const Node* node) {
                         const kernels::Activation activation =
                             as_kernel_activation(std::get<Conv2d>(node->op).activation);
                         return is_swish(activation);
                       });
    return swish || to.only_clips(hidden);
  }

  bool choose(Lowering& to, Block& block) const override {
    const Node& project = *block.parts.project;
    const ValueId residual = project.inputs[Conv2d::kResidual];
    const bool own_residual = residual == kNoValue || residual == block.parts.first().inputs[Conv2d::kInput];
    const bool may_fuse = own_residual && !splits_layers(to, block);
    block.chosen = to.chooser().block(block.parts.depthwise->origin.label(), block.params, may_fuse,
                                      block.parts.expand != nullptr ? &block.pair : nullptr);
    if (block.chosen.project) to.choose_with_block(project, *block.chosen.project);
    if (block.chosen.form != BlockForm::Layers) return true;
    to.keep_apart(block.nodes, block.chosen.reason);
    return false;
  }

  // Whether the layers' products can be split, and are faster so. By rule also where there is a timing cache: kernels
  // of such blocks in one launch would be compiled for minutes.
  static bool splits_layers(Lowering& to, const Block& block) {
    return block.params.split && to.chooses() && !why_split_layers(block.params, to.rules().gpu()).empty();
  }

  void emit(Lowering& to, const Block& block) const override {
    if (block.chosen.form == BlockForm::Fused) {
      emit_one(to, block);
    } else {
      emit_pair(to, *block.parts.expand, *block.parts.depthwise, block.pair, block.chosen.expand_depthwise,
                block.chosen.reason);
      mobicuda::lower(to, *block.parts.project);
    }
  }

  static void emit_one(Lowering& to, const Block& block) {
    const auto& [expand, depthwise, project] = block.parts;
    const Storage x = to.read_input(block.parts.first().inputs[Conv2d::kInput]);
    const kernels::InvertedResidualVariant variant = block.chosen.fused;
    const auto bytes = static_cast<std::int64_t>(inverted_residual_packed_bytes(variant, block.params));
    std::vector<ValueId> constants = Lowering::constants_of({expand, depthwise, project});
    // Factors that follow from the bounds of x are among the weights then.
    if (block.params.split) constants.push_back(expand->inputs[Conv2d::kInput]);
    const Packed packed =
        to.pack_bytes(Lowering::packing_of(variant, block.params), std::move(constants), bytes,
                      [&, expand = expand, depthwise = depthwise, project = project](std::byte* host) {
                        kernels::InvertedResidualWeights weights{
                            to.constant_of(expand, Conv2d::kWeight),    to.constant_of(expand, Conv2d::kBias),
                            to.constant_of(depthwise, Conv2d::kWeight), to.constant_of(depthwise, Conv2d::kBias),
                            to.constant_of(project, Conv2d::kWeight),   to.constant_of(project, Conv2d::kBias)};
                        if (block.params.split) {
                          weights.x_bound = to.split_bound(expand->inputs[Conv2d::kInput]);
                          weights.filtered_bound = to.split_bound(depthwise->output);
                        }
                        inverted_residual_pack(variant, block.params, weights, host);
                      });
    const Storage y = to.make_output(*project, false);
    to.add_kernel({.info = to.describe(block.nodes, kernel_name(variant, block.params), block.chosen.reason),
                   .x = x,
                   .weights = {packed},
                   .y = y},
                  variant, block.params);
  }
};

bool is_free_pointwise(const Lowering& to, const Node* node) {
  const auto* op = node == nullptr ? nullptr : std::get_if<Conv2d>(&node->op);
  return op != nullptr && !to.is_claimed(node) && is_pointwise(*op, to.shape(node->inputs[Conv2d::kWeight]));
}

}  // namespace

bool is_block_depthwise(const Conv2d& op, const Shape& weight, int kernel) {
  return is_depthwise(op, weight) && weight[2] == kernel && weight[3] == kernel && op.strides[0] == op.strides[1] &&
         op.strides[0] <= 2 && op.dilations == std::array<std::int64_t, 2>{1, 1};
}

std::optional<BlockNodes> block_around(const Lowering& to, const Node& depthwise, int kernel) {
  const auto* op = std::get_if<Conv2d>(&depthwise.op);
  if (op == nullptr || to.is_claimed(&depthwise) ||
      !is_block_depthwise(*op, to.shape(depthwise.inputs[Conv2d::kWeight]), kernel) ||
      depthwise.inputs[Conv2d::kResidual] != kNoValue) {
    return std::nullopt;
  }
  BlockNodes block;
  block.depthwise = &depthwise;
  block.project = to.sole_reader(depthwise.output);
  // The fused kernels write the engine's own element type, not the caller's floats.
  if (!is_free_pointwise(to, block.project) || to.is_final(block.project->output)) return std::nullopt;
  block.expand = expansion_before(to, depthwise);
  return block;
}

const Node* expansion_before(const Lowering& to, const Node& depthwise) {
  const Node* expand = to.producer(depthwise.inputs[Conv2d::kInput]);
  const bool expands = is_free_pointwise(to, expand) && to.sole_reader(expand->output) == &depthwise &&
                       expand->inputs[Conv2d::kResidual] == kNoValue;
  return expands ? expand : nullptr;
}

std::unique_ptr<Fusion> make_inverted_residual_fusion() { return std::make_unique<InvertedResidualFusion>(); }

}  // namespace mobicuda
