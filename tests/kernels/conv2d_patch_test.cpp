// The variants of conv2d on wgmma that go through patches of pixels, whose input stays in shared memory for all taps.
#include <limits>
#include <vector>

#include "conv2d_case.h"
#include "support/emulated.h"

namespace mobicuda::test {
namespace {

using namespace conv2d_case;
using enum Conv2dVariant;

// Sums in the same order, of pixels that are gathered anew for each tap; of more than 64 channels, of a window.
constexpr Conv2dVariant kPlain = Wgmma256x64x64;
constexpr Conv2dVariant kOfSlices = Wgmma128x64x64Window;
constexpr Conv2dVariant kPatches[] = {Wgmma224x64x64Patch8, Wgmma224x64x64Patch16};
constexpr Conv2dVariant kPooledPatches[] = {Wgmma224x64x64Patch8Pooled, Wgmma224x64x64Patch16Pooled};
constexpr kernels::DeviceTraits kHopper = kernels::traits_of(90, 132);

Conv2dParams patch_params(const WindowLayer& layer) {
  Conv2dParams p = params_of(layer);
  p.bias = true;
  p.activation = kernels::Clip{-1.0F, 6.0F};
  return p;
}

// Pixels around a patch's 8, 14, 16 and 28 and a box's 7 and 8, with and without a partner in pooling; channels around
// 16 and 64; windows of one row, of one column, without padding and with more of it at one side; images of several
// patches and several for a group of warps, of which a last one has none. Weights that stay, and more than there is
// room for: of several slices of channels, of many taps; rings that wrap around.
constexpr WindowLayer kLayers[] = {
    {1, 1, 1, 8, 8, 1, 1, 0, 0, 1, 1},          {1, 2, 2, 64, 64, 3, 3, 1, 1, 2, 2},
    {1, 3, 5, 64, 16, 3, 3, 1, 1, 3, 5},        {2, 8, 9, 24, 72, 3, 3, 1, 1, 8, 9},
    {1, 16, 16, 64, 64, 3, 3, 1, 1, 16, 16},    {3, 17, 15, 40, 64, 3, 3, 1, 1, 17, 15},
    {2, 19, 34, 64, 136, 3, 3, 0, 0, 17, 32},   {1, 33, 20, 16, 8, 2, 3, 1, 2, 33, 20},
    {1, 20, 40, 48, 40, 1, 7, 0, 3, 20, 40},    {1, 40, 18, 64, 64, 7, 1, 3, 0, 40, 18},
    {2, 30, 50, 32, 128, 1, 1, 0, 0, 30, 50},   {13, 16, 16, 64, 64, 3, 3, 1, 1, 16, 16},
    {1, 14, 16, 128, 64, 3, 3, 1, 1, 14, 16},   {1, 15, 17, 136, 72, 3, 3, 1, 1, 15, 17},
    {2, 13, 30, 320, 136, 3, 3, 1, 1, 13, 30},  {1, 29, 33, 64, 64, 5, 5, 2, 2, 29, 33},
    {9, 14, 14, 192, 128, 3, 3, 1, 1, 14, 14},  {2, 90, 100, 64, 64, 3, 3, 1, 1, 90, 100},
    {2, 90, 100, 32, 304, 3, 3, 1, 1, 90, 100}, {3, 128, 113, 56, 200, 3, 3, 1, 1, 128, 113},
    {5, 56, 60, 256, 200, 3, 3, 1, 1, 56, 60}};

Conv2dVariant reference_of(const Conv2dParams& p) { return p.c_in > 64 ? kOfSlices : kPlain; }

bool is_large(const WindowLayer& layer) { return layer.h > 50; }

TEST_CASE("conv2d: patches have the bits of gathered pixels", "[sanitize]") {
  std::uint32_t seed = 17000;
  for (const WindowLayer& layer : kLayers) {
    if (is_emulated() && is_large(layer)) continue;
    Conv2dParams p = patch_params(layer);
    CAPTURE(p);
    if (!supports(kPlain, p, gpu_traits())) MOBICUDA_SKIP("wgmma needs a GPU of sm_90 and code for sm_90a");
    p.bias = layer.n != 2;
    const Device device(p, random_data(p, seed += 10));
    const std::vector<float> expected = device.run(reference_of(p));
    for (const Conv2dVariant variant : kPatches) {
      CAPTURE(name(variant));
      REQUIRE(supports(variant, p, gpu_traits()));
      CHECK(compare_bits(device.run(variant), expected));
    }
  }
}

TEST_CASE("conv2d: patches with a maximum over 2x2 have the bits of one behind the convolution", "[sanitize]") {
  std::uint32_t seed = 18000;
  for (const WindowLayer& layer : kLayers) {
    if ((is_emulated() && is_large(layer)) || layer.out_h < 2 || layer.out_w < 2) continue;
    for (const bool special : {false, true}) {
      Conv2dParams p = patch_params(layer);
      p.bias = !special;
      if (special) p.activation = kernels::Clip{0.0F, 6.0F};
      Data data = random_data(p, seed += 10);
      if (special) {
        data.x[data.x.size() / 2] = std::numeric_limits<float>::quiet_NaN();
        data.x[data.x.size() / 3] = std::numeric_limits<float>::infinity();
      }
      Conv2dParams pooled = p;
      pooled.max_pool = true;
      CAPTURE(p);
      if (!supports(kPlain, p, gpu_traits())) MOBICUDA_SKIP("wgmma needs a GPU of sm_90 and code for sm_90a");
      const Device together(pooled, data);
      const std::vector<float> expected = pool_outputs(p, Device(p, data).run(reference_of(p)));
      for (const Conv2dVariant variant : kPooledPatches) {
        CAPTURE(name(variant));
        REQUIRE(supports(variant, pooled, gpu_traits()));
        CHECK(compare_bits(together.run(variant), expected));
      }
    }
  }
}

TEST_CASE("conv2d: patches are of stride 1, without a residual") {
  Conv2dParams p = patch_params({1, 20, 20, 64, 64, 3, 3, 1, 1, 20, 20});
  if (!supports(kPlain, p, kHopper)) MOBICUDA_SKIP("built without code for sm_90a");
  for (const Conv2dVariant variant : kPatches) REQUIRE(supports(variant, p, kHopper));
  for (const Conv2dVariant variant : kPooledPatches) CHECK_FALSE(supports(variant, p, kHopper));
  const auto refused = [&](const auto& change) {
    Conv2dParams other = p;
    change(other);
    return supports(kPlain, other, kHopper) && !supports(Wgmma224x64x64Patch8, other, kHopper);
  };
  CHECK(refused([](Conv2dParams& q) { q.residual = true; }));
  CHECK(refused([](Conv2dParams& q) { q.stride_h = 2; }));
  CHECK(refused([](Conv2dParams& q) { q.dilation_w = 2; }));
  CHECK(refused([](Conv2dParams& q) {
    q.kernel_h = 17;
    q.pad_top = 8;
  }));
}

}  // namespace
}  // namespace mobicuda::test
