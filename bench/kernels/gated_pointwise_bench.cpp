#include "kernels/gated_pointwise/gated_pointwise.h"

#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

using kernels::GatedPointwiseParams;

/// A gate and the pointwise convolution behind it, at the convolution. Their activation is that of the gate's first
/// product.
std::optional<LayerShape> find(const Network& network, const Node& node) {
  if (pointwise(network, &node) == nullptr) return std::nullopt;
  const Node* mul = network.producer(node.inputs[Conv2d::kInput]);
  if (mul == nullptr || network.sole_reader(mul->output) != &node) return std::nullopt;
  const std::optional<LayerShape> gate =
      LayerKind::named(kernels::kernel_of(kernels::SqueezeExciteParams{}).name).find(network, *mul);
  if (!gate) return std::nullopt;
  LayerShape layer = network.between(mul->inputs[Mul::kLeft], node.output);
  layer.hidden = gate->hidden;
  layer.activation = gate->activation;
  layer.residual = has(node, Conv2d::kResidual);
  return layer;
}

std::int64_t flops(const LayerShape& s) {
  return 4 * std::int64_t{s.c_in} * s.hidden + 2 * std::int64_t{s.h} * s.w * s.c_in * (1 + s.c_out);
}

const LayerKind kKind(
    {.name = kernels::kernel_of(GatedPointwiseParams{}).name, .find = find, .products = true, .flops = flops});

GatedPointwiseParams make_params(const LayerCase& at) {
  const LayerShape& shape = at.layer.shape;
  GatedPointwiseParams p;
  p.elem = at.elem;
  p.n = at.batch;
  p.pixels = shape.h * shape.w;
  p.c = shape.c_in;
  p.squeezed = shape.hidden;
  p.out = shape.c_out;
  p.residual = shape.residual;
  p.squeeze_activation = activation_of(shape.activation);
  p.gate_activation = kernels::Activation(kernels::ActivationKind::Sigmoid);
  return p;
}

void register_all(const Selection& selection) {
  for_each_case(selection, kKind, [](const LayerCase& at) { add_variants(at, make_params(at), kFusedByRule); });
}

const Benchmarks kBenchmarks(kKind.name(), register_all, false);

}  // namespace

}  // namespace mobicuda::bench
