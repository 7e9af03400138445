#include <algorithm>
#include <iterator>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "kernels/common/fast_division.cuh"
#include "kernels/depthwise_conv_case.h"
#include "kernels/race_case.h"
#include "support/emulated.h"
#include "support/network_shapes.h"

namespace mobicuda::test {
namespace {

using namespace depthwise_conv_case;

TEST_CASE("FastDivision divides like the hardware") {
  const std::uint32_t largest = 0x7FFFFFFF;
  std::mt19937 engine(1);
  const auto below_power_of_two = [&] { return static_cast<std::uint32_t>(engine()) >> (1 + engine() % 31); };
  std::vector<std::uint32_t> divisors = {1, 2, 3, 5, 7, 8, 9, 641, 65535, 65536, 65537, largest - 1, largest};
  for (int i = 0; i < 200; ++i) divisors.push_back(std::max(1U, below_power_of_two()));
  for (const std::uint32_t d : divisors) {
    const kernels::FastDivision division(d);
    std::vector<std::uint32_t> dividends = {0, 1, d - 1, d, largest - 1, largest, largest / d * d, largest / d * d - 1};
    for (int i = 0; i < 200; ++i) dividends.push_back(below_power_of_two());
    for (const std::uint32_t x : dividends) {
      std::uint32_t remainder = 0;
      CAPTURE(x, d);
      REQUIRE(division.divide(x, remainder) == x / d);
      REQUIRE(remainder == x % d);
    }
  }
}

TEST_CASE("depthwise_conv_pack moves channels innermost") {
  const std::vector<float> weight = counting(3 * 2 * 2);  // (c = 3, 1, 2, 2)
  std::vector<float> packed(weight.size());
  REQUIRE(kernels::depthwise_conv_packed_bytes(Elem::F32, 3, 2, 2) == packed.size() * sizeof(float));
  kernels::depthwise_conv_pack(Elem::F32, 3, 2, 2, weight.data(), packed.data());
  REQUIRE(packed == std::vector<float>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
}

TEST_CASE("depthwise_conv equals the oracle on the layers of MobileNetV2") {
  std::uint32_t seed = 100;
  for (const Elem elem : kAllElems) {
    for (const DepthwiseLayer& layer : mobilenet_v2_depthwise()) {
      for (const int n : {1, 8, 32}) {
        DepthwiseConvParams p = same_size(elem, n, layer.size, layer.size, layer.channels, layer.stride);
        // TensorFlow pads below and to the right only when the stride is 2.
        if (layer.stride == 2 && n == 8) p.pad_top = p.pad_left = 0;
        check_against_oracle(p, random_data(p, seed), seed);
        seed += 10;
      }
    }
  }
}

TEST_CASE("depthwise_conv equals the oracle on the 5x5 layers of MobileNetV3-Large and EfficientNet-B0") {
  std::uint32_t seed = 500;
  for (const Elem elem : kElems) {
    for (const DepthwiseLayer& layer : kDepthwise5x5) {
      for (const int n : {1, 8}) {
        DepthwiseConvParams p = same_size(elem, n, layer.size, layer.size, layer.channels, layer.stride, layer.window);
        if (layer.stride == 2 && n == 8) p.pad_top = p.pad_left = 1;
        check_against_oracle(p, random_data(p, seed), seed);
        seed += 10;
      }
    }
  }
}

TEST_CASE("depthwise_conv equals the oracle on random shapes") {
  constexpr int kShapes = 150;
  for (const Elem elem : kAllElems) {
    for (const bool strips : {false, true}) {
      Choice choose(strips ? 7 : 8);
      for (std::uint32_t i = 0; i < kShapes; ++i) {
        const DepthwiseConvParams p = random_shape(choose, elem, strips);
        check_against_oracle(p, random_data(p, 1000 + 10 * i), 1000 + 10 * i);
      }
    }
  }
}

TEST_CASE("depthwise_conv equals the oracle at every boundary of the grid") {
  for (const Elem elem : kAllElems) {
    for (const auto& [stride, window] : {std::pair{1, 3}, {2, 3}, {1, 5}, {2, 5}}) {
      for (const int c : kChannelGrid) {
        const DepthwiseConvParams p = same_size(elem, 2, 9, 8, c, stride, window);
        check_against_oracle(p, random_data(p, 21), 21);
      }
      for (const int size : kSizeGrid) {
        for (const auto& [h, w] : {std::pair{size, 6}, std::pair{6, size}}) {
          const DepthwiseConvParams p = same_size(elem, 2, h, w, 16, stride, window);
          check_against_oracle(p, random_data(p, 22), 22);
        }
      }
      for (const int n : kBatchGrid) {
        const DepthwiseConvParams p = same_size(elem, n, 7, 6, 16, stride, window);
        check_against_oracle(p, random_data(p, 23), 23);
      }
    }
  }
}

TEST_CASE("depthwise_conv equals the oracle for every padding, windows wholly outside among them") {
  for (const Elem elem : kAllElems) {
    for (const auto& [stride, window] : {std::pair{1, 3}, {2, 3}, {1, 5}, {2, 5}}) {
      for (int top = 0; top <= 5; ++top) {
        for (int left = 0; left <= 5; ++left) {
          DepthwiseConvParams p = same_size(elem, 1, 5, 3, 8, stride, window);
          p.pad_top = top;
          p.pad_left = left;
          p.out_h = output_extent(p.h, window, stride, 1, top, 5 - left);
          p.out_w = output_extent(p.w, window, stride, 1, left, 5 - top);
          if (p.out_h == 0 || p.out_w == 0) continue;
          p.activation = kNone;
          check_against_oracle(p, random_data(p, 31), 31);
        }
      }
    }
  }
}

TEST_CASE("depthwise_conv is exact on small whole numbers", "[sanitize]") {
  const std::uint32_t shapes = when_emulated_fewer(60U);
  Choice choose(5);
  for (const Elem elem : kAllElems) {
    for (std::uint32_t i = 0; i < shapes; ++i) {
      const DepthwiseConvParams p = random_shape(choose, elem, i % 2 == 0);
      const Data data = integer_data(p, 50 + i);
      const OracleConv conv = oracle_of(p);
      const Oracle oracle = conv2d(conv, data.x, data.weight, data.bias);
      const Device device(p, data);
      const int shape[] = {p.n, p.out_h, p.out_w, p.c};
      for_each_variant(
          p, [&](DepthwiseConvVariant variant) { REQUIRE(compare_exact(device.run(variant), oracle.value, shape)); });
    }
  }
}

TEST_CASE("depthwise_conv gives the same bits with every variant and in every batch") {
  for (const Elem elem : kAllElems) {
    for (const auto& [stride, window] : {std::pair{1, 3}, {2, 3}, {1, 5}, {2, 5}}) {
      DepthwiseConvParams p = same_size(elem, 5, 15, 14, 16, stride, window);
      const Data all = random_data(p, 45);
      const Device device(p, all);
      const std::vector<float> expected = device.run(DepthwiseConvVariant::Direct);
      for_each_variant(p, [&](DepthwiseConvVariant variant) { REQUIRE(compare_bits(device.run(variant), expected)); });
      p.n = 1;
      const auto picture = static_cast<std::ptrdiff_t>(input_count(p));
      const Data first{{all.x.begin(), all.x.begin() + picture}, all.weight, all.bias};
      const Device alone(p, first);
      const std::span<const float> expected_first(expected.data(), output_count(p));
      for_each_variant(
          p, [&](DepthwiseConvVariant variant) { REQUIRE(compare_bits(alone.run(variant), expected_first)); });
    }
  }
}

TEST_CASE("depthwise_conv passes NaN and infinity on, to the windows that see them only", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const auto& [stride, window] : {std::pair{1, 3}, {2, 3}, {1, 5}, {2, 5}}) {
      const DepthwiseConvParams p = same_size(elem, 2, 15, 14, 16, stride, window);
      Data data = random_data(p, 41);
      data.x[count_of(1, 7, 5, 16)] = kNan;
      data.x[count_of(1, 3, 14, 16) + 3] = kInfinity;
      data.x[count_of(2, 15, 14, 16) - 1] = -kInfinity;
      const Oracle oracle = conv2d(oracle_of(p), data.x, data.weight, data.bias);
      const std::vector<double> bounds =
          hard_bounds(gamma(oracle.products, unit_of(elem)), oracle.magnitude, oracle.value, store_of(elem));
      const Device device(p, data);
      const int shape[] = {p.n, p.out_h, p.out_w, p.c};
      for_each_variant(p, [&](DepthwiseConvVariant variant) {
        REQUIRE(compare_elements(device.run(variant), oracle.value, bounds, shape));
      });
    }
  }
}

TEST_CASE("depthwise_conv takes more pictures than a grid's y or z dimension") {
  const DepthwiseConvParams p = same_size(Elem::F16, 70001, 3, 2, 8, 1);
  check_against_oracle(p, random_data(p, 61), 61);
}

TEST_CASE("depthwise_conv addresses tensors of more than 2^31 elements") {
  constexpr std::size_t kSize = 128;
  constexpr std::size_t kPicture = kSize * kSize * 64;
  constexpr int kPictures = 2049;  // 2^31 elements and one picture more
  constexpr std::size_t kNeeded = 3 * sizeof(std::uint16_t) * kPicture * kPictures;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  if (free_bytes < kNeeded) MOBICUDA_SKIP("needs 13 GB of GPU memory");

  DepthwiseConvParams p = same_size(Elem::F16, 1, kSize, kSize, 64, 1);
  const Data data = random_data(p, 71);
  const DeviceTensor one(Elem::F16, data.x);
  std::vector<std::byte> packed(kernels::depthwise_conv_packed_bytes(p.elem, p.c, 3, 3));
  kernels::depthwise_conv_pack(p.elem, p.c, 3, 3, data.weight.data(), packed.data());
  const GuardedBuffer weights{std::span<const std::byte>(packed)};
  const DeviceTensor bias(Elem::F32, data.bias);
  const std::size_t bytes = one.count() * sizeof(std::uint16_t);
  const GuardedBuffer x(bytes * kPictures);
  for (std::size_t n = 0; n < kPictures; ++n) {
    check_cuda(cudaMemcpy(static_cast<std::byte*>(x.data()) + n * bytes, one.data(), bytes, cudaMemcpyDeviceToDevice),
               "copy of a picture");
  }
  for (const DepthwiseConvVariant variant : kernels::depthwise_conv_variants()) {
    if (!kernels::supports(variant, p, gpu_traits())) continue;
    CAPTURE(kernels::name(variant));
    p.n = 1;
    const DeviceTensor expected(Elem::F16, output_count(p));
    REQUIRE(kernels::depthwise_conv(variant, p, one.data(), weights.data(), bias.floats(), expected.data(), {}) ==
            cudaSuccess);
    p.n = kPictures;
    GuardedBuffer y(bytes * kPictures);
    REQUIRE(kernels::depthwise_conv(variant, p, x.data(), weights.data(), bias.floats(), y.data(), {}) == cudaSuccess);
    synchronize();
    for (const std::size_t n : {0, 1, 1023, 1024, 2046, 2047, 2048}) {
      CAPTURE(n);
      std::vector<std::byte> picture(bytes);
      check_cuda(cudaMemcpy(picture.data(), static_cast<const std::byte*>(y.data()) + n * bytes, bytes,
                            cudaMemcpyDeviceToHost),
                 "download of a picture");
      REQUIRE(picture == expected.download_bytes());
    }
    REQUIRE(y.check_guards());
  }
}

TEST_CASE("depthwise_conv says what it supports, and refuses the rest") {
  const DepthwiseConvParams good = same_size(Elem::F16, 1, 8, 8, 16, 1);
  const auto supported = [](const DepthwiseConvParams& p) { return for_each_variant(p, [](DepthwiseConvVariant) {}); };
  const DepthwiseConvParams wide = same_size(Elem::F16, 1, 8, 8, 16, 1, 5);
  REQUIRE(supported(good) == 10);
  REQUIRE(supported(good) + supported(wide) == static_cast<int>(kernels::depthwise_conv_variants().size()) + 1);
  DepthwiseConvParams p = good;
  p.c = 12;  // 8 bytes of half, not 16
  REQUIRE(supported(p) == 5);
  p.c = 3;
  REQUIRE(supported(p) == 1);
  p = good;
  p.dilation_w = 2;
  REQUIRE(supported(p) == 1);
  p = good;
  p.stride_h = 2;
  REQUIRE(supported(p) == 1);
  for (int DepthwiseConvParams::*member :
       {&DepthwiseConvParams::h, &DepthwiseConvParams::c, &DepthwiseConvParams::out_w, &DepthwiseConvParams::kernel_h,
        &DepthwiseConvParams::stride_w, &DepthwiseConvParams::dilation_h}) {
    p = good;
    p.*member = 0;
    REQUIRE(supported(p) == 0);
    REQUIRE(kernels::depthwise_conv(DepthwiseConvVariant::Direct, p, nullptr, nullptr, nullptr, nullptr, {}) ==
            cudaErrorInvalidValue);
  }
  p = good;
  p.n = -1;
  REQUIRE(supported(p) == 0);
  REQUIRE_FALSE(kernels::supports(DepthwiseConvVariant::Direct, good, kernels::traits_of(70, 132)));
  p = wide;
  p.h = p.out_h = 1;
  p.w = p.out_w = 1 << 22;  // rows of 128 MB, whose distance a tile counts in 32 bits
  const kernels::DeviceTraits hopper = kernels::traits_of(90, 132);
  REQUIRE(kernels::supports(DepthwiseConvVariant::Window5Strip7x2B4, p, hopper));
  REQUIRE_FALSE(kernels::supports(DepthwiseConvVariant::Window5Tile7x7, p, hopper));
}

/// Each in one of the elements.
TEST_CASE("depthwise_conv: every variant once", "[race]") {
  race_case::EachOnce<DepthwiseConvVariant> each(kernels::depthwise_conv_variants());
  const auto check = [](const DepthwiseConvParams& p, std::span<const DepthwiseConvVariant> its) {
    check_against_oracle(p, random_data(p, 95), 95, its);
  };
  for (std::size_t i = 0; i < each.variants().size(); ++i) {
    const Elem elem = kAllElems[i % std::size(kAllElems)];
    const int stride = 1 + static_cast<int>(i / std::size(kAllElems) % 2);
    each.run_one(
        each.variants()[i],
        std::vector{same_size(elem, 2, 31, 19, 32, stride), same_size(elem, 2, 31, 19, 32, stride, 5),
                    same_size(Elem::F16, 2, 31, 19, 32, stride), same_size(Elem::F16, 2, 31, 19, 32, stride, 5)},
        check);
  }
  each.check_all_ran();
}

}  // namespace
}  // namespace mobicuda::test
