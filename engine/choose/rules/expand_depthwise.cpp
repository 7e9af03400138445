#include "choose/kernels.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum ExpandDepthwiseVariant;

struct PairShape {
  int n;
  int pixels;  // of the batch's output
  int out_h;
  int stride;
  int c_in;
  int c;  // hidden channels

  // An image's blocks of slices of so many channels and so many bands.
  int blocks(int slice, int bands) const { return c / slice * bands; }
};

using PairRow = Row<PairShape, ExpandDepthwiseVariant>;

// clang-format off
constexpr PairRow kRows[] = {
    {MOBICUDA_WHEN(s.pixels <= 784 && s.out_h > 14 && s.stride == 1), {Slice16Bands16}, "one image: as many bands as there are"},
    {MOBICUDA_WHEN(s.pixels <= 784 && s.out_h > 14 && s.stride == 2), {Slice16Bands8}, "one image: many bands"},
    {MOBICUDA_WHEN(s.pixels > 256 && s.out_h > 7 && ((s.pixels <= 8000 && s.c < 400) || (s.pixels <= 2000 && s.c < 512))),
     {Slice32Strip7Bands2}, "two bands an image, strips of seven rows"},
    {MOBICUDA_WHEN(s.pixels > 4000 && s.out_h <= 7 && s.stride == 2), {Slice32Bands1}, "a small image at once"},
    {MOBICUDA_WHEN(s.pixels > 1000 && s.out_h <= 7 && s.stride == 2), {Slice32Bands2}, "two bands a small image"},
    {MOBICUDA_WHEN(s.pixels > 256 && s.pixels <= 1000 && s.out_h <= 7 && s.stride == 2), {Slice32Bands4},
     "four bands a small image"},
    {MOBICUDA_WHEN(s.pixels > 256),
     {Slice32Strip7Bands1, Slice32Strip7Bands2, Slice32Strip7Bands4, Slice32Bands1, Slice32Bands2},
     "strips of seven rows"},
    {MOBICUDA_WHEN(s.pixels > 256), {Slice16Bands1, Slice16Bands2, Slice16Bands4, Slice16Bands16},
     "channels that are no slices of 32"},
    {MOBICUDA_WHEN(s.pixels <= 256 && s.out_h <= 7 && s.stride == 1), {Slice8Bands1}, "few pixels: narrow slices of a small image"},
    {MOBICUDA_WHEN(s.pixels <= 256 && s.out_h > 7 && s.blocks(16, 8) <= 104), {Slice16Bands8}, "few pixels: about a block for each SM"},
    {MOBICUDA_WHEN(s.pixels <= 256 && s.blocks(16, 4) <= 104), {Slice16Bands4}, "few pixels: about a block for each SM"},
    {MOBICUDA_WHEN(s.pixels <= 256), {Slice16Bands2, Slice8Bands1}, "few pixels: about a block for each SM"},
};

constexpr PairRow kPays[] = {
    {MOBICUDA_WHEN(s.c_in <= 160 && s.pixels <= 784 && s.out_h <= 28 && s.c >= 4 * s.c_in), {}, "one image, two launches a block"},
    {MOBICUDA_WHEN(s.c_in <= 160 && s.pixels <= 3000 && s.out_h <= 14), {}, "few output pixels, two launches a block"},
    {MOBICUDA_WHEN(s.c_in <= 160 && s.pixels <= 8000 && s.out_h <= 14 && s.c % 32 == 0), {},
     "few output pixels, two launches a block"},
    {MOBICUDA_WHEN(s.c_in <= 160 && s.out_h > 8 && s.out_h <= 20 && s.c % 32 == 0), {},
     "strips of seven rows, two launches a block"},
    {MOBICUDA_WHEN(s.n <= 4 && s.out_h <= 7 && s.c >= 4 * s.c_in), {}, "few images of many channels, two launches a block"},
};

constexpr PairRow kRows5x5[] = {
    {MOBICUDA_WHEN(s.n == 1 && s.out_h > 14 && s.blocks(16, 16) <= 144), {Slice16Bands16}, "few channels: as many bands as there are"},
    {MOBICUDA_WHEN(s.out_h > 14), {Slice16Bands8, Slice16Bands16, Slice8Bands4}, "large images: many bands"},
    {MOBICUDA_WHEN(s.stride == 2 && s.out_h > 7 && s.n * s.blocks(16, 8) <= 132), {Slice16Bands8}, "up to a block for each SM"},
    {MOBICUDA_WHEN(s.stride == 2 && s.out_h > 7), {Slice32Bands8, Slice16Bands8, Slice8Bands4}, "bands of few rows"},
    {MOBICUDA_WHEN(s.stride == 2 && s.n * s.blocks(16, 4) <= 132), {Slice16Bands4}, "up to a block for each SM"},
    {MOBICUDA_WHEN(s.stride == 2), {Slice32Bands4, Slice16Bands4, Slice8Bands4}, "bands whose pixels are expanded at once"},
    {MOBICUDA_WHEN(s.out_h <= 7 && s.n * s.blocks(8, 1) <= 132), {Slice8Bands1}, "up to a block for each SM"},
    {MOBICUDA_WHEN(s.out_h <= 7 && s.pixels <= 256), {Slice16Bands1, Slice8Bands1}, "few pixels: two output rows a thread"},
    {MOBICUDA_WHEN(s.out_h <= 7), {Slice32Strip7Bands1, Slice16Bands1, Slice8Bands1}, "strips of seven rows"},
    {MOBICUDA_WHEN(s.n * s.blocks(16, 4) <= 132), {Slice16Bands4}, "up to a block for each SM, two output rows a thread"},
    {MOBICUDA_WHEN(s.n * s.blocks(16, 2) <= 132), {Slice16Bands2}, "up to a block for each SM, two output rows a thread"},
    {MOBICUDA_ALWAYS, {Slice32Strip7Bands2, Slice16Bands2, Slice8Bands2}, "two bands an image, strips of seven rows"},
};

constexpr PairRow kPays5x5[] = {
    {MOBICUDA_WHEN(s.n == 1 && s.out_h <= 28), {}, "one image, two launches a block"},
    {MOBICUDA_WHEN(s.n <= 4 && s.stride == 1 && s.out_h <= 28), {}, "few images, two launches a block"},
    {MOBICUDA_WHEN(s.n <= 4 && s.stride == 2 && s.out_h <= 14), {}, "few images, two launches a block"},
    {MOBICUDA_WHEN(s.pixels <= 784 && s.stride == 1 && s.out_h <= 7), {}, "few output pixels, two launches a block"},
    {MOBICUDA_WHEN(s.pixels <= 1600 && s.stride == 1 && s.out_h <= 7 && s.c_in <= 160 && s.c >= 4 * s.c_in), {},
     "few output pixels, two launches a block"},
    {MOBICUDA_WHEN(s.pixels <= 1600 && s.stride == 1 && s.out_h > 7 && s.out_h <= 14 && s.c % 32 == 0), {},
     "strips of seven rows, two launches a block"},
};
// clang-format on

PairShape shape_of(const ExpandDepthwiseParams& params) {
  return {params.n, params.n * params.out_h * params.out_w, params.out_h, params.stride, params.c_in, params.c};
}

}  // namespace

Preferences<ExpandDepthwiseVariant> preferences(const ExpandDepthwiseParams& params, const DeviceTraits&) {
  Preferences<ExpandDepthwiseVariant> found;
  if (params.kernel == 3) {
    append(kRows, shape_of(params), found);
  } else {
    append(kRows5x5, shape_of(params), found);
  }
  return found;
}

std::string_view why_fused(const ExpandDepthwiseParams& params, const DeviceTraits&) {
  const auto always = [](ExpandDepthwiseVariant) { return true; };
  const PairShape shape = shape_of(params);
  return params.kernel == 3 ? first_why(kPays, shape, always) : first_why(kPays5x5, shape, always);
}

std::vector<RuleText> rule_texts(const ExpandDepthwiseParams&) {
  return {text_of("expand_depthwise, where it pays", kPays), text_of("expand_depthwise", kRows),
          text_of("expand_depthwise, 5x5, where it pays", kPays5x5), text_of("expand_depthwise, 5x5", kRows5x5)};
}

}  // namespace mobicuda
