// Which kernel the rule takes for an int8 block: kernels/int8_inverted_residual/README.md has the times. No GPU is
// needed.
#include <algorithm>
#include <string>
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

kernels::DeviceTraits with_compiler(int capability, int multiprocessors) {
  kernels::DeviceTraits gpu = kernels::traits_of(capability, multiprocessors);
  gpu.compiles = true;
  return gpu;
}

// A variant's name, or "layers".
std::string choice(const kernels::DeviceTraits& gpu, int n, const test::InvertedResidualLayer& layer) {
  const auto chosen = Rules(gpu, {}).fused(block(n, layer));
  return chosen ? std::string(name(chosen->variant)) : "layers";
}

TEST_CASE("the rule has a variant of each early int8 block for GPUs with less shared memory") {
  constexpr int kLate = 96;  // channels of x or y from which on none fits 99 KB
  for (const int capability : {80, 86, 89, 120}) {
    for (const test::InvertedResidualLayer& layer : test::kMobileNetV2Blocks) {
      if (!layer.expands() || layer.c_in >= kLate || layer.c_out >= kLate) continue;
      for (const int n : {1, 2, 8, 20, 32, 64, 70, 128, 160, 256}) {
        CAPTURE(capability, layer.name, n);
        const kernels::DeviceTraits gpu = kernels::traits_of(capability, 84);
        const std::string chosen = choice(gpu, n, layer);
        CHECK(chosen != "layers");
        // Not the first of all variants that runs, which is one for few images.
        constexpr int kMany = 64;
        CHECK((n < kMany || (chosen.find("_2x") == std::string::npos && chosen.find("_4x8") == std::string::npos)));
      }
    }
  }
}

TEST_CASE("the rule has int8 blocks compiled that the library has no tiles for") {
  const kernels::DeviceTraits gpu = with_compiler(90, 132);
  const kernels::DeviceTraits without = kernels::traits_of(90, 132);
  // Of width 0.5, 1.4, and of 1.0 at 160 and 224 pixels.
  const test::InvertedResidualLayer narrow{"narrow", 28, 16, 96, 16, 1};
  const test::InvertedResidualLayer wide{"wide", 14, 88, 528, 136, 1};
  const test::InvertedResidualLayer odd{"odd", 20, 32, 192, 32, 1};
  const test::InvertedResidualLayer sevens{"sevens", 28, 32, 192, 32, 1};
  for (const int n : {1, 8, 128}) {
    CAPTURE(n);
    CHECK(choice(gpu, n, narrow).starts_with("int8_block_1_16_96_16_"));
    CHECK(choice(gpu, n, wide).starts_with("int8_block_1_88_528_136_"));
    CHECK(choice(gpu, n, sevens).find("int8_block") == std::string::npos);
    CHECK(choice(with_compiler(80, 108), n, narrow).ends_with("_1"));  // no cluster
    CHECK(choice(without, n, narrow) == "layers");
    CHECK(choice(without, n, odd).starts_with("s1_"));
  }
  // Tiles of sevens cost much where there are many.
  CHECK(choice(gpu, 1, odd).starts_with("s1_"));
  CHECK(choice(gpu, 128, odd).starts_with("int8_block_1_32_192_32_"));
}

TEST_CASE("the rule leaves int8 blocks of many products apart where wgmma runs them for many images") {
  const test::InvertedResidualLayer last{"last", 7, 224, 1344, 448, 1};
  const test::InvertedResidualLayer large{"large", 14, 136, 816, 136, 1};
  CHECK(choice(with_compiler(90, 132), 1, last).starts_with("int8_block_"));
  CHECK(choice(with_compiler(90, 132), 32, last) == "layers");
  CHECK(choice(with_compiler(90, 132), 128, large).starts_with("int8_block_"));
  const test::InvertedResidualLayer both{"both", 14, 168, 1008, 168, 1};  // a large image and very many products
  CHECK(choice(with_compiler(90, 132), 128, both) == "layers");
  CHECK(choice(with_compiler(80, 108), 128, large).starts_with("int8_block_"));
}

}  // namespace
}  // namespace mobicuda
