#include <cstdint>

#include "choose/kernels.h"
#include "kernels/streaming/multiply.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum SqueezeExciteVariant;

struct GateShape {
  double images;       // for each SM
  std::int64_t bytes;  // of an image
};

// Two blocks for each SM, each with half of its shared memory at the most: of as few ranks as that allows.
// clang-format off
constexpr Row<GateShape, SqueezeExciteVariant> kRows[] = {
    {MOBICUDA_WHEN(s.images * 2 >= 2 && s.bytes / 2 <= 100 * 1024), {Cluster2}, "clusters of two fill the GPU"},
    {MOBICUDA_WHEN(s.images * 4 >= 2 && s.bytes / 4 <= 100 * 1024), {Cluster4}, "clusters of four fill the GPU"},
    {MOBICUDA_ALWAYS, {Cluster8}, "few images: clusters of eight"},
    {MOBICUDA_ALWAYS, {Cluster8Reread}, "images too large for shared memory"},
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
  const GateShape shape{static_cast<double>(params.n) / gpu.multiprocessors,
                        std::int64_t{params.pixels} * params.c * static_cast<std::int64_t>(size_of(params.elem))};
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
