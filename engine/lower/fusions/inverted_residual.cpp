// An inverted residual block: one kernel, or two, of which the first expands and filters.
#include "kernels/inverted_residual/inverted_residual.h"
#include "kernels/depthwise_conv/depthwise_conv.h"
#include "kernels/expand_depthwise/expand_depthwise.h"
#include "kernels/gemm/gemm.h"
#include "lower/fusions.h"
#include "lower/ops.h"

namespace mobicuda {
namespace {

bool is_block_depthwise(const Conv2d& op, const Shape& weight, int kernel) {
  return is_depthwise(op, weight) && weight[2] == kernel && weight[3] == kernel && op.strides[0] == op.strides[1] &&
         op.strides[0] <= 2 && op.dilations == std::array<std::int64_t, 2>{1, 1};
}

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
  if (params.expand) params.expand_clip = as_clip(std::get<Conv2d>(block.expand->op).activation);
  params.depthwise_clip = as_clip(depthwise.activation);
  params.project_clip = as_clip(std::get<Conv2d>(block.project->op).activation);
  return params;
}

kernels::ExpandDepthwiseParams pair_params(const BlockNodes& block, const kernels::InvertedResidualParams& whole) {
  kernels::ExpandDepthwiseParams params;
  params.elem = whole.elem;
  params.n = whole.n;
  params.h = whole.h;
  params.w = whole.w;
  params.c_in = whole.c_in;
  params.c = whole.c_hidden;
  params.out_h = whole.out_h;
  params.out_w = whole.out_w;
  params.kernel = whole.kernel;
  params.stride = whole.stride;
  params.pad_top = whole.pad_top;
  params.pad_left = whole.pad_left;
  params.expand_bias = block.expand->inputs[Conv2d::kBias] != kNoValue;
  params.depthwise_bias = block.depthwise->inputs[Conv2d::kBias] != kNoValue;
  params.expand_clip = whole.expand_clip;
  params.depthwise_clip = whole.depthwise_clip;
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
    if (!to.only_clips(block.nodes)) return std::nullopt;
    block.parts = *parts;
    block.params = block_params(to, *parts, kernel);
    if (parts->expand != nullptr) block.pair = pair_params(*parts, block.params);
    return block;
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
      emit_pair(to, block);
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

  static void emit_pair(Lowering& to, const Block& block) {
    const auto& [expand, depthwise, project] = block.parts;
    const kernels::ExpandDepthwiseParams& params = block.pair;
    const kernels::ExpandDepthwiseVariant variant = block.chosen.expand_depthwise;
    const Elem elem = to.elem();
    const Storage x = to.read_input(expand->inputs[Conv2d::kInput]);
    const Packed expand_weight = to.pack(
        "gemm", *expand, expand->inputs[Conv2d::kWeight], kernels::gemm_packed_bytes(elem, params.c, params.c_in),
        [&](const float* w, void* packed) { kernels::gemm_pack(elem, params.c, params.c_in, w, packed); });
    const Packed depthwise_weight =
        to.pack("depthwise_conv", *depthwise, depthwise->inputs[Conv2d::kWeight],
                kernels::depthwise_conv_packed_bytes(elem, params.c, params.kernel, params.kernel),
                [&](const float* w, void* packed) {
                  kernels::depthwise_conv_pack(elem, params.c, params.kernel, params.kernel, w, packed);
                });
    const Packed expand_bias = to.pack_floats(expand->inputs[Conv2d::kBias]);
    const Packed depthwise_bias = to.pack_floats(depthwise->inputs[Conv2d::kBias]);
    const Storage y = to.make_output(*depthwise, false);
    to.add_kernel({.info = to.describe({expand, depthwise}, kernel_name(variant, params), block.chosen.reason),
                   .x = x,
                   .weights = {expand_weight, expand_bias, depthwise_weight, depthwise_bias},
                   .y = y},
                  variant, params);
    to.show(depthwise->output);
  }
};

}  // namespace

std::optional<BlockNodes> block_around(const Lowering& to, const Node& depthwise, int kernel) {
  const auto pointwise = [&](const Node* node) {
    const auto* op = node == nullptr ? nullptr : std::get_if<Conv2d>(&node->op);
    return op != nullptr && !to.is_claimed(node) && is_pointwise(*op, to.shape(node->inputs[Conv2d::kWeight]));
  };
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
  if (!pointwise(block.project) || to.is_final(block.project->output)) return std::nullopt;
  const Node* expand = to.producer(depthwise.inputs[Conv2d::kInput]);
  if (pointwise(expand) && to.sole_reader(expand->output) == &depthwise &&
      expand->inputs[Conv2d::kResidual] == kNoValue) {
    block.expand = expand;
  }
  return block;
}

std::unique_ptr<Fusion> make_inverted_residual_fusion() { return std::make_unique<InvertedResidualFusion>(); }

}  // namespace mobicuda
