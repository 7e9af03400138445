#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "kernels/inverted_residual_case.h"

namespace mobicuda::test {
namespace {

using namespace inverted_residual_case;

TEST_CASE("inverted_residual: variants of one packing write the same bytes", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);  // random shapes are those that some variant runs
  const kernels::DeviceTraits gpu = kernels::traits_of(90, 132);
  const InvertedResidualParams any;
  const auto& kernel = kernels::kernel_of(any);
  int shared = 0;
  Choice choose(3);
  for (int i = 0; i < 200; ++i) {
    InvertedResidualParams p = i % 2 == 0 ? random_shape(choose) : late_block(choose);
    if (i % 4 == 1) p.elem = Elem::F32;
    p = with_split(p);
    const Data data = inverted_residual_case::random_data(p, static_cast<std::uint32_t>(i));
    std::map<std::string_view, std::vector<std::byte>> packed;
    for (const InvertedResidualVariant variant : kernel.variants) {
      if (!supports(variant, p, gpu)) continue;
      std::vector<std::byte> bytes(kernels::inverted_residual_packed_bytes(variant, p));
      kernels::inverted_residual_pack(variant, p, data.weights(p), bytes.data());
      const auto [first, is_new] = packed.emplace(kernel.packing(variant), bytes);
      CAPTURE(name(variant), p);
      REQUIRE(first->second == bytes);
      if (!is_new) ++shared;
    }
  }
  CHECK(shared > 100);
}

TEST_CASE("inverted_residual: variants are listed in the order of their enumeration") {
  check_order(kernels::inverted_residual_variants());
}

TEST_CASE("inverted_residual equals the oracle on the blocks of MobileNetV2", "[large]") {
  std::uint32_t seed = 100;
  for (const InvertedResidualLayer& layer : kMobileNetV2Blocks) {
    for (const int n : {1, 2}) {
      if (n > 1 && layer.size > 56) continue;
      InvertedResidualParams p = block(layer, n);
      // TensorFlow pads below and to the right only when the stride is 2.
      if (layer.stride == 2 && n == 2) p.pad_top = p.pad_left = 0;
      for (const Elem elem : kElems) {
        p.elem = elem;
        CAPTURE(layer.name, seed);
        check_against_oracle(p, random_data(p, seed));
        seed += 10;
      }
    }
  }
}

TEST_CASE("inverted_residual: some variant runs every block up to the 14 x 14 ones") {
  MOBICUDA_SKIP_BELOW(90);
  for (const InvertedResidualLayer& layer : kMobileNetV2Blocks) {
    CAPTURE(layer.name);
    if (layer.size < 14 || layer.c_out > 96) continue;
    REQUIRE(for_each_variant(block(layer, 1), [](InvertedResidualVariant) {}) > 0);
  }
}

TEST_CASE("inverted_residual equals the oracle on random shapes") {
  MOBICUDA_SKIP_BELOW(80);  // random shapes are those that some variant runs
  constexpr int kShapes = 60;
  Choice choose(7);
  for (std::uint32_t i = 0; i < kShapes; ++i) {
    const InvertedResidualParams p = random_shape(choose);
    CAPTURE(i);
    check_against_oracle(p, random_data(p, 1000 + 10 * i, i % 4 != 0));
  }
}

TEST_CASE("inverted_residual equals the oracle at every batch size, size and padding") {
  const auto check = [](InvertedResidualParams p, std::uint32_t seed) {
    for (const Elem elem : kElems) {
      p.elem = elem;
      check_against_oracle(p, random_data(p, seed));
    }
  };
  for (const int stride : {1, 2}) {
    for (int n = 1; n <= 8; ++n) check(small_block(n, 9, 10, true, stride), 21);
    for (const int size : {1, 2, 4, 6, 15, 16, 29}) {
      for (const auto& [h, w] : {std::pair{size, 6}, std::pair{6, size}}) {
        check(small_block(1, h, w, true, stride), 22);
      }
    }
    for (int top = 0; top <= 2; ++top) {
      for (int left = 0; left <= 2; ++left) {
        for (const bool expand : {true, false}) {
          InvertedResidualParams p = small_block(2, 8, 7, expand, stride);
          p.pad_top = top;
          p.pad_left = left;
          p.out_h = output_extent(p.h, 3, stride, 1, top, 2 - top);
          p.out_w = output_extent(p.w, 3, stride, 1, left, 2 - left);
          check(p, 31);
        }
      }
    }
  }
}

/// The blocks for which channels are known at compile time, in any size.
TEST_CASE("inverted_residual equals the oracle on blocks of MobileNetV2's channels in other sizes") {
  constexpr int kShapes = 80;
  Choice choose(11);
  for (std::uint32_t i = 0; i < kShapes; ++i) {
    const InvertedResidualLayer& layer = kMobileNetV2Blocks[1 + choose.upto(4)];
    constexpr int kSizes[] = {1, 2, 3, 5, 7, 8, 13, 17, 30};
    InvertedResidualParams p = block(1 + choose.upto(7), choose(kSizes), choose(kSizes), layer.c_in, layer.c_hidden,
                                     layer.c_out, layer.stride);
    p.pad_top = choose.upto(2);
    p.pad_left = choose.upto(2);
    p.out_h = output_extent(p.h, 3, p.stride, 1, p.pad_top, choose.upto(2));
    p.out_w = output_extent(p.w, 3, p.stride, 1, p.pad_left, choose.upto(2));
    if (p.out_h == 0 || p.out_w == 0) continue;
    p.residual = p.stride == 1 && p.c_in == p.c_out && p.out_h == p.h && p.out_w == p.w && choose.flip();
    p.depthwise_activation = kClips[choose.upto(2)];
    p.project_clip = kClips[choose.upto(2)];
    p.elem = choose.flip() ? Elem::F32 : Elem::F16;
    CAPTURE(i);
    if (i % 3 == 0) {
      p.project_clip = {-2048.0F, 2048.0F};
      const Data data = integer_data(p, 3000 + 10 * i);
      const Tensor oracle = oracle_of(p, data);
      const Device device(p, data);
      const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
      for_each_variant(p, [&](InvertedResidualVariant variant) {
        REQUIRE(compare_exact(device.run(variant), oracle.value, shape));
      });
    } else {
      check_against_oracle(p, random_data(p, 3000 + 10 * i, i % 4 != 0));
    }
  }
}

TEST_CASE("inverted_residual equals the oracle on the late blocks' channels in other sizes") {
  constexpr int kShapes = 80;
  Choice choose(13);
  for (std::uint32_t i = 0; i < kShapes; ++i) {
    InvertedResidualParams p = late_block(choose);
    p.elem = choose.flip() ? Elem::F32 : Elem::F16;
    if (p.out_h == 0 || p.out_w == 0) continue;
    CAPTURE(i);
    if (i % 3 == 0) {
      p.project_clip = {-2048.0F, 2048.0F};
      const Data data = integer_data(p, 5000 + 10 * i);
      const Tensor oracle = oracle_of(p, data);
      const Device device(p, data);
      const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
      for_each_variant(p, [&](InvertedResidualVariant variant) {
        REQUIRE(compare_exact(device.run(variant), oracle.value, shape));
      });
    } else {
      p.expand_activation = kClips[choose.upto(2)];
      p.depthwise_activation = kClips[choose.upto(2)];
      p.project_clip = kClips[choose.upto(2)];
      check_against_oracle(p, random_data(p, 5000 + 10 * i, i % 4 != 0));
    }
  }
}

TEST_CASE("inverted_residual equals the oracle on the last blocks' channels in batches of whole pictures") {
  constexpr std::pair<int, int> kSizes[] = {{7, 7}, {1, 1}, {2, 7}, {7, 3}, {5, 6}};
  constexpr int kBatches[] = {1, 2, 3, 5, 8};
  std::uint32_t seed = 7000;
  for (const InvertedResidualLayer& layer : kMobileNetV2Blocks) {
    if (layer.size != 7) continue;
    for (std::size_t i = 0; i < std::size(kSizes); ++i) {
      InvertedResidualParams p =
          block(kBatches[i], kSizes[i].first, kSizes[i].second, layer.c_in, layer.c_hidden, layer.c_out, 1);
      p.residual = p.residual && i % 3 != 2;
      check_against_oracle(p, random_data(p, seed, i != 3));
      seed += 10;
    }
  }
}

TEST_CASE("inverted_residual is exact on small whole numbers", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);  // random shapes are those that some variant runs
  constexpr int kShapes = 30;
  constexpr Clip kExactInHalf{-2048.0F, 2048.0F};
  Choice choose(5);
  for (std::uint32_t i = 0; i < kShapes; ++i) {
    InvertedResidualParams p = random_shape(choose);
    p.expand_activation = kRelu6;
    p.depthwise_activation = i % 2 == 0 ? kRelu6 : kNone;
    p.project_clip = kExactInHalf;
    const Data data = integer_data(p, 50 + i);
    const Tensor oracle = oracle_of(p, data);
    const Device device(p, data);
    const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
    for_each_variant(
        p, [&](InvertedResidualVariant variant) { REQUIRE(compare_exact(device.run(variant), oracle.value, shape)); });
  }
}

TEST_CASE("inverted_residual adds its input exactly", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  constexpr Clip kExactInHalf{-2048.0F, 2048.0F};
  std::uint32_t seed = 300;
  int variants = 0;
  for (const Elem elem : kElems) {
    for (InvertedResidualParams p : {block(2, 9, 11, 16, 48, 16, 1), small_block(1, 14, 13, true, 1)}) {
      REQUIRE(p.residual);
      p.elem = elem;
      p.expand_activation = kRelu6;
      p.depthwise_activation = kRelu6;
      p.project_clip = kExactInHalf;
      const Data data = integer_data(p, seed += 10);
      const Tensor oracle = oracle_of(p, data);
      const Device device(p, data);
      const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
      variants += for_each_variant(p, [&](InvertedResidualVariant variant) {
        REQUIRE(compare_exact(device.run(variant), oracle.value, shape));
      });
    }
  }
  CHECK(variants > 0);
}

TEST_CASE("inverted_residual says what it supports, and refuses the rest") {
  MOBICUDA_SKIP_BELOW(80);
  const InvertedResidualParams good = block(1, 14, 14, 16, 48, 16, 1);
  const auto supported = [](const InvertedResidualParams& p) {
    return for_each_variant(p, [](InvertedResidualVariant) {});
  };
  const int all = supported(good);
  REQUIRE(all > 0);
  InvertedResidualParams p = good;
  p.n = 0;
  REQUIRE(supported(p) == all);
  REQUIRE(kernels::inverted_residual(InvertedResidualVariant::S1Tile7x7C64N64, p, nullptr, nullptr, nullptr, {}) ==
          cudaSuccess);
  for (int InvertedResidualParams::*member :
       {&InvertedResidualParams::h, &InvertedResidualParams::c_in, &InvertedResidualParams::c_hidden,
        &InvertedResidualParams::c_out, &InvertedResidualParams::out_w, &InvertedResidualParams::stride}) {
    p = good;
    p.*member = 0;
    REQUIRE(supported(p) == 0);
    REQUIRE(kernels::inverted_residual(InvertedResidualVariant::S1Tile7x7C64N64, p, nullptr, nullptr, nullptr, {}) ==
            cudaErrorInvalidValue);
  }
  p = good;
  p.c_in = p.c_out = 12;
  REQUIRE(supported(p) == 0);
  p = good;
  p.c_hidden = 40;  // not a multiple of 16
  REQUIRE(supported(p) == 0);
  p = good;
  p.pad_top = 3;
  REQUIRE(supported(p) == 0);
  p = good;
  p.out_h = 13;  // x cannot be added
  REQUIRE(supported(p) == 0);
  p = good;
  p.expand = false;  // but has more hidden channels than input
  REQUIRE(supported(p) == 0);
  p = good;
  p.n = -1;
  REQUIRE(supported(p) == 0);
  REQUIRE_FALSE(kernels::supports(InvertedResidualVariant::S1Tile7x7C64N64, good, kernels::traits_of(75, 132)));
}

TEST_CASE("inverted_residual splits products only where it may, and of floats") {
  const kernels::DeviceTraits gpu = kernels::traits_of(90, 132);
  const auto splitting = [&](const InvertedResidualParams& p, const kernels::DeviceTraits& of) {
    const auto variants = kernels::inverted_residual_variants();
    return std::count_if(variants.begin(), variants.end(), [&](InvertedResidualVariant variant) {
      return is_split(variant) && supports(variant, p, of);
    });
  };
  for (const InvertedResidualLayer& layer : kMobileNetV2Blocks) {
    CAPTURE(layer.name);
    InvertedResidualParams p = block(layer, 8);
    p.elem = Elem::F32;
    CHECK(splitting(p, gpu) == 0);
    p.split = true;
    CHECK((splitting(p, gpu) > 0) == layer.expands());
    CHECK(splitting(p, kernels::traits_of(75, 132)) == 0);
    p.elem = Elem::F16;
    CHECK(splitting(p, gpu) == 0);
  }
}

}  // namespace
}  // namespace mobicuda::test
