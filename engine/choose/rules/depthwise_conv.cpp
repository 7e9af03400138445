#include "choose/kernels.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum DepthwiseConvVariant;

struct DepthwiseShape {
  const DepthwiseConvParams& params;
  int multiprocessors;
  bool half;
  int stride;
  bool sevens;  // rows of the output that strips of seven divide

  // Whether the variant has so many threads, on 132 SMs; as many for each SM elsewhere.
  bool threads(DepthwiseConvVariant variant, double wanted) const {
    const DepthwiseConvTile t = tile(variant, params.elem);
    const double found = static_cast<double>(params.n) * ceil_div(params.out_h, t.rows) *
                         ceil_div(params.out_w, t.columns) * ceil_div(params.c, t.channels);
    return found >= wanted * multiprocessors / kMeasuredMultiprocessors;
  }

  // Whether tiles cover little but the output. A ring's rows end with it.
  bool fits(DepthwiseConvVariant variant) const {
    constexpr double kMost = 1.2;
    const DepthwiseConvTile t = tile(variant, params.elem);
    const double columns = static_cast<double>(round_up(params.out_w, t.columns)) / params.out_w;
    const double rows = static_cast<double>(round_up(params.out_h, t.rows)) / params.out_h;
    return half && columns * (variant == Window5Ring14x7 ? 1 : rows) <= kMost;
  }
};

// In half, two rows of four channels are the fastest on most maps with stride 2.
// clang-format off
constexpr Row<DepthwiseShape, DepthwiseConvVariant> kRows[] = {
    {MOBICUDA_WHEN(s.half && s.sevens && s.threads(Strip7x2B8, 50000)), {Strip7x2B8}, "three rows of loads in flight, 16 warps an SM"},
    {MOBICUDA_WHEN(!s.half && s.sevens && s.threads(Strip7x2B16, 66000)), {Strip7x2B16}, "fewest instructions; two waves of 8 warps"},
    {MOBICUDA_WHEN((!s.half || s.stride == 1) && s.threads(Strip4x2B16, 50000)), {Strip4x2B16, Strip4x4B8},
     "one wave of 12 warps; 4x4_b8 where channels do not fill 16 bytes"},
    {MOBICUDA_WHEN((!s.half || s.stride == 1) && s.threads(Strip2x2B16, 34000)), {Strip2x2B16},
     "two thirds of a wave"},
    {MOBICUDA_WHEN(s.threads(Strip2x2B8, 9000)), {Strip2x2B8}, "two warps on each SM; all loads of the strip in two steps"},
    {MOBICUDA_ALWAYS, {Strip1x1B8}, "shortest chain: nine independent loads, then 36 (half: 18) multiply-adds"},
    {MOBICUDA_WHEN(s.stride == 1 && s.params.out_h <= 7 && s.fits(Window5Tile7x7) && s.threads(Window5Tile7x7, 30000)),
     {Window5Tile7x7}, "5x5: many maps of 7x7, one for a warp"},
    {MOBICUDA_WHEN(s.stride == 1 && s.params.out_h <= 7 && s.fits(Window5Tile4x7) && s.threads(Window5Tile4x7, 30000)),
     {Window5Tile4x7}, "5x5: maps of 7x7, half a map for a warp"},
    {MOBICUDA_WHEN(s.fits(Window5Ring14x7) && s.threads(Window5Ring14x7, s.params.out_h > 14 ? 100000 : 40000)),
     {Window5Ring14x7}, "5x5, many images: rows of the input pass through shared memory"},
    {MOBICUDA_WHEN(s.stride == 1 && s.fits(Window5Tile4x7) && s.threads(Window5Tile4x7, 40000) && !s.threads(Window5Tile4x7, 52000)),
     {Window5Tile4x7}, "5x5: one wave of tiles"},
    {MOBICUDA_WHEN(s.stride == 1 && s.params.out_h <= 14 && s.fits(Window5Tile7x7W4) && s.threads(Window5Tile7x7W4, 36000)),
     {Window5Tile7x7W4}, "5x5: four warps share a map of 14x14"},
    {MOBICUDA_WHEN(s.half && s.params.out_h > 14 && s.threads(Window5Strip4x4B4, 50000)), {Window5Strip4x4B4},
     "5x5: weights of two channels stay floats; four columns share their loads"},
    {MOBICUDA_WHEN(s.half && s.sevens && s.threads(Window5Strip7x2B4, 50000)), {Window5Strip7x2B4},
     "5x5: weights of two channels stay floats"},
    {MOBICUDA_WHEN(s.half && s.stride == 2 && s.params.out_h % 7 == 0 && s.threads(Window5Strip7x2B8, 80000)),
     {Window5Strip7x2B8}, "5x5: many strips of seven rows"},
    {MOBICUDA_WHEN(s.sevens && s.threads(Window5Strip7x2B8, 50000)), {Window5Strip7x2B8},
     "5x5: strips of seven rows fill the GPU"},
    {MOBICUDA_WHEN(s.threads(Window5Strip4x2B8, s.half ? 40000 : 50000)), {Window5Strip4x2B8},
     "5x5: strips of four rows fill the GPU"},
    {MOBICUDA_WHEN(s.threads(Window5Strip2x2B8, 9000)), {Window5Strip2x2B8}, "5x5: strips of two rows fill the GPU"},
    {MOBICUDA_ALWAYS, {Window5Strip1x1B8}, "5x5, few pixels: a thread for each"},
};
// clang-format on

}  // namespace

Preferences<DepthwiseConvVariant> preferences(const DepthwiseConvParams& params, const DeviceTraits& gpu) {
  const DepthwiseShape shape{params, gpu.multiprocessors, params.elem == Elem::F16, params.stride_h,
                             params.stride_h == 1 && params.out_h % 7 == 0};
  Preferences<DepthwiseConvVariant> found;
  append(kRows, shape, found);
  return found;
}

std::vector<RuleText> rule_texts(const DepthwiseConvParams&) { return {text_of("depthwise_conv", kRows)}; }

}  // namespace mobicuda
