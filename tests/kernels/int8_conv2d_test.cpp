#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "kernels/int8_conv2d_case.h"
#include "kernels/race_case.h"
#include "support/network_shapes.h"

namespace mobicuda::test {
namespace {

using namespace int8_conv2d_case;

constexpr int kOfPointwise = 10;  // variants: tiles, gemv, direct; narrow for up to 64 channels
constexpr int kOfWindow = 9;
constexpr int kOfSmallPitch = 3;  // stem, stem_tile, direct

/// Those on wgmma beside `others`.
int with_wgmma(int others) {
  constexpr int kOfWgmma = 5;
  return others + (gpu_traits().wgmma_code ? kOfWgmma : 0);
}

Int8Conv2dParams as_float(Int8Conv2dParams p) {
  p.output = Int8Conv2dParams::Output::Float;
  return p;
}

Int8Conv2dParams as_dequantized(Int8Conv2dParams p) {
  p.output = Int8Conv2dParams::Output::Dequantized;
  p.y_scale = 0.037F;
  return p;
}

TEST_CASE("int8_conv2d_pack puts channels innermost and the input's zero point into the bias") {
  Int8Conv2dParams p = window(1, 4, 4, 2, 1, 1, 1);
  p.kernel_w = 2;
  p.x_zero = -3;
  const std::vector<std::int8_t> weight = {1, 2, 10, -20};  // (1, c_in = 2, 1, 2)
  const std::vector<std::int32_t> bias = {100};
  const std::vector<float> multiplier = {0.5F};
  Bytes packed(kernels::int8_conv2d_packed_bytes(p));
  REQUIRE(packed.size() == 16U * 32U);
  std::vector<std::int32_t> packed_bias(kernels::int8_conv2d_packed_biases(p));
  REQUIRE(packed_bias.size() == 3U * 16U);  // as it is, and of pixels whose window lies inside, and of the last ones
  std::vector<float> packed_multiplier(kernels::int8_conv2d_packed_channels(p));
  kernels::int8_conv2d_pack(p, weight.data(), bias.data(), multiplier.data(), packed.data(), packed_bias.data(),
                            packed_multiplier.data());
  Bytes expected(packed.size());
  expected[0] = 1;
  expected[1] = 10;
  expected[16] = 2;
  expected[17] = -20;
  CHECK(packed == expected);
  CHECK(packed_bias[0] == 100 + 3 * (1 + 2 + 10 - 20));
  CHECK(packed_bias[16] == packed_bias[0]);
  CHECK(packed_bias[32] == 100 + 3 * (1 + 10));
  CHECK(std::count(packed_bias.begin(), packed_bias.end(), 0) == 3 * 15);
  CHECK(packed_multiplier[0] == 0.5F);
}

TEST_CASE("int8_conv2d equals the integer oracle in every bit: products", "[sanitize]") {
  std::uint32_t seed = 1;
  for (const int m : {1, 3, 131}) {
    for (const auto& [k, n] : {std::pair{16, 16}, {24, 72}, {40, 33}, {320, 24}}) {
      const int variants = kOfPointwise + (k <= 64 ? 1 : 0);
      CHECK(check(rows(m, k, n), seed) == with_wgmma(variants));
      CHECK(check(with_residual(rows(m, k, n)), seed + 1) == with_wgmma(variants));
      CHECK(check(as_float(rows(m, k, n)), seed + 2) == variants);
      CHECK(check(as_dequantized(rows(m, k, n)), seed + 3) == variants);
      seed += 5;
    }
  }
}

TEST_CASE("int8_conv2d equals the integer oracle in every bit: windows", "[sanitize]") {
  std::uint32_t seed = 100;
  for (const int stride : {1, 2}) {
    for (const int size : {1, 3, 5}) {
      Int8Conv2dParams p = window(2, 9, 7, 24, 40, size, stride);
      CHECK(check(p, seed) == with_wgmma(size == 1 && stride == 1 ? kOfPointwise + 1 : kOfWindow));
      p.dilation_h = 2;
      p.pad_left = 0;
      CHECK(check(with_residual(p), seed + 5) >= with_wgmma(kOfWindow));
      seed += 10;
    }
  }
}

TEST_CASE("int8_conv2d equals the integer oracle in every bit: pixels of four bytes", "[sanitize]") {
  std::uint32_t seed = 200;
  for (const int channels : {1, 3, 4}) {
    for (const int size : {1, 3, 7}) {
      for (const int c_out : {8, 32, 48}) {
        Int8Conv2dParams p = window(2, 15, 18, channels, c_out, size, 2);
        p.x_pitch = 4;
        p.x_zero = -128;
        CHECK(check(p, seed) == kOfSmallPitch);
        seed += 5;
      }
    }
  }
  Int8Conv2dParams p = window(1, 8, 8, 3, 20, 3, 1);
  p.x_pitch = 4;
  CHECK(check(as_float(p), seed) == kOfSmallPitch);
  CHECK(check(as_dequantized(p), seed) == kOfSmallPitch);
  CHECK(check(with_residual(p), seed) == kOfSmallPitch);
  p = window(3, 40, 37, 3, 72, 7, 2);  // several tiles, by channels and by rows
  p.x_pitch = 4;
  CHECK(check(p, seed + 5) == kOfSmallPitch);
  p = window(12, 33, 20, 4, 40, 5, 1);
  p.x_pitch = 4;
  p.kernel_w = 8;
  p.dilation_h = 2;
  p.stride_h = 3;
  p.out_h = 10;
  CHECK(check(p, seed + 10) == kOfSmallPitch);
  p.dilation_w = 2;
  CHECK(check(p, seed + 15) == kOfSmallPitch - 1);
}

TEST_CASE("int8_conv2d equals the integer oracle in every bit: groups", "[sanitize]") {
  std::uint32_t seed = 300;
  for (const int of_group : {1, 3, 4, 8}) {
    Int8Conv2dParams p = window(2, 6, 5, 6 * of_group, 12 * of_group, 3, 1);
    p.groups = 6;
    CHECK(check(p, seed) == 1);
    seed += 5;
  }
}

TEST_CASE("int8_conv2d equals the integer oracle in every bit: extremes, zero points and ranges at both ends",
          "[sanitize]") {
  std::uint32_t seed = 400;
  for (const kernels::ByteRange& range : kByteRanges) {
    for (const int x_zero : {-128, 127}) {
      for (const ByteData bytes : kByteData) {
        Int8Conv2dParams p = window(1, 3, 2, 32, 16, 3, 1);
        p.x_zero = x_zero;
        p.result = range;
        CHECK(check(p, seed, bytes) == with_wgmma(kOfWindow));
        p = with_residual(p);
        p.sum.output = range;
        p.sum.b_zero = x_zero;
        CHECK(check(p, seed + 5, bytes) == with_wgmma(kOfWindow));
        seed += 10;
      }
    }
  }
}

TEST_CASE("int8_conv2d rounds halves to even, and sums beyond 2^24 as floats do", "[sanitize]") {
  Int8Conv2dParams p = rows(64, 16, 16);
  p.result = {3, -128, 127};
  Data data = make_data(p, ByteData::Random, 501);
  for (std::int8_t& value : data.x) value = static_cast<std::int8_t>(value / 4);
  for (std::int8_t& value : data.weight) value = static_cast<std::int8_t>(value / 50);
  std::fill(data.bias.begin(), data.bias.end(), 1);
  std::fill(data.multiplier.begin(), data.multiplier.end(), 0.5F);
  CHECK(check(p, data) == with_wgmma(kOfPointwise + 1));
  CHECK(check(as_float(p), data) == kOfPointwise + 1);
  for (std::int32_t& value : data.bias) value = (1 << 24) + 1;
  for (float& value : data.multiplier) value = 1.0F / 262144.0F;
  CHECK(check(p, data) == with_wgmma(kOfPointwise + 1));
  for (std::int32_t& value : data.bias) value = 2100000000;
  for (float& value : data.multiplier) value = 1e30F;
  CHECK(check(p, data) == with_wgmma(kOfPointwise + 1));
  CHECK(check(as_float(p), data) == kOfPointwise + 1);
}

TEST_CASE("int8_conv2d reads and writes rows that lie apart", "[sanitize]") {
  Int8Conv2dParams p = window(2, 5, 6, 20, 24, 3, 1);
  p.x_pitch = 48;
  p.y_pitch = 64;
  CHECK(check(p, 601) == with_wgmma(kOfWindow));
  CHECK(check(with_residual(p), 602) == with_wgmma(kOfWindow));
}

/// The variants on wgmma, which walk over tiles and slices; how many ran.
int check_wgmma(const Int8Conv2dParams& p, std::uint32_t seed) {
  const Data data = make_data(p, ByteData::Random, seed);
  const std::vector<std::int8_t> expected = oracle<std::int8_t>(p, data);
  const Device device(p, data);
  int ran = 0;
  for (const Int8Conv2dVariant variant : kernels::int8_conv2d_variants()) {
    if (!name(variant).starts_with("wgmma") || !kernels::supports(variant, p, gpu_traits())) continue;
    CAPTURE(p, name(variant));
    CHECK(device.run<std::int8_t>(variant) == expected);
    ++ran;
  }
  return ran;
}

TEST_CASE("int8_conv2d by wgmma equals the integer oracle in every bit: several tiles and slices", "[sanitize]") {
  REQUIRE(check_wgmma(rows(3000, 48, 80), 801) == with_wgmma(0));
  check_wgmma(with_residual(rows(1600, 272, 304)), 802);
  check_wgmma(rows(300, 1040, 112), 803);
  Int8Conv2dParams p = window(1, 30, 27, 144, 208, 3, 1);
  check_wgmma(p, 804);
  p = with_residual(window(3, 23, 20, 64, 64, 3, 2));
  p.sum.b_zero = -9;
  check_wgmma(p, 805);
}

TEST_CASE("int8_conv2d by wgmma takes the zero point for what lies outside of the image", "[sanitize]") {
  std::uint32_t seed = 820;
  for (const int x_zero : {-128, 0, 127}) {
    for (const auto& [h, w] : {std::pair{1, 1}, {2, 3}, {9, 8}}) {
      for (const int stride : {1, 2, 3}) {
        Int8Conv2dParams p = window(2, h, w, 20, 24, 5, stride);
        p.x_zero = x_zero;
        CHECK(check_wgmma(p, seed) == with_wgmma(0));
        p.pad_left = 1;
        p.dilation_w = 2;
        CHECK(check_wgmma(p, seed + 1) == with_wgmma(0));
        seed += 2;
      }
    }
  }
  Int8Conv2dParams p = window(1, 16, 16, 16, 16, 17, 1);  // more sets of taps than biases are packed for
  CHECK(check_wgmma(p, seed) == 0);
  p.x_zero = 0;
  CHECK(check_wgmma(p, seed) == with_wgmma(0));
}

TEST_CASE("int8_conv2d equals the integer oracle on the layers of MobileNetV2") {
  std::uint32_t seed = 700;
  for (const InvertedResidualLayer& layer : kMobileNetV2Blocks) {
    for (const int n : {1, 8}) {
      if (layer.expands()) check(window(n, layer.size, layer.size, layer.c_in, layer.c_hidden, 1, 1), seed);
      Int8Conv2dParams project = window(n, layer.out_size(), layer.out_size(), layer.c_hidden, layer.c_out, 1, 1);
      check(layer.has_residual() ? with_residual(project) : project, seed + 5);
      seed += 10;
    }
  }
  Int8Conv2dParams stem = window(8, 224, 224, 3, 32, 3, 2);
  stem.x_pitch = 4;
  check(stem, seed);
  check(as_float(rows(1, 1280, 1000)), seed + 5);
  check(as_float(rows(32, 1280, 1000)), seed + 10);
  check(as_dequantized(rows(1, 1280, 1000)), seed + 15);
}

TEST_CASE("int8_conv2d says what it supports, and refuses the rest") {
  const auto supported = [](const Int8Conv2dParams& p) {
    return for_each_supported(kernels::int8_conv2d_variants(), p, [](Int8Conv2dVariant) {});
  };
  const Int8Conv2dParams good = window(1, 8, 8, 16, 16, 3, 1);
  REQUIRE(supported(good) == with_wgmma(kOfWindow));
  Int8Conv2dParams p = good;
  for (int Int8Conv2dParams::*member :
       {&Int8Conv2dParams::h, &Int8Conv2dParams::c_in, &Int8Conv2dParams::c_out, &Int8Conv2dParams::out_w,
        &Int8Conv2dParams::kernel_h, &Int8Conv2dParams::stride_w, &Int8Conv2dParams::dilation_h,
        &Int8Conv2dParams::groups}) {
    p = good;
    p.*member = 0;
    CHECK(supported(p) == 0);
    CHECK(kernels::int8_conv2d(Int8Conv2dVariant::Direct, p, nullptr, {}, nullptr, nullptr, {}) ==
          cudaErrorInvalidValue);
  }
  const auto refused = [&](const auto& change) {
    Int8Conv2dParams changed = good;
    change(changed);
    return supported(changed) == 0;
  };
  CHECK(refused([](Int8Conv2dParams& q) { q.n = -1; }));
  CHECK(refused([](Int8Conv2dParams& q) { q.groups = 3; }));
  CHECK(refused([](Int8Conv2dParams& q) { q.x_pitch = 24; }));
  CHECK(refused([](Int8Conv2dParams& q) { q.x_pitch = 4; }));
  CHECK(refused([](Int8Conv2dParams& q) { q.y_pitch = 8; }));
  CHECK(refused([](Int8Conv2dParams& q) { q.x_zero = 128; }));
  CHECK(refused([](Int8Conv2dParams& q) { q.result = {0, 5, 4}; }));
  CHECK(refused([](Int8Conv2dParams& q) { q.result.low = -129; }));
  CHECK(refused([](Int8Conv2dParams& q) {
    q = with_residual(q);
    q.sum.a_zero += 1;
  }));
  CHECK(refused([](Int8Conv2dParams& q) {
    q = with_residual(q);
    q.sum.b_scale = 0.0F;
  }));
  CHECK(refused([](Int8Conv2dParams& q) { q = as_float(with_residual(q)); }));
  CHECK(refused([](Int8Conv2dParams& q) { q = as_dequantized(with_residual(q)); }));
  CHECK(refused([](Int8Conv2dParams& q) { q.y_scale = 0.0F; }));
  REQUIRE_FALSE(kernels::supports(Int8Conv2dVariant::Direct, good, kernels::traits_of(70, 132)));
  REQUIRE_FALSE(kernels::supports(Int8Conv2dVariant::Mma64x64x64, good, kernels::traits_of(75, 132)));
}

TEST_CASE("int8_conv2d: every variant once", "[race]") {
  race_case::EachOnce<Int8Conv2dVariant> each(kernels::int8_conv2d_variants());
  Int8Conv2dParams stem = window(1, 15, 15, 3, 32, 3, 2);
  stem.x_pitch = 4;
  for (const Int8Conv2dVariant variant : each.variants()) {
    each.run_one(variant,
                 std::vector{with_residual(window(2, 9, 9, 80, 48, 3, 1)), with_residual(rows(3, 48, 48)), stem},
                 [](const Int8Conv2dParams& p, std::span<const Int8Conv2dVariant> its) {
                   const Data data = make_data(p, ByteData::Random, 95);
                   const Device device(p, data);
                   const Bytes expected = oracle<std::int8_t>(p, data);
                   for (const Int8Conv2dVariant one : its) CHECK(device.run<std::int8_t>(one) == expected);
                 });
  }
  each.check_all_ran();
}

}  // namespace
}  // namespace mobicuda::test
