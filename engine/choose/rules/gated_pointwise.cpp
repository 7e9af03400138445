#include <cstdint>

#include "choose/kernels.h"
#include "choose/pointwise_layer.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum GatedPointwiseVariant;

constexpr std::int64_t kKilobyte = 1024;

struct GatedShape {
  double images;  // for each SM
  int pixels, c, squeezed;
  std::int64_t bytes;  // of an image

  // Blocks of more channels read as much of weights as of pixels, each of them all.
  bool narrow() const { return c <= 240; }
  bool large() const { return bytes > 512 * kKilobyte; }
};

// clang-format off
constexpr Row<GatedShape, GatedPointwiseVariant> kPays[] = {
    {MOBICUDA_WHEN(s.narrow() && s.pixels >= 196 && s.images >= 0.4), {}, "many images: the gated pixels stay on the SM"},
    {MOBICUDA_WHEN(s.narrow() && s.pixels >= 196 && s.pixels < 784 && s.images > 0.2 && s.c >= 144 && s.squeezed >= 32), {},
     "a gate of large matrices, whose launch is long"},
};

constexpr Row<GatedShape, GatedPointwiseVariant> kRows[] = {
    {MOBICUDA_WHEN(s.large()), {Bands8}, "a band of a large image for each block"},
    {MOBICUDA_WHEN(s.images >= 0.8 && s.bytes >= 128 * kKilobyte), {Bands1, Bands2}, "many images: as few bands as hold them"},
    {MOBICUDA_ALWAYS, {Bands2, Bands4, Bands8, Bands1}, "two bands"},
};
// clang-format on

GatedShape shape_of(const GatedPointwiseParams& block, const DeviceTraits& gpu) {
  return {static_cast<double>(block.n) / gpu.multiprocessors, block.pixels, block.c, block.squeezed,
          std::int64_t{block.pixels} * block.c * static_cast<std::int64_t>(size_of(block.elem))};
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

Conv2dParams project_layer(const GatedPointwiseParams& block) {
  Conv2dParams params = pointwise_layer(images_of_pixels(block.elem, block.n, block.pixels), block.c, block.out);
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
