// That kernels on Elem::F64 keep the 53 bits of double from input to output: inputs that are no floats, results
// compared as doubles. (The kernels' own tests run F64 over all shapes, but see results rounded to float.)

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <random>
#include <vector>

#include "kernels/concat.h"
#include "kernels/conv2d.h"
#include "kernels/depthwise_conv.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/layout_transform.h"
#include "kernels/local_response_norm.h"
#include "kernels/multiply.h"
#include "kernels/pooling.h"
#include "kernels/softmax.h"
#include "kernels/unary.h"
#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

using Doubles = std::vector<double>;

constexpr kernels::Clip kWide{-100.0F, 100.0F};

Doubles random_doubles(std::uint32_t seed, std::size_t count) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  Doubles values(count);
  for (double& value : values) value = uniform(engine);
  return values;
}

DeviceTensor on_device(const Doubles& values) {
  DeviceTensor tensor(Elem::F64, values.size());
  tensor.upload(values);
  return tensor;
}

/// |actual - expected| <= gamma(products) * magnitude, in units of double.
void check(const Doubles& actual, const Doubles& expected, const Doubles& magnitude, std::int64_t products) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i, actual[i], expected[i]);
    REQUIRE(std::abs(actual[i] - expected[i]) <=
            hard_bound(gamma(products, kUnitF64), magnitude[i], expected[i], kStoreF64));
  }
}

Doubles run(std::size_t count, const Enqueue& enqueue) {
  const DeviceTensor y(Elem::F64, count);
  REQUIRE(enqueue(y.data(), {}) == cudaSuccess);
  synchronize();
  REQUIRE(y.check_guards());
  return y.download_doubles();
}

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
    if (!supports(variant, p, compute_capability())) continue;
    INFO(name(variant));
    const Doubles y = run(expected.size(), [&](void* out, const kernels::Launch& where) {
      return kernels::gemm(variant, p, x_device.data(), weights.data(), bias_device.floats(), residual_device.data(),
                           out, where);
    });
    check(y, expected, magnitude, kK);
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
    if (!supports(variant, p, compute_capability())) continue;
    INFO(name(variant));
    const Doubles y = run(conv.expected.size(), [&](void* out, const kernels::Launch& where) {
      return kernels::conv2d(variant, p, x.data(), weights.data(), bias.floats(), residual.data(), out, where);
    });
    check(y, conv.expected, conv.magnitude, 9 * conv.c_in / groups);
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
    if (!supports(variant, p, compute_capability())) continue;
    INFO(name(variant));
    const Doubles y = run(conv.expected.size(), [&](void* out, const kernels::Launch& where) {
      return kernels::depthwise_conv(variant, p, x.data(), weights.data(), bias.floats(), out, where);
    });
    check(y, conv.expected, conv.magnitude, 9);
  }
}

TEST_CASE("add, clip and scale_shift in double keep the bits of double", "[sanitize]") {
  constexpr int kC = 6;
  constexpr std::size_t kCount = 501 * kC;
  const Doubles a = random_doubles(11, kCount);
  const Doubles b = random_doubles(12, kCount);
  const DeviceTensor left = on_device(a);
  const DeviceTensor right = on_device(b);
  Doubles expected(kCount);
  for (std::size_t i = 0; i < kCount; ++i) expected[i] = a[i] + b[i];
  CHECK(run(kCount, [&](void* out, const kernels::Launch& where) {
          return kernels::add(Elem::F64, kCount, kWide, left.data(), right.data(), out, where);
        }) == expected);
  constexpr kernels::Clip kNarrow{-0.1F, 0.1F};  // no numbers of few bits
  for (std::size_t i = 0; i < kCount; ++i) {
    expected[i] = std::min(std::max(a[i], static_cast<double>(kNarrow.lo)), static_cast<double>(kNarrow.hi));
  }
  CHECK(run(kCount, [&](void* out, const kernels::Launch& where) {
          return kernels::clip(Elem::F64, kCount, kNarrow, left.data(), out, where);
        }) == expected);
  const std::vector<float> scale = random_uniform(13, kC);
  const std::vector<float> shift = random_uniform(14, kC);
  const DeviceTensor factors(Elem::F32, scale);
  const DeviceTensor offsets(Elem::F32, shift);
  for (std::size_t i = 0; i < kCount; ++i) {
    expected[i] = std::fma(static_cast<double>(scale[i % kC]), a[i], static_cast<double>(shift[i % kC]));
  }
  CHECK(run(kCount, [&](void* out, const kernels::Launch& where) {
          return kernels::scale_shift(Elem::F64, kCount / kC, kC, kWide, left.data(), factors.floats(),
                                      offsets.floats(), out, where);
        }) == expected);
}

TEST_CASE("activations in double keep the bits of double", "[sanitize]") {
  using kernels::ActivationKind;
  constexpr std::size_t kCount = 501;
  Doubles a = random_doubles(15, kCount);
  for (double& value : a) value *= 9.0;
  const Doubles zeros(kCount);
  const DeviceTensor left = on_device(a);
  const DeviceTensor right = on_device(zeros);
  constexpr double kAlpha = 0.25;
  const auto sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  const auto check_kind = [&](ActivationKind kind, const std::function<double(double)>& function) {
    CAPTURE(static_cast<int>(kind));
    const Doubles y = run(kCount, [&](void* out, const kernels::Launch& where) {
      return kernels::add(Elem::F64, kCount, kernels::Activation(kind, 0.25F), left.data(), right.data(), out, where);
    });
    // A function or two, each within two units in the last place, and the roundings around them.
    constexpr double kRelative = 16 * 0x1p-53;
    for (std::size_t i = 0; i < kCount; ++i) {
      CAPTURE(i, a[i], y[i], function(a[i]));
      REQUIRE(std::abs(y[i] - function(a[i])) <= kRelative * std::abs(function(a[i])));
    }
  };
  check_kind(ActivationKind::Sigmoid, sigmoid);
  check_kind(ActivationKind::Silu, [&](double x) { return x * sigmoid(x); });
  check_kind(ActivationKind::Tanh, [](double x) { return std::tanh(x); });
  check_kind(ActivationKind::LeakyRelu, [](double x) { return x < 0.0 ? kAlpha * x : x; });
  check_kind(ActivationKind::Elu, [](double x) { return x < 0.0 ? kAlpha * std::expm1(x) : x; });
  // The sum with 1/2 may cancel: exact to a unit of 1/2, times x.
  const Doubles y = run(kCount, [&](void* out, const kernels::Launch& where) {
    return kernels::add(Elem::F64, kCount, kernels::Activation(ActivationKind::HardSwish), left.data(), right.data(),
                        out, where);
  });
  for (std::size_t i = 0; i < kCount; ++i) {
    const double expected = a[i] * std::min(std::max(a[i] / 6.0 + 0.5, 0.0), 1.0);
    REQUIRE(std::abs(y[i] - expected) <= 4 * 0x1p-53 * std::abs(a[i]));
  }
}

TEST_CASE("unary functions, products and norms in double keep the bits of double", "[sanitize]") {
  constexpr int kPixels = 31;
  constexpr int kC = 10;
  constexpr std::size_t kCount = kPixels * kC;
  const Doubles x = random_doubles(16, kCount);
  const Doubles gate = random_doubles(17, kC);
  const DeviceTensor in = on_device(x);
  const DeviceTensor factors = on_device(gate);
  constexpr double kRelative = 16 * 0x1p-53;
  const auto check_relative = [&](const Doubles& y, const std::function<double(std::size_t)>& expected) {
    for (std::size_t i = 0; i < kCount; ++i) {
      CAPTURE(i, x[i], y[i], expected(i));
      REQUIRE(std::abs(y[i] - expected(i)) <= kRelative * std::abs(expected(i)));
    }
  };
  const auto unary = [&](kernels::UnaryFunction function) {
    kernels::UnaryParams p;
    p.elem = Elem::F64;
    p.function = function;
    p.alpha = 0.25F;
    p.elements = kCount;
    return run(kCount,
               [&](void* out, const kernels::Launch& where) { return kernels::unary(p, in.data(), out, where); });
  };
  check_relative(unary(kernels::UnaryFunction::Sigmoid), [&](std::size_t i) { return 1.0 / (1.0 + std::exp(-x[i])); });
  check_relative(unary(kernels::UnaryFunction::Silu), [&](std::size_t i) { return x[i] / (1.0 + std::exp(-x[i])); });
  check_relative(unary(kernels::UnaryFunction::HardSwish), [&](std::size_t i) { return x[i] * (x[i] / 6.0 + 0.5); });
  check_relative(unary(kernels::UnaryFunction::Tanh), [&](std::size_t i) { return std::tanh(x[i]); });
  check_relative(unary(kernels::UnaryFunction::Elu),
                 [&](std::size_t i) { return x[i] < 0.0 ? 0.25 * std::expm1(x[i]) : x[i]; });

  kernels::MultiplyParams product;
  product.elem = Elem::F64;
  product.axes = 2;
  product.extent[0] = kPixels;
  product.extent[1] = kC;
  product.b_stride[1] = 1;
  check_relative(run(kCount,
                     [&](void* out, const kernels::Launch& where) {
                       return kernels::multiply(product, in.data(), factors.data(), out, where);
                     }),
                 [&](std::size_t i) { return x[i] * gate[i % kC]; });

  for (const float beta : {0.75F, 0.6F}) {
    kernels::LocalResponseNormParams norm;
    norm.elem = Elem::F64;
    norm.pixels = kPixels;
    norm.c = kC;
    norm.size = 3;
    norm.alpha = 0.1F;
    norm.beta = beta;
    norm.bias = 1.0F;
    check_relative(run(kCount,
                       [&](void* out, const kernels::Launch& where) {
                         return kernels::local_response_norm(norm, in.data(), out, where);
                       }),
                   [&](std::size_t i) {
                     double squares = x[i] * x[i];
                     if (i % kC > 0) squares += x[i - 1] * x[i - 1];
                     if (i % kC + 1 < kC) squares += x[i + 1] * x[i + 1];
                     return x[i] / std::pow(1.0 + static_cast<double>(0.1F) / 3.0 * squares, static_cast<double>(beta));
                   });
  }
}

TEST_CASE("pooling in double keeps the bits of double", "[sanitize]") {
  constexpr int kSide = 7;
  constexpr int kC = 10;
  constexpr std::size_t kPixels = kSide * kSide;
  const Doubles x = random_doubles(21, kPixels * kC);
  const DeviceTensor in = on_device(x);
  Doubles largest(kC, -2.0);
  Doubles mean(kC);
  Doubles magnitude(kC);
  for (std::size_t i = 0; i < x.size(); ++i) {
    largest[i % kC] = std::max(largest[i % kC], x[i]);
    mean[i % kC] += x[i] / kPixels;
    magnitude[i % kC] += std::abs(x[i]) / kPixels;
  }
  kernels::PoolingParams p;
  p.elem = Elem::F64;
  p.n = p.out_h = p.out_w = 1;
  p.h = p.w = p.kernel_h = p.kernel_w = kSide;
  p.c = kC;
  const auto pooled = [&] {
    return run(kC, [&](void* out, const kernels::Launch& where) { return kernels::pooling(p, in.data(), out, where); });
  };
  CHECK(pooled() == largest);
  p.kind = kernels::PoolingKind::Average;
  check(pooled(), mean, magnitude, kPixels);
  check(run(kC,
            [&](void* out, const kernels::Launch& where) {
              return kernels::global_average_pool({Elem::F64, 1, kSide, kSide, kC}, in.data(), out, where);
            }),
        mean, magnitude, kPixels);
}

TEST_CASE("softmax in double keeps the bits of double", "[sanitize]") {
  for (const int columns : {100, 2000}) {
    const Doubles x = random_doubles(31, static_cast<std::size_t>(columns));
    double sum = 0.0;
    for (const double value : x) sum += std::exp(value);
    Doubles expected;
    for (const double value : x) expected.push_back(std::exp(value) / sum);
    const DeviceTensor in = on_device(x);
    const Doubles y = run(x.size(), [&](void* out, const kernels::Launch& where) {
      return kernels::softmax({Elem::F64, Elem::F64, 1, columns}, in.data(), out, where);
    });
    for (std::size_t i = 0; i < y.size(); ++i) {
      REQUIRE(std::abs(y[i] - expected[i]) <= softmax_relative_error(columns, kUnitF64) * expected[i]);
    }
  }
}

TEST_CASE("layout_transform, transpose and pad move double as it is", "[sanitize]") {
  constexpr int kC = 10;
  constexpr int kPixels = 21;
  const Doubles x = random_doubles(41, kC * kPixels);  // (c, pixels)
  Doubles turned;
  for (std::size_t pixel = 0; pixel < kPixels; ++pixel) {
    for (std::size_t c = 0; c < kC; ++c) turned.push_back(x[c * kPixels + pixel]);
  }
  const DeviceTensor in = on_device(x);
  CHECK(run(x.size(), [&](void* out, const kernels::Launch& where) {
          return kernels::layout_transform({Elem::F64, Elem::F64, false, true, 1, kC, 3, 7}, in.data(), out, where);
        }) == turned);
  CHECK(run(x.size(), [&](void* out, const kernels::Launch& where) {
          return kernels::transpose({Elem::F64, {1, 1, kC, kPixels}, {0, 1, 3, 2}}, in.data(), out, where);
        }) == turned);
  const kernels::PadParams pad{Elem::F64, 1, 1, kPixels, kC, 1, 0, 0, 0, 0.1F};
  Doubles padded(kPixels * kC, static_cast<double>(0.1F));
  padded.insert(padded.end(), x.begin(), x.end());
  CHECK(run(padded.size(), [&](void* out, const kernels::Launch& where) {
          return kernels::pad(pad, in.data(), out, where);
        }) == padded);
}

TEST_CASE("concat moves double as it is, and multiply keeps its bits", "[sanitize]") {
  const Doubles a = random_doubles(51, 60);
  const Doubles b = random_doubles(52, 60);
  const DeviceTensor left = on_device(a);
  const DeviceTensor right = on_device(b);
  kernels::ConcatParams joined;
  joined.elem = Elem::F64;
  joined.rows = 1;
  joined.pitch = 120;
  joined.parts = 2;
  joined.part[0] = {60, 60, 0};
  joined.part[1] = {60, 60, 60};
  const void* parts[] = {left.data(), right.data()};
  Doubles both = a;
  both.insert(both.end(), b.begin(), b.end());
  CHECK(run(both.size(), [&](void* out, const kernels::Launch& where) {
          return kernels::concat(joined, parts, out, where);
        }) == both);
  Doubles products(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) products[i] = a[i] * b[i % 12];
  kernels::MultiplyParams product;
  product.elem = Elem::F64;
  product.axes = 2;
  product.extent[0] = 5;
  product.extent[1] = 12;
  product.b_stride[1] = 1;
  CHECK(run(a.size(), [&](void* out, const kernels::Launch& where) {
          return kernels::multiply(product, left.data(), right.data(), out, where);
        }) == products);
}

TEST_CASE("unary functions and local_response_norm in double keep the bits of double", "[sanitize]") {
  constexpr int kC = 12;
  const Doubles x = random_doubles(61, 5 * kC);
  const DeviceTensor in = on_device(x);
  constexpr int kRoundings = 16;  // of sums and functions: docs/numerics.md
  const auto compare = [&](const Doubles& y, auto expected) {
    for (std::size_t i = 0; i < y.size(); ++i) {
      REQUIRE(std::abs(y[i] - expected(i)) <= gamma(kRoundings, kUnitF64) * std::abs(expected(i)));
    }
  };
  const auto unary = [&](kernels::UnaryFunction function) {
    return run(x.size(), [&](void* out, const kernels::Launch& where) {
      return kernels::unary({Elem::F64, function, 0.1F, 5 * kC}, in.data(), out, where);
    });
  };
  const auto alpha = static_cast<double>(0.1F);
  compare(unary(kernels::UnaryFunction::Sigmoid), [&](std::size_t i) { return 1.0 / (1.0 + std::exp(-x[i])); });
  compare(unary(kernels::UnaryFunction::HardSwish), [&](std::size_t i) { return x[i] * (x[i] / 6.0 + 0.5); });
  compare(unary(kernels::UnaryFunction::Tanh), [&](std::size_t i) { return std::tanh(x[i]); });
  compare(unary(kernels::UnaryFunction::Elu),
          [&](std::size_t i) { return x[i] < 0.0 ? alpha * std::expm1(x[i]) : x[i]; });
  compare(unary(kernels::UnaryFunction::LeakyRelu), [&](std::size_t i) { return x[i] < 0.0 ? alpha * x[i] : x[i]; });
  const auto norm = [&](std::size_t i) {
    double squares = 0.0;
    for (std::size_t k = i - std::min<std::size_t>(i % kC, 2); k <= i + 2 && k / kC == i / kC; ++k)
      squares += x[k] * x[k];
    return x[i] / std::pow(1.5 + static_cast<double>(0.3F) / 5.0 * squares, 0.75);
  };
  compare(run(x.size(),
              [&](void* out, const kernels::Launch& where) {
                return kernels::local_response_norm({Elem::F64, 5, kC, 5, 0.3F, 0.75F, 1.5F}, in.data(), out, where);
              }),
          norm);
}

}  // namespace
}  // namespace mobicuda::test
