#include "choose/kernels.h"
#include "kernels/streaming/quantize.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum Int8StemBlockVariant;

struct Int8StemShape {
  const Int8StemBlockParams& params;
  int multiprocessors;

  // Tiles of rows x columns for each SM.
  double waves(int rows, int columns) const {
    return static_cast<double>(params.n) * ceil_div(params.out_h, rows) * ceil_div(params.out_w, columns) /
           multiprocessors;
  }
};

// clang-format off
constexpr Row<Int8StemShape, Int8StemBlockVariant> kRows[] = {
    {MOBICUDA_WHEN(s.waves(4, 28) <= 2), {Tile4x28K32N16}, "small tiles keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(14, 28) <= 3), {Tile14x28K32N16Warps8}, "a few tiles for each SM"},
    {MOBICUDA_WHEN(s.waves(14, 28) <= 6), {Tile14x28K32N16}, "fewer pixels are computed twice"},
    {MOBICUDA_ALWAYS, {Tile16x28K32N16}, "large tiles compute fewer pixels twice"},
    {MOBICUDA_WHEN(s.waves(4, 28) <= 2), {Tile4x28K64N32}, "small tiles keep the GPU busy"},
    {MOBICUDA_ALWAYS, {Tile16x28K64N32}, "large tiles compute fewer pixels twice"},
};
// clang-format on

// The image as quantize has it.
TimedKernel timed_quantize(const Int8StemBlockParams& stem) {
  constexpr int kChannels = 3;
  QuantizeParams params;
  params.nchw = true;
  params.n = stem.n;
  params.pixels = stem.h * stem.w;
  params.c = kChannels;
  params.y_pitch = kSmallBytePitch;
  params.scale = stem.x_scale;
  params.result = stem.x;
  const std::int64_t pixels = std::int64_t{params.n} * params.pixels;
  TimedKernel kernel{"quantize"};
  kernel.x_bytes = pixels * kChannels * static_cast<std::int64_t>(sizeof(float));
  kernel.y_bytes = pixels * params.y_pitch;
  kernel.enqueue = [params](const TimedOperands& at, const Launch& where) {
    return quantize(params, static_cast<const float*>(at.x), at.y, where);
  };
  return kernel;
}

Int8Conv2dParams stem_layer(const Int8StemBlockParams& stem) {
  Int8Conv2dParams params;
  params.n = stem.n;
  params.h = stem.h;
  params.w = stem.w;
  params.c_in = 3;
  params.c_out = stem.c_stem;
  params.out_h = stem.stem_h;
  params.out_w = stem.stem_w;
  params.kernel_h = params.kernel_w = 3;
  params.stride_h = params.stride_w = 2;
  params.pad_top = stem.stem_pad_top;
  params.pad_left = stem.stem_pad_left;
  params.x_pitch = kSmallBytePitch;
  return params;
}

Int8DepthwiseConvParams depthwise_layer(const Int8StemBlockParams& stem) {
  Int8DepthwiseConvParams params;
  params.n = stem.n;
  params.h = stem.stem_h;
  params.w = stem.stem_w;
  params.c = stem.c_stem;
  params.out_h = stem.out_h;
  params.out_w = stem.out_w;
  params.pad_top = stem.depthwise_pad_top;
  params.pad_left = stem.depthwise_pad_left;
  return params;
}

Int8Conv2dParams project_layer(const Int8StemBlockParams& stem) {
  Int8Conv2dParams params;
  params.n = stem.n;
  params.h = params.out_h = stem.out_h;
  params.w = params.out_w = stem.out_w;
  params.c_in = stem.c_stem;
  params.c_out = stem.c_out;
  return params;
}

}  // namespace

Preferences<Int8StemBlockVariant> preferences(const Int8StemBlockParams& params, const DeviceTraits& gpu) {
  Preferences<Int8StemBlockVariant> found;
  append(kRows, Int8StemShape{params, gpu.multiprocessors}, found);
  return found;
}

std::string_view why_fused(const Int8StemBlockParams&, const DeviceTraits&) {
  return "one launch for the first layers";
}

// A form asked for of all blocks of integers is meant for the first one too.
FusedOption fused_option(const Int8StemBlockParams&) { return {"int8_stem", "int8_block"}; }

std::vector<LayerApart> layers_apart(const Int8StemBlockParams& stem) {
  std::vector<LayerApart> layers{stem_layer(stem), depthwise_layer(stem), project_layer(stem)};
  if (stem.input == Int8StemInput::NchwFloat) layers.insert(layers.begin(), timed_quantize(stem));
  return layers;
}

std::vector<RuleText> rule_texts(const Int8StemBlockParams&) { return {text_of("int8_stem_block", kRows)}; }

}  // namespace mobicuda
