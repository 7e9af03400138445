#include "kernels/inverted_residual/inverted_residual.h"

#include <optional>

#include "block_params.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

using kernels::InvertedResidualParams;

/// Of 5x5 as well, which expand_depthwise takes.
bool fits(const LayerShape& depthwise) {
  const Window& window = depthwise.vertical;
  return (window.size == 3 || window.size == 5) && depthwise.horizontal.size == window.size && window.stride <= 2 &&
         window.dilation == 1 && window.stride == depthwise.horizontal.stride && depthwise.horizontal.dilation == 1;
}

/// At a block's depthwise layer. Its activation is that of the last layer.
std::optional<LayerShape> find(const Network& network, const Node& node) {
  const Conv2d* op = depthwise(network, &node);
  if (op == nullptr || !op->activation.is_clip() || has(node, Conv2d::kResidual)) return std::nullopt;
  const LayerShape middle = convolution(network, node, *op);
  const Node* project = network.sole_reader(node.output);
  const Conv2d* projection = clipping_pointwise(network, project);
  if (!fits(middle) || projection == nullptr) return std::nullopt;
  const Node* before = network.producer(node.inputs[Conv2d::kInput]);
  const bool expand = before != nullptr && network.sole_reader(before->output) == &node &&
                      clipping_pointwise(network, before) != nullptr && !has(*before, Conv2d::kResidual);
  const ValueId x = expand ? before->inputs[Conv2d::kInput] : node.inputs[Conv2d::kInput];
  LayerShape block = network.between(x, project->output);
  block.vertical = middle.vertical;
  block.horizontal = middle.horizontal;
  block.hidden = middle.c_in;
  block.expand = expand;
  block.bias = true;
  block.residual = has(*project, Conv2d::kResidual);
  block.activation = layer_activation(projection->activation);
  if (middle.vertical.size == 5 && !expand) return std::nullopt;
  if (block.last || (block.residual && project->inputs[Conv2d::kResidual] != x)) return std::nullopt;
  return block;
}

std::int64_t flops(const LayerShape& s) {
  const std::int64_t expansion = s.expand ? std::int64_t{s.h} * s.w * s.c_in * s.hidden : 0;
  return 2 * (expansion + std::int64_t{s.out_h} * s.out_w * s.hidden * (s.vertical.size * s.vertical.size + s.c_out));
}

const LayerKind kKind({.name = kernels::kernel_of(InvertedResidualParams{}).name,
                       .find = find,
                       .products = true,
                       .window = true,
                       .bias = true,
                       .flops = flops});

/// The engine takes a variant where it makes one step of the block.
void register_all(const Selection& selection) {
  for_each_case(selection, kKind, [](const LayerCase& at) {
    const bool expand = at.layer.shape.expand;
    const kernels::ExpandDepthwiseParams two_phase = expand_depthwise_params(at);
    const auto rule = [=](const Rules& rules, const InvertedResidualParams& p) {
      const BlockForm form = rules.block_form(&p, expand ? &two_phase : nullptr).form;
      return form == BlockForm::Fused ? std::optional(rules.variant(p).variant) : std::nullopt;
    };
    const InvertedResidualParams exact = block_params(at);
    add_variants(at, exact, rule);
    if (at.elem != Elem::F32) return;
    InvertedResidualParams split = exact;
    split.split = true;
    add_variants(at, split, rule, [&](kernels::InvertedResidualVariant variant, const kernels::DeviceTraits& gpu) {
      return !supports(variant, exact, gpu);
    });
  });
}

const Benchmarks kBenchmarks(kKind.name(), register_all, true);

}  // namespace

}  // namespace mobicuda::bench
