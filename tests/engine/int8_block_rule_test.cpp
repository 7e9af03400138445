// Which kernel the rule takes for an int8 block: kernels/int8_inverted_residual/README.md has the times. No GPU is
// needed.
#include <algorithm>
#include <string_view>

#include "choose/rules.h"
#include "support/catch.h"
#include "support/network_shapes.h"

namespace mobicuda {
namespace {

kernels::Int8InvertedResidualParams block(int n, const test::InvertedResidualLayer& layer) {
  kernels::Int8InvertedResidualParams p;
  p.n = n;
  p.h = p.w = layer.size;
  p.c_in = layer.c_in;
  p.c_hidden = layer.c_hidden;
  p.c_out = layer.c_out;
  p.stride = layer.stride;
  p.out_h = p.out_w = layer.out_size();
  p.pad_top = p.pad_left = 1;
  p.residual = layer.has_residual();
  return p;
}

TEST_CASE("the rule shares tiles of an int8 block among SMs where there are few images and the GPU has clusters") {
  constexpr int kLarge = 56;  // maps of x that have enough tiles
  const auto shares = [](const kernels::DeviceTraits& gpu, int n, const test::InvertedResidualLayer& layer) {
    const kernels::Int8InvertedResidualParams p = block(n, layer);
    const auto variants = kernels::int8_inverted_residual_variants();
    // Where none runs, as of B12 with the shared memory of sm_80, the layers' own kernels do.
    if (std::none_of(variants.begin(), variants.end(), [&](auto variant) { return supports(variant, p, gpu); }))
      return false;
    return name(Rules(gpu, {}).variant(p).variant).find("cluster") != std::string_view::npos;
  };
  for (const test::InvertedResidualLayer& layer : test::kMobileNetV2Blocks) {
    if (!layer.expands()) continue;
    CAPTURE(layer.name);
    CHECK(shares(kernels::traits_of(90, 132), 1, layer) == (layer.size < kLarge));
    CHECK_FALSE(shares(kernels::traits_of(90, 132), 256, layer));
    CHECK_FALSE(shares(kernels::traits_of(80, 108), 1, layer));
  }
}

}  // namespace
}  // namespace mobicuda
