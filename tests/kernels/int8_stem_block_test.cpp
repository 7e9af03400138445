#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "kernels/int8_stem_block_case.h"
#include "kernels/race_case.h"

namespace mobicuda::test {
namespace {

using namespace int8_stem_block_case;
using window_case::kInfinity;
using window_case::kNan;

constexpr int kBothInputs = 2;

TEST_CASE("int8_stem_block equals the integer oracle in every bit", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  std::uint32_t seed = 1;
  // Of widths 1.0, 0.35, 0.5, 1.3 and 1.4 of MobileNetV2, and of a stem that fills its room.
  constexpr int kChannelsOf[][2] = {{32, 16}, {16, 8}, {24, 16}, {40, 24}, {48, 24}, {64, 32}, {33, 17}};
  for (const auto& [c_stem, c_out] : kChannelsOf) {
    CHECK(check(block(1, 23, 34, c_stem, c_out), seed += 50) >= kBothInputs);
  }
}

TEST_CASE("int8_stem_block equals the integer oracle at every border", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  std::uint32_t seed = 1000;
  for (const int h : {1, 2, 19}) {
    for (const int w : {1, 2, 30, 61}) {
      for (const int stem_pad : {0, 1, 2}) {
        Int8StemBlockParams p = block(2, h, w);
        p.stem_pad_top = stem_pad;
        p.stem_pad_left = 2 - stem_pad;
        p.depthwise_pad_left = stem_pad;
        p.depthwise_pad_top = 2 - stem_pad;
        CHECK(check(p, seed += 50) >= kBothInputs);
      }
    }
  }
}

TEST_CASE("int8_stem_block equals the integer oracle where sizes leave less than is there", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  Int8StemBlockParams p = block(2, 20, 38);
  p.stem_h = 8;
  p.stem_w = 17;
  p.out_h = 7;
  p.out_w = 15;
  p.depthwise_pad_top = 0;
  CHECK(check(p, 70) >= kBothInputs);
}

TEST_CASE("int8_stem_block equals the integer oracle: extremes, zero points and ranges at both ends", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  std::uint32_t seed = 3000;
  for (const kernels::ByteRange& range : kByteRanges) {
    for (const ByteData bytes : kByteData) {
      Int8StemBlockParams p = block(1, 7, 10);
      p.x.zero_point = range.zero_point;
      p.stem_result = p.depthwise_result = p.result = range;
      CHECK(check(p, seed += 5, bytes) >= kBothInputs);
    }
  }
}

TEST_CASE("int8_stem_block equals the integer oracle where sums are large", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  const Int8StemBlockParams p = block(1, 7, 10);
  const auto check_changed = [&](const auto& change) {
    Data data = make_data(p, ByteData::Random, 40);
    change(data);
    CHECK(check(p, data) >= kBothInputs);
  };
  // From 2^22 on, and results beyond 16 bits.
  check_changed([](Data& d) { d.stem.bias[7] = 1 << 23; });
  check_changed([](Data& d) { d.depthwise.bias[9] = -(1 << 30); });
  check_changed([](Data& d) { d.project.bias[15] = 1 << 22; });
  const auto set = [](auto& layer, std::size_t channel, std::int32_t bias) {
    layer.bias[channel] = bias;
    layer.multiplier[channel] = 1e-5F;  // results within the range
  };
  check_changed([&](Data& d) { set(d.stem, 7, 1 << 23); });
  check_changed([&](Data& d) { set(d.depthwise, 9, 1 << 23); });
  check_changed([&](Data& d) { set(d.project, 15, 1 << 22); });
  check_changed([&](Data& d) { set(d.project, 0, -(1 << 22) - 50000); });
  check_changed([](Data& d) { d.stem.multiplier[11] = 100.0F; });
  check_changed([](Data& d) { d.project.multiplier[0] = 1.0F; });
  // Just below.
  check_changed([](Data& d) { d.stem.bias[7] = 4000000; });
  check_changed([](Data& d) { d.depthwise.bias[9] = -4000000; });
}

/// As channels that training left without weights.
TEST_CASE("int8_stem_block equals the integer oracle where channels are always the same", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  const Int8StemBlockParams p = block(1, 7, 10);
  Data data = make_data(p, ByteData::Random, 60);
  const auto freeze = [](auto& layer, std::size_t channels, std::size_t channel, std::int32_t bias) {
    const std::size_t products = layer.weight.size() / channels;
    std::fill_n(layer.weight.begin() + static_cast<std::ptrdiff_t>(channel * products), products, std::int8_t{0});
    layer.bias[channel] = bias;
    layer.multiplier[channel] = 3e-7F;
  };
  freeze(data.stem, 32, 0, -324204896);
  freeze(data.stem, 32, 5, 324204896);
  freeze(data.stem, 32, 31, 1 << 30);
  freeze(data.depthwise, 32, 6, 200000000);
  freeze(data.depthwise, 32, 7, -200000000);
  freeze(data.project, 16, 3, 200000000);
  freeze(data.project, 16, 4, -200000000);
  CHECK(check(p, data) >= kBothInputs);
  const kernels::Int8Channel channel(data.layers().stem, 5, 27, 127, 0, 255, p.stem_result);
  CHECK(channel.sums().most == 97);  // which the fast way is right for
}

/// Each number between two whole ones, and its neighbours, at which quantize rounds the other way.
TEST_CASE("int8_stem_block divides as quantize does", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  std::uint32_t seed = 7000;
  for (const float scale : {0.007843138F, 0.018658448F, 0.5F, 3.0F, 1.0F / 3.0F, 1e-30F, 1e30F, 6.1234567e-39F}) {
    for (const kernels::ByteRange range :
         {kernels::ByteRange{-1, -128, 127}, kernels::ByteRange{-128, -128, 127}, kernels::ByteRange{5, -20, 100}}) {
      Int8StemBlockParams p = block(1, 24, 32);
      p.x_scale = scale;
      p.x = range;
      Data data = make_data(p, ByteData::Random, seed += 50);
      std::size_t at = 0;
      for (int half = -257; half <= 257; ++half) {
        float x = (static_cast<float>(half) + 0.5F) * scale;
        for (int i = 0; i < 2; ++i) x = std::nextafter(x, -kInfinity);
        for (int i = 0; i < 4 && at < data.x.size(); ++i, x = std::nextafter(x, kInfinity)) data.x[at++] = x;
      }
      for (const float x : {kNan, -kNan, kInfinity, -kInfinity, 0.0F, -0.0F, std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::denorm_min()}) {
        data.x[at++] = x;
      }
      quantize_image(p, data);
      CHECK(check(p, data) >= 1);
    }
  }
}

TEST_CASE("int8_stem_block equals the integer oracle on the beginning of MobileNetV2") {
  MOBICUDA_SKIP_BELOW(80);
  for (const int n : {1, 3}) {
    for (const int pad : {0, 1}) {
      Int8StemBlockParams p = block(n, 224, 224);
      p.stem_pad_top = p.stem_pad_left = pad;
      CHECK(check(p, 5000) >= kBothInputs);
    }
  }
}

TEST_CASE("int8_stem_block says what it supports, and refuses the rest") {
  const auto variant = Int8StemBlockVariant::Tile4x28K32N16;
  const auto supported = [&](const auto& change) {
    Int8StemBlockParams p = block(1, 32, 32);
    kernels::DeviceTraits gpu = kernels::traits_of(90, 132);
    change(p, gpu);
    return kernels::supports(variant, p, gpu);
  };
  using P = Int8StemBlockParams;
  using G = kernels::DeviceTraits;
  REQUIRE(supported([](P&, G&) {}));
  for (int P::*member : {&P::h, &P::w, &P::c_stem, &P::c_out, &P::stem_h, &P::stem_w, &P::out_h, &P::out_w}) {
    CHECK_FALSE(supported([&](P& p, G&) { p.*member = 0; }));
  }
  CHECK_FALSE(supported([](P& p, G&) { p.n = -1; }));
  CHECK_FALSE(supported([](P& p, G&) { p.c_stem = 40; }));
  CHECK_FALSE(supported([](P& p, G&) { p.c_out = 24; }));
  CHECK_FALSE(supported([](P& p, G&) { p.stem_pad_top = 3; }));
  CHECK_FALSE(supported([](P& p, G&) { p.depthwise_pad_left = -1; }));
  CHECK_FALSE(supported([](P& p, G&) { p.stem_h = 40; }));
  CHECK_FALSE(supported([](P& p, G&) { p.x_scale = 0.0F; }));
  CHECK_FALSE(supported([](P& p, G&) { p.x.low = 3; }));  // 0 is no number of x
  CHECK_FALSE(supported([](P& p, G&) { p.depthwise_result.low = -129; }));
  CHECK_FALSE(supported([](P& p, G&) {
    p.input = Int8StemInput::Words;
    p.x.low = -100;
  }));
  CHECK_FALSE(supported([](P&, G& gpu) { gpu = kernels::traits_of(75, 132); }));
  CHECK(kernels::int8_stem_block(variant, block(0, 32, 32), nullptr, nullptr, nullptr, {}) ==
        (gpu_traits().code >= 80 ? cudaSuccess : cudaErrorInvalidValue));
}

TEST_CASE("int8_stem_block: every variant once", "[race]") {
  race_case::EachOnce<Int8StemBlockVariant> each(kernels::int8_stem_block_variants());
  const std::vector<Int8StemBlockParams> shapes{block(1, 20, 34), block(1, 20, 34, 48, 24)};
  for (const Int8StemBlockVariant variant : each.variants()) {
    each.run_one(variant, shapes, [](const Int8StemBlockParams& p, std::span<const Int8StemBlockVariant> its) {
      const Data data = make_data(p, ByteData::Random, 95);
      const Bytes expected = oracle(p, data);
      for (const Int8StemBlockVariant one : its) CHECK(run(p, data, one) == expected);
    });
  }
  each.check_all_ran();
}

}  // namespace
}  // namespace mobicuda::test
