// As double_test.cpp, for the kernels without long sums.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include "kernels/streaming/concat.h"
#include "kernels/streaming/elementwise.h"
#include "kernels/streaming/extremum.h"
#include "kernels/streaming/layout_transform.h"
#include "kernels/streaming/local_response_norm.h"
#include "kernels/streaming/multiply.h"
#include "kernels/streaming/pooling.h"
#include "kernels/streaming/softmax.h"
#include "kernels/streaming/unary.h"
#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/doubles.h"
#include "support/random.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

TEST_CASE("add, clip and scale_shift in double keep the bits of double", "[sanitize]") {
  constexpr int kC = 6;
  constexpr std::size_t kCount = 501 * kC;
  const Doubles a = random_doubles(11, kCount);
  const Doubles b = random_doubles(12, kCount);
  const DeviceTensor left = on_device(a);
  const DeviceTensor right = on_device(b);
  Doubles expected(kCount);
  for (std::size_t i = 0; i < kCount; ++i) expected[i] = a[i] + b[i];
  CHECK(run_doubles(kCount, [&](void* out, const kernels::Launch& where) {
          return kernels::add(Elem::F64, kCount, kWide, left.data(), right.data(), out, where);
        }) == expected);
  constexpr kernels::Clip kNarrow{-0.1F, 0.1F};  // no numbers of few bits
  for (std::size_t i = 0; i < kCount; ++i) {
    expected[i] = std::min(std::max(a[i], static_cast<double>(kNarrow.lo)), static_cast<double>(kNarrow.hi));
  }
  CHECK(run_doubles(kCount, [&](void* out, const kernels::Launch& where) {
          return kernels::clip(Elem::F64, kCount, kNarrow, left.data(), out, where);
        }) == expected);
  const std::vector<float> scale = random_uniform(13, kC);
  const std::vector<float> shift = random_uniform(14, kC);
  const DeviceTensor factors(Elem::F32, scale);
  const DeviceTensor offsets(Elem::F32, shift);
  for (std::size_t i = 0; i < kCount; ++i) {
    expected[i] = std::fma(static_cast<double>(scale[i % kC]), a[i], static_cast<double>(shift[i % kC]));
  }
  CHECK(run_doubles(kCount, [&](void* out, const kernels::Launch& where) {
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
    const Doubles y = run_doubles(kCount, [&](void* out, const kernels::Launch& where) {
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
  const Doubles y = run_doubles(kCount, [&](void* out, const kernels::Launch& where) {
    return kernels::add(Elem::F64, kCount, kernels::Activation(ActivationKind::HardSwish), left.data(), right.data(),
                        out, where);
  });
  for (std::size_t i = 0; i < kCount; ++i) {
    const double expected = a[i] * std::min(std::max(a[i] / 6.0 + 0.5, 0.0), 1.0);
    REQUIRE(std::abs(y[i] - expected) <= 4 * 0x1p-53 * std::abs(a[i]));
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
    return run_doubles(
        kC, [&](void* out, const kernels::Launch& where) { return kernels::pooling(p, in.data(), out, where); });
  };
  CHECK(pooled() == largest);
  p.kind = kernels::PoolingKind::Average;
  check_doubles(pooled(), mean, magnitude, kPixels);
  check_doubles(
      run_doubles(kC,
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
    const DeviceTensor in = on_device(x);
    for (const bool logarithm : {false, true}) {
      const Doubles y = run_doubles(x.size(), [&](void* out, const kernels::Launch& where) {
        return kernels::softmax({Elem::F64, Elem::F64, 1, columns, 1, logarithm}, in.data(), out, where);
      });
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double expected = logarithm ? x[i] - std::log(sum) : std::exp(x[i]) / sum;
        const double allowed =
            logarithm ? log_softmax_error(columns, kUnitF64) : softmax_relative_error(columns, kUnitF64) * expected;
        REQUIRE(std::abs(y[i] - expected) <= allowed);
      }
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
  CHECK(run_doubles(x.size(), [&](void* out, const kernels::Launch& where) {
          return kernels::layout_transform({Elem::F64, Elem::F64, false, true, 1, kC, 3, 7}, in.data(), out, where);
        }) == turned);
  CHECK(run_doubles(x.size(), [&](void* out, const kernels::Launch& where) {
          return kernels::transpose({Elem::F64, {1, 1, kC, kPixels}, {0, 1, 3, 2}}, in.data(), out, where);
        }) == turned);
  const kernels::PadParams pad{Elem::F64, 1, 1, kPixels, kC, 1, 0, 0, 0, 0.1F};
  Doubles padded(kPixels * kC, static_cast<double>(0.1F));
  padded.insert(padded.end(), x.begin(), x.end());
  CHECK(run_doubles(padded.size(), [&](void* out, const kernels::Launch& where) {
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
  CHECK(run_doubles(both.size(), [&](void* out, const kernels::Launch& where) {
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
  CHECK(run_doubles(a.size(), [&](void* out, const kernels::Launch& where) {
          return kernels::multiply(product, left.data(), right.data(), out, where);
        }) == products);
  const kernels::Broadcast& operands = product;
  kernels::ExtremumParams extremum{operands, Elem::F64};
  for (const bool largest : {true, false}) {
    extremum.largest = largest;
    for (std::size_t i = 0; i < a.size(); ++i) {
      products[i] = largest ? std::max(a[i], b[i % 12]) : std::min(a[i], b[i % 12]);
    }
    CHECK(run_doubles(a.size(), [&](void* out, const kernels::Launch& where) {
            return kernels::extremum(extremum, left.data(), right.data(), out, where);
          }) == products);
  }
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
    return run_doubles(x.size(), [&](void* out, const kernels::Launch& where) {
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
  compare(run_doubles(
              x.size(),
              [&](void* out, const kernels::Launch& where) {
                return kernels::local_response_norm({Elem::F64, 5, kC, 5, 0.3F, 0.75F, 1.5F}, in.data(), out, where);
              }),
          norm);
}

}  // namespace
}  // namespace mobicuda::test
