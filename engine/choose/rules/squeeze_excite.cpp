#include <cstdint>

#include "choose/kernels.h"
#include "choose/pointwise_layer.h"
#include "kernels/streaming/multiply.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum SqueezeExciteVariant;

constexpr std::int64_t kKilobyte = 1024;

struct GateShape {
  double images;  // for each SM
  bool half;
  std::int64_t bytes;    // of an image
  std::int64_t weights;  // bytes of both matrices

  // Each band has both matrices, and all products of them.
  bool light() const { return weights <= 32 * kKilobyte; }
  bool holds_weights(int ranks) const { return weights <= ranks * 96 * kKilobyte; }
  // A quarter of the SMs have a block: more ranks cost more in exchanges than they save. And an SM has room for several
  // blocks: by registers, and by shared memory for two at least.
  bool enough(int ranks) const {
    return 4 * ranks * images > 1 && bytes <= ranks * squeeze_excite_small_bytes() && holds_weights(ranks);
  }
  // Two ranks for each image take four tenths of the SMs: eight would wait for each other. The largest blocks have most
  // of x in registers.
  bool two_are_many() const { return half && 2 * images > 0.4 && bytes <= 2 * 192 * kKilobyte; }
  // Every image's cluster has all of the matrices, which are several times an image, and more than four slices hold.
  bool heavy_for_many() const { return half && images > 0.2 && weights >= 4 * bytes && !holds_weights(4); }
};

// clang-format off
constexpr Row<GateShape, SqueezeExciteVariant> kPays[] = {
    {MOBICUDA_WHEN(!s.heavy_for_many()), {}, "one launch for mean, products and gates"},
};

constexpr Row<GateShape, SqueezeExciteVariant> kRows[] = {
    {MOBICUDA_WHEN(s.enough(1)), {Slices1}, "many images: a block each"},
    {MOBICUDA_WHEN(s.light() && s.enough(2)), {Bands2}, "light weights: two bands keep the GPU busy"},
    {MOBICUDA_WHEN(s.light() && s.enough(4)), {Bands4}, "light weights: four bands keep the GPU busy"},
    {MOBICUDA_WHEN(s.light() && s.two_are_many()), {Bands2}, "many images: two bands each"},
    {MOBICUDA_WHEN(s.light()), {Bands8}, "light weights: eight bands"},
    {MOBICUDA_WHEN(s.enough(2)), {Slices2}, "two slices keep the GPU busy"},
    {MOBICUDA_WHEN(s.enough(4)), {Slices4}, "four slices keep the GPU busy"},
    {MOBICUDA_WHEN(s.two_are_many()), {Slices2}, "many images: two slices each"},
    {MOBICUDA_ALWAYS, {Slices8, Slices4, Slices2, Slices1}, "few images, or large weights: as many slices as there are"},
};
// clang-format on

GateShape shape_of(const SqueezeExciteParams& gate, const DeviceTraits& gpu) {
  const auto element = static_cast<std::int64_t>(size_of(gate.elem));
  return {static_cast<double>(gate.n) / gpu.multiprocessors, gate.elem == Elem::F16,
          std::int64_t{gate.pixels} * gate.c * element, std::int64_t{2} * gate.c * gate.squeezed * element};
}

Conv2dParams squeeze_layer(const SqueezeExciteParams& gate) {
  Conv2dParams params = pointwise_layer({gate.elem, gate.n, 1, 1}, gate.c, gate.squeezed);
  params.activation = gate.squeeze_activation;
  return params;
}

Conv2dParams gate_layer(const SqueezeExciteParams& gate) {
  Conv2dParams params = pointwise_layer({gate.elem, gate.n, 1, 1}, gate.squeezed, gate.c);
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
  Preferences<SqueezeExciteVariant> found;
  append(kRows, shape_of(params, gpu), found);
  return found;
}

std::string_view why_fused(const SqueezeExciteParams& params, const DeviceTraits& gpu) {
  return first_why(kPays, shape_of(params, gpu), [](SqueezeExciteVariant) { return true; });
}

FusedOption fused_option(const SqueezeExciteParams&) { return {"gate"}; }

std::vector<LayerApart> layers_apart(const SqueezeExciteParams& gate) {
  return {timed(GlobalAveragePoolParams{gate.elem, gate.n, gate.pixels, 1, gate.c}), squeeze_layer(gate),
          gate_layer(gate), timed_product(gate)};
}

std::vector<RuleText> rule_texts(const SqueezeExciteParams&) {
  return {text_of("squeeze_excite, where one launch pays", kPays), text_of("squeeze_excite", kRows)};
}

}  // namespace mobicuda
