#include "kernels/pointwise_pool/pointwise_pool.h"

#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

using kernels::PointwisePoolParams;

/// A pointwise convolution and the mean of its pictures, at the mean.
std::optional<LayerShape> find(const Network& network, const Node& node) {
  const auto* pool = as<GlobalAveragePool>(&node);
  const Node* conv = pool == nullptr ? nullptr : network.producer(node.inputs[0]);
  const Conv2d* op = clipping_pointwise(network, conv);
  if (op == nullptr || has(*conv, Conv2d::kResidual) || network.sole_reader(conv->output) != &node) return std::nullopt;
  LayerShape head = network.between(conv->inputs[Conv2d::kInput], node.output);
  head.bias = has(*conv, Conv2d::kBias);
  head.last = false;
  head.activation = layer_activation(op->activation);
  return head;
}

std::int64_t flops(const LayerShape& s) { return 2 * std::int64_t{s.h} * s.w * s.c_in * s.c_out; }

const LayerKind kKind({.name = kernels::kernel_of(PointwisePoolParams{}).name,
                       .find = find,
                       .products = true,
                       .bias = true,
                       .flops = flops});

PointwisePoolParams make_params(const LayerCase& at) {
  const LayerShape& shape = at.layer.shape;
  PointwisePoolParams p;
  p.elem = at.elem;
  p.n = at.batch;
  p.pixels = shape.h * shape.w;
  p.c_in = shape.c_in;
  p.c = shape.c_out;
  p.bias = shape.bias;
  p.activation = clip_of(shape.activation);
  return p;
}

void register_all(const Selection& selection) {
  for_each_case(selection, kKind, [](const LayerCase& at) { add_variants(at, make_params(at), kFusedByRule); });
}

const Benchmarks kBenchmarks(kKind.name(), register_all, false);

}  // namespace

}  // namespace mobicuda::bench
