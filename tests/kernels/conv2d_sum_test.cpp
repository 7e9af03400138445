// Variants of conv2d with a second pointwise convolution in the same sum.
#include <cmath>
#include <string_view>
#include <vector>

#include "conv2d_case.h"
#include "support/emulated.h"

namespace mobicuda::test {
namespace {

using namespace conv2d_case;
using enum Conv2dVariant;

struct Layer {
  int n, h, w, c_in, c_out;  // of x and y
  Conv2dParams::Second second;
};

Conv2dParams params_of(const Layer& layer) {
  Conv2dParams p;
  p.elem = Elem::F16;
  p.n = layer.n;
  p.h = p.out_h = layer.h;
  p.w = p.out_w = layer.w;
  p.c_in = layer.c_in;
  p.c_out = layer.c_out;
  p.second = layer.second;
  p.bias = true;
  p.activation = kRelu;
  return p;
}

// Bottlenecks of ResNet-50; strides that leave rows or columns behind; channels of either convolution around a slice of
// 64, so that a slice of the first one ends within the second one's weights; pixels and columns around a tile.
constexpr Layer kLayers[] = {
    {1, 9, 8, 64, 256, {64, 9, 8, 1, 1}},      {1, 7, 7, 128, 136, {256, 14, 14, 2, 2}},
    {2, 7, 7, 64, 64, {192, 13, 13, 2, 2}},    {3, 5, 6, 72, 200, {136, 10, 16, 2, 3}},
    {1, 1, 1, 8, 8, {8, 1, 1, 1, 1}},          {1, 16, 16, 40, 72, {64, 16, 16, 1, 1}},
    {1, 7, 7, 512, 256, {1024, 14, 14, 2, 2}}, {5, 13, 11, 64, 328, {8, 13, 21, 1, 2}},
};

bool takes_second(Conv2dVariant variant) {
  const std::string_view text = name(variant);
  const auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  if (text.starts_with("mma_")) return !has("_c4");
  return text.starts_with("wgmma_") && !has("_window") && !has("_patch") && !has("_pooled");
}

TEST_CASE("conv2d: two pointwise convolutions in one sum equal the oracle, and one over both inputs in every bit",
          "[sanitize]") {
  std::uint32_t seed = 17000;
  int ran = 0;
  for (const Layer& layer : kLayers) {
    if (is_emulated() && layer.second.c_in > 256) continue;
    const Conv2dParams p = params_of(layer);
    const Conv2dParams one = joined(p);
    const Data both = random_data(one, seed += 10);
    const OracleConv conv = oracle_of(one);
    const std::vector<std::size_t> pixels = sample_pixels(conv, seed, kSampledPixels);
    const Oracle oracle = conv2d_at(conv, pixels, both.x, both.weight, both.bias, {});
    const int shape[] = {static_cast<int>(pixels.size()), p.c_out};
    const Device together(p, apart(p, both));
    const Device side_by_side(one, both);
    ran += for_each_variant(p, [&](Conv2dVariant variant) {
      CAPTURE(name(variant), p);
      const std::vector<float> y = together.run(variant);
      REQUIRE(compare_elements(gather(y, pixels, p.c_out), oracle.value, bounds_of(variant, one, oracle), shape));
      // The same slices in the same order.
      if (p.c_in % kernels::conv2d_tile(variant).bk == 0) REQUIRE(compare_bits(y, side_by_side.run(variant)));
    });
  }
  if (ran == 0) MOBICUDA_SKIP("tensor cores need a GPU of sm_80 or newer");
}

TEST_CASE("conv2d: a second convolution is run by variants that are made for it, and where it has the pixels of y") {
  constexpr kernels::DeviceTraits kHopper = kernels::traits_of(90, 132);
  const Conv2dParams p = params_of({2, 7, 7, 512, 256, {1024, 14, 14, 2, 2}});
  if (!supports(Wgmma128x64x64, joined(p), kHopper)) MOBICUDA_SKIP("built without code for sm_90a");
  for (const Conv2dVariant variant : kernels::conv2d_variants()) {
    CAPTURE(name(variant));
    CHECK(supports(variant, p, kHopper) == takes_second(variant));
    if (!takes_second(variant)) continue;
    const auto refuses = [&](auto&& change) {
      Conv2dParams other = p;
      change(other);
      CHECK(!supports(variant, other, kHopper));
    };
    refuses([](Conv2dParams& o) { o.residual = true; });
    refuses([](Conv2dParams& o) { o.max_pool = true; });
    refuses([](Conv2dParams& o) { o.second.h = 15; });
    refuses([](Conv2dParams& o) { o.second.w = 12; });
    refuses([](Conv2dParams& o) { o.second.c_in = 1020; });
    refuses([](Conv2dParams& o) { o.second.c_in = -8; });
    refuses([](Conv2dParams& o) { o.second.stride_h = 0; });
    refuses([](Conv2dParams& o) { o.second.stride_w = 16; });
    refuses([](Conv2dParams& o) { o.n = 1 << 28; });  // rows of x2 that 31 bits do not hold
    refuses([](Conv2dParams& o) { o.groups = 2; });
    refuses([](Conv2dParams& o) { o.kernel_h = o.kernel_w = 3; });
    refuses([](Conv2dParams& o) { o.stride_h = o.stride_w = 2; });
    refuses([](Conv2dParams& o) { o.elem = Elem::F32; });
  }
}

TEST_CASE("conv2d: a second convolution whose input is missing is refused") {
  const Conv2dParams p = params_of({1, 7, 7, 64, 64, {64, 14, 14, 2, 2}});
  if (!supports(Wgmma128x64x64, p, gpu_traits())) MOBICUDA_SKIP("wgmma needs a GPU of sm_90 and code for sm_90a");
  const float something = 0;
  float y = 0;
  CHECK(kernels::conv2d(Wgmma128x64x64, p, &something, &something, &something, nullptr, &y, {}) ==
        cudaErrorInvalidValue);
}

}  // namespace
}  // namespace mobicuda::test
