#include "kernels/depthwise_conv.h"

#include <algorithm>
#include <ostream>
#include <random>
#include <utility>
#include <vector>

#include "kernels/fast_division.cuh"
#include "kernels/window_case.h"
#include "support/catch.h"
#include "support/conv_oracle.h"
#include "support/conv_shapes.h"
#include "support/device_tensor.h"
#include "support/oracle.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::kernels {

std::ostream& operator<<(std::ostream& out, const DepthwiseConvParams& p) {
  return out << test::to_string(p.elem) << " n" << p.n << " " << p.h << 'x' << p.w << 'x' << p.c << " -> " << p.out_h
             << 'x' << p.out_w << " kernel " << p.kernel_h << 'x' << p.kernel_w << " stride " << p.stride_h << ','
             << p.stride_w << " dilation " << p.dilation_h << ',' << p.dilation_w << " pad " << p.pad_top << ','
             << p.pad_left << " bias " << p.bias << " clip " << p.activation.lo << ".." << p.activation.hi;
}

}  // namespace mobicuda::kernels

namespace mobicuda::test {
namespace {

using namespace window_case;
using kernels::DepthwiseConvParams;
using kernels::DepthwiseConvVariant;

std::size_t input_count(const DepthwiseConvParams& p) { return count_of(p.n, p.h, p.w, p.c); }
std::size_t output_count(const DepthwiseConvParams& p) { return count_of(p.n, p.out_h, p.out_w, p.c); }
std::size_t weight_count(const DepthwiseConvParams& p) { return count_of(1, p.kernel_h, p.kernel_w, p.c); }

OracleConv oracle_of(const DepthwiseConvParams& p) {
  OracleConv o = oracle_of_window(p);
  o.c_in = o.c_out = o.groups = p.c;
  return o;
}

/// Inputs as stored, on the host.
struct Data {
  std::vector<float> x, weight, bias;
};

Data random_data(const DepthwiseConvParams& p, std::uint32_t seed) {
  Data data;
  data.x = rounded(p.elem, random_uniform(seed, input_count(p)));
  data.weight = rounded(p.elem, random_uniform(seed + 1, weight_count(p)));
  if (p.bias) data.bias = random_uniform(seed + 2, static_cast<std::size_t>(p.c));
  return data;
}

Data integer_data(const DepthwiseConvParams& p, std::uint32_t seed) {
  Data data{random_integers(seed, input_count(p)), random_integers(seed + 1, weight_count(p)), {}};
  if (p.bias) data.bias = random_integers(seed + 2, static_cast<std::size_t>(p.c));
  return data;
}

/// The inputs on the GPU, for all variants.
class Device {
 public:
  Device(const DepthwiseConvParams& p, const Data& data)
      : params_(p), x_(p.elem, data.x), packed_(pack(p, data.weight)), bias_(Elem::F32, data.bias) {}

  std::vector<float> run(DepthwiseConvVariant variant) const {
    std::vector<float> y =
        run_kernel(params_.elem, output_count(params_), 0, [&](void* out, const kernels::Launch& where) {
          return kernels::depthwise_conv(variant, params_, x_.data(), packed_.data(), bias_.floats(), out, where);
        });
    CHECK(x_.check_unchanged());
    CHECK(packed_.check_unchanged());
    CHECK(bias_.check_unchanged());
    return y;
  }

 private:
  static GuardedBuffer pack(const DepthwiseConvParams& p, const std::vector<float>& weight) {
    std::vector<std::byte> packed(kernels::depthwise_conv_packed_bytes(p.elem, p.c, p.kernel_h, p.kernel_w));
    kernels::depthwise_conv_pack(p.elem, p.c, p.kernel_h, p.kernel_w, weight.data(), packed.data());
    return GuardedBuffer(packed);
  }

  DepthwiseConvParams params_;
  DeviceTensor x_;
  GuardedBuffer packed_;
  DeviceTensor bias_;
};

template <class Body>
int for_each_variant(const DepthwiseConvParams& p, const Body& body) {
  return for_each_supported(kernels::depthwise_conv_variants(), p, body);
}

void check_against_oracle(const DepthwiseConvParams& p, const Data& data, std::uint32_t seed) {
  const OracleConv conv = oracle_of(p);
  const std::vector<std::size_t> pixels = sample_pixels(conv, seed, kSampledPixels);
  const Oracle oracle = conv2d_at(conv, pixels, data.x, data.weight, data.bias, {});
  const Store store = store_of(p.elem);
  const std::vector<double> bounds =
      hard_bounds(gamma(oracle.products, unit_of(p.elem)), oracle.magnitude, oracle.value, store);
  const int shape[] = {static_cast<int>(pixels.size()), p.c};
  const Device device(p, data);
  CAPTURE(seed);
  for_each_variant(p, [&](DepthwiseConvVariant variant) {
    const std::vector<float> y = device.run(variant);
    const std::vector<float> sampled = gather(y, pixels, p.c);
    REQUIRE(compare_elements(sampled, oracle.value, bounds, shape));
    if (sampled.size() >= kAlarmElements) {
      REQUIRE(compare_rel_l2(sampled, oracle.value, rel_l2_alarm(oracle.products, store)));
    }
  });
}

/// A square window with the padding that keeps the size at stride 1.
DepthwiseConvParams same_size(Elem elem, int n, int h, int w, int c, int stride, int window = 3) {
  DepthwiseConvParams p;
  p.elem = elem;
  p.n = n;
  p.h = h;
  p.w = w;
  p.c = c;
  p.stride_h = p.stride_w = stride;
  p.kernel_h = p.kernel_w = window;
  p.pad_top = p.pad_left = window / 2;
  p.out_h = output_extent(h, window, stride, 1, p.pad_top, p.pad_top);
  p.out_w = output_extent(w, window, stride, 1, p.pad_left, p.pad_left);
  p.bias = true;
  p.activation = kRelu6;
  return p;
}

/// A shape of the grid small enough for the oracle; `strips` asks for one that the strips support.
DepthwiseConvParams random_shape(Choice& choose, Elem elem, bool strips) {
  constexpr std::size_t kLargest = 1U << 20U;
  for (;;) {
    DepthwiseConvParams p;
    p.elem = elem;
    p.n = choose(kBatchGrid);
    p.h = choose(kSizeGrid);
    p.w = choose(kSizeGrid);
    p.c = choose(kChannelGrid);
    if (strips) {
      p.kernel_h = p.kernel_w = choose.flip() ? 3 : 5;
    } else {
      p.kernel_h = choose(kKernelGrid);
      p.kernel_w = choose(kKernelGrid);
      p.dilation_h = 1 + choose.upto(1);
      p.dilation_w = 1 + choose.upto(1);
    }
    p.stride_h = 1 + choose.upto(strips ? 1 : 2);
    p.stride_w = strips ? p.stride_h : 1 + choose.upto(2);
    p.pad_top = choose.upto(3);
    p.pad_left = choose.upto(3);
    p.out_h = output_extent(p.h, p.kernel_h, p.stride_h, p.dilation_h, p.pad_top, choose.upto(3));
    p.out_w = output_extent(p.w, p.kernel_w, p.stride_w, p.dilation_w, p.pad_left, choose.upto(3));
    p.bias = choose.flip();
    p.activation = kClips[choose.upto(2)];
    const bool fits = p.out_h > 0 && p.out_w > 0 && input_count(p) <= kLargest && output_count(p) <= kLargest;
    if (fits && (!strips || p.c % 2 == 0)) return p;
  }
}

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
    for (const DepthwiseLayer& layer : kMobileNetV2Depthwise) {
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
  constexpr int kShapes = 60;
  Choice choose(5);
  for (const Elem elem : kAllElems) {
    for (std::uint32_t i = 0; i < kShapes; ++i) {
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
    if (!kernels::supports(variant, p, compute_capability())) continue;
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
  REQUIRE_FALSE(kernels::supports(DepthwiseConvVariant::Direct, good, 70));
}

}  // namespace
}  // namespace mobicuda::test
