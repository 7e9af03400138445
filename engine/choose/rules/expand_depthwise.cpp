#include "choose/kernels.h"
#include "choose/pointwise_layer.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum ExpandDepthwiseVariant;

struct PairShape {
  const DeviceTraits& gpu;
  int n;
  int pixels;            // of the batch's output
  double hidden_pixels;  // of an image
  int out_h;
  int kernel;
  int stride;
  int c_in;
  int c;       // hidden channels
  bool swish;  // HardSwish or Silu

  // An image's blocks of slices of so many channels and so many bands.
  int blocks(int slice, int bands) const { return c / slice * bands; }
  // The batch's, in multiples of what the GPU holds at once: two for each SM.
  double rounds(int slice, int bands) const {
    return static_cast<double>(n) * blocks(slice, bands) / (2.0 * gpu.multiprocessors);
  }
  // Whether the hidden tensor, in half, is larger than the L2 cache.
  bool outgrows_cache() const {
    return gpu.l2_bytes > 0 && 2.0 * n * hidden_pixels * c > static_cast<double>(gpu.l2_bytes);
  }
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
    {MOBICUDA_WHEN(s.n == 1 && s.out_h <= 28 && (s.stride == 1 || s.c % 16 == 0)), {}, "one image, two launches a block"},
    {MOBICUDA_WHEN(s.n <= 4 && s.stride == 1 && s.out_h <= 28), {}, "few images, two launches a block"},
    {MOBICUDA_WHEN(s.n <= 4 && s.stride == 2 && s.out_h <= 14), {}, "few images, two launches a block"},
    {MOBICUDA_WHEN(s.pixels <= 784 && s.stride == 1 && s.out_h <= 7), {}, "few output pixels, two launches a block"},
    {MOBICUDA_WHEN(s.pixels <= 1600 && s.stride == 1 && s.out_h <= 7 && s.c_in <= 160 && s.c >= 4 * s.c_in), {},
     "few output pixels, two launches a block"},
    {MOBICUDA_WHEN(s.pixels <= 1600 && s.stride == 1 && s.out_h > 7 && s.out_h <= 14 && s.c % 32 == 0), {},
     "strips of seven rows, two launches a block"},
};

constexpr PairRow kRowsSwish[] = {
    {MOBICUDA_WHEN(s.out_h > 28 && s.stride == 1 && s.rounds(16, 4) > 2), {Slice16Strip7Bands4}, "many large images: strips of seven rows"},
    {MOBICUDA_WHEN(s.out_h > 28), {Slice16Bands16, Slice16Bands8, Slice8Bands4}, "large images: many bands"},
    {MOBICUDA_WHEN(s.out_h > 14 && s.rounds(16, 16) <= 1), {Slice16Bands16}, "up to two blocks for each SM"},
    {MOBICUDA_WHEN(s.out_h > 14 && (s.stride == 2 || s.rounds(16, 8) <= 1)), {Slice16Bands8}, "bands of few rows"},
    {MOBICUDA_WHEN(s.out_h > 14 && s.rounds(16, 4) <= 1), {Slice16Bands4}, "up to two blocks for each SM"},
    {MOBICUDA_WHEN(s.out_h > 14 && s.rounds(16, 2) <= 1), {Slice16Strip7Bands2}, "two bands an image, strips of seven rows"},
    {MOBICUDA_WHEN(s.out_h > 14), {Slice16Strip7Bands1, Slice16Bands2, Slice8Bands4}, "strips of seven rows"},
    {MOBICUDA_WHEN(s.stride == 2 && s.out_h > 7 && s.rounds(16, 8) <= 1), {Slice16Bands8}, "up to two blocks for each SM"},
    {MOBICUDA_WHEN(s.stride == 2 && s.out_h > 7 && s.rounds(16, 4) <= 2), {Slice16Bands4}, "up to four blocks for each SM"},
    {MOBICUDA_WHEN(s.stride == 2 && s.out_h > 7 && s.rounds(16, 2) <= 2), {Slice16Bands2}, "up to four blocks for each SM"},
    {MOBICUDA_WHEN(s.stride == 2 && s.out_h > 7), {Slice16Bands1, Slice8Bands1}, "whole images"},
    {MOBICUDA_WHEN(s.stride == 2 && s.rounds(32, 2) <= 0.7), {Slice32Bands2}, "up to a block for each SM or little more"},
    {MOBICUDA_WHEN(s.stride == 2), {Slice32Bands1, Slice16Bands1, Slice8Bands1}, "whole images"},
    {MOBICUDA_WHEN(s.out_h > 7 && s.rounds(16, 4) <= 0.7), {Slice16Bands4}, "up to a block for each SM or little more, two output rows a thread"},
    {MOBICUDA_WHEN(s.out_h > 7 && s.rounds(16, 2) <= 1), {Slice16Bands2}, "up to two blocks for each SM"},
    {MOBICUDA_WHEN(s.out_h > 7 && s.rounds(32, 2) <= 1), {Slice32Strip7Bands2}, "two bands an image, strips of seven rows"},
    {MOBICUDA_WHEN(s.out_h <= 7 && s.rounds(16, 1) <= 1.9), {Slice16Bands1, Slice8Bands1}, "up to four blocks for each SM"},
    {MOBICUDA_ALWAYS, {Slice32Strip7Bands1, Slice16Bands1, Slice8Bands1}, "strips of seven rows"},
};

constexpr PairRow kPaysSwish[] = {
    {MOBICUDA_WHEN(s.n == 1 && s.out_h <= 28), {}, "one image, a launch less"},
    {MOBICUDA_WHEN(s.n <= 4 && s.out_h <= 14), {}, "few images, a launch less"},
    {MOBICUDA_WHEN(s.n <= 8 && s.out_h <= 28 && (s.kernel == 5 || s.c_in <= 96 || s.out_h <= 7)), {}, "few images, a launch less"},
    {MOBICUDA_WHEN(s.stride == 1 && s.out_h > 7 && s.out_h <= 14 && s.c_in <= 96 && s.c % 32 == 0), {}, "strips of seven rows, a launch less"},
    {MOBICUDA_WHEN(s.stride == 1 && s.kernel == 5 && s.out_h > 14 && s.out_h <= 28 && s.c_in <= 64 && s.c % 16 == 0), {}, "strips of seven rows, a launch less"},
    {MOBICUDA_WHEN(s.stride == 1 && s.kernel == 3 && s.out_h > 28 && s.c_in <= 32 && s.rounds(16, 4) > 2), {}, "strips of seven rows, a launch less"},
    {MOBICUDA_WHEN(s.stride == 1 && s.kernel == 5 && s.out_h <= 7 && s.c_in <= 160 && s.c % 32 == 0), {}, "strips of seven rows, a launch less"},
    {MOBICUDA_WHEN(s.stride == 2 && s.kernel == 3 && s.out_h > 7 && s.out_h <= 14 && s.c_in <= 96), {}, "a quarter of the pixels goes back to memory"},
    {MOBICUDA_WHEN(s.stride == 2 && s.kernel == 3 && s.out_h > 28 && s.c_in <= 32 && s.outgrows_cache()), {}, "the hidden tensor is larger than the L2 cache"},
};
// clang-format on

PairShape shape_of(const ExpandDepthwiseParams& p, const DeviceTraits& gpu) {
  return {gpu,    p.n, p.n * p.out_h * p.out_w,      static_cast<double>(p.h) * p.w, p.out_h, p.kernel, p.stride,
          p.c_in, p.c, is_swish(p.expand_activation)};
}

}  // namespace

Preferences<ExpandDepthwiseVariant> preferences(const ExpandDepthwiseParams& params, const DeviceTraits& gpu) {
  const PairShape shape = shape_of(params, gpu);
  Preferences<ExpandDepthwiseVariant> found;
  if (shape.swish) {
    append(kRowsSwish, shape, found);
  } else if (params.kernel == 3) {
    append(kRows, shape, found);
  } else {
    append(kRows5x5, shape, found);
  }
  return found;
}

std::string_view why_fused(const ExpandDepthwiseParams& params, const DeviceTraits& gpu) {
  const auto always = [](ExpandDepthwiseVariant) { return true; };
  const PairShape shape = shape_of(params, gpu);
  if (shape.swish) return first_why(kPaysSwish, shape, always);
  return params.kernel == 3 ? first_why(kPays, shape, always) : first_why(kPays5x5, shape, always);
}

FusedOption fused_option(const ExpandDepthwiseParams&) { return {"pair"}; }

std::vector<LayerApart> layers_apart(const ExpandDepthwiseParams& pair) {
  Conv2dParams expand = pointwise_layer({pair.elem, pair.n, pair.h, pair.w}, pair.c_in, pair.c);
  expand.activation = pair.expand_activation;
  DepthwiseConvParams depthwise;
  depthwise.elem = pair.elem;
  depthwise.n = pair.n;
  depthwise.h = pair.h;
  depthwise.w = pair.w;
  depthwise.c = pair.c;
  depthwise.out_h = pair.out_h;
  depthwise.out_w = pair.out_w;
  depthwise.kernel_h = depthwise.kernel_w = pair.kernel;
  depthwise.stride_h = depthwise.stride_w = pair.stride;
  depthwise.pad_top = pair.pad_top;
  depthwise.pad_left = pair.pad_left;
  depthwise.bias = true;
  depthwise.activation = pair.depthwise_activation;
  return {expand, depthwise};
}

std::vector<RuleText> rule_texts(const ExpandDepthwiseParams&) {
  return {text_of("expand_depthwise, where it pays", kPays),
          text_of("expand_depthwise", kRows),
          text_of("expand_depthwise, 5x5, where it pays", kPays5x5),
          text_of("expand_depthwise, 5x5", kRows5x5),
          text_of("expand_depthwise, HardSwish or Silu, where it pays", kPaysSwish),
          text_of("expand_depthwise, HardSwish or Silu", kRowsSwish)};
}

}  // namespace mobicuda
