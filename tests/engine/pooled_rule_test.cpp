// Which kernel the rule takes for a convolution with a maximum over 2x2 behind it, and for two that are added. No GPU
// is needed.
#include <optional>

#include "choose/rules.h"
#include "support/catch.h"

namespace mobicuda {
namespace {

using kernels::Conv2dParams;
using kernels::Conv2dVariant;
using kernels::Elem;

constexpr kernels::DeviceTraits kH100 = kernels::traits_of(90, 132);

Conv2dParams pooled(int n, int extent, int c_in, int c_out) {
  Conv2dParams p;
  p.elem = Elem::F16;
  p.n = n;
  p.h = p.w = p.out_h = p.out_w = extent;
  p.c_in = c_in;
  p.c_out = c_out;
  p.kernel_h = p.kernel_w = 3;
  p.pad_top = p.pad_left = 1;
  p.max_pool = true;
  return p;
}

std::optional<Conv2dVariant> fused(const Rules& rules, const Conv2dParams& params) {
  const auto found = rules.fused(params);
  return found ? std::optional(found->variant) : std::nullopt;
}

TEST_CASE("the rule takes one launch for a convolution and a maximum behind it, by the variant of the shortest time") {
  const Rules rule(kH100, {});
  if (!rule.runs(pooled(32, 224, 64, 64))) MOBICUDA_SKIP("built without code for sm_90a");
  CHECK(fused(rule, pooled(32, 224, 64, 64)) == Conv2dVariant::Wgmma224x64x64Patch8Pooled);
  CHECK(fused(rule, pooled(32, 28, 512, 512)) == Conv2dVariant::Wgmma256x128x64Pooled);
  CHECK(fused(rule, pooled(32, 14, 512, 512)) == Conv2dVariant::Wgmma224x64x64Patch16Pooled);
  CHECK(fused(rule, pooled(1, 28, 512, 512)) == std::nullopt);  // 26 tiles of 132
  CHECK(fused(Rules(kH100, {{"pool", "fused"}}), pooled(1, 28, 512, 512)) ==
        Conv2dVariant::Wgmma224x64x64Patch16Pooled);
}

TEST_CASE("the rule leaves a convolution and a maximum apart where no variant runs both, or where it is asked to") {
  const Rules rule(kH100, {});
  CHECK(fused(rule, pooled(32, 224, 3, 64)) == std::nullopt);
  CHECK(fused(Rules(kernels::traits_of(80, 108), {}), pooled(32, 224, 64, 64)) == std::nullopt);
  CHECK(fused(Rules(kH100, {{"pool", "layers"}}), pooled(32, 224, 64, 64)) == std::nullopt);
  CHECK(fused(Rules(kH100, {{"conv2d", "wgmma_256x128x64_tile"}}), pooled(32, 224, 64, 64)) == std::nullopt);
  Conv2dParams floats = pooled(32, 224, 64, 64);
  floats.elem = Elem::F32;
  CHECK(fused(rule, floats) == std::nullopt);
}

TEST_CASE("the rule takes one sum for two pointwise convolutions that are added, where a variant runs it") {
  Conv2dParams p = pooled(1, 28, 128, 512);
  p.max_pool = false;
  p.kernel_h = p.kernel_w = 1;
  p.pad_top = p.pad_left = 0;
  p.second = {256, 56, 56, 2, 2};
  const Rules rule(kH100, {});
  CHECK(fused(Rules(kernels::traits_of(75, 40), {}), p) == std::nullopt);
  CHECK(fused(Rules(kernels::traits_of(80, 108), {}), p) != std::nullopt);
  CHECK(fused(Rules(kH100, {{"projection", "layers"}}), p) == std::nullopt);
  if (!rule.runs(p)) MOBICUDA_SKIP("built without code for sm_90a");
  CHECK(fused(rule, p) != std::nullopt);
  CHECK(fused(Rules(kH100, {{"pool", "layers"}}), p) != std::nullopt);
  CHECK(fused(Rules(kH100, {{"conv2d", "wgmma_128x64x64_s2"}}), p) == Conv2dVariant::Wgmma128x64x64S2);
}

}  // namespace
}  // namespace mobicuda
