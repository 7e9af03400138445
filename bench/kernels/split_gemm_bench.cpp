#include "kernels/split_gemm/split_gemm.h"

#include "kernels/gemm/gemm.h"
#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

using kernels::SplitGemmParams;

/// What gemm runs.
std::optional<LayerShape> find(const Network& network, const Node& node) {
  return LayerKind::named(kernels::kernel_of(kernels::GemmParams{}).name).find(network, node);
}

const LayerKind kKind({.name = kernels::kernel_of(SplitGemmParams{}).name,
                       .find = find,
                       .products = true,
                       .bias = true,
                       .flops = flops_of_convolution});

SplitGemmParams make_params(const LayerCase& at) {
  const LayerShape& shape = at.layer.shape;
  SplitGemmParams p;
  p.m = at.batch * shape.h * shape.w;
  p.n = shape.c_out;
  p.k = shape.c_in;
  p.in_range = true;
  p.bias = shape.bias;
  p.residual = shape.residual;
  p.activation = activation_of(shape.activation);
  return p;
}

void register_all(const Selection& selection) {
  for_each_case(selection, kKind, [](const LayerCase& at) {
    if (at.elem == Elem::F32) add_variants(at, make_params(at), kFusedByRule);
  });
}

const Benchmarks kBenchmarks(kKind.name(), register_all, false);

}  // namespace

}  // namespace mobicuda::bench
