#include "kernels/int8_depthwise_conv/int8_depthwise_conv.h"

#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

using kernels::Int8DepthwiseConvParams;

std::optional<LayerShape> find(const Network& network, const Node& node) {
  const Conv2d* op = depthwise(network, &node);
  if (op == nullptr) return std::nullopt;
  LayerShape layer = convolution(network, node, *op);
  layer.residual = false;  // a step of its own
  return layer;
}

const LayerKind kKind({.name = kernels::kernel_of(Int8DepthwiseConvParams{}).name,
                       .find = find,
                       .window = true,
                       .flops = flops_of_convolution});

Int8DepthwiseConvParams make_params(const LayerCase& at) {
  const LayerShape& shape = at.layer.shape;
  Int8DepthwiseConvParams p;
  p.n = at.batch;
  p.h = shape.h;
  p.w = shape.w;
  p.c = shape.c_in;
  p.out_h = shape.out_h;
  p.out_w = shape.out_w;
  set_window(p, shape);
  return p;
}

void register_all(const Selection& selection) {
  for_each_int8_case(selection, kKind, [](const LayerCase& at) { add_variants(at, make_params(at), kByRule); });
}

const Benchmarks kBenchmarks(kKind.name(), register_all, false);

}  // namespace

}  // namespace mobicuda::bench
