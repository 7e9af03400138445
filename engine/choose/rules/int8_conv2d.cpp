#include <cstdint>

#include "choose/kernels.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum Int8Conv2dVariant;

// The matrix product behind the convolution, seen as tiles.
struct Int8ConvShape {
  std::int64_t m;
  int n, k;  // k in bytes
  int tap;   // bytes of a tap
  int window_w;
  bool residual;
  int multiprocessors;

  // Tiles of rows x columns for each SM.
  double waves(int rows, int columns) const {
    const std::int64_t tiles = (m + rows - 1) / rows * ceil_div(n, columns);
    return static_cast<double>(tiles) / multiprocessors;
  }
  // Computed columns for each column that is wanted.
  double padding(int columns) const { return static_cast<double>(round_up(n, columns)) / n; }
};

// clang-format off
constexpr Row<Int8ConvShape, Int8Conv2dVariant> kRows[] = {
    {MOBICUDA_WHEN(s.window_w >= 5), {StemTile}, "pixels of four bytes: a first layer whose window is wide"},
    {MOBICUDA_ALWAYS, {Stem}, "pixels of four bytes: a first layer"},
    {MOBICUDA_WHEN(s.m <= 4), {Gemv}, "W is read once for four rows; bound by W's bytes"},
    {MOBICUDA_WHEN(s.tap >= 128 && s.waves(128, 128) >= 1.4 && (s.k >= 1152 ? s.n > 64 : s.k >= 1024 && s.n >= 512)),
     {Wgmma128x128x128}, "long sums: fewer bytes for a product"},
    {MOBICUDA_WHEN(s.tap >= 128 && s.n > 48 && (s.waves(128, 64) >= 0.35 || (s.k >= 896 && s.waves(128, 64) >= 0.2))),
     {Wgmma128x64x128}, "slices that are full, and enough tiles or long sums"},
    {MOBICUDA_WHEN(s.residual && s.tap >= 64 && s.n >= 128 && s.waves(128, 64) >= 5), {Wgmma128x64x128},
     "the residual comes ahead"},
    {MOBICUDA_WHEN(s.n <= 16 && s.waves(256, 16) >= 2), {Mma256x16x32}, "bound by DRAM, W is tiny, no padded columns"},
    {MOBICUDA_WHEN(s.k <= 64 && s.n > 16), {Narrow}, "expansions: weights stay in registers, no barriers"},
    {MOBICUDA_WHEN(s.n <= 32 && s.waves(128, 32) >= 1.5), {Mma128x32x64}, "narrow projections: X is most of the traffic"},
    {MOBICUDA_WHEN(s.n >= 128 && s.padding(128) <= 1.25 && s.waves(128, 128) >= 1.5), {Mma128x128x64},
     "the most products for a byte of shared memory"},
    {MOBICUDA_WHEN(s.k >= 384 && s.n <= 160 && s.waves(64, 32) >= 0.9 && s.waves(64, 32) < 3), {Mma32x32x128K2},
     "the narrow projections of 14x14 and 7x7: more blocks than 64x32 has"},
    {MOBICUDA_WHEN(s.n > 32 && s.waves(128, 64) >= 1.5), {Mma128x64x64}, "the same for n = 64, 96, 160"},
    {MOBICUDA_WHEN(s.n > 32 && s.waves(64, 64) >= 1), {Mma64x64x64}, "one wave of larger tiles"},
    {MOBICUDA_WHEN(s.waves(64, 32) >= 0.9), {Mma64x32x64}, "one wave of small tiles"},
    {MOBICUDA_WHEN(s.waves(32, 32) >= 0.9), {Mma32x32x128K2}, "latency: few dependent steps"},
    {MOBICUDA_ALWAYS, {Mma16x32x256K4, Mma64x64x64}, "latency: four groups of warps share a sum"},
    {MOBICUDA_ALWAYS, {Direct}, "groups, or no tensor cores"},
};
// clang-format on

}  // namespace

Preferences<Int8Conv2dVariant> preferences(const Int8Conv2dParams& params, const DeviceTraits& gpu) {
  const Int8ConvShape shape{std::int64_t{params.n} * params.out_h * params.out_w,
                            params.c_out,
                            params.kernel_h * params.kernel_w * round_up(params.c_in, kChannelStep),
                            round_up(params.c_in, kChannelStep),
                            params.kernel_w,
                            params.residual,
                            gpu.multiprocessors};
  Preferences<Int8Conv2dVariant> found;
  append(kRows, shape, found);
  return found;
}

std::vector<RuleText> rule_texts(const Int8Conv2dParams&) { return {text_of("int8_conv2d", kRows)}; }

}  // namespace mobicuda
