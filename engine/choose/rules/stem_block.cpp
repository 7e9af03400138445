#include <algorithm>
#include <cmath>

#include "choose/kernels.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum StemBlockVariant;

struct StemShape {
  const StemBlockParams& params;
  int multiprocessors;
  int capability;

  // Warps of so many output rows and 28 columns for each SM.
  double warps(int rows) const {
    constexpr int kColumns = 28;
    return static_cast<double>(params.n) * ceil_div(params.out_h, rows) * ceil_div(params.out_w, kColumns) /
           multiprocessors;
  }

  // Expected time of the scheduler with the most warps, of at most so many rows each, in rows of a warp.
  double time(int rows) const {
    constexpr double kSchedulers = 4;  // of an SM
    constexpr double kResident = 2;    // warps of a scheduler at once
    constexpr double kFirst = 4;       // what passes before the first row of a warp
    constexpr double kRound = 0.8;     // of a warp's time, whether another one runs beside it or not
    const double each = std::ceil(warps(rows) / kSchedulers);
    return (stem_block_even_rows(params.out_h, rows) + kFirst) * (each + kRound * std::ceil(each / kResident));
  }

  // Tiles of rows x columns for each SM.
  double tiles(int rows, int columns) const {
    return static_cast<double>(params.n) * ceil_div(params.out_h, rows) * ceil_div(params.out_w, columns) /
           multiprocessors;
  }

  // Whether tensor cores multiply doubles as fast as FFMA multiplies floats.
  bool fast_doubles() const {
    constexpr int kHopper = 90;
    return capability == kHopper;
  }

  // Whether nothing takes less time.
  bool fastest(int rows) const {
    constexpr int kRows[] = {4, 7, 14, 28, 56};
    return std::ranges::all_of(kRows, [&](int other) { return time(rows) <= time(other); });
  }
};

using StemRow = Row<StemShape, StemBlockVariant>;

// clang-format off
constexpr StemRow kRows[] = {
    {MOBICUDA_WHEN(s.warps(4) < 3.3), {Rows2}, "few images: warps of 2 rows"},
    {MOBICUDA_WHEN(s.fastest(56)), {Rows56}, "fills the GPU's rounds best"},
    {MOBICUDA_WHEN(s.fastest(28)), {Rows28}, "fills the GPU's rounds best"},
    {MOBICUDA_WHEN(s.fastest(14)), {Rows14}, "fills the GPU's rounds best"},
    {MOBICUDA_WHEN(s.fastest(7)), {Rows7}, "fills the GPU's rounds best"},
    {MOBICUDA_ALWAYS, {Rows4}, "fills the GPU's rounds best"},
};
constexpr StemRow kFloat[] = {
    {MOBICUDA_WHEN(s.tiles(14, 14) >= 7 && s.fast_doubles()), {Dmma14x14}, "large tiles fill the GPU several times, its stem on tensor cores"},
    {MOBICUDA_WHEN(s.tiles(14, 14) >= 1.5), {Simt14x14}, "large tiles fill the GPU"},
    {MOBICUDA_ALWAYS, {Simt7x14}, "half as large tiles"},
};
// clang-format on

Conv2dParams first_layer(const StemBlockParams& stem) {
  const bool integers = stem.input == StemInput::NhwcUint8;
  Conv2dParams params;
  params.elem = stem.elem;
  params.input = integers ? Conv2dParams::Input::NhwcUint8 : Conv2dParams::Input::NchwFloat;
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
  params.bias = true;
  params.activation = stem.stem_clip;
  return params;
}

InvertedResidualParams block_after(const StemBlockParams& stem) {
  InvertedResidualParams params;
  params.elem = stem.elem;
  params.n = stem.n;
  params.h = stem.stem_h;
  params.w = stem.stem_w;
  params.c_in = params.c_hidden = stem.c_stem;
  params.c_out = stem.c_out;
  params.out_h = stem.out_h;
  params.out_w = stem.out_w;
  params.pad_top = stem.depthwise_pad_top;
  params.pad_left = stem.depthwise_pad_left;
  params.expand = false;
  params.depthwise_activation = stem.depthwise_clip;
  params.project_clip = stem.project_clip;
  return params;
}

}  // namespace

Preferences<StemBlockVariant> preferences(const StemBlockParams& params, const DeviceTraits& gpu) {
  Preferences<StemBlockVariant> found;
  const StemShape shape{params, gpu.multiprocessors, gpu.capability};
  if (params.elem == Elem::F32) {
    append(kFloat, shape, found);
  } else {
    append(kRows, shape, found);
  }
  return found;
}

std::string_view why_fused(const StemBlockParams&, const DeviceTraits&) {
  return "one launch for the first three layers";
}

// A form asked for of all blocks is meant for the first one too.
FusedOption fused_option(const StemBlockParams&) { return {"stem", "block"}; }

std::vector<LayerApart> layers_apart(const StemBlockParams& stem) { return {first_layer(stem), block_after(stem)}; }

std::vector<RuleText> rule_texts(const StemBlockParams&) {
  return {text_of("stem_block", kRows), text_of("stem_block, exact float", kFloat)};
}

}  // namespace mobicuda
