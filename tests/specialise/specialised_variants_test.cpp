// Specialised variants: names and values, what families make for the blocks of MobileNetV2, and what the rule takes.
#include <array>
#include <cstdint>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "choose/rules.h"
#include "inverted_residual_case.h"
#include "kernels/common/specialised_variants.h"
#include "kernels/int8_inverted_residual/int8_inverted_residual.h"
#include "support/catch.h"

namespace mobicuda {
namespace {

using namespace kernels;
using test::inverted_residual_case::block;

DeviceTraits gpu_that_compiles(int capability, int multiprocessors) {
  DeviceTraits gpu = traits_of(capability, multiprocessors);
  gpu.compiles = true;
  return gpu;
}

int channels(double width, int base) {
  const int rounded = std::max(8, static_cast<int>(width * base + 4) / 8 * 8);
  return rounded < 0.9 * width * base ? rounded + 8 : rounded;
}

/// Blocks 2 to 17 of MobileNetV2 of a width, for square images.
std::vector<InvertedResidualParams> blocks(double width, int resolution, int n, Elem elem = Elem::F16) {
  struct Stage {
    int c_out, repeats, stride;
  };
  constexpr Stage kStages[] = {{24, 2, 2}, {32, 3, 2}, {64, 4, 2}, {96, 3, 1}, {160, 3, 2}, {320, 1, 1}};
  std::vector<InvertedResidualParams> found;
  int c_in = channels(width, 16);
  int size = (resolution + 1) / 2;
  for (const Stage& stage : kStages) {
    for (int i = 0; i < stage.repeats; ++i) {
      const int c_out = channels(width, stage.c_out);
      const int stride = i == 0 ? stage.stride : 1;
      found.push_back(block(n, size, size, c_in, 6 * c_in, c_out, stride));
      found.back().elem = elem;
      size = found.back().out_h;
      c_in = c_out;
    }
  }
  return found;
}

TEST_CASE("specialised variants: a name has the family and its values, and is the only one") {
  const ConfigValues values{1, 24, 0, 8192};
  CHECK(specialised_name("strip", values, 4) == "strip_1_24_0_8192");
  CHECK(specialised_values("strip_1_24_0_8192", "strip", 4) == values);
  for (const char* const other :
       {"", "strip", "strip_1_24_0", "strip_1_24_0_8192_1", "strip_1_24_0_8192_", "strip_1_24_0_8193",
        "strip_1_24_0_99999999999", "strip_1_24_-0_8192", "strip_01_24_0_8192", "strip_1_24__8192", "strip_1_24_x_8192",
        "strip1_24_0_8192", "stripe_1_24_0_8192", "cluster_1_24_0_8192"}) {
    INFO(other);
    CHECK_FALSE(specialised_values(other, "strip", 4));
  }
}

TEST_CASE("specialised variants: each is interned once, and there are no more than there may be") {
  SpecialisedVariants variants(2);
  const auto first = variants.intern(0, {1}, "a_1");
  CHECK(variants.intern(0, {1}, "a_1") == first);
  const auto second = variants.intern(1, {2}, "b_2");
  REQUIRE(first);
  REQUIRE(second);
  CHECK(*first != *second);
  CHECK_FALSE(variants.intern(0, {3}, "a_3"));
  CHECK(variants.at(*second).name == "b_2");
  CHECK(variants.at(*second).family == 1);
  CHECK(variants.kernel(*first, 90) == nullptr);
  const int code = 0;
  variants.provide(*first, 90, &code);
  CHECK(variants.kernel(*first, 90) == &code);
  CHECK(variants.kernel(*first, 100) == nullptr);
  CHECK(variants.kernel(*second, 90) == nullptr);
}

TEST_CASE("specialised variants: what a family makes is valid, runs the block, and is found by its name") {
  const InvertedResidualParams any;
  const auto& kernel = kernel_of(any);
  int made = 0;
  for (const int multiprocessors : {16, 132}) {
    const DeviceTraits gpu = gpu_that_compiles(90, multiprocessors);
    for (const double width : {0.35, 0.5, 0.75, 1.0, 1.3, 1.4}) {
      for (const int resolution : {96, 224, 320}) {
        for (const auto& [n, elem] : {std::pair(1, Elem::F16), {4, Elem::F16}, {8, Elem::F32}}) {
          for (const InvertedResidualParams& p : blocks(width, resolution, n, elem)) {
            std::set<std::string_view> names;
            for (const InvertedResidualVariant variant : kernel.specialised(p, gpu)) {
              const std::string_view name = kernel.variant_name(variant);
              INFO(name);
              CHECK(names.insert(name).second);
              REQUIRE(kernel.supports(variant, p, gpu));
              REQUIRE(kernel.specialised_by_name(name) == variant);
              REQUIRE(kernel.code(variant));
              REQUIRE(kernel.operands(variant, p).weights[0] > 0);
              InvertedResidualParams other = p;
              other.c_hidden += 8;
              CHECK_FALSE(kernel.supports(variant, other, gpu));
              ++made;
            }
          }
        }
      }
    }
  }
  CHECK(made > 500);
  CHECK_FALSE(kernel.specialised_by_name("cluster_1_0_0_0_0_0_0_0_0_0_0"));
  CHECK_FALSE(kernel.specialised_by_name("cluster_1_64_384_64_4_4_6_4_1_0_0"));
  CHECK_FALSE(kernel.specialised_by_name("cluster_1_64_384_64_4_1_24_4_1_2_0"));
  CHECK_FALSE(kernel.specialised_by_name("cluster_1_64_144_64_4_4_6_4_1_2_0"));  // a block without hidden channels
  CHECK_FALSE(kernel.specialised_by_name("cluster_3_64_384_64_4_4_6_4_1_2_0"));
  CHECK_FALSE(kernel.specialised_by_name("cluster_1_8192_8192_8192_4_4_6_4_1_2_0"));
  CHECK(kernel.specialised_by_name("cluster_1_64_384_64_4_4_6_4_1_2_0"));
  CHECK(kernel.specialised_by_name("simt_1_14_14_64_384_64_16_8_2_7_2_1_7_8_4_1_1_0_16_2"));
  // More strips than threads; a row of the hidden tensor that is no whole number of 16 bytes; no room for the patch.
  CHECK_FALSE(kernel.specialised_by_name("simt_1_14_14_64_384_64_16_8_2_2_1_1_7_8_4_1_1_0_16_2"));
  CHECK_FALSE(kernel.specialised_by_name("simt_1_14_14_64_384_64_16_8_2_7_2_1_7_8_4_1_1_0_2_2"));
  CHECK_FALSE(kernel.specialised_by_name("simt_1_14_14_512_384_64_16_8_2_7_2_1_7_8_4_1_1_0_16_2"));
}

TEST_CASE("specialised variants: names with any numbers are refused or give a variant that says what it supports") {
  constexpr int kNumbers[] = {0, 1, 2, 3, 4, 5, 7, 8, 14, 16, 24, 32, 48, 64, 96, 144, 384, 1024, 4096, 8184, 8192};
  constexpr int kNames = 20'000;
  const InvertedResidualParams any;
  const auto& kernel = kernel_of(any);
  const DeviceTraits gpu = gpu_that_compiles(90, 132);
  std::vector<std::string> names;
  for (const Elem elem : {Elem::F16, Elem::F32}) {
    for (const InvertedResidualParams& p : blocks(0.75, 224, 8, elem)) {
      for (const auto variant : kernel.specialised(p, gpu)) names.emplace_back(kernel.variant_name(variant));
    }
  }
  std::mt19937 random(1);
  int valid = 0;
  for (int i = 0; i < kNames; ++i) {
    std::string name = names[random() % names.size()];
    for (std::uint32_t changes = 1 + random() % 4; changes > 0; --changes) {
      std::size_t at = name.find('_');  // in front of a number
      for (auto skip = static_cast<std::uint32_t>(random() % 20);
           skip > 0 && name.find('_', at + 1) != std::string::npos; --skip) {
        at = name.find('_', at + 1);
      }
      const std::size_t end = std::min(name.find('_', at + 1), name.size());
      name.replace(at + 1, end - at - 1, std::to_string(kNumbers[random() % std::size(kNumbers)]));
    }
    const auto variant = kernel.specialised_by_name(name);
    if (!variant) continue;
    ++valid;
    INFO(name);
    const InvertedResidualParams p = block(1, 14, 14, 64, 384, 64, 1);
    CHECK(kernel.operands(*variant, p).weights[0] > 0);
    kernel.supports(*variant, p, gpu);
    CHECK(kernel.code(*variant)->expression.find("Config{") != std::string::npos);
  }
  CAPTURE(valid);
  CHECK(valid > kNames / 100);
}

TEST_CASE("specialised variants: names of int8 blocks with any numbers are refused or give a variant of that size") {
  constexpr int kNumbers[] = {0, 1, 2, 3, 4, 7, 8, 14, 16, 24, 32, 64, 96, 384, 1024, 4096, 8184, 8192};
  constexpr int kNames = 20'000;
  constexpr std::size_t kValues = 10;
  const Int8InvertedResidualParams any;
  const auto& kernel = kernel_of(any);
  const DeviceTraits gpu = gpu_that_compiles(90, 132);
  std::mt19937 random(1);
  int valid = 0;
  for (int i = 0; i < kNames; ++i) {
    // Stride, channels, tile, warps, parts, blocks of an SM, blocks of a cluster.
    std::array<int, kValues> values{1, 64, 384, 64, 7, 7, 8, 2, 2, 4};
    for (std::uint32_t changes = 1 + random() % 4; changes > 0; --changes) {
      values[random() % kValues] = kNumbers[random() % std::size(kNumbers)];
    }
    std::string name = "int8_block";
    for (const int value : values) name += "_" + std::to_string(value);
    const auto variant = kernel.specialised_by_name(name);
    if (!variant) continue;
    ++valid;
    INFO(name);
    Int8InvertedResidualParams p;
    p.n = 1;
    p.h = p.w = p.out_h = p.out_w = 14;
    p.pad_top = p.pad_left = 1;
    p.c_in = p.c_out = 64;
    p.c_hidden = 384;
    CHECK(kernel.operands(*variant, p).weights[0] > 0);
    kernel.supports(*variant, p, gpu);
    CHECK(kernel.code(*variant)->expression.find("Config{") != std::string::npos);
  }
  CAPTURE(valid);
  CHECK(valid > kNames / 100);
  CHECK(kernel.specialised_by_name("int8_block_1_64_384_64_7_7_8_2_2_16"));
  CHECK_FALSE(kernel.specialised_by_name("int8_block_1_64_384_64_7_7_8_2_2_17"));
  CHECK_FALSE(kernel.specialised_by_name("int8_block_1_64_384_64_7_7_8_2_2"));
  CHECK_FALSE(kernel.specialised_by_name("int8_block_1_64_384_8192_64_64_32_32_1_1"));
}

TEST_CASE("specialised variants: a few int8 blocks of every size run it and fit the GPU") {
  Int8InvertedResidualParams p;
  const auto& kernel = kernel_of(p);
  p.pad_top = p.pad_left = 1;
  p.c_in = 24;
  p.c_hidden = 144;
  p.c_out = 40;
  for (const int capability : {80, 90}) {
    const DeviceTraits gpu = gpu_that_compiles(capability, 132);
    for (p.stride = 1; p.stride <= 2; ++p.stride) {
      for (p.n = 0; p.n <= 300; p.n = p.n * 7 + 1) {
        for (int size = 1; size <= 40; ++size) {
          p.h = size;
          p.w = 41 - size;
          p.out_h = (p.h + p.stride - 1) / p.stride;
          p.out_w = (p.w + p.stride - 1) / p.stride;
          const auto found = kernel.specialised(p, gpu);
          CAPTURE(kernel.shape(p), capability);
          REQUIRE_FALSE(found.empty());
          REQUIRE(found.size() <= 6);
          for (const auto variant : found) {
            REQUIRE(kernel.supports(variant, p, gpu));
            REQUIRE(kernel.specialised_by_name(kernel.variant_name(variant)) == variant);
          }
        }
      }
    }
  }
  p.n = p.stride = 1;
  p.h = p.w = p.out_h = p.out_w = 14;
  p.c_in = p.c_out = 16;
  p.c_hidden = 8192;
  CHECK_FALSE(kernel.specialised(p, gpu_that_compiles(90, 132)).empty());
  p.c_hidden = 9216;  // beyond what a name may have
  CHECK(kernel.specialised(p, gpu_that_compiles(90, 132)).empty());
}

TEST_CASE("specialised variants: none where no code can be compiled, or the GPU is older") {
  const InvertedResidualParams any;
  const auto& kernel = kernel_of(any);
  const InvertedResidualParams p = block(1, 14, 14, 32, 192, 32, 1);
  CHECK_FALSE(kernel.specialised(p, gpu_that_compiles(90, 132)).empty());
  CHECK(kernel.specialised(p, traits_of(90, 132)).empty());
  for (const auto variant : kernel.specialised(p, gpu_that_compiles(80, 108))) {
    CHECK_FALSE(kernel.variant_name(variant).starts_with("cluster"));
  }
}

TEST_CASE("specialised variants: the rule runs late blocks of one image in one launch, whatever their channels") {
  const DeviceTraits gpu = gpu_that_compiles(90, 132);
  const Rules rules(gpu, {});
  for (const double width : {0.35, 0.5, 0.75, 1.0}) {
    const auto all = blocks(width, 224, 1);
    for (std::size_t i = 6; i < all.size(); ++i) {
      INFO("width " << width << ", block " << i + 2);
      CHECK(rules.block_form(&all[i], nullptr).form == BlockForm::Fused);
    }
  }
  const auto chosen = [&](const InvertedResidualParams& p) {
    return std::string(kernel_of(p).variant_name(rules.variant(p).variant));
  };
  CHECK(chosen(block(1, 14, 14, 48, 288, 48, 1)).starts_with("small_48_288_48_"));
  CHECK(chosen(block(1, 14, 14, 72, 432, 72, 1)).starts_with("cluster_1_72_432_72_"));
}

TEST_CASE(
    "specialised variants: blocks with HardSwish are made in half, by the families that have it, and by these only") {
  const DeviceTraits gpu = gpu_that_compiles(90, 132);
  const kernels::Activation hard_swish(kernels::ActivationKind::HardSwish);
  const auto form = [&](const InvertedResidualParams& p, const DeviceTraits& on) {
    return Rules(on, {}).block_form(&p, nullptr).form;
  };
  for (const int n : {1, 4, 8, 32}) {
    for (InvertedResidualParams p :
         {block(n, 28, 28, 40, 240, 80, 2), block(n, 14, 14, 80, 200, 80, 1), block(n, 14, 14, 80, 184, 80, 1)}) {
      p.expand_activation = p.depthwise_activation = hard_swish;
      CAPTURE(n, p.c_hidden);
      CHECK(form(p, gpu) == BlockForm::Fused);
      CHECK(form(p, kernels::traits_of(90, 132)) == BlockForm::Layers);  // the library itself has none
      for (const auto variant : kernel_of(p).specialised(p, gpu)) {
        const std::string_view name = kernel_of(p).variant_name(variant);
        CAPTURE(name);
        CHECK((name.starts_with("small_") || name.starts_with("cluster_") || name.starts_with("strip_") ||
               name.starts_with("image_")));
        InvertedResidualParams clipped = p;
        clipped.expand_activation = clipped.depthwise_activation = kernels::Clip{0.0F, 6.0F};
        CHECK(kernel_of(p).supports(variant, p, gpu));
        CHECK_FALSE(kernel_of(p).supports(variant, clipped, gpu));
      }
      p.depthwise_activation = kernels::Clip{0.0F, 6.0F};  // both, or neither
      CHECK(kernel_of(p).specialised(p, gpu).empty());
      p.expand_activation = p.depthwise_activation = kernels::Activation(kernels::ActivationKind::Silu);
      CHECK(kernel_of(p).specialised(p, gpu).empty());
      p.expand_activation = p.depthwise_activation = hard_swish;
      p.elem = kernels::Elem::F32;
      CHECK(kernel_of(p).specialised(p, gpu).empty());
    }
  }
}

TEST_CASE("specialised variants: a rule that names no family leaves a shape to the library's own kernels") {
  const DeviceTraits gpu = gpu_that_compiles(90, 132);
  const InvertedResidualParams p = block(1, 7, 7, 16, 16, 64, 1);
  CHECK_FALSE(kernel_of(p).specialised(p, gpu).empty());
  CHECK_FALSE(Rules(gpu, {}).runs(p));
  CHECK(Rules(gpu, {}).block_form(&p, nullptr).form == BlockForm::Layers);
}

}  // namespace
}  // namespace mobicuda
