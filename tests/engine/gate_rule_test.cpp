// Which kernel the rule takes for the gate of a squeeze-and-excite block: kernels/squeeze_excite/README.md has the
// times. No GPU is needed.
#include <optional>

#include "choose/rules.h"
#include "support/catch.h"
#include "support/network_shapes.h"

namespace mobicuda {
namespace {

using kernels::Elem;
using kernels::SqueezeExciteParams;
using kernels::SqueezeExciteVariant;

constexpr kernels::DeviceTraits kH100 = kernels::traits_of(90, 132);

SqueezeExciteParams gate(Elem elem, int n, const test::GateLayer& layer) {
  SqueezeExciteParams p;
  p.elem = elem;
  p.n = n;
  p.pixels = layer.pixels;
  p.c = layer.channels;
  p.squeezed = layer.squeezed;
  return p;
}

std::optional<SqueezeExciteVariant> fused(const Rules& rules, const SqueezeExciteParams& params) {
  const auto found = rules.fused(params);
  return found ? std::optional(found->variant) : std::nullopt;
}

TEST_CASE("the rule shares a gate's image among as many blocks as fill the GPU") {
  using enum SqueezeExciteVariant;
  const Rules rule(kH100, {});
  const auto in_half = [&](int n, const test::GateLayer& layer) { return fused(rule, gate(Elem::F16, n, layer)); };
  CHECK(in_half(1, {196, 96, 24}) == Bands8);
  CHECK(in_half(32, {196, 96, 24}) == Bands2);
  CHECK(in_half(256, {196, 96, 24}) == Bands2);
  CHECK(in_half(1, {196, 120, 32}) == Bands8);
  CHECK(in_half(8, {3136, 16, 8}) == Bands8);
  CHECK(in_half(9, {3136, 16, 8}) == Bands4);
  CHECK(in_half(256, {3136, 16, 8}) == Bands4);  // an SM has room for several blocks
  CHECK(in_half(256, {12544, 32, 8}) == Bands8);
  CHECK(in_half(17, {196, 144, 40}) == Bands2);
  CHECK(in_half(8, {49, 576, 144}) == Slices8);
  CHECK(in_half(9, {49, 576, 144}) == Slices4);
  CHECK(in_half(32, {49, 288, 72}) == Slices2);
  CHECK(in_half(34, {49, 288, 72}) == Slices1);
}

TEST_CASE("the rule leaves a gate to its layers where no variant runs it") {
  const Rules rule(kH100, {});
  const auto fuses = [&](Elem elem, const test::GateLayer& layer) {
    return fused(rule, gate(elem, 1, layer)) != std::nullopt;
  };
  for (const Elem elem : {Elem::F16, Elem::F32}) {
    for (const test::GateLayer& layer : test::kMobileNetV3SmallGates) CHECK(fuses(elem, layer));
    for (const test::GateLayer& layer : test::kGates) {
      CAPTURE(layer.pixels, layer.channels);
      // In float an eighth of both matrices is larger than shared memory.
      const bool too_large = elem == Elem::F32 && layer.channels * layer.squeezed == 960 * 240;
      CHECK(fuses(elem, layer) == !too_large);
    }
  }
  CHECK_FALSE(fuses(Elem::F64, {49, 96, 24}));
  CHECK(fused(Rules(kernels::traits_of(80, 108), {}), gate(Elem::F16, 1, {49, 96, 24})) == std::nullopt);
}

}  // namespace
}  // namespace mobicuda
