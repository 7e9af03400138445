#include "kernels/conv2d/conv2d.h"

#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

using kernels::Conv2dParams;
using Input = Conv2dParams::Input;

/// What is neither a matrix product nor of groups of one channel.
std::optional<LayerShape> find(const Network& network, const Node& node) {
  const Conv2d* op = other_convolution(network, &node);
  if (op == nullptr) return std::nullopt;
  LayerShape layer = convolution(network, node, *op);
  layer.first = network.reads_input(node.inputs[Conv2d::kInput]);
  return layer;
}

const LayerKind kKind({.name = kernels::kernel_of(Conv2dParams{}).name,
                       .find = find,
                       .products = true,
                       .window = true,
                       .bias = true,
                       .flops = flops_of_convolution});

Conv2dParams make_params(const LayerCase& at, Input input) {
  const LayerShape& shape = at.layer.shape;
  Conv2dParams p;
  p.elem = at.elem;
  p.input = input;
  p.n = at.batch;
  p.h = shape.h;
  p.w = shape.w;
  p.c_in = shape.c_in;
  p.c_out = shape.c_out;
  p.out_h = shape.out_h;
  p.out_w = shape.out_w;
  p.groups = shape.groups;
  p.bias = shape.bias;
  p.residual = shape.residual;
  p.activation = activation_of(shape.activation);
  set_window(p, shape);
  return p;
}

void add_case(LayerCase at, Input input, const char* suffix) {
  at.suffix = suffix;
  add_variants(at, make_params(at, input), kByRule);
}

/// A first layer reads the caller's floats or pictures.
void register_all(const Selection& selection) {
  for_each_case(selection, kKind, [](const LayerCase& at) {
    if (!at.layer.shape.first) return add_case(at, Input::NhwcElem, "");
    add_case(at, Input::NchwFloat, "_nchw_float");
    if (at.layer.shape.c_in == 3) add_case(at, Input::NhwcUint8, "_nhwc_uint8");
  });
}

const Benchmarks kBenchmarks(kKind.name(), register_all, true);

}  // namespace

}  // namespace mobicuda::bench
