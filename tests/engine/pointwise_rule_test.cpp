// Which kernel the rule takes for a pointwise convolution: kernels/conv2d/README.md has the times. No GPU is needed.
#include <tuple>

#include "choose/rules.h"
#include "support/catch.h"

namespace mobicuda {
namespace {

constexpr kernels::DeviceTraits kH100 = kernels::traits_of(90, 132);

kernels::Conv2dParams pointwise(int n, int size, int c_in, int c_out, bool residual = false) {
  kernels::Conv2dParams p;
  p.elem = kernels::Elem::F16;
  p.n = n;
  p.h = p.w = p.out_h = p.out_w = size;
  p.c_in = c_in;
  p.c_out = c_out;
  p.residual = residual;
  return p;
}

TEST_CASE("the rule runs pointwise layers by wgmma where that is expected to be faster") {
  const Rules rule(kH100, {});
  if (!kernels::supports(kernels::Conv2dVariant::Wgmma128x128x64, pointwise(32, 14, 512, 512),
                         kernels::traits_of(90, 132))) {
    MOBICUDA_SKIP("built without code for sm_90a");
  }
  for (const auto& p : {pointwise(32, 14, 512, 512), pointwise(32, 28, 128, 256), pointwise(32, 14, 1024, 256),
                        pointwise(32, 28, 512, 256), pointwise(32, 7, 2048, 512), pointwise(32, 7, 512, 2048, true),
                        pointwise(32, 56, 64, 256, true), pointwise(32, 14, 1024, 128), pointwise(32, 56, 256, 128),
                        pointwise(32, 54, 96, 96)}) {
    CAPTURE(p.h, p.c_in, p.c_out);
    CHECK(rule.pointwise(p) == PointwiseKernel::Conv2d);
  }
  for (const auto& p : {pointwise(32, 7, 1024, 128), pointwise(32, 28, 240, 40, true), pointwise(1, 7, 2048, 512),
                        pointwise(1, 7, 160, 960), pointwise(1, 14, 112, 672), pointwise(8, 14, 128, 96),
                        pointwise(8, 56, 24, 72), pointwise(32, 27, 32, 128)}) {
    CAPTURE(p.n, p.h, p.c_in, p.c_out);
    CHECK(rule.pointwise(p) == PointwiseKernel::Gemm);
  }
}

TEST_CASE("short sums of many rows for many columns go by whole rows") {
  using enum kernels::GemmVariant;
  const Rules rule(kH100, {});
  const auto product = [](int m, int k, int n) {
    kernels::GemmParams p;
    p.elem = p.output = kernels::Elem::F16;
    p.m = m;
    p.k = k;
    p.n = n;
    return p;
  };
  for (const auto& [size, k, n] : {std::tuple{56, 24, 144}, {56, 24, 72}, {56, 32, 96}, {56, 64, 128}, {112, 32, 64}}) {
    CAPTURE(size, k, n);
    CHECK(rule.pointwise(pointwise(32, size, k, n)) == PointwiseKernel::Gemm);
    CHECK(rule.variant(product(32 * size * size, k, n)).variant == MmaRows);
    CHECK(Rules(kernels::traits_of(80, 108), {}).variant(product(32 * size * size, k, n)).variant != MmaRows);
  }
  CHECK(rule.variant(product(32 * 28 * 28, 32, 192)).variant != MmaRows);   // a tile or none for a warp
  CHECK(rule.variant(product(32 * 112 * 112, 32, 16)).variant != MmaRows);  // few columns
  kernels::GemmParams added = product(32 * 56 * 56, 24, 144);
  added.residual = true;
  CHECK(rule.variant(added).variant != MmaRows);
}

TEST_CASE("the rule runs pointwise layers of one or two slices by patches, with HardSwish and Silu too") {
  using enum kernels::Conv2dVariant;
  if (!kernels::supports(Wgmma128x128x64, pointwise(32, 14, 512, 512), kernels::traits_of(90, 132))) {
    MOBICUDA_SKIP("built without code for sm_90a");
  }
  const Rules rule(kH100, {});
  for (const kernels::ActivationKind kind :
       {kernels::ActivationKind::Clip, kernels::ActivationKind::HardSwish, kernels::ActivationKind::Silu}) {
    kernels::Conv2dParams p = pointwise(32, 14, 112, 672);
    p.activation.kind = kind;
    CHECK(rule.pointwise(p) == PointwiseKernel::Conv2d);
    CHECK(rule.variant(p).variant == Wgmma224x64x64Patch16);
  }
  kernels::Conv2dParams curved = pointwise(32, 14, 512, 512);
  curved.activation.kind = kernels::ActivationKind::HardSwish;
  CHECK(rule.pointwise(curved) == PointwiseKernel::Gemm);
  CHECK(rule.variant(pointwise(32, 14, 1024, 256)).variant != Wgmma224x64x64Patch16);
}

TEST_CASE("residuals whose rows do not begin on sectors are not read by tensor copies") {
  using enum kernels::Conv2dVariant;
  if (!kernels::supports(Wgmma128x128x64, pointwise(32, 14, 512, 512), kernels::traits_of(90, 132))) {
    MOBICUDA_SKIP("built without code for sm_90a");
  }
  const Rules rule(kH100, {});
  CHECK(rule.variant(pointwise(32, 14, 672, 112, true)).variant == Wgmma64x64x64Tile);
  CHECK(rule.variant(pointwise(32, 14, 624, 104, true)).variant == Wgmma128x64x64);
  CHECK(rule.variant(pointwise(32, 28, 168, 56, true)).variant == Wgmma256x64x64);
  CHECK(rule.variant(pointwise(8, 28, 168, 56, true)).variant == Wgmma64x64x64Tile);  // few rows for each SM
}

TEST_CASE("a name decides what runs a pointwise layer") {
  const kernels::Conv2dParams large = pointwise(32, 14, 512, 512);
  const kernels::Conv2dParams small = pointwise(1, 7, 64, 64);
  CHECK(Rules(kH100, {{"pointwise", "gemm"}}).pointwise(large) == PointwiseKernel::Gemm);
  CHECK(Rules(kH100, {{"pointwise", "conv2d"}}).pointwise(small) == PointwiseKernel::Conv2d);
  CHECK(Rules(kH100, {{"gemm", "mma_64x64x64"}}).pointwise(large) == PointwiseKernel::Gemm);
}

}  // namespace
}  // namespace mobicuda
