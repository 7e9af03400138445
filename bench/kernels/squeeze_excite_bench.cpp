#include "kernels/squeeze_excite/squeeze_excite.h"

#include "layer_bench.h"

namespace mobicuda::bench {
namespace {

using kernels::SqueezeExciteParams;
using kernels::SqueezeExciteVariant;

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

TimedKernel timed(SqueezeExciteVariant variant, const SqueezeExciteParams& p) {
  TimedKernel kernel{"squeeze_excite/" + std::string(name(variant))};
  kernel.x_bytes = kernel.y_bytes = std::int64_t{p.n} * p.pixels * p.c * static_cast<std::int64_t>(size_of(p.elem));
  kernel.weight_bytes = {static_cast<std::int64_t>(squeeze_excite_packed_bytes(variant, p))};
  kernel.enqueue = [=](const TimedOperands& at, const kernels::Launch& where) {
    return squeeze_excite(variant, p, at.x, at.weights[0], at.y, where);
  };
  return kernel;
}

}  // namespace

void register_squeeze_excite(const Selection& selection) {
  static constexpr kernels::DeviceTraits kNewest = kernels::traits_of(90, 132);
  for_each_case(selection, LayerKind::SqueezeExcite, [](const LayerCase& at) {
    const SqueezeExciteParams p = make_params(at);
    for (const SqueezeExciteVariant variant : kernels::squeeze_excite_variants()) {
      if (!supports(variant, p, kNewest)) continue;
      add_layer(
          "squeeze_excite/" + std::string(name(variant)), at, [=] { return timed(variant, p); },
          [=] { return engine_rule().squeeze_excite(p) == variant ? "chosen" : ""; });
    }
  });
}

}  // namespace mobicuda::bench
