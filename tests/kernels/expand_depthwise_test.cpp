#include <vector>

#include "kernels/expand_depthwise_case.h"
#include "kernels/race_case.h"
#include "support/emulated.h"
#include "support/network_shapes.h"

namespace mobicuda::test {
namespace {

using namespace expand_depthwise_case;

TEST_CASE("expand_depthwise equals the oracle on the blocks of MobileNetV2") {
  MOBICUDA_SKIP_BELOW(80);
  std::uint32_t seed = 100;
  for (const ExpandLayer& layer : mobilenet_v2_expand()) {
    for (const int n : {1, 3}) {
      ExpandDepthwiseParams p = same_padded(n, layer.size, layer.size, layer.c_in, layer.c, layer.stride);
      // TensorFlow pads below and to the right only when the stride is 2.
      if (layer.stride == 2 && n == 3) p.pad_top = p.pad_left = 0;
      CAPTURE(layer.size, layer.c, layer.stride);
      REQUIRE(supported(p) > 0);
      check_against_oracle(p, random_data(p, seed));
      seed += 10;
    }
  }
}

TEST_CASE("expand_depthwise equals the oracle on blocks with windows of 5x5") {
  MOBICUDA_SKIP_BELOW(80);
  std::uint32_t seed = 300;
  for (const ExpandLayer& layer : kExpand5x5) {
    for (const int n : {1, 3}) {
      ExpandDepthwiseParams p = same_padded(n, layer.size, layer.size, layer.c_in, layer.c, layer.stride, 5);
      if (layer.stride == 2 && n == 3) p.pad_top = p.pad_left = 1;  // as TensorFlow pads
      CAPTURE(layer.size, layer.c, layer.stride);
      REQUIRE(supported(p) > 0);
      check_against_oracle(p, random_data(p, seed));
      seed += 10;
    }
  }
}

TEST_CASE("expand_depthwise equals the oracle on random shapes") {
  constexpr int kShapes = 160;
  Choice choose(7);
  for (std::uint32_t i = 0; i < kShapes; ++i) {
    const ExpandDepthwiseParams p = random_shape(choose);
    CAPTURE(i);
    check_against_oracle(p, random_data(p, 1000 + 10 * i));
  }
}

TEST_CASE("expand_depthwise equals the oracle with HardSwish and Silu", "[sanitize]") {
  const std::uint32_t shapes = when_emulated_fewer(40U);
  Choice choose(9);
  for (std::uint32_t i = 0; i < shapes; ++i) {
    const ExpandDepthwiseParams p = with_activations(random_shape(choose), kSwish[i % std::size(kSwish)]);
    CAPTURE(i);
    check_against_oracle(p, random_data(p, 5000 + 10 * i));
  }
  if (is_emulated()) return;  // for minutes
  std::uint32_t seed = 8000;
  for (const ExpandLayer& layer : kExpand5x5) {
    for (const auto& kinds : kSwish) {
      const auto plain = same_padded(1, layer.size, layer.size, layer.c_in, layer.c, layer.stride, 5);
      const ExpandDepthwiseParams p = with_activations(plain, kinds);
      check_against_oracle(p, random_data(p, seed));
      seed += 10;
    }
  }
}

TEST_CASE("expand_depthwise is exact on small whole numbers", "[sanitize]") {
  const std::uint32_t shapes = when_emulated_fewer(40U);
  Choice choose(5);
  for (std::uint32_t i = 0; i < shapes; ++i) {
    ExpandDepthwiseParams p = random_shape(choose);
    p.expand_activation = kExactHidden;
    CAPTURE(i);
    check_exact(p, integer_data(p, 50 + 10 * i));
  }
}

TEST_CASE("expand_depthwise is exact at every batch, odd size and border of its tiles") {
  for (const auto& [kernel, stride] : kWindows) {
    for (int n = 1; n <= 8; ++n) {
      ExpandDepthwiseParams p = same_padded(n, 7, 9, 24, 32, stride, kernel);
      p.expand_activation = kExactHidden;
      check_exact(p, integer_data(p, 60));
    }
    for (int size = 1; size <= 17; ++size) {
      ExpandDepthwiseParams p = same_padded(2, size, 18 - size, 40, 32, stride, kernel);
      p.expand_activation = kExactHidden;
      check_exact(p, integer_data(p, 61));
    }
    for (int c_in = 8; c_in <= 256; c_in += 8) {
      ExpandDepthwiseParams p = same_padded(1, 5, 6, c_in, 32, stride, kernel);
      p.expand_activation = kExactHidden;
      check_exact(p, integer_data(p, 62));
    }
  }
}

TEST_CASE("expand_depthwise is exact for every padding, windows wholly outside among them", "[sanitize]") {
  for (const auto& [kernel, stride] : kWindows) {
    for (int top = 0; top <= kernel + 2; ++top) {
      for (int left = 0; left <= kernel + 2; ++left) {
        ExpandDepthwiseParams p = same_padded(1, 5, 3, 8, 32, stride, kernel);
        p.pad_top = top;
        p.pad_left = left;
        p.out_h = output_extent(p.h, kernel, stride, 1, top, kernel + 2 - left);
        p.out_w = output_extent(p.w, kernel, stride, 1, left, kernel + 2 - top);
        if (p.out_h == 0 || p.out_w == 0) continue;
        p.expand_activation = kExactHidden;
        p.depthwise_activation = kNone;
        check_exact(p, integer_data(p, 31));
      }
    }
  }
}

TEST_CASE("expand_depthwise takes many pictures in each block") {
  for (const auto& [kernel, stride] : kWindows) {
    ExpandDepthwiseParams p = same_padded(20011, 3, 4, 8, 32, stride, kernel);
    p.expand_activation = kExactHidden;
    check_exact(p, integer_data(p, 71));
  }
  for (const int kernel : kKernels) {
    for (const int c_in : {16, 184}) {
      ExpandDepthwiseParams p = same_padded(301, 14, 14, c_in, 64, 1, kernel);
      p.expand_activation = kExactHidden;
      check_exact(p, integer_data(p, 72));
    }
  }
}

TEST_CASE("expand_depthwise takes more pictures than a grid's z dimension") {
  ExpandDepthwiseParams p = same_padded(70001, 1, 1, 8, 8, 1);
  p.expand_activation = kExactHidden;
  check_exact(p, integer_data(p, 73));
}

TEST_CASE("expand_depthwise gives a picture the same bits in every batch and the same bits every time") {
  constexpr int kRepeats = 100;
  for (const auto& [kernel, stride] : kWindows) {
    ExpandDepthwiseParams p = same_padded(5, 15, 14, 40, 32, stride, kernel);
    const Data all = random_data(p, 45);
    const Device device(p, all);
    p.n = 1;
    Data first = all;
    first.x.resize(input_count(p));
    const Device alone(p, first);
    for_each_variant(p, [&](ExpandDepthwiseVariant variant) {
      const std::vector<float> expected = device.run(variant);
      REQUIRE(compare_bits(alone.run(variant), std::span(expected.data(), output_count(p))));
      for (int i = 0; i < kRepeats; ++i) REQUIRE(compare_bits(device.run(variant), expected));
    });
  }
}

TEST_CASE("expand_depthwise passes NaN on, to the windows that see it only", "[sanitize]") {
  for (const auto& [kernel, stride] : kWindows) {
    ExpandDepthwiseParams p = same_padded(2, 15, 14, 24, 32, stride, kernel);
    Data data = random_data(p, 41);
    data.x[count_of(1, 7, 5, p.c_in)] = kNan;
    data.x[input_count(p) - 1] = kNan;
    check_against_oracle(p, data);
    for (const auto& kinds : kSwish) check_against_oracle(with_activations(p, kinds), data);
  }
}

TEST_CASE("expand_depthwise says what it supports, and refuses the rest") {
  MOBICUDA_SKIP_BELOW(80);
  const ExpandDepthwiseParams good = same_padded(1, 8, 8, 16, 32, 1);
  REQUIRE(supported(good) == static_cast<int>(kernels::expand_depthwise_variants().size()));
  ExpandDepthwiseParams p = good;
  p.c = 16;
  REQUIRE(supported(p) == 12);
  p.c = 24;
  REQUIRE(supported(p) == 3);
  p = good;
  p.stride = 2;
  REQUIRE(supported(p) == 12);
  p.kernel = 5;
  REQUIRE(supported(p) == 12);
  p.stride = 1;
  REQUIRE(supported(p) == static_cast<int>(kernels::expand_depthwise_variants().size()));
  p = good;
  p.elem = Elem::F32;
  REQUIRE(supported(p) == 0);
  p = with_activations(good, kSwish[0]);
  REQUIRE(supported(p) == static_cast<int>(kernels::expand_depthwise_variants().size()));
  p.depthwise_activation = kRelu6;
  REQUIRE(supported(p) == 0);
  p = good;
  p.expand_activation = p.depthwise_activation = kernels::Activation(kernels::ActivationKind::Tanh);
  REQUIRE(supported(p) == 0);
  for (const auto& [member, value] :
       std::initializer_list<std::pair<int ExpandDepthwiseParams::*, int>>{{&ExpandDepthwiseParams::h, 0},
                                                                           {&ExpandDepthwiseParams::c_in, 0},
                                                                           {&ExpandDepthwiseParams::c_in, 12},
                                                                           {&ExpandDepthwiseParams::c_in, 264},
                                                                           {&ExpandDepthwiseParams::c, 4},
                                                                           {&ExpandDepthwiseParams::out_w, 0},
                                                                           {&ExpandDepthwiseParams::kernel, 1},
                                                                           {&ExpandDepthwiseParams::kernel, 4},
                                                                           {&ExpandDepthwiseParams::kernel, 7},
                                                                           {&ExpandDepthwiseParams::stride, 3},
                                                                           {&ExpandDepthwiseParams::stride, 0},
                                                                           {&ExpandDepthwiseParams::pad_top, -1},
                                                                           {&ExpandDepthwiseParams::n, -1},
                                                                           {&ExpandDepthwiseParams::w, 1 << 30},
                                                                           {&ExpandDepthwiseParams::out_h, 1 << 30}}) {
    p = good;
    p.*member = value;
    CAPTURE(p);
    REQUIRE(supported(p) == 0);
    REQUIRE(kernels::expand_depthwise(ExpandDepthwiseVariant::Slice8Bands1, p, nullptr, nullptr, nullptr, nullptr,
                                      nullptr, nullptr, {}) == cudaErrorInvalidValue);
  }
  REQUIRE(kernels::expand_depthwise(ExpandDepthwiseVariant::Slice8Bands1, good, nullptr, nullptr, nullptr, nullptr,
                                    nullptr, nullptr, {}) == cudaErrorInvalidValue);
  p = good;
  p.n = 0;
  p.expand_bias = p.depthwise_bias = false;
  REQUIRE(kernels::expand_depthwise(ExpandDepthwiseVariant::Slice8Bands1, p, nullptr, nullptr, nullptr, nullptr,
                                    nullptr, nullptr, {}) == cudaSuccess);
  for (const ExpandDepthwiseVariant variant : kernels::expand_depthwise_variants()) {
    REQUIRE_FALSE(kernels::supports(variant, good, kernels::traits_of(75, 132)));
  }
}

TEST_CASE("expand_depthwise: every variant once", "[race]") {
  const auto check = [](const ExpandDepthwiseParams& p, std::span<const ExpandDepthwiseVariant> its) {
    check_against_oracle(p, random_data(p, 81), its);
  };
  race_case::EachOnce<ExpandDepthwiseVariant> each(kernels::expand_depthwise_variants());
  each.run(std::vector{same_padded(2, 17, 19, 72, 64, 1)}, check);
  each.run(std::vector{with_activations(same_padded(2, 17, 19, 72, 64, 1), kSwish[1])}, check);
  for (const ExpandDepthwiseVariant variant : each.variants()) {
    if (tile(variant).bands != 1) continue;
    each.run_one(variant, std::vector{same_padded(2, 17, 19, 72, 64, 2)}, check);
    each.run_one(variant, std::vector{same_padded(2, 13, 11, 72, 64, 1, 5)}, check);
    each.run_one(variant, std::vector{same_padded(2, 13, 11, 72, 64, 2, 5)}, check);
  }
  each.check_all_ran();
}

TEST_CASE("expand_depthwise: blocks take many pictures", "[race]") {
  constexpr int kPictures = 132 * 16 + 1;  // more than a GPU of sm_90 takes at once
  constexpr ExpandDepthwiseVariant kVariants[] = {ExpandDepthwiseVariant::Slice16Bands1,
                                                  ExpandDepthwiseVariant::Slice32Bands1,
                                                  ExpandDepthwiseVariant::Slice32Strip7Bands1};
  const ExpandDepthwiseParams p = same_padded(kPictures, 3, 4, 8, 32, 1);
  check_against_oracle(p, random_data(p, 82), kVariants);
}

}  // namespace
}  // namespace mobicuda::test
