// Which kernel the rule takes for a gate and the projection behind it. No GPU is needed.
#include <optional>

#include "choose/chooser.h"
#include "choose/rules.h"
#include "lower/lower.h"
#include "support/catch.h"
#include "support/graphs.h"

namespace mobicuda {
namespace {

using kernels::Elem;
using kernels::GatedPointwiseParams;
using kernels::GatedPointwiseVariant;
using test::TestNetwork;

constexpr kernels::DeviceTraits kH100 = kernels::traits_of(90, 132);

GatedPointwiseParams block(int n, int pixels, int c, int squeezed, int out) {
  GatedPointwiseParams p;
  p.n = n;
  p.pixels = pixels;
  p.c = c;
  p.squeezed = squeezed;
  p.out = out;
  return p;
}

std::optional<GatedPointwiseVariant> fused(const Rules& rules, const GatedPointwiseParams& params) {
  const auto found = rules.fused(params);
  return found ? std::optional(found->variant) : std::nullopt;
}

TEST_CASE("the rule takes one launch for the gates of many images, by as many bands as were the fastest") {
  using enum GatedPointwiseVariant;
  const Rules rule(kH100, {});
  CHECK(fused(rule, block(32, 196, 144, 40, 48)) == Bands2);
  CHECK(fused(rule, block(64, 784, 120, 32, 40)) == Bands2);
  CHECK(fused(rule, block(64, 196, 96, 24, 40)) == Bands2);
  CHECK(fused(rule, block(128, 784, 120, 32, 40)) == Bands1);
  CHECK(fused(rule, block(128, 784, 240, 10, 40)) == Bands2);  // 376 KB of x
  CHECK(fused(rule, block(128, 12544, 32, 8, 16)) == Bands8);
}

TEST_CASE("the rule leaves a gate and its projection apart where no variant runs them, or where it is asked to") {
  const Rules rule(kH100, {});
  CHECK(fused(rule, block(1, 784, 120, 32, 40)) == std::nullopt);
  CHECK(fused(rule, block(32, 784, 120, 32, 40)) == std::nullopt);
  CHECK(fused(rule, block(32, 196, 240, 10, 80)) == std::nullopt);
  CHECK(fused(rule, block(64, 196, 480, 20, 80)) == std::nullopt);
  CHECK(fused(rule, block(64, 49, 960, 240, 160)) == std::nullopt);
  GatedPointwiseParams p = block(64, 784, 120, 32, 40);
  REQUIRE(fused(rule, p) != std::nullopt);
  CHECK(fused(Rules(kernels::traits_of(80, 108), {}), p) == std::nullopt);
  for (const char* option : {"gated_project", "gate"}) {
    CHECK(fused(Rules(kH100, {{option, "layers"}}), p) == std::nullopt);
    CHECK(fused(Rules(kH100, {{option, "fused"}}), block(64, 49, 960, 240, 160)) != std::nullopt);
  }
  CHECK(fused(Rules(kH100, {{"gated_pointwise", "bands8"}}), p) == GatedPointwiseVariant::Bands8);
  p.elem = Elem::F32;
  CHECK(fused(Rules(kH100, {}), p) == std::nullopt);
  p.elem = Elem::F16;
  p.out = 12;
  CHECK(fused(Rules(kH100, {}), p) == std::nullopt);
}

/// Chosen kernels of a network with a gate whose product has so many readers.
std::string choices_of(Precision precision, bool two_readers, bool residual, const std::string& form = {}) {
  TestNetwork network(Shape{1, 3, 32, 24});
  const ValueId x = network.conv(32, 3, 2, {1, 1, 1, 1});
  network.add(GlobalAveragePool{}, {x});
  network.conv(8, 1, 1, {}, 1, Activation::relu());
  network.conv(32, 1, 1, {}, 1, Activation{0.0F, 1.0F});
  const ValueId gated = network.add(Mul{}, {x, network.last()});
  network.conv(32, 1);
  if (residual) network.add(Add{Activation::relu()}, {network.last(), x});
  if (two_readers) network.add(Add{}, {network.last(), gated});
  network.conv(8, 3);
  network.head(10);
  EngineOptions options;
  options.precision = precision;
  options.max_batch = 2;
  if (!form.empty()) options.kernel_variants["gated_project"] = form;
  std::string text;
  for (const SavedChoice& choice : choose_layers(optimize(std::move(network).build()), options, kH100).choices) {
    text += ' ' + choice.kernel + '/' + choice.variant;
  }
  return text;
}

TEST_CASE("a gate and the projection behind it are one launch where nobody else reads the gated values") {
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  for (const bool residual : {false, true}) {
    CAPTURE(residual);
    const std::string fused = choices_of(Precision::Fp16, false, residual, "fused");
    CHECK(has(fused, " gated_pointwise/bands2"));
    CHECK_FALSE(has(fused, " squeeze_excite/"));
    const std::string apart = choices_of(Precision::Fp16, false, residual, "layers");
    CHECK(has(apart, " gated_pointwise/ squeeze_excite/bands8"));
    CHECK(has(apart, " gemm/"));
  }
  for (const Precision precision : {Precision::Fp32, Precision::Fp64}) {
    CHECK_FALSE(has(choices_of(precision, false, true, "fused"), "gated_pointwise"));
  }
  const std::string two = choices_of(Precision::Fp16, true, true, "fused");
  CHECK_FALSE(has(two, "gated_pointwise"));
  CHECK(has(two, " squeeze_excite/bands8"));
}

}  // namespace
}  // namespace mobicuda
