#include "kernels/expand_depthwise/expand_depthwise.h"
#include "kernels/inverted_residual/inverted_residual.h"
#include "plan/lowering.h"

namespace mobicuda {
namespace {

bool is_block_depthwise(const Conv2d& op, const Shape& weight) {
  return is_depthwise(op, weight) && weight[2] == 3 && weight[3] == 3 && op.strides[0] == op.strides[1] &&
         op.strides[0] <= 2 && op.dilations == std::array<std::int64_t, 2>{1, 1};
}

}  // namespace

const Node* Lowering::sole_reader(ValueId id) const {
  const auto readers = graph_.consumers(id);
  if (readers.size() != 1 || id == graph_.output()) return nullptr;
  return &graph_.nodes()[readers.front()];
}

std::optional<Lowering::Block> Lowering::block_around(const Node& depthwise) const {
  const auto pointwise = [&](const Node* node) {
    const auto* op = node == nullptr ? nullptr : std::get_if<Conv2d>(&node->op);
    return op != nullptr && !in_blocks_.contains(node) && is_pointwise(*op, shape(node->inputs[Conv2d::kWeight]));
  };
  const auto* op = std::get_if<Conv2d>(&depthwise.op);
  if (op == nullptr || in_blocks_.contains(&depthwise) ||
      !is_block_depthwise(*op, shape(depthwise.inputs[Conv2d::kWeight])) ||
      depthwise.inputs[Conv2d::kResidual] != kNoValue) {
    return std::nullopt;
  }
  Block block;
  block.depthwise = &depthwise;
  block.project = sole_reader(depthwise.output);
  // The fused kernels write the engine's own element type, not the caller's floats.
  if (!pointwise(block.project) || is_final(block.project->output)) return std::nullopt;
  const auto producer = graph_.producer(depthwise.inputs[Conv2d::kInput]);
  const Node* expand = producer ? &graph_.nodes()[*producer] : nullptr;
  if (pointwise(expand) && sole_reader(expand->output) == &depthwise && expand->inputs[Conv2d::kResidual] == kNoValue) {
    block.expand = expand;
  }
  return block;
}

kernels::InvertedResidualParams Lowering::block_params(const Block& block) const {
  const Node& first = block.expand != nullptr ? *block.expand : *block.depthwise;
  const auto& depthwise = std::get<Conv2d>(block.depthwise->op);
  const Shape& in = shape(first.inputs[Conv2d::kInput]);
  const Shape& out = shape(block.project->output);
  kernels::InvertedResidualParams params;
  params.elem = elem_;
  params.n = as_int(options_.max_batch);
  params.h = as_int(in[2]);
  params.w = as_int(in[3]);
  params.c_in = as_int(in[1]);
  params.c_hidden = as_int(shape(block.depthwise->output)[1]);
  params.c_out = as_int(out[1]);
  params.out_h = as_int(out[2]);
  params.out_w = as_int(out[3]);
  params.stride = as_int(depthwise.strides[0]);
  params.pad_top = as_int(depthwise.pads.top);
  params.pad_left = as_int(depthwise.pads.left);
  params.expand = block.expand != nullptr;
  params.residual = block.project->inputs[Conv2d::kResidual] != kNoValue;
  if (params.expand) params.expand_clip = as_clip(std::get<Conv2d>(block.expand->op).activation);
  params.depthwise_clip = as_clip(depthwise.activation);
  params.project_clip = as_clip(std::get<Conv2d>(block.project->op).activation);
  return params;
}

kernels::ExpandDepthwiseParams Lowering::expand_depthwise_params(const Block& block) const {
  const kernels::InvertedResidualParams whole = block_params(block);
  kernels::ExpandDepthwiseParams params;
  params.elem = elem_;
  params.n = whole.n;
  params.h = whole.h;
  params.w = whole.w;
  params.c_in = whole.c_in;
  params.c = whole.c_hidden;
  params.out_h = whole.out_h;
  params.out_w = whole.out_w;
  params.stride = whole.stride;
  params.pad_top = whole.pad_top;
  params.pad_left = whole.pad_left;
  params.expand_bias = block.expand->inputs[Conv2d::kBias] != kNoValue;
  params.depthwise_bias = block.depthwise->inputs[Conv2d::kBias] != kNoValue;
  params.expand_clip = whole.expand_clip;
  params.depthwise_clip = whole.depthwise_clip;
  return params;
}

ChosenBlock Lowering::choose_form(const Block& block) {
  const kernels::InvertedResidualParams fused = block_params(block);
  const Node& first = block.expand != nullptr ? *block.expand : *block.depthwise;
  const ValueId residual = block.project->inputs[Conv2d::kResidual];
  const bool own_residual = residual == kNoValue || residual == first.inputs[Conv2d::kInput];
  const std::string label = block.depthwise->origin.label();
  if (block.expand == nullptr) return chooser_.block(label, fused, own_residual, nullptr);
  const kernels::ExpandDepthwiseParams two_phase = expand_depthwise_params(block);
  return chooser_.block(label, fused, own_residual, &two_phase);
}

void Lowering::find_blocks() {
  for (const Node& node : graph_.nodes()) {
    std::optional<Block> block = block_around(node);
    if (!block || !only_clips({block->expand, block->depthwise, block->project})) continue;
    block->chosen = choose_form(*block);
    if (block->chosen.project) projects_.emplace(block->project, *block->chosen.project);
    if (block->chosen.form == BlockForm::Layers) {
      keep_apart({block->expand, block->depthwise, block->project}, block->chosen.reason);
      continue;
    }
    for (const Node* part : {block->expand, block->depthwise, block->project}) {
      if (part != nullptr) in_blocks_.insert(part);
    }
    blocks_.emplace(block->project, *block);
  }
}

void Lowering::keep_apart(std::initializer_list<const Node*> nodes, const std::string& reason) {
  for (const Node* node : nodes) {
    if (node != nullptr) kept_apart_[node] = reason;
  }
}

bool Lowering::only_clips(std::initializer_list<const Node*> convolutions) {
  for (const Node* node : convolutions) {
    if (node == nullptr || std::get<Conv2d>(node->op).activation.is_clip()) continue;
    keep_apart(convolutions, to_string(std::get<Conv2d>(node->op).activation) + " is not a clip");
    return false;
  }
  return true;
}

LayerInfo Lowering::describe_block(std::initializer_list<const Node*> nodes, std::string kernel,
                                   std::string reason) const {
  LayerInfo info;
  info.kernel = std::move(kernel);
  info.reason = std::move(reason);
  const Node* first = nullptr;
  for (const Node* node : nodes) {
    if (node == nullptr) continue;
    if (first == nullptr) first = node;
    info.name += (info.name.empty() ? "" : "+") + node->origin.label();
    info.flops += flops_per_picture(graph_, *node);
    info.output = shape(node->output);
    if (std::holds_alternative<Conv2d>(node->op) && node->inputs[Conv2d::kResidual] != kNoValue) {
      info.activation_bytes += info.output.elements() * static_cast<std::int64_t>(size_of(elem_));
    }
  }
  info.activation_bytes += (shape(first->inputs[Conv2d::kInput]).elements() + info.output.elements()) *
                           static_cast<std::int64_t>(size_of(elem_));
  return info;
}

void Lowering::lower_block(const Block& block) {
  if (block.chosen.form == BlockForm::Fused) {
    lower_inverted_residual(block);
  } else {
    lower_expand_depthwise(block);
  }
}

void Lowering::lower_inverted_residual(const Block& block) {
  const Node& first = block.expand != nullptr ? *block.expand : *block.depthwise;
  const Storage x = read_input(first.inputs[Conv2d::kInput]);
  const kernels::InvertedResidualParams params = block_params(block);
  const auto weights_of = [&](const Node* node, std::size_t position) -> const float* {
    if (node == nullptr || node->inputs[position] == kNoValue) return nullptr;
    if (position == Conv2d::kWeight && elem_ == Elem::F16) require_half_range(*node, node->inputs[position]);
    return floats(node->inputs[position]).data();
  };
  const kernels::InvertedResidualVariant variant = block.chosen.fused;
  const auto bytes = static_cast<std::int64_t>(inverted_residual_packed_bytes(variant, params));
  const Packed packed = pack_bytes(bytes, [&](std::byte* host) {
    inverted_residual_pack(variant, params,
                           {weights_of(block.expand, Conv2d::kWeight), weights_of(block.expand, Conv2d::kBias),
                            weights_of(block.depthwise, Conv2d::kWeight), weights_of(block.depthwise, Conv2d::kBias),
                            weights_of(block.project, Conv2d::kWeight), weights_of(block.project, Conv2d::kBias)},
                           host);
  });
  const Storage y = make_output(*block.project, false);
  LayerInfo info = describe_block({block.expand, block.depthwise, block.project},
                                  "inverted_residual/" + std::string(kernels::name(variant)), block.chosen.reason);
  info.weight_bytes = bytes;
  add_step(std::move(info), {x.buffer, y.buffer},
           [params, variant, x, y, w = pointer(packed)](const CudaStepContext& context) {
             auto p = params;
             p.n = as_int(context.n);
             return kernels::inverted_residual(variant, p, context.buffers[x.buffer], w.get(),
                                               context.buffers[y.buffer], launch_of(context));
           });
}

void Lowering::lower_expand_depthwise(const Block& block) {
  const Storage x = read_input(block.expand->inputs[Conv2d::kInput]);
  const kernels::ExpandDepthwiseParams params = expand_depthwise_params(block);
  const kernels::ExpandDepthwiseVariant variant = block.chosen.expand_depthwise;
  const Packed expand = pack(
      *block.expand, block.expand->inputs[Conv2d::kWeight], kernels::gemm_packed_bytes(elem_, params.c, params.c_in),
      [&](const float* w, void* packed) { kernels::gemm_pack(elem_, params.c, params.c_in, w, packed); });
  const Packed depthwise =
      pack(*block.depthwise, block.depthwise->inputs[Conv2d::kWeight],
           kernels::depthwise_conv_packed_bytes(elem_, params.c, 3, 3),
           [&](const float* w, void* packed) { kernels::depthwise_conv_pack(elem_, params.c, 3, 3, w, packed); });
  const Packed expand_bias = pack_floats(block.expand->inputs[Conv2d::kBias]);
  const Packed depthwise_bias = pack_floats(block.depthwise->inputs[Conv2d::kBias]);
  const Storage y = make_output(*block.depthwise, false);
  LayerInfo info = describe_block({block.expand, block.depthwise},
                                  "expand_depthwise/" + std::string(kernels::name(variant)), block.chosen.reason);
  info.weight_bytes = expand.bytes + depthwise.bytes + expand_bias.bytes + depthwise_bias.bytes;
  add_step(std::move(info), {x.buffer, y.buffer},
           [params, variant, rule = chooser_.rule(), x, y, we = pointer(expand), be = pointer(expand_bias),
            wd = pointer(depthwise), bd = pointer(depthwise_bias)](const CudaStepContext& context) {
             auto p = params;
             p.n = as_int(context.n);
             return kernels::expand_depthwise(p.n == params.n ? variant : rule.expand_depthwise(p), p,
                                              context.buffers[x.buffer], we.get(), be.get<float>(), wd.get(),
                                              bd.get<float>(), context.buffers[y.buffer], launch_of(context));
           });
  show(block.depthwise->output);
  lower(*block.project, std::get<Conv2d>(block.project->op));
}

}  // namespace mobicuda
