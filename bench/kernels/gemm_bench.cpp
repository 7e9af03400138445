#include "kernels/gemm/gemm.h"

#include "layer_bench.h"

namespace mobicuda::bench {
namespace {

using kernels::GemmParams;

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
  for_each_case(selection, LayerKind::Gemm, [](const LayerCase& at) { add_variants(at, make_params(at), kByRule); });
}

const Benchmarks kBenchmarks(kernels::kernel_of(kernels::GemmParams{}).name, register_all, true);

}  // namespace

}  // namespace mobicuda::bench
