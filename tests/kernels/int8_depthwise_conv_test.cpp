#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "kernels/int8_depthwise_conv_case.h"
#include "kernels/race_case.h"
#include "support/network_shapes.h"

namespace mobicuda::test {
namespace {

using namespace int8_depthwise_conv_case;

constexpr int kOfWindow3 = 5;
constexpr int kOfWindow5 = 4;

TEST_CASE("int8_depthwise_conv_pack puts four taps together and the input's zero point into the bias") {
  Int8DepthwiseConvParams p = same_padded(1, 8, 8, 2, 3, 1);
  p.kernel_h = 1;
  p.kernel_w = 5;
  p.x_zero = 2;
  const Bytes weight = {1, 2, 3, 4, 5, -1, -2, -3, -4, -5};
  const std::vector<std::int32_t> bias = {10, 20};
  const std::vector<float> multiplier = {0.5F, 0.25F};
  Bytes packed(kernels::int8_depthwise_conv_packed_bytes(p));
  REQUIRE(packed.size() == 2U * 16U * 4U);
  std::vector<std::int32_t> packed_bias(16);
  std::vector<float> packed_multiplier(16);
  kernels::int8_depthwise_conv_pack(p, weight.data(), bias.data(), multiplier.data(), packed.data(), packed_bias.data(),
                                    packed_multiplier.data());
  Bytes expected(packed.size());
  std::copy_n(std::array<std::int8_t, 8>{1, 2, 3, 4, -1, -2, -3, -4}.begin(), 8, expected.begin());
  expected[64] = 5;
  expected[68] = -5;
  CHECK(packed == expected);
  CHECK(packed_bias[0] == 10 - 2 * 15);
  CHECK(packed_bias[1] == 20 + 2 * 15);
  CHECK(packed_bias[2] == 0);
  CHECK(packed_multiplier[1] == 0.25F);
}

TEST_CASE("int8_depthwise_conv equals the integer oracle in every bit", "[sanitize]") {
  std::uint32_t seed = 1;
  for (const int size : {3, 5}) {
    for (const int stride : {1, 2}) {
      for (const int c : {8, 16, 40, 96}) {
        const Int8DepthwiseConvParams p = same_padded(2, 15, 9, c, size, stride);
        CHECK(check(p, seed) == (size == 3 ? kOfWindow3 : kOfWindow5));
        seed += 5;
      }
    }
  }
}

TEST_CASE("int8_depthwise_conv equals the integer oracle for every padding, windows wholly outside among them",
          "[sanitize]") {
  std::uint32_t seed = 100;
  for (const int size : {3, 5}) {
    for (const int stride : {1, 2}) {
      for (const auto& [top, left] : {std::pair{0, 0}, {0, 1}, {2, 0}, {3, 4}}) {
        Int8DepthwiseConvParams p = same_padded(1, 6, 7, 16, size, stride);
        p.pad_top = top;
        p.pad_left = left;
        CHECK(check(p, seed) == (size == 3 ? kOfWindow3 : kOfWindow5));
        seed += 5;
      }
    }
  }
}

TEST_CASE("int8_depthwise_conv equals the integer oracle for any window, and rows that lie apart", "[sanitize]") {
  for (const int size : {1, 2, 4, 7}) CHECK(check(same_padded(2, 9, 8, 24, size, 1), 200) == 1);
  Int8DepthwiseConvParams p = same_padded(2, 9, 8, 24, 3, 1);
  p.dilation_w = 2;
  p.stride_h = 3;
  p.out_h = 3;
  CHECK(check(p, 210) == 1);
  p = same_padded(2, 9, 8, 24, 3, 2);
  p.x_pitch = 64;
  p.y_pitch = 48;
  CHECK(check(p, 220) == kOfWindow3);
}

TEST_CASE("int8_depthwise_conv equals the integer oracle: extremes, zero points and ranges at both ends",
          "[sanitize]") {
  std::uint32_t seed = 300;
  for (const kernels::ByteRange& range : kByteRanges) {
    for (const int x_zero : {-128, 127}) {
      for (const ByteData bytes : kByteData) {
        for (const int size : {3, 5}) {
          Int8DepthwiseConvParams p = same_padded(1, 4, 5, 16, size, 1);
          p.x_zero = x_zero;
          p.result = range;
          CHECK(check(p, seed, bytes) >= kOfWindow5);
          seed += 5;
        }
      }
    }
  }
}

TEST_CASE("int8_depthwise_conv equals the integer oracle on the layers of MobileNetV2") {
  std::uint32_t seed = 500;
  for (const InvertedResidualLayer& layer : kMobileNetV2Blocks) {
    for (const int n : {1, 8}) {
      check(same_padded(n, layer.size, layer.size, layer.c_hidden, 3, layer.stride), seed);
      seed += 5;
    }
  }
}

TEST_CASE("int8_depthwise_conv says what it supports, and refuses the rest") {
  const auto supported = [](const Int8DepthwiseConvParams& p) {
    return for_each_supported(kernels::int8_depthwise_conv_variants(), p, [](Int8DepthwiseConvVariant) {});
  };
  const Int8DepthwiseConvParams good = same_padded(1, 8, 8, 16, 3, 1);
  REQUIRE(supported(good) == kOfWindow3);
  Int8DepthwiseConvParams p = good;
  for (int Int8DepthwiseConvParams::*member :
       {&Int8DepthwiseConvParams::h, &Int8DepthwiseConvParams::c, &Int8DepthwiseConvParams::out_w,
        &Int8DepthwiseConvParams::kernel_h, &Int8DepthwiseConvParams::stride_w, &Int8DepthwiseConvParams::dilation_h}) {
    p = good;
    p.*member = 0;
    CHECK(supported(p) == 0);
    CHECK(kernels::int8_depthwise_conv(Int8DepthwiseConvVariant::Direct, p, nullptr, {}, nullptr, {}) ==
          cudaErrorInvalidValue);
  }
  p = good;
  p.n = -1;
  CHECK(supported(p) == 0);
  p = good;
  p.x_pitch = 8;
  CHECK(supported(p) == 0);
  p = good;
  p.x_zero = -129;
  CHECK(supported(p) == 0);
  p = good;
  p.result = {0, 1, 0};
  CHECK(supported(p) == 0);
  p = good;
  p.stride_w = 2;
  CHECK(supported(p) == 1);
  REQUIRE_FALSE(kernels::supports(Int8DepthwiseConvVariant::Direct, good, kernels::traits_of(70, 132)));
}

TEST_CASE("int8_depthwise_conv: every variant once", "[race]") {
  race_case::EachOnce<Int8DepthwiseConvVariant> each(kernels::int8_depthwise_conv_variants());
  for (const Int8DepthwiseConvVariant variant : each.variants()) {
    each.run_one(variant, std::vector{same_padded(2, 15, 9, 32, 3, 2), same_padded(2, 15, 9, 32, 5, 1)},
                 [](const Int8DepthwiseConvParams& p, std::span<const Int8DepthwiseConvVariant> its) {
                   const Data data = make_data(p, ByteData::Random, 95);
                   const Device device(p, data);
                   const Bytes expected = oracle(p, data);
                   for (const Int8DepthwiseConvVariant one : its) CHECK(device.run(one) == expected);
                 });
  }
  each.check_all_ran();
}

}  // namespace
}  // namespace mobicuda::test
