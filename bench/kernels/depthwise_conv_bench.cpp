#include "kernels/depthwise_conv/depthwise_conv.h"

#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

using kernels::DepthwiseConvParams;

std::optional<LayerShape> find(const Network& network, const Node& node) {
  const Conv2d* op = depthwise(network, &node);
  if (op == nullptr) return std::nullopt;
  LayerShape layer = convolution(network, node, *op);
  layer.residual = false;  // a step of its own
  return layer;
}

const LayerKind kKind({.name = kernels::kernel_of(DepthwiseConvParams{}).name,
                       .find = find,
                       .window = true,
                       .bias = true,
                       .flops = flops_of_convolution});

DepthwiseConvParams make_params(const LayerCase& at) {
  const LayerShape& shape = at.layer.shape;
  DepthwiseConvParams p;
  p.elem = at.elem;
  p.n = at.batch;
  p.h = shape.h;
  p.w = shape.w;
  p.c = shape.c_in;
  p.out_h = shape.out_h;
  p.out_w = shape.out_w;
  p.bias = shape.bias;
  p.activation = activation_of(shape.activation);
  set_window(p, shape);
  return p;
}

void register_all(const Selection& selection) {
  for_each_case(selection, kKind, [](const LayerCase& at) { add_variants(at, make_params(at), kByRule); });
}

const Benchmarks kBenchmarks(kKind.name(), register_all, true);

}  // namespace

}  // namespace mobicuda::bench
