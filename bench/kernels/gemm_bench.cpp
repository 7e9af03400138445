#include "kernels/gemm/gemm.h"

#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

using kernels::GemmParams;

/// A pointwise convolution or a fully connected layer.
std::optional<LayerShape> find(const Network& network, const Node& node) {
  if (const Conv2d* op = pointwise(network, &node)) return convolution(network, node, *op);
  auto layer = find_op<Gemm>(network, node);
  if (layer) layer->bias = has(node, Gemm::kBias);
  return layer;
}

/// "m49_n320_k960"
std::string size(const LayerShape& shape) {
  return "m" + std::to_string(shape.h * shape.w) + "_n" + std::to_string(shape.c_out) + "_k" +
         std::to_string(shape.c_in);
}

const LayerKind kKind({.name = kernels::kernel_of(GemmParams{}).name,
                       .find = find,
                       .products = true,
                       .bias = true,
                       .size = size,
                       .flops = flops_of_convolution});

GemmParams make_params(const LayerCase& at) {
  const LayerShape& shape = at.layer.shape;
  GemmParams p;
  p.elem = at.elem;
  p.output = shape.last ? Elem::F32 : at.elem;
  p.m = at.batch * shape.h * shape.w;
  p.n = shape.c_out;
  p.k = shape.c_in;
  p.bias = shape.bias;
  p.residual = shape.residual;
  p.activation = activation_of(shape.activation);
  return p;
}

void register_all(const Selection& selection) {
  for_each_case(selection, kKind, [](const LayerCase& at) { add_variants(at, make_params(at), kByRule); });
}

const Benchmarks kBenchmarks(kKind.name(), register_all, true);

}  // namespace

}  // namespace mobicuda::bench
