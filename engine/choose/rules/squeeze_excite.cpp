#include <cstdint>

#include "choose/kernels.h"
#include "kernels/streaming/multiply.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum SqueezeExciteVariant;

struct GateShape {
  double images;         // for each SM
  std::int64_t bytes;    // of an image
  std::int64_t weights;  // bytes of both matrices

  // Each band has both matrices, and all products of them.
  bool light() const { return weights <= 32 * 1024; }
  // A quarter of the SMs have a block: more ranks cost more in exchanges than they save. And an SM has room for several
  // blocks: by registers, and by shared memory for two at least.
  bool enough(int ranks) const {
    return 4 * ranks * images > 1 && bytes <= ranks * squeeze_excite_small_bytes() && weights <= ranks * 96 * 1024;
  }
};

// clang-format off
constexpr Row<GateShape, SqueezeExciteVariant> kRows[] = {
    {MOBICUDA_WHEN(s.enough(1)), {Slices1}, "many images: a block each"},
    {MOBICUDA_WHEN(s.light() && s.enough(2)), {Bands2}, "light weights: two bands keep the GPU busy"},
    {MOBICUDA_WHEN(s.light() && s.enough(4)), {Bands4}, "light weights: four bands keep the GPU busy"},
    {MOBICUDA_WHEN(s.light()), {Bands8}, "light weights: eight bands"},
    {MOBICUDA_WHEN(s.enough(2)), {Slices2}, "two slices keep the GPU busy"},
    {MOBICUDA_WHEN(s.enough(4)), {Slices4}, "four slices keep the GPU busy"},
    {MOBICUDA_ALWAYS, {Slices8, Slices4, Slices2, Slices1}, "few images, or large weights: as many slices as there are"},
};
// clang-format on

GemmParams squeeze_layer(const SqueezeExciteParams& gate) {
  GemmParams params;
  params.elem = params.output = gate.elem;
  params.m = gate.n;
  params.n = gate.squeezed;
  params.k = gate.c;
  params.bias = true;
  params.activation = gate.squeeze_activation;
  return params;
}

GemmParams gate_layer(const SqueezeExciteParams& gate) {
  GemmParams params = squeeze_layer(gate);
  params.n = gate.c;
  params.k = gate.squeezed;
  params.activation = gate.gate_activation;
  return params;
}

// Channels stand where a residual would, gates come from the layer before.
TimedKernel timed_product(const SqueezeExciteParams& gate) {
  MultiplyParams params;
  params.elem = gate.elem;
  params.axes = 3;
  params.extent[0] = gate.n;
  params.extent[1] = gate.pixels;
  params.extent[2] = gate.c;
  params.b_stride[0] = gate.c;
  params.b_stride[2] = 1;
  const std::int64_t gates = static_cast<std::int64_t>(size_of(gate.elem)) * gate.n * gate.c;
  TimedKernel kernel{"multiply"};
  kernel.x_bytes = gates;
  kernel.residual_bytes = kernel.y_bytes = gates * gate.pixels;
  kernel.enqueue = [params](const TimedOperands& at, const Launch& where) {
    return multiply(params, at.residual, at.x, at.y, where);
  };
  return kernel;
}

}  // namespace

Preferences<SqueezeExciteVariant> preferences(const SqueezeExciteParams& params, const DeviceTraits& gpu) {
  const auto element = static_cast<std::int64_t>(size_of(params.elem));
  const GateShape shape{static_cast<double>(params.n) / gpu.multiprocessors,
                        std::int64_t{params.pixels} * params.c * element,
                        std::int64_t{2} * params.c * params.squeezed * element};
  Preferences<SqueezeExciteVariant> found;
  append(kRows, shape, found);
  return found;
}

std::string_view why_fused(const SqueezeExciteParams&, const DeviceTraits&) {
  return "one launch for mean, products and gates";
}

FusedOption fused_option(const SqueezeExciteParams&) { return {"gate"}; }

std::vector<LayerApart> layers_apart(const SqueezeExciteParams& gate) {
  return {timed(GlobalAveragePoolParams{gate.elem, gate.n, gate.pixels, 1, gate.c}), squeeze_layer(gate),
          gate_layer(gate), timed_product(gate)};
}

std::vector<RuleText> rule_texts(const SqueezeExciteParams&) { return {text_of("squeeze_excite", kRows)}; }

}  // namespace mobicuda
