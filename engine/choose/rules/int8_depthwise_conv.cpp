#include "choose/kernels.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum Int8DepthwiseConvVariant;

struct Int8DepthwiseShape {
  const Int8DepthwiseConvParams& params;
  int multiprocessors;
  bool sevens;  // rows of the output that strips of seven divide

  // Whether the variant has so many threads, on 132 SMs; as many for each SM elsewhere.
  bool threads(Int8DepthwiseConvVariant variant, double wanted) const {
    const Int8DepthwiseConvTile t = tile(variant);
    constexpr int kChannels = 4;  // of a thread
    const double found = static_cast<double>(params.n) * ceil_div(params.out_h, t.rows) *
                         ceil_div(params.out_w, t.columns) * ceil_div(params.c, kChannels);
    return found >= wanted * multiprocessors / kMeasuredMultiprocessors;
  }
};

// clang-format off
constexpr Row<Int8DepthwiseShape, Int8DepthwiseConvVariant> kRows[] = {
    {MOBICUDA_WHEN(s.sevens && s.threads(Strip7x2, 80000)), {Strip7x2}, "a row of input is read for nine sevenths of a row of output"},
    {MOBICUDA_WHEN(s.threads(Strip4x2, 80000)), {Strip4x2}, "strips of four rows fill the GPU"},
    {MOBICUDA_WHEN(s.threads(Strip2x2, 30000)), {Strip2x2}, "strips of two rows fill the GPU"},
    {MOBICUDA_ALWAYS, {Strip1x2}, "few pixels: the shortest chain"},
    {MOBICUDA_WHEN(s.threads(Window5Strip4x2, 50000)), {Window5Strip4x2}, "5x5: strips of four rows fill the GPU"},
    {MOBICUDA_WHEN(s.threads(Window5Strip2x2, 25000)), {Window5Strip2x2}, "5x5: strips of two rows fill the GPU"},
    {MOBICUDA_ALWAYS, {Window5Strip1x2}, "5x5, few pixels: the shortest chain"},
    {MOBICUDA_ALWAYS, {Direct}, "other windows, dilations and strides"},
};
// clang-format on

}  // namespace

Preferences<Int8DepthwiseConvVariant> preferences(const Int8DepthwiseConvParams& params, const DeviceTraits& gpu) {
  const Int8DepthwiseShape shape{params, gpu.multiprocessors, params.stride_h == 1 && params.out_h % 7 == 0};
  Preferences<Int8DepthwiseConvVariant> found;
  append(kRows, shape, found);
  return found;
}

std::vector<RuleText> rule_texts(const Int8DepthwiseConvParams&) { return {text_of("int8_depthwise_conv", kRows)}; }

}  // namespace mobicuda
