#include "kernels/streaming/unary.h"

#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>

#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

using kernels::UnaryFunction;
using kernels::UnaryParams;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr UnaryFunction kFunctions[] = {UnaryFunction::Sigmoid,  UnaryFunction::Silu,      UnaryFunction::HardSwish,
                                        UnaryFunction::Tanh,     UnaryFunction::LeakyRelu, UnaryFunction::Elu,
                                        UnaryFunction::Erf,      UnaryFunction::Gelu,      UnaryFunction::GeluTanh,
                                        UnaryFunction::Softplus, UnaryFunction::Sqrt,      UnaryFunction::Reciprocal,
                                        UnaryFunction::Exp};
constexpr std::size_t kCounts[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 127, 128, 1023, 1024, 1025, 2047, 2048, 2049, 100003};
/// Two steps of denormal float, by which a denormal exponential may be off.
constexpr double kDenormal = 0x1p-148;
constexpr double kSmallestNormal = 0x1p-126;

struct Expected {
  double value;
  double magnitude;  ///< what gamma() multiplies, see docs/numerics.md
  int products;
  double flushed = 0.0;  ///< by what flushing denormal numbers to zero changes it at most
};

/// What an error of u in each operation of the sigmoid, y, adds up to: docs/numerics.md.
double sigmoid_magnitude(double x, double y) { return y * ((1.0 - y) * (2.0 * std::abs(x) + 4.0) + 3.0); }

/// Infinity where the storage has no number as large.
double in_range(Elem elem, double y) {
  const double largest = elem == Elem::F16 ? 65519.99 : static_cast<double>(std::numeric_limits<float>::max());
  return std::abs(y) > largest ? std::copysign(std::numeric_limits<double>::infinity(), y) : y;
}

double finite_size(Elem elem, double y) { return std::isfinite(in_range(elem, y)) ? std::abs(y) : 0.0; }

Expected oracle(const UnaryParams& p, float input) {
  const auto x = static_cast<double>(input);
  const auto alpha = static_cast<double>(p.alpha);
  switch (p.function) {
    case UnaryFunction::Sigmoid: {
      const double y = 1.0 / (1.0 + std::exp(-x));
      return {y, std::isfinite(x) ? sigmoid_magnitude(x, y) : 0.0, 0, y < kSmallestNormal ? kSmallestNormal : 0.0};
    }
    case UnaryFunction::Silu: {
      const double gate = 1.0 / (1.0 + std::exp(-x));
      const double magnitude = std::isfinite(x) ? std::abs(x) * (sigmoid_magnitude(x, gate) + gate) : 0.0;
      return {x * gate, magnitude, 0, gate < kSmallestNormal ? std::abs(x) * kSmallestNormal : 0.0};
    }
    case UnaryFunction::HardSwish: {
      const double gate = x / 6.0 + 0.5;
      const double raised = gate < 0.0 ? 0.0 : gate;
      return {x * (raised > 1.0 ? 1.0 : raised), std::abs(x) * (std::abs(x) / 6.0 + 0.5), 1};
    }
    case UnaryFunction::Tanh:
      return {std::tanh(x), std::abs(std::tanh(x)), 2};
    case UnaryFunction::LeakyRelu:
      return {x < 0.0 ? alpha * x : x, x < 0.0 ? std::abs(alpha * x) : 0.0, 0};
    case UnaryFunction::Elu:
      return {x < 0.0 ? alpha * std::expm1(x) : x, x < 0.0 ? std::abs(alpha * std::expm1(x)) : 0.0, 1};
    case UnaryFunction::Erf:
      return {std::erf(x), std::abs(std::erf(x)), 2};
    case UnaryFunction::Gelu: {
      const double gate = std::erfc(-x / std::numbers::sqrt2) / 2.0;
      const double y = x * gate;
      const double magnitude = std::isfinite(x) && y != 0.0 ? std::abs(y) * (x * x + 6.0) : 0.0;
      return {y, magnitude, 0, gate < kSmallestNormal ? std::abs(x) * kSmallestNormal : 0.0};
    }
    case UnaryFunction::GeluTanh: {
      const double inner = 2.0 * std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      const double gate = 1.0 / (1.0 + std::exp(-inner));
      const double magnitude =
          std::isfinite(inner) ? std::abs(x) * (sigmoid_magnitude(2.0 * inner, gate) + gate) : std::abs(x * gate);
      return {x * gate, magnitude, 0, gate < kSmallestNormal ? std::abs(x) * kSmallestNormal : 0.0};
    }
    case UnaryFunction::Softplus: {
      const double tail = std::log1p(std::exp(-std::abs(x)));
      const double magnitude = std::isfinite(x) ? 4.0 * tail + std::abs(x) : 0.0;
      return {std::max(x, 0.0) + tail, magnitude, 0, tail < kSmallestNormal ? kSmallestNormal : 0.0};
    }
    case UnaryFunction::Sqrt:
      return {std::sqrt(x), std::isfinite(x) ? std::sqrt(std::abs(x)) : 0.0, 0};
    case UnaryFunction::Reciprocal:
      return {in_range(p.elem, 1.0 / x), finite_size(p.elem, 1.0 / x), 0,
              std::abs(x) > 0x1p126 ? kSmallestNormal : 0.0};
    case UnaryFunction::Exp:
      return {in_range(p.elem, std::exp(x)), finite_size(p.elem, std::exp(x)), 0,
              std::exp(x) < kSmallestNormal ? kSmallestNormal : 0.0};
  }
  return {};
}

std::vector<float> run_unary(const UnaryParams& p, const std::vector<float>& x, std::size_t misalign = 0) {
  const DeviceTensor in(p.elem, x, misalign);
  std::vector<float> y = run_kernel(p.elem, x.size(), misalign, [&](void* out, const kernels::Launch& where) {
    return kernels::unary(p, in.data(), out, where);
  });
  CHECK(in.check_unchanged());
  return y;
}

void check_unary(UnaryParams p, const std::vector<float>& numbers, std::size_t misalign = 0) {
  const std::vector<float> x = rounded(p.elem, numbers);
  p.elements = static_cast<std::int64_t>(x.size());
  CAPTURE(to_string(p.elem), static_cast<int>(p.function), p.alpha, p.elements, misalign);
  std::vector<double> expected(x.size());
  std::vector<double> allowed(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Expected exact = oracle(p, x[i]);
    expected[i] = exact.value;
    allowed[i] = hard_bound(gamma(exact.products, unit_of(p.elem)), exact.magnitude, exact.value, store_of(p.elem)) +
                 exact.flushed + kDenormal;
  }
  CHECK(compare_elements(run_unary(p, x, misalign), expected, allowed));
}

/// Every number that half has, NaNs and infinities included.
std::vector<float> all_halves() {
  std::vector<float> values;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    __half_raw raw;
    raw.x = static_cast<unsigned short>(bits);
    values.push_back(__half2float(__half(raw)));
  }
  return values;
}

TEST_CASE("unary functions stay within their bounds of the oracle for every count and alignment", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const UnaryFunction function : kFunctions) {
      for (const std::size_t count : kCounts) {
        for (const std::size_t misalign : {0, 1}) {
          const UnaryParams p{elem, function, 0.25F, 0};
          check_unary(p, random_uniform(1, count, -12.0F, 12.0F), misalign);
        }
      }
    }
  }
}

TEST_CASE("unary functions stay within their bounds of the oracle on every number of half") {
  const std::vector<float> x = all_halves();
  for (const Elem elem : kAllElems) {
    for (const UnaryFunction function : kFunctions) {
      for (const float alpha : {0.01F, 1.0F, -0.75F, 0.0F}) check_unary({elem, function, alpha, 0}, x);
    }
  }
}

TEST_CASE("unary functions stay within their bounds of the oracle from denormal to largest floats") {
  std::vector<float> x;
  const std::vector<float> mantissas = random_uniform(2, 2048, 1.0F, 2.0F);
  for (std::size_t i = 0; i < mantissas.size(); ++i) {
    const float value = std::ldexp(mantissas[i], static_cast<int>(i % 277) - 149);
    x.push_back(i % 2 == 0 ? value : -value);
  }
  for (const UnaryFunction function : kFunctions) check_unary({Elem::F32, function, 0.75F, 0}, x);
}

TEST_CASE("unary functions have their limits, and NaN passes", "[sanitize]") {
  const std::vector<float> x{-kInfinity, kInfinity, kNan, -200.0F, 200.0F, -0.0F};
  const auto bits = [&](UnaryFunction function, const std::vector<float>& expected) {
    for (const Elem elem : kAllElems) {
      const UnaryParams p{elem, function, 0.5F, static_cast<std::int64_t>(x.size())};
      CAPTURE(to_string(elem), static_cast<int>(function));
      CHECK(compare_bits(run_unary(p, x), rounded(elem, expected)));
    }
  };
  bits(UnaryFunction::Sigmoid, {0.0F, 1.0F, kNan, 0.0F, 1.0F, 0.5F});
  bits(UnaryFunction::HardSwish, {kNan, kInfinity, kNan, -0.0F, 200.0F, -0.0F});
  bits(UnaryFunction::Tanh, {-1.0F, 1.0F, kNan, -1.0F, 1.0F, -0.0F});
  bits(UnaryFunction::LeakyRelu, {-kInfinity, kInfinity, kNan, -100.0F, 200.0F, -0.0F});
  bits(UnaryFunction::Elu, {-0.5F, kInfinity, kNan, -0.5F, 200.0F, -0.0F});
  bits(UnaryFunction::Erf, {-1.0F, 1.0F, kNan, -1.0F, 1.0F, -0.0F});
  bits(UnaryFunction::Gelu, {kNan, kInfinity, kNan, -0.0F, 200.0F, -0.0F});
  bits(UnaryFunction::GeluTanh, {kNan, kInfinity, kNan, -0.0F, 200.0F, -0.0F});
  bits(UnaryFunction::Softplus, {0.0F, kInfinity, kNan, 0.0F, 200.0F, std::log(2.0F)});
  bits(UnaryFunction::Sqrt, {kNan, kInfinity, kNan, kNan, std::sqrt(200.0F), -0.0F});
  bits(UnaryFunction::Reciprocal, {-0.0F, 0.0F, kNan, -0.005F, 0.005F, -kInfinity});
  bits(UnaryFunction::Exp, {0.0F, kInfinity, kNan, 0.0F, kInfinity, 1.0F});
}

TEST_CASE("unary refuses negative sizes") {
  CHECK(kernels::unary({Elem::F32, UnaryFunction::Tanh, 0.0F, -1}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
}

TEST_CASE("unary once for each function", "[race]") {
  for (std::size_t i = 0; i < std::size(kFunctions); ++i) {
    check_unary({kAllElems[i % std::size(kAllElems)], kFunctions[i], 0.25F, 0}, random_uniform(1, 1003));
  }
}

}  // namespace
}  // namespace mobicuda::test
