// That kernels on Elem::F64 keep the 53 bits of double from input to output: inputs that are no floats, results
// compared as doubles. (The kernels' own tests run F64 over all shapes, but see results rounded to float.)

#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/conv2d/conv2d.h"
#include "kernels/depthwise_conv/depthwise_conv.h"
#include "kernels/gemm/gemm.h"
#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/doubles.h"
#include "support/random.h"

namespace mobicuda::test {
namespace {

TEST_CASE("gemm in double keeps the bits of double with every variant", "[gemm][sanitize]") {
  constexpr int kM = 37;
  constexpr int kN = 44;
  constexpr int kK = 72;
  const Doubles x = random_doubles(1, kM * kK);
  const Doubles residual = random_doubles(2, kM * kN);
  const std::vector<float> weight = random_uniform(3, kN * kK);
  const std::vector<float> bias = random_uniform(4, kN);
  Doubles expected(kM * kN);
  Doubles magnitude(kM * kN);
  for (std::size_t m = 0; m < kM; ++m) {
    for (std::size_t n = 0; n < kN; ++n) {
      const std::size_t at = m * kN + n;
      expected[at] = static_cast<double>(bias[n]) + residual[at];
      magnitude[at] = std::abs(static_cast<double>(bias[n])) + std::abs(residual[at]);
      for (std::size_t k = 0; k < kK; ++k) {
        const double product = x[m * kK + k] * static_cast<double>(weight[n * kK + k]);
        expected[at] += product;
        magnitude[at] += std::abs(product);
      }
    }
  }
  kernels::GemmParams p;
  p.elem = p.output = Elem::F64;
  p.m = kM;
  p.n = kN;
  p.k = kK;
  p.bias = p.residual = true;
  p.activation = kWide;
  std::vector<std::byte> packed(kernels::gemm_packed_bytes(p.elem, kN, kK));
  kernels::gemm_pack(p.elem, kN, kK, weight.data(), packed.data());
  const GuardedBuffer weights{std::span<const std::byte>(packed)};
  const DeviceTensor x_device = on_device(x);
  const DeviceTensor residual_device = on_device(residual);
  const DeviceTensor bias_device(Elem::F32, bias);
  for (const auto variant : kernels::gemm_variants()) {
    if (!supports(variant, p, gpu_traits())) continue;
    INFO(name(variant));
    const Doubles y = run_doubles(expected.size(), [&](void* out, const kernels::Launch& where) {
      return kernels::gemm(variant, p, x_device.data(), weights.data(), bias_device.floats(), residual_device.data(),
                           out, where);
    });
    check_doubles(y, expected, magnitude, kK);
  }
}

/// A 3x3 convolution with padding of 1, x in NHWC; depthwise where groups is c_in.
struct Conv {
  int h, w, c_in, c_out, groups;
  Doubles x, residual;
  std::vector<float> weight, bias;
  Doubles expected, magnitude;

  Conv(int height, int width, int in, int out, int group_count)
      : h(height), w(width), c_in(in), c_out(out), groups(group_count) {
    const auto pixels = static_cast<std::size_t>(h * w);
    x = random_doubles(5, pixels * static_cast<std::size_t>(c_in));
    weight = random_uniform(6, static_cast<std::size_t>(c_out * (c_in / groups) * 9));
    bias = random_uniform(7, static_cast<std::size_t>(c_out));
    residual = random_doubles(8, pixels * static_cast<std::size_t>(c_out));
  }

  void expect(bool with_residual) {
    expected.clear();
    magnitude.clear();
    for (int oy = 0; oy < h; ++oy) {
      for (int ox = 0; ox < w; ++ox) {
        for (int co = 0; co < c_out; ++co) add(oy, ox, co, with_residual);
      }
    }
  }

 private:
  void add(int oy, int ox, int co, bool with_residual) {
    const int group_in = c_in / groups;
    double sum = static_cast<double>(bias[static_cast<std::size_t>(co)]);
    double absolute = std::abs(sum);
    if (with_residual) {
      const double skip = residual[static_cast<std::size_t>((oy * w + ox) * c_out + co)];
      sum += skip;
      absolute += std::abs(skip);
    }
    for (int tap = 0; tap < 9; ++tap) {
      const int iy = oy + tap / 3 - 1;
      const int ix = ox + tap % 3 - 1;
      if (iy < 0 || iy >= h || ix < 0 || ix >= w) continue;
      for (int ci = 0; ci < group_in; ++ci) {
        const int channel = co / (c_out / groups) * group_in + ci;
        const double product = x[static_cast<std::size_t>((iy * w + ix) * c_in + channel)] *
                               static_cast<double>(weight[static_cast<std::size_t>((co * group_in + ci) * 9 + tap)]);
        sum += product;
        absolute += std::abs(product);
      }
    }
    expected.push_back(sum);
    magnitude.push_back(absolute);
  }
};

TEST_CASE("conv2d in double keeps the bits of double with every variant", "[sanitize]") {
  const int groups = GENERATE(1, 2);
  Conv conv(9, 7, 8, 24, groups);
  conv.expect(true);
  kernels::Conv2dParams p;
  p.elem = Elem::F64;
  p.n = 1;
  p.h = p.out_h = conv.h;
  p.w = p.out_w = conv.w;
  p.c_in = conv.c_in;
  p.c_out = conv.c_out;
  p.groups = groups;
  p.kernel_h = p.kernel_w = 3;
  p.pad_top = p.pad_left = 1;
  p.bias = p.residual = true;
  p.activation = kWide;
  std::vector<std::byte> packed(kernels::conv2d_packed_bytes(p));
  kernels::conv2d_pack(p, conv.weight.data(), packed.data());
  const GuardedBuffer weights{std::span<const std::byte>(packed)};
  const DeviceTensor x = on_device(conv.x);
  const DeviceTensor residual = on_device(conv.residual);
  const DeviceTensor bias(Elem::F32, conv.bias);
  for (const auto variant : kernels::conv2d_variants()) {
    if (!supports(variant, p, gpu_traits())) continue;
    INFO(name(variant));
    const Doubles y = run_doubles(conv.expected.size(), [&](void* out, const kernels::Launch& where) {
      return kernels::conv2d(variant, p, x.data(), weights.data(), bias.floats(), residual.data(), out, where);
    });
    check_doubles(y, conv.expected, conv.magnitude, 9 * conv.c_in / groups);
  }
}

TEST_CASE("depthwise_conv in double keeps the bits of double with every variant", "[sanitize]") {
  Conv conv(15, 14, 8, 8, 8);
  conv.expect(false);
  kernels::DepthwiseConvParams p;
  p.elem = Elem::F64;
  p.n = 1;
  p.h = p.out_h = conv.h;
  p.w = p.out_w = conv.w;
  p.c = conv.c_in;
  p.pad_top = p.pad_left = 1;
  p.bias = true;
  p.activation = kWide;
  std::vector<std::byte> packed(kernels::depthwise_conv_packed_bytes(p.elem, p.c, 3, 3));
  kernels::depthwise_conv_pack(p.elem, p.c, 3, 3, conv.weight.data(), packed.data());
  const GuardedBuffer weights{std::span<const std::byte>(packed)};
  const DeviceTensor x = on_device(conv.x);
  const DeviceTensor bias(Elem::F32, conv.bias);
  for (const auto variant : kernels::depthwise_conv_variants()) {
    if (!supports(variant, p, gpu_traits())) continue;
    INFO(name(variant));
    const Doubles y = run_doubles(conv.expected.size(), [&](void* out, const kernels::Launch& where) {
      return kernels::depthwise_conv(variant, p, x.data(), weights.data(), bias.floats(), out, where);
    });
    check_doubles(y, conv.expected, conv.magnitude, 9);
  }
}

}  // namespace
}  // namespace mobicuda::test
