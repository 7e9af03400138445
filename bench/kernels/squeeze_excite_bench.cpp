#include "kernels/squeeze_excite/squeeze_excite.h"

#include "layer_bench.h"

namespace mobicuda::bench {
namespace {

using kernels::SqueezeExciteParams;

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
  for_each_case(selection, LayerKind::SqueezeExcite,
                [](const LayerCase& at) { add_variants(at, make_params(at), kFusedByRule); });
}

const Benchmarks kBenchmarks(kernels::kernel_of(kernels::SqueezeExciteParams{}).name, register_all, false);

}  // namespace

}  // namespace mobicuda::bench
