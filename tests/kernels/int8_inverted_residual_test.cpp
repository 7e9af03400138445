#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/int8_inverted_residual_case.h"
#include "kernels/race_case.h"
#include "support/emulated.h"
#include "support/network_shapes.h"

namespace mobicuda::test {
namespace {

using namespace int8_inverted_residual_case;

/// Blocks of the variants' channels on maps of h x w.
std::vector<Int8InvertedResidualParams> blocks(int n, int h, int w) {
  std::vector<Int8InvertedResidualParams> found;
  for (const InvertedResidualLayer& layer : kMobileNetV2Blocks) {
    if (!layer.expands()) continue;
    const Int8InvertedResidualParams p = block(n, h, w, layer.c_in, layer.c_hidden, layer.c_out, layer.stride);
    const auto has_these_channels = [&](const Int8InvertedResidualParams& other) {
      return other.c_in == p.c_in && other.c_out == p.c_out && other.stride == p.stride;
    };
    if (std::none_of(found.begin(), found.end(), has_these_channels)) found.push_back(p);
  }
  return found;
}

TEST_CASE("int8_inverted_residual equals the integer oracle in every bit", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  std::uint32_t seed = 1;
  for (const Int8InvertedResidualParams& p : blocks(1, 9, 8)) CHECK(check(p, seed += 50) >= 1);
}

TEST_CASE("int8_inverted_residual: variants of one packing write the same bytes", "[sanitize]") {
  kernels::DeviceTraits gpu = kernels::traits_of(90, 132);
  gpu.compiles = true;
  int shared = 0;
  for (const Int8InvertedResidualParams& p : blocks(3, 14, 10)) {
    const auto& kernel = kernels::kernel_of(p);
    std::vector<Int8InvertedResidualVariant> variants = kernel.specialised(p, gpu);
    std::ranges::copy_if(kernel.variants, std::back_inserter(variants),
                         [&](Int8InvertedResidualVariant variant) { return kernels::supports(variant, p, gpu); });
    const Data data = make_data(p, ByteData::Random, 7);
    std::map<std::string_view, std::vector<std::byte>> packed;
    for (const Int8InvertedResidualVariant variant : variants) {
      std::vector<std::byte> bytes(kernels::int8_inverted_residual_packed_bytes(variant, p));
      kernels::int8_inverted_residual_pack(variant, p, data.layers(), bytes.data());
      const auto [first, is_new] = packed.emplace(kernel.packing(variant), bytes);
      CAPTURE(name(variant), p);
      REQUIRE(first->second == bytes);
      if (!is_new) ++shared;
    }
  }
  CHECK(shared > 50);
}

TEST_CASE("int8_inverted_residual equals the integer oracle at every border", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  std::uint32_t seed = 1000;
  for (const int stride : {1, 2}) {
    for (const int h : {1, 3, 8}) {
      for (const int w : {1, 2, 15, 17}) {
        for (const int pad : {0, 1, 2}) {
          Int8InvertedResidualParams p = block(2, h, w, 24, 144, stride == 1 ? 24 : 32, stride);
          p.pad_top = pad;
          p.pad_left = 2 - pad;
          CHECK(check(p, seed += 50) >= 1);
        }
      }
    }
  }
}

TEST_CASE("int8_inverted_residual equals the integer oracle: extremes, zero points and ranges at both ends",
          "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  std::uint32_t seed = 3000;
  for (const kernels::ByteRange& range : kByteRanges) {
    for (const ByteData bytes : kByteData) {
      Int8InvertedResidualParams p = block(1, 5, 4, 24, 144, 24, 1);
      p.x_zero = range.zero_point;
      p.expand_result = p.depthwise_result = p.result = p.sum.output = range;
      p.sum.a_zero = p.sum.b_zero = range.zero_point;
      CHECK(check(p, seed += 5, bytes) >= 1);
    }
  }
}

TEST_CASE("int8_inverted_residual equals the integer oracle where sums are large", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  const Int8InvertedResidualParams p = block(1, 5, 4, 24, 144, 24, 1);
  const auto check_changed = [&](const auto& change) {
    Data data = make_data(p, ByteData::Random, 40);
    change(data);
    const Bytes expected = oracle(p, data);
    for_each_supported(kernels::int8_inverted_residual_variants(), p,
                       [&](Int8InvertedResidualVariant variant) { CHECK(run(p, data, variant) == expected); });
  };
  // From 2^22 on, and results beyond 16 bits.
  check_changed([](Data& d) { d.expand.bias[7] = 1 << 23; });
  check_changed([](Data& d) { d.depthwise.bias[9] = -(1 << 30); });
  check_changed([](Data& d) { d.expand.multiplier[11] = 100.0F; });
  // Results in the middle of their range, of sums beyond 2^23.
  check_changed([](Data& d) {
    d.expand.bias[7] = 1 << 24;
    d.expand.multiplier[7] = 6e-6F;
  });
  check_changed([](Data& d) {
    d.depthwise.bias[9] = 1 << 24;
    d.depthwise.multiplier[9] = 6e-6F;
  });
}

TEST_CASE("int8_inverted_residual equals the integer oracle where small sums are clipped at zero points",
          "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  // Bytes of the whole range and of a part of it; in channels whose result is always the same sums have any size.
  for (const kernels::ByteRange& range : {kernels::ByteRange{-128, -128, 127}, kernels::ByteRange{0, 0, 127}}) {
    for (Int8InvertedResidualParams p : blocks(1, 9, 15)) {
      p.expand_result = p.depthwise_result = range;
      Data data = make_data(p, ByteData::Random, 60);
      for (const bool large : {false, true}) {
        if (is_emulated() && large != (range.low == 0)) continue;
        CAPTURE(p, range.low, large);
        if (large) {
          const auto clear = [](auto& weights, int channel, int count) {
            std::fill_n(weights.begin() + std::ptrdiff_t{channel} * count, count, std::int8_t{0});
          };
          clear(data.expand.weight, 3, p.c_in);
          data.expand.bias[3] = 300'000'000;
          clear(data.depthwise.weight, 5, 9);
          data.depthwise.bias[5] = -300'000'000;
        }
        const Bytes expected = oracle(p, data);
        CHECK(for_each_supported(
                  kernels::int8_inverted_residual_variants(), p,
                  [&](Int8InvertedResidualVariant variant) { CHECK(run(p, data, variant) == expected); }) >= 1);
      }
    }
  }
}

TEST_CASE("int8_inverted_residual equals the integer oracle on the blocks of MobileNetV2") {
  MOBICUDA_SKIP_BELOW(80);
  std::uint32_t seed = 5000;
  for (const InvertedResidualLayer& layer : kMobileNetV2Blocks) {
    for (const int n : {1, 3}) {
      const Int8InvertedResidualParams p =
          block(n, layer.size, layer.size, layer.c_in, layer.c_hidden, layer.c_out, layer.stride);
      if (layer.expands()) check(p, seed += 50);
    }
  }
}

TEST_CASE("int8_inverted_residual says what it supports, and refuses the rest") {
  const auto variant = Int8InvertedResidualVariant::S1Tile14x14K64C384N64;
  const auto supported = [&](const auto& change) {
    Int8InvertedResidualParams p = block(1, 14, 14, 64, 384, 64, 1);
    kernels::DeviceTraits gpu = kernels::traits_of(90, 132);
    change(p, gpu);
    return kernels::supports(variant, p, gpu);
  };
  using P = Int8InvertedResidualParams;
  using G = kernels::DeviceTraits;
  REQUIRE(supported([](P&, G&) {}));
  for (int P::*member : {&P::h, &P::c_in, &P::c_hidden, &P::c_out, &P::out_w, &P::stride}) {
    CHECK_FALSE(supported([&](P& p, G&) { p.*member = 0; }));
  }
  CHECK_FALSE(supported([](P& p, G&) { p.n = -1; }));
  CHECK_FALSE(supported([](P& p, G&) { p.stride = 2; }));
  CHECK_FALSE(supported([](P& p, G&) { p.c_in = 32; }));
  CHECK_FALSE(supported([](P& p, G&) { p.pad_top = 3; }));
  CHECK_FALSE(supported([](P& p, G&) { p.x_zero = 128; }));
  CHECK_FALSE(supported([](P& p, G&) { p.depthwise_result.low = -129; }));
  CHECK_FALSE(supported([](P& p, G&) { p.sum.a_zero += 1; }));
  CHECK_FALSE(supported([](P& p, G&) { p.sum.b_scale = 0.0F; }));
  CHECK_FALSE(supported([](P& p, G&) { p.h = p.out_h = 1 << 29; }));
  CHECK_FALSE(supported([](P&, G& gpu) { gpu = kernels::traits_of(75, 132); }));
  CHECK(kernels::int8_inverted_residual(variant, block(0, 14, 14, 64, 384, 64, 1), nullptr, nullptr, nullptr, {}) ==
        (gpu_traits().code >= 80 ? cudaSuccess : cudaErrorInvalidValue));
}

TEST_CASE("int8_inverted_residual runs clusters where the GPU and its code have them") {
  const auto supported = [](const kernels::DeviceTraits& gpu) {
    return kernels::supports(Int8InvertedResidualVariant::S1Tile2x7K64C384N64Cluster4, block(1, 14, 14, 64, 384, 64, 1),
                             gpu);
  };
  CHECK(supported(kernels::traits_of(90, 132)));
  CHECK(supported(kernels::traits_of(100, 148)));
  CHECK_FALSE(supported(kernels::traits_of(89, 128)));
  CHECK_FALSE(supported(kernels::traits_of(90, 132, 80)));
  kernels::DeviceTraits few = kernels::traits_of(90, 132);
  few.cluster_blocks = few.large_cluster_blocks = 2;
  CHECK_FALSE(supported(few));
}

TEST_CASE("int8_inverted_residual: every variant once", "[race]") {
  race_case::EachOnce<Int8InvertedResidualVariant> each(kernels::int8_inverted_residual_variants());
  for (const Int8InvertedResidualVariant variant : each.variants()) {
    each.run_one(variant, blocks(1, 9, 7),
                 [](const Int8InvertedResidualParams& p, std::span<const Int8InvertedResidualVariant> its) {
                   const Data data = make_data(p, ByteData::Random, 95);
                   const Bytes expected = oracle(p, data);
                   for (const Int8InvertedResidualVariant one : its) CHECK(run(p, data, one) == expected);
                 });
  }
  each.check_all_ran();
}

}  // namespace
}  // namespace mobicuda::test
