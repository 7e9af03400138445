// Which kernels the rule takes for inverted residual blocks: kernels/inverted_residual/simt*/README.md (exact float)
// and inverted_residual_image.md have the times. No GPU is needed.
#include <string>
#include <string_view>
#include <tuple>

#include "choose/rules.h"
#include "support/catch.h"

namespace mobicuda {
namespace {

using kernels::InvertedResidualParams;
using kernels::InvertedResidualVariant;

constexpr kernels::DeviceTraits kH100 = kernels::traits_of(90, 132);

InvertedResidualParams block(int n, int h, int w, int c_in, int c_out, int stride = 1) {
  InvertedResidualParams p;
  p.elem = kernels::Elem::F32;
  p.n = n;
  p.h = h;
  p.w = w;
  p.c_in = c_in;
  p.c_hidden = 6 * c_in;
  p.c_out = c_out;
  p.stride = stride;
  p.out_h = h / stride;
  p.out_w = w / stride;
  p.pad_top = p.pad_left = 1;
  p.residual = c_in == c_out;
  return p;
}

BlockForm form_of(const InvertedResidualParams& p, const kernels::DeviceTraits& gpu = kH100) {
  return Rules(gpu, {}).block_form(&p, nullptr).form;
}

TEST_CASE("the rule runs late blocks of few tiles in float by clusters") {
  using enum InvertedResidualVariant;
  const Rules rule(kH100, {});
  for (const auto& [p, variant] : {std::pair{block(1, 14, 14, 64, 64), SimtCluster8K64N64},
                                   {block(4, 14, 14, 64, 64), SimtCluster8K64N64},
                                   {block(4, 14, 14, 64, 96), SimtCluster8K64N96},
                                   {block(1, 14, 14, 96, 96), SimtCluster8K96N96},
                                   {block(1, 14, 14, 96, 160, 2), SimtCluster8K96N160},
                                   {block(2, 7, 7, 160, 160), SimtCluster8K160N160},
                                   {block(2, 7, 7, 160, 320), SimtCluster8K160N320}}) {
    CAPTURE(p.n, p.h, p.c_in, p.c_out);
    CHECK(form_of(p) == BlockForm::Fused);
    CHECK(rule.variant(p).variant == variant);
  }
  for (const auto& p : {block(5, 14, 14, 64, 64), block(5, 14, 14, 64, 96), block(2, 14, 14, 96, 96),
                        block(2, 14, 14, 96, 160, 2), block(3, 7, 7, 160, 160), block(3, 7, 7, 160, 320)}) {
    CAPTURE(p.n, p.h, p.c_in, p.c_out);
    CHECK(form_of(p) == BlockForm::Layers);
  }
}

TEST_CASE("the rule runs early blocks of few pictures in float by the variants made for them") {
  using enum InvertedResidualVariant;
  const Rules rule(kH100, {});
  for (const auto& [p, variant, least, most] :
       {std::tuple{block(1, 56, 56, 24, 24), SimtEarly2S1Tile7x7C144N24Units8, 1, 1},
        {block(1, 56, 56, 24, 24), SimtEarly2S1Tile7x7C144N24, 2, 2},
        {block(1, 56, 56, 24, 32, 2), SimtEarly2S2Tile2x7C144N32, 1, 2},
        {block(1, 28, 28, 32, 32), SimtEarly4S1Tile4x7C192N32, 1, 4},
        {block(1, 28, 28, 32, 64, 2), SimtEarly2S2Tile2x2C192N64, 1, 4}}) {
    for (int n = 1; n <= 5; ++n) {
      InvertedResidualParams batch = p;
      batch.n = n;
      CAPTURE(n, p.h, p.c_in, p.c_out);
      CHECK(form_of(batch) == BlockForm::Fused);
      CHECK((rule.variant(batch).variant == variant) == (n >= least && n <= most));
    }
  }
}

TEST_CASE("the rule splits products of early blocks in float where they may be split, of enough pictures") {
  using enum InvertedResidualVariant;
  const Rules rule(kH100, {});
  const auto split = [&](InvertedResidualParams p, int n) {
    p.n = n;
    p.split = true;
    CAPTURE(n, p.h, p.c_in, p.c_out);
    CHECK(form_of(p) == BlockForm::Fused);
    const std::string_view chosen = name(rule.variant(p).variant);
    p.split = false;
    CHECK(name(rule.variant(p).variant).starts_with("simt"));
    return chosen.starts_with("split");
  };
  for (const auto& p : {block(1, 112, 112, 16, 24, 2), block(1, 56, 56, 24, 24), block(1, 56, 56, 24, 32, 2),
                        block(1, 28, 28, 32, 32), block(1, 28, 28, 32, 64, 2)}) {
    for (const int n : {4, 8, 16, 32, 64, 256}) CHECK(split(p, n));
  }
  InvertedResidualParams p = block(256, 56, 56, 24, 24);
  p.split = true;
  CHECK(rule.variant(p).variant == SplitS1Tile14x14C16W4N24);
}

TEST_CASE("the rule splits products of few pictures' blocks in clusters") {
  using enum InvertedResidualVariant;
  const Rules rule(kH100, {});
  for (const auto& [p, variant, least, most] : {std::tuple{block(1, 56, 56, 24, 32, 2), SplitCluster2K24N32, 1, 2},
                                                {block(1, 28, 28, 32, 32), SplitCluster2K32N32, 1, 4},
                                                {block(1, 28, 28, 32, 64, 2), SplitCluster2K32N64, 1, 6},
                                                {block(1, 14, 14, 64, 64), SplitCluster3K64N64, 1, 5},
                                                {block(1, 14, 14, 64, 96), SplitCluster3K64N96, 1, 4},
                                                {block(1, 14, 14, 96, 96), SplitCluster6K96N96, 1, 1},
                                                {block(1, 14, 14, 96, 96), SplitCluster3K96N96, 2, 2},
                                                {block(1, 14, 14, 96, 160, 2), SplitCluster4K96N160, 1, 1},
                                                {block(1, 14, 14, 96, 160, 2), SplitCluster5K96N160, 2, 3},
                                                {block(1, 7, 7, 160, 160), SplitCluster8K160N160, 1, 3},
                                                {block(1, 7, 7, 160, 320), SplitCluster15K160N320, 1, 2}}) {
    for (int n = 1; n <= 8; ++n) {
      InvertedResidualParams batch = p;
      batch.n = n;
      batch.split = true;
      CAPTURE(n, p.h, p.c_in, p.c_out);
      CHECK((rule.variant(batch).variant == variant) == (n >= least && n <= most));
      batch.split = false;
      CHECK(rule.variant(batch).variant != variant);
    }
  }
  InvertedResidualParams tiny = block(1, 3, 3, 160, 160);
  tiny.split = true;
  CHECK(rule.variant(tiny).variant != SplitCluster8K160N160);
  tiny.n = 2;
  CHECK(rule.variant(tiny).variant == SplitCluster8K160N160);
}

TEST_CASE("it is the tiles that count, for each multiprocessor") {
  CHECK(form_of(block(4, 56, 14, 64, 64)) == BlockForm::Layers);
  CHECK(form_of(block(1, 56, 14, 64, 64)) == BlockForm::Fused);
  CHECK(form_of(block(1, 28, 28, 96, 160, 2)) == BlockForm::Layers);
  CHECK(form_of(block(4, 14, 14, 64, 64), kernels::traits_of(90, 66)) == BlockForm::Layers);
  CHECK(form_of(block(2, 14, 14, 64, 64), kernels::traits_of(90, 66)) == BlockForm::Fused);
  const auto early = InvertedResidualVariant::SimtEarly2S1Tile7x7C144N24;
  CHECK(Rules(kH100, {}).variant(block(8, 28, 28, 24, 24)).variant == early);
  CHECK(Rules(kernels::traits_of(90, 66), {}).variant(block(1, 56, 56, 24, 24)).variant == early);
  CHECK(Rules(kernels::traits_of(90, 66), {}).variant(block(2, 56, 56, 24, 24)).variant != early);
}

TEST_CASE("the rule runs 14x14 pictures in half by clusters of as many blocks as find room") {
  using enum InvertedResidualVariant;
  const Rules rule(kH100, {});
  for (const auto& [n, c_in, c_out, variant] : {std::tuple{5, 64, 64, Image8K64N64},
                                                {7, 64, 96, Image8K64N96},
                                                {8, 64, 64, Image4Rows6K64N64},
                                                {10, 64, 96, Image4Rows6K64N96},
                                                {11, 64, 64, Image4K64N64},
                                                {15, 64, 96, Image4K64N96},
                                                {3, 96, 96, Cluster6K96N96},
                                                {4, 96, 96, Image4Rows6K96N96},
                                                {11, 96, 96, Image4K96N96},
                                                {16, 64, 64, Image2K64N64},
                                                {256, 64, 64, Image1K64N64}}) {
    CAPTURE(n, c_in, c_out);
    InvertedResidualParams p = block(n, 14, 14, c_in, c_out);
    p.elem = kernels::Elem::F16;
    p.expand_activation = p.depthwise_activation = kernels::Clip{0, 6};
    CHECK(form_of(p) == BlockForm::Fused);
    CHECK(rule.variant(p).variant == variant);
  }
}

TEST_CASE("the rule runs early and middle blocks in half by what fills the rounds of the GPU") {
  using enum InvertedResidualVariant;
  const Rules rule(kH100, {});
  struct Case {
    int n, side, c_in, c_out, stride;
    InvertedResidualVariant variant;
  };
  for (const Case& at :
       {Case{1, 56, 24, 24, 1, SmallS1Tile4x8C144N24}, Case{1, 80, 24, 24, 1, SmallS1Tile4x8C144N24Warp},
        Case{8, 56, 24, 24, 1, Image1Side56K24N24}, Case{24, 56, 24, 24, 1, StripS1Rows3C144N24},
        Case{32, 56, 24, 24, 1, StripS1Rows4C144N24},
        Case{128, 40, 24, 24, 1, StripS1Rows4C144N24},  // two of 42 rows would be left over
        Case{24, 112, 16, 24, 2, StripS2Rows2C96N24Warps8}, Case{8, 28, 32, 32, 1, SmallS1Tile4x8C192N32},
        Case{12, 28, 32, 32, 1, Image2Side28Rows8K32N32}, Case{16, 28, 32, 32, 1, Image2Side28K32N32},
        Case{5, 14, 96, 160, 2, Cluster6K96N160}, Case{6, 14, 96, 160, 2, Image2Warps2K96N160},
        Case{11, 14, 96, 160, 2, Image2K96N160}}) {
    CAPTURE(at.n, at.side, at.c_in, at.c_out);
    InvertedResidualParams p = block(at.n, at.side, at.side, at.c_in, at.c_out, at.stride);
    p.elem = kernels::Elem::F16;
    p.expand_activation = p.depthwise_activation = kernels::Clip{0, 6};
    CHECK(kernels::name(rule.variant(p).variant) == kernels::name(at.variant));
  }
}

TEST_CASE("a pair of layers whose channels slices of 32 do not divide takes narrower ones") {
  using enum kernels::ExpandDepthwiseVariant;
  kernels::ExpandDepthwiseParams p;
  p.n = 8;
  p.h = p.w = p.out_h = p.out_w = 14;
  p.c_in = 72;
  p.c = 432;  // MobileNetV2 0.75
  p.pad_top = p.pad_left = 1;
  const auto taken = [&] { return Rules(kH100, {}).variant(p).variant; };
  CHECK(taken() == Slice16Bands1);
  p.n = 1;
  CHECK(taken() == Slice16Bands2);
  p.n = 8;
  p.c = 216;  // no row is for these: the first variant that runs them
  CHECK(taken() == Slice8Bands1);
}

TEST_CASE("the rule runs blocks with windows of 5x5 in two launches for few images") {
  using enum kernels::ExpandDepthwiseVariant;
  using Size = std::tuple<int, int, int, int, int>;
  const Rules rule(kH100, {});
  const auto pair = [](const Size& at) {
    const auto& [n, size, c_in, c, stride] = at;
    kernels::ExpandDepthwiseParams p;
    p.n = n;
    p.h = p.w = size;
    p.out_h = p.out_w = size / stride;
    p.c_in = c_in;
    p.c = c;
    p.kernel = 5;
    p.stride = stride;
    p.pad_top = p.pad_left = 2;
    return p;
  };
  const auto form = [&](const kernels::ExpandDepthwiseParams& p) { return rule.block_form(nullptr, &p).form; };
  for (const auto& [at, variant] : {std::pair{Size{1, 56, 24, 144, 2}, Slice16Bands16},
                                    {Size{1, 28, 40, 240, 1}, Slice16Bands8},
                                    {Size{1, 28, 32, 96, 1}, Slice16Bands16},
                                    {Size{1, 28, 56, 168, 1}, Slice8Bands4},
                                    {Size{4, 28, 40, 240, 1}, Slice16Bands8},
                                    {Size{1, 28, 32, 192, 2}, Slice16Bands8},
                                    {Size{1, 14, 80, 480, 1}, Slice16Bands4},
                                    {Size{1, 14, 112, 672, 1}, Slice16Bands2},
                                    {Size{4, 14, 112, 672, 1}, Slice32Strip7Bands2},
                                    {Size{1, 14, 112, 672, 2}, Slice32Bands4},
                                    {Size{4, 14, 112, 672, 2}, Slice32Bands4},
                                    {Size{1, 7, 112, 672, 1}, Slice8Bands1},
                                    {Size{1, 14, 80, 480, 2}, Slice16Bands4},
                                    {Size{1, 7, 248, 1488, 1}, Slice16Bands1},
                                    {Size{4, 7, 192, 1152, 1}, Slice16Bands1},
                                    {Size{16, 7, 192, 1152, 1}, Slice32Strip7Bands1}}) {
    const kernels::ExpandDepthwiseParams p = pair(at);
    CAPTURE(p.n, p.h, p.c, p.stride);
    CHECK(form(p) == BlockForm::ExpandDepthwise);
    CHECK(rule.variant(p).variant == variant);
  }
  for (const Size& at :
       {Size{8, 28, 40, 240, 1}, {64, 14, 112, 672, 1}, {16, 14, 112, 672, 2}, {64, 7, 192, 1152, 1}}) {
    kernels::ExpandDepthwiseParams p = pair(at);
    CAPTURE(p.n, p.h, p.c, p.stride);
    CHECK(form(p) == BlockForm::Layers);
    p.n = 1;
    p.elem = kernels::Elem::F32;
    CHECK(form(p) == BlockForm::Layers);
  }
  InvertedResidualParams whole = block(1, 14, 14, 64, 64);
  REQUIRE(form_of(whole) == BlockForm::Fused);
  whole.kernel = 5;
  CHECK(form_of(whole) == BlockForm::Layers);
}

TEST_CASE("the rule runs expansions with HardSwish or Silu and their depthwise convolution as they were the fastest") {
  using enum kernels::ExpandDepthwiseVariant;
  using Pair = kernels::ExpandDepthwiseParams;
  const auto pair = [](int n, int size, int c_in, int c, int kernel, int stride = 1) {
    Pair p;
    p.n = n;
    p.h = p.w = size;
    p.out_h = p.out_w = size / stride;
    p.c_in = c_in;
    p.c = c;
    p.kernel = kernel;
    p.stride = stride;
    p.pad_top = p.pad_left = kernel / 2;
    p.expand_activation = p.depthwise_activation = kernels::Activation(kernels::ActivationKind::Silu);
    return p;
  };
  kernels::DeviceTraits gpu = kH100;
  gpu.l2_bytes = std::size_t{50} << 20U;
  const Rules rule(gpu, {});
  for (const auto& [p, variant] : {std::pair{pair(1, 28, 40, 240, 5), Slice16Bands16},
                                   {pair(4, 28, 40, 240, 5), Slice16Bands4},
                                   {pair(8, 28, 40, 240, 5), Slice16Strip7Bands2},
                                   {pair(32, 28, 40, 240, 5), Slice16Strip7Bands1},
                                   {pair(1, 28, 40, 240, 3, 2), Slice16Bands8},
                                   {pair(32, 28, 40, 240, 3, 2), Slice16Bands1},
                                   {pair(8, 14, 80, 480, 3), Slice32Strip7Bands2},
                                   {pair(32, 14, 80, 480, 3), Slice32Strip7Bands1},
                                   {pair(4, 7, 160, 960, 5), Slice16Bands1},
                                   {pair(32, 7, 160, 960, 5), Slice32Strip7Bands1},
                                   {pair(32, 56, 24, 144, 3), Slice16Strip7Bands4},
                                   {pair(32, 112, 16, 96, 3, 2), Slice16Bands16}}) {
    CAPTURE(p.n, p.h, p.c, p.kernel, p.stride);
    const auto fused = rule.fused(p);
    REQUIRE(fused.has_value());
    CHECK(fused->variant == variant);
    CHECK_FALSE(Rules(gpu, {{"pair", "layers"}}).fused(p).has_value());
    Pair exact = p;
    exact.elem = kernels::Elem::F32;
    CHECK_FALSE(rule.fused(exact).has_value());
  }
  for (const Pair& p : {pair(1, 56, 24, 144, 3), pair(8, 14, 112, 672, 3), pair(32, 14, 112, 672, 5, 2),
                        pair(32, 7, 192, 1152, 5), pair(8, 112, 16, 96, 3, 2)}) {
    CAPTURE(p.n, p.h, p.c, p.kernel, p.stride);
    CHECK_FALSE(rule.fused(p).has_value());
    CHECK(Rules(gpu, {{"pair", "fused"}}).fused(p).has_value());
  }
}

TEST_CASE("the rule runs a few large images, and late blocks of very wide ones, as they were the fastest") {
  using enum InvertedResidualVariant;
  kernels::DeviceTraits compiles = kH100;
  compiles.compiles = true;
  const Rules rule(compiles, {});
  const auto half = [](InvertedResidualParams p) {
    p.elem = kernels::Elem::F16;
    p.expand_activation = p.depthwise_activation = kernels::Clip{0.0F, 6.0F};
    return p;
  };
  // Block 3 of widths 1.3 and 1.4, and of fewer and more images.
  const auto name_of = [&](int n) { return std::string(name(rule.variant(half(block(n, 56, 56, 32, 32))).variant)); };
  CHECK(name_of(8).starts_with("image_"));
  CHECK(name_of(4).starts_with("small_"));
  CHECK(rule.variant(half(block(16, 56, 56, 32, 32))).variant == StripS1Rows2C192N32);
  // Block 14 of them and of width 1.0.
  const auto form = [&](const InvertedResidualParams& p) { return rule.block_form(&p, nullptr).form; };
  CHECK(form(half(block(8, 14, 14, 136, 224, 2))) != BlockForm::Fused);
  CHECK(form(half(block(16, 14, 14, 136, 224, 2))) == BlockForm::Fused);
  CHECK(form(half(block(8, 14, 14, 96, 160, 2))) == BlockForm::Fused);
}

TEST_CASE("the rule runs depthwise convolutions of 5x5 by tiles and rings where they fill the GPU") {
  using enum kernels::DepthwiseConvVariant;
  const Rules rule(kH100, {});
  const auto taken = [&](int n, int size, int c, int stride = 1, kernels::Elem elem = kernels::Elem::F16) {
    kernels::DepthwiseConvParams p;
    p.elem = elem;
    p.n = n;
    p.h = p.w = size;
    p.c = c;
    p.out_h = p.out_w = size / stride;
    p.kernel_h = p.kernel_w = 5;
    p.stride_h = p.stride_w = stride;
    p.pad_top = p.pad_left = 2;
    return rule.variant(p).variant;
  };
  CHECK(taken(32, 14, 384) == Window5Tile4x7);
  CHECK(taken(32, 14, 672) == Window5Tile7x7W4);
  CHECK(taken(32, 14, 480) == Window5Strip7x2B4);
  CHECK(taken(128, 14, 672) == Window5Ring14x7);
  CHECK(taken(128, 14, 672, 2) == Window5Ring14x7);
  CHECK(taken(32, 7, 1104) == Window5Tile4x7);
  CHECK(taken(128, 7, 1152) == Window5Tile7x7);
  CHECK(taken(128, 28, 240) == Window5Ring14x7);
  CHECK(taken(8, 14, 672) == Window5Strip2x2B8);
  CHECK(taken(128, 10, 672) != Window5Ring14x7);  // two strips of seven columns for ten
  CHECK(taken(128, 14, 672, 1, kernels::Elem::F32) == Window5Strip7x2B8);
}

TEST_CASE("what needs more shared memory than a GPU has is not taken") {
  using enum InvertedResidualVariant;
  constexpr kernels::DeviceTraits kSmall = kernels::traits_of(120, 170);  // 99 KB a block
  InvertedResidualParams p = block(8, 14, 14, 64, 96);
  p.elem = kernels::Elem::F16;
  p.expand_activation = p.depthwise_activation = kernels::Clip{0, 6};
  CHECK(kernels::supports(Image8K64N96, p, kernels::traits_of(90, 132)));
  CHECK_FALSE(kernels::supports(Image8K64N96, p, kSmall));
  const InvertedResidualVariant taken = Rules(kSmall, {}).variant(p).variant;
  CHECK(kernels::supports(taken, p, kSmall));
}

}  // namespace
}  // namespace mobicuda
