// The variants of conv2d on wgmma whose input window stays in shared memory for all taps.
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <vector>

#include "conv2d_case.h"
#include "support/emulated.h"

namespace mobicuda::test {
namespace {

using namespace conv2d_case;
using enum Conv2dVariant;

constexpr Conv2dVariant kWindowVariants[] = {Wgmma64x64x64Window,   Wgmma64x64x64WindowS2,  Wgmma64x64x64WindowS4,
                                             Wgmma64x64x64WindowS8, Wgmma128x64x64Window,   Wgmma256x64x64Window,
                                             Wgmma128x128x64Window, Wgmma128x128x64WindowS2};
constexpr Conv2dVariant kPlain = Wgmma128x64x64;  // gathers each tap's pixels anew
constexpr kernels::DeviceTraits kHopper = kernels::traits_of(90, 132);

// One pixel and none to spare; tiles that begin within a row and end in another image; no padding, more of it before
// than behind, less output than there could be; windows of a row or a column; slices that are not full; groups; rows as
// wide as a box; a stride of 2 with padding, without, with some at the end only, and with windows of even extent; one
// slice and three for each of eight blocks; fewer channels than a slice; far more padding than image.
constexpr WindowLayer kLayers[] = {{1, 1, 1, 64, 8, 3, 3, 1, 1, 1, 1},
                                   {2, 14, 14, 136, 136, 3, 3, 1, 1, 14, 14},
                                   {5, 7, 7, 264, 72, 3, 3, 1, 1, 7, 7},
                                   {1, 20, 23, 64, 264, 5, 5, 2, 2, 20, 23},
                                   {3, 9, 12, 64, 64, 3, 3, 0, 0, 7, 10},
                                   {2, 10, 11, 72, 40, 2, 2, 1, 1, 10, 11},
                                   {2, 10, 11, 64, 64, 3, 3, 2, 1, 11, 7},
                                   {2, 17, 17, 128, 192, 1, 7, 0, 3, 17, 17},
                                   {2, 17, 17, 128, 192, 7, 1, 3, 0, 17, 17},
                                   {1, 13, 15, 128, 144, 3, 3, 1, 1, 13, 15, 2},
                                   {1, 3, 255, 64, 64, 3, 3, 1, 1, 3, 255},
                                   {2, 14, 14, 136, 136, 3, 3, 1, 1, 7, 7, 1, 2},
                                   {3, 13, 15, 64, 72, 3, 3, 0, 0, 6, 7, 1, 2},
                                   {2, 12, 15, 64, 64, 3, 3, 0, 0, 6, 8, 1, 2},
                                   {1, 15, 18, 128, 64, 5, 5, 2, 2, 8, 9, 2, 2},
                                   {2, 9, 9, 64, 40, 2, 2, 1, 0, 5, 5, 1, 2},
                                   {1, 3, 249, 64, 64, 3, 3, 1, 1, 2, 125, 1, 2},
                                   {3, 7, 7, 520, 72, 3, 3, 1, 1, 7, 7},
                                   {1, 9, 9, 1544, 40, 3, 3, 1, 1, 5, 5, 1, 2},
                                   {2, 11, 12, 48, 40, 5, 5, 2, 2, 11, 12},
                                   {2, 3, 4, 64, 64, 3, 3, 20, 30, 24, 35}};

// Sums of small whole numbers are the same in every order.
TEST_CASE("conv2d: a window in shared memory gives each tap the pixels that it would gather", "[sanitize]") {
  std::uint32_t seed = 15000;
  std::set<Conv2dVariant> ran;
  for (const WindowLayer& layer : kLayers) {
    for (const bool residual : {false, true}) {
      Conv2dParams p = params_of(layer);
      p.residual = residual;
      p.bias = residual;
      if (residual) p.activation = kernels::Clip{-100.0F, 200.0F};
      if (!supports(kPlain, p, gpu_traits())) MOBICUDA_SKIP("wgmma needs a GPU of sm_90 and code for sm_90a");
      const Device device(p, integer_data(p, seed += 10));
      const std::vector<float> expected = device.run(kPlain);
      for (const Conv2dVariant variant : kWindowVariants) {
        CAPTURE(name(variant), p);
        if (!supports(variant, p, gpu_traits())) continue;
        ran.insert(variant);
        REQUIRE(compare_bits(device.run(variant), expected));
        if (residual) REQUIRE(compare_bits(device.run_in_place(variant), expected));
      }
    }
  }
  CHECK(ran.size() == std::size(kWindowVariants));
}

TEST_CASE("conv2d: a window in shared memory does not let padding's sums or another image's pixels through",
          "[sanitize]") {
  Conv2dParams p = params_of({3, 6, 6, 512, 64, 3, 3, 1, 1, 6, 6});
  Data data = random_data(p, 16000);
  const std::size_t image = input_count(p) / 3;
  for (std::size_t i = 0; i < image; ++i) {
    data.x[i] = std::numeric_limits<float>::quiet_NaN();
    data.x[2 * image + i] = std::numeric_limits<float>::infinity();
  }
  const Device device(p, data);
  for (const Conv2dVariant variant : kWindowVariants) {
    CAPTURE(name(variant));
    if (!supports(kPlain, p, gpu_traits())) MOBICUDA_SKIP("wgmma needs a GPU of sm_90 and code for sm_90a");
    const std::vector<float> y = device.run(variant);
    const std::size_t outputs = y.size() / 3;
    for (std::size_t i = 0; i < outputs; ++i) {
      REQUIRE(std::isnan(y[i]));
      REQUIRE(std::isfinite(y[outputs + i]));
      REQUIRE(!std::isfinite(y[2 * outputs + i]));
    }
  }
}

TEST_CASE("conv2d: what a window in shared memory asks for") {
  const Conv2dParams plain = params_of({32, 14, 14, 512, 256, 3, 3, 1, 1, 14, 14});
  if (!supports(kPlain, plain, kHopper)) MOBICUDA_SKIP("built without code for sm_90a");
  for (const Conv2dVariant variant : kWindowVariants) {
    CAPTURE(name(variant));
    CHECK(supports(variant, plain, kHopper));
    CHECK(!supports(variant, plain, kernels::traits_of(100, 132)));
    const auto refuses = [&](auto change) {
      Conv2dParams p = plain;
      change(p);
      return supports(kPlain, p, kHopper) && !supports(variant, p, kHopper);
    };
    CHECK(refuses([](Conv2dParams& p) { p.stride_h = 2; }));
    CHECK(refuses([](Conv2dParams& p) { p.stride_h = p.stride_w = 3; }));
    CHECK(refuses([](Conv2dParams& p) {
      p.stride_h = p.stride_w = 2;
      p.kernel_h = 1;
    }));
    CHECK(refuses([](Conv2dParams& p) { p.dilation_w = 2; }));
    CHECK(refuses([](Conv2dParams& p) { p.kernel_h = p.kernel_w = 1; }));
    CHECK(refuses([](Conv2dParams& p) { p.pad_left = 0; }));  // two columns at the right
    CHECK(refuses([](Conv2dParams& p) { p.pad_top = 0; }));
    CHECK(refuses([](Conv2dParams& p) { p.w = p.out_w = 256; }));
    CHECK(refuses([](Conv2dParams& p) { p.n = 1 << 24; }));  // rows that 32 bits do not hold
  }
  // Each block of a cluster has a slice of 64 channels.
  const Conv2dParams narrow = params_of({32, 14, 14, 128, 256, 3, 3, 1, 1, 14, 14});
  CHECK(supports(Wgmma128x128x64WindowS2, narrow, kHopper));
  CHECK(!supports(Wgmma64x64x64WindowS4, narrow, kHopper));
  CHECK(!supports(Wgmma64x64x64WindowS8, narrow, kHopper));
}

TEST_CASE("conv2d: work of a window in shared memory counts the padding") {
  const Conv2dParams p = params_of({32, 14, 14, 256, 256, 3, 3, 1, 1, 14, 14});
  if (!supports(kPlain, p, kHopper)) MOBICUDA_SKIP("built without code for sm_90a");
  CHECK(conv2d_work(Wgmma128x128x64Window, p).blocks == 57 * 2);  // of 32 * 15 * 15 pixels and zeros
  CHECK(conv2d_work(Wgmma128x128x64Window, p).slices == 36);
  CHECK(conv2d_work(Wgmma128x128x64WindowS2, p).blocks == 57 * 4);
  // Blocks of a cluster have whole slices: two and one of three.
  CHECK(conv2d_work(Wgmma64x64x64WindowS2, params_of({1, 7, 7, 192, 64, 3, 3, 1, 1, 7, 7})).slices == 18);
  // With a stride of 2 a row of 7 outputs has one pixel of padding, and an image one row.
  const Conv2dParams strided = params_of({4, 14, 14, 64, 64, 3, 3, 1, 1, 7, 7, 1, 2});
  CHECK(conv2d_work(Wgmma64x64x64Window, strided).blocks == 4);
}

}  // namespace
}  // namespace mobicuda::test
