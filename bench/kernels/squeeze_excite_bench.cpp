#include "kernels/squeeze_excite/squeeze_excite.h"

#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

using kernels::SqueezeExciteParams;

const Node* product_before(const Network& network, ValueId value) {
  const Node* node = network.producer(value);
  return pointwise(network, node) != nullptr && !has(*node, Conv2d::kResidual) ? node : nullptr;
}

/// Mean, two products, gate, at the gate. Their activation is that of the first product.
std::optional<LayerShape> find(const Network& network, const Node& node) {
  if (as<Mul>(&node) == nullptr) return std::nullopt;
  const ValueId x = node.inputs[Mul::kLeft];
  const Node* expand = product_before(network, node.inputs[Mul::kRight]);
  const Node* reduce = expand == nullptr ? nullptr : product_before(network, expand->inputs[Conv2d::kInput]);
  const Node* pool = reduce == nullptr ? nullptr : network.producer(reduce->inputs[Conv2d::kInput]);
  if (as<GlobalAveragePool>(pool) == nullptr || pool->inputs[0] != x) return std::nullopt;
  if (network.shape(expand->output)[1] != network.shape(x)[1]) return std::nullopt;
  LayerShape layer = network.between(x, node.output);
  layer.hidden = as_int(network.shape(reduce->output)[1]);
  layer.activation = layer_activation(std::get<Conv2d>(reduce->op).activation);
  return layer;
}

std::int64_t flops(const LayerShape& s) {
  return 4 * std::int64_t{s.c_in} * s.hidden + 2 * std::int64_t{s.h} * s.w * s.c_in;
}

const LayerKind kKind({.name = kernels::kernel_of(SqueezeExciteParams{}).name, .find = find, .flops = flops});

SqueezeExciteParams make_params(const LayerCase& at) {
  const LayerShape& shape = at.layer.shape;
  SqueezeExciteParams p;
  p.elem = at.elem;
  p.n = at.batch;
  p.pixels = shape.h * shape.w;
  p.c = shape.c_in;
  p.squeezed = shape.hidden;
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
