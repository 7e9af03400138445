#include "kernels/int8_conv2d/int8_conv2d.h"

#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

using kernels::Int8Conv2dParams;

/// Every convolution but those of groups of one channel, and fully connected layers.
std::optional<LayerShape> find(const Network& network, const Node& node) {
  if (depthwise(network, &node) != nullptr) return std::nullopt;
  if (const auto* op = as<Conv2d>(&node)) {
    LayerShape layer = convolution(network, node, *op);
    layer.first = network.reads_input(node.inputs[Conv2d::kInput]);
    return layer;
  }
  return find_op<Gemm>(network, node);
}

const LayerKind kKind(
    {.name = kernels::kernel_of(Int8Conv2dParams{}).name, .find = find, .window = true, .flops = flops_of_convolution});

Int8Conv2dParams make_params(const LayerCase& at) {
  constexpr int kSmallPitch = 4;
  const LayerShape& shape = at.layer.shape;
  Int8Conv2dParams p;
  p.output = shape.last ? Int8Conv2dParams::Output::Float : Int8Conv2dParams::Output::Int8;
  p.n = at.batch;
  p.h = shape.h;
  p.w = shape.w;
  p.c_in = shape.c_in;
  p.c_out = shape.c_out;
  p.out_h = shape.out_h;
  p.out_w = shape.out_w;
  p.groups = shape.groups;
  p.x_pitch = shape.first && shape.c_in <= kSmallPitch ? kSmallPitch : 0;
  p.residual = shape.residual && !shape.last;
  set_window(p, shape);
  return p;
}

void register_all(const Selection& selection) {
  for_each_int8_case(selection, kKind, [](const LayerCase& at) { add_variants(at, make_params(at), kByRule); });
}

const Benchmarks kBenchmarks(kKind.name(), register_all, false);

}  // namespace

}  // namespace mobicuda::bench
