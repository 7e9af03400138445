// Which kernel the rule takes for the last pointwise convolution and the pool behind it:
// kernels/pointwise_pool/README.md has the times. No GPU is needed.
#include <optional>

#include "choose/rules.h"
#include "support/catch.h"

namespace mobicuda {
namespace {

using kernels::Elem;
using kernels::PointwisePoolParams;
using kernels::PointwisePoolVariant;

constexpr kernels::DeviceTraits kH100 = kernels::traits_of(90, 132);

/// Of MobileNetV2.
PointwisePoolParams head(Elem elem, int n) {
  PointwisePoolParams p;
  p.elem = elem;
  p.n = n;
  p.pixels = 49;
  p.c_in = 320;
  p.c = 1280;
  p.bias = true;
  p.activation = kernels::Clip{0.0F, 6.0F};
  return p;
}

std::optional<PointwisePoolVariant> fused(const Rules& rules, const PointwisePoolParams& params) {
  const auto found = rules.fused(params);
  return found ? std::optional(found->variant) : std::nullopt;
}

TEST_CASE("the rule fuses the head of up to four pictures in float") {
  using enum PointwisePoolVariant;
  const Rules rule(kH100, {});
  for (const int n : {1, 2, 4}) {
    CAPTURE(n);
    CHECK(fused(rule, head(Elem::F32, n)) == SimtSlice16);
  }
  for (const int n : {5, 16, 256}) {
    CAPTURE(n);
    CHECK(fused(rule, head(Elem::F32, n)) == std::nullopt);
  }
  PointwisePoolParams narrow = head(Elem::F32, 4);
  narrow.c = 1288;
  CHECK(fused(rule, narrow) == SimtSlice8);
  PointwisePoolParams wide = head(Elem::F32, 1);
  wide.c_in = 448;
  CHECK(fused(rule, wide) == std::nullopt);
  CHECK(fused(Rules(kernels::traits_of(75, 40), {}), head(Elem::F32, 1)) == SimtSlice16);
}

TEST_CASE("the rule takes variants of half for heads in half only") {
  using enum PointwisePoolVariant;
  const Rules rule(kernels::traits_of(80, 108), {});
  CHECK(fused(rule, head(Elem::F16, 1)) == Slice16);
  CHECK(fused(rule, head(Elem::F16, 8)) == std::nullopt);
  CHECK(fused(rule, head(Elem::F16, 16)) == Pictures2N128);
  CHECK(fused(rule, head(Elem::F64, 1)) == std::nullopt);
}

TEST_CASE("a name decides how the head runs in float") {
  using enum PointwisePoolVariant;
  CHECK(fused(Rules(kH100, {{"head", "layers"}}), head(Elem::F32, 1)) == std::nullopt);
  CHECK(fused(Rules(kH100, {{"head", "fused"}}), head(Elem::F32, 32)) == SimtSlice16);
  CHECK(fused(Rules(kH100, {{"pointwise_pool", "simt_slice8"}}), head(Elem::F32, 1)) == SimtSlice8);
  CHECK(fused(Rules(kH100, {{"pointwise_pool", "slice16"}}), head(Elem::F32, 1)) == std::nullopt);
}

}  // namespace
}  // namespace mobicuda
