#include "choose/kernels.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum GatedPointwiseVariant;

struct GatedShape {
  double images;  // for each SM
  int n, pixels;

  // Seven tenths of the SMs have a block.
  bool enough(int ranks) const { return ranks * images >= 0.7; }
};

// clang-format off
constexpr Row<GatedShape, GatedPointwiseVariant> kPays[] = {
    {MOBICUDA_WHEN(s.pixels >= 100), {}, "one launch for the gate and the projection"},
    {MOBICUDA_WHEN(s.n <= 4), {}, "few images: one launch for the gate and the projection"},
};

constexpr Row<GatedShape, GatedPointwiseVariant> kRows[] = {
    {MOBICUDA_WHEN(s.enough(1)), {Bands1}, "many images: a block each"},
    {MOBICUDA_WHEN(s.enough(2)), {Bands2}, "two bands keep the GPU busy"},
    {MOBICUDA_WHEN(s.enough(4)), {Bands4}, "four bands keep the GPU busy"},
    {MOBICUDA_ALWAYS, {Bands8, Bands4, Bands2, Bands1}, "few images, or large ones: as many bands as there are"},
};
// clang-format on

GatedShape shape_of(const GatedPointwiseParams& block, const DeviceTraits& gpu) {
  return {static_cast<double>(block.n) / gpu.multiprocessors, block.n, block.pixels};
}

SqueezeExciteParams gate_before(const GatedPointwiseParams& block) {
  SqueezeExciteParams params;
  params.elem = block.elem;
  params.n = block.n;
  params.pixels = block.pixels;
  params.c = block.c;
  params.squeezed = block.squeezed;
  params.squeeze_activation = block.squeeze_activation;
  params.gate_activation = block.gate_activation;
  return params;
}

GemmParams project_layer(const GatedPointwiseParams& block) {
  GemmParams params;
  params.elem = params.output = block.elem;
  params.m = block.n * block.pixels;
  params.n = block.out;
  params.k = block.c;
  params.bias = true;
  params.residual = block.residual;
  params.activation = block.activation;
  return params;
}

}  // namespace

Preferences<GatedPointwiseVariant> preferences(const GatedPointwiseParams& params, const DeviceTraits& gpu) {
  Preferences<GatedPointwiseVariant> found;
  append(kRows, shape_of(params, gpu), found);
  return found;
}

std::string_view why_fused(const GatedPointwiseParams& params, const DeviceTraits& gpu) {
  return first_why(kPays, shape_of(params, gpu), [](GatedPointwiseVariant) { return true; });
}

// A form asked for of all gates is meant for these too.
FusedOption fused_option(const GatedPointwiseParams&) { return {"gated_project", "gate"}; }

std::vector<LayerApart> layers_apart(const GatedPointwiseParams& block) {
  return {gate_before(block), project_layer(block)};
}

std::vector<RuleText> rule_texts(const GatedPointwiseParams&) {
  return {text_of("gated_pointwise, where it pays", kPays), text_of("gated_pointwise", kRows)};
}

}  // namespace mobicuda
