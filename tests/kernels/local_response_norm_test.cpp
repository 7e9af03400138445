#include "kernels/streaming/local_response_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

using kernels::LocalResponseNormParams;

std::vector<double> oracle(const LocalResponseNormParams& p, const std::vector<float>& x) {
  std::vector<double> y(x.size());
  const std::int64_t before = (p.size - 1) / 2;
  const std::int64_t after = p.size / 2;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto c = static_cast<std::int64_t>(i) % p.c;
    double squares = 0.0;
    for (std::int64_t k = std::max<std::int64_t>(c - before, 0); k <= std::min<std::int64_t>(c + after, p.c - 1); ++k) {
      const auto value = static_cast<double>(x[i - static_cast<std::size_t>(c) + static_cast<std::size_t>(k)]);
      squares += value * value;
    }
    const double base =
        static_cast<double>(p.bias) + static_cast<double>(p.alpha) / static_cast<double>(p.size) * squares;
    y[i] = static_cast<double>(x[i]) / std::pow(base, static_cast<double>(p.beta));
  }
  return y;
}

std::vector<float> run_norm(const LocalResponseNormParams& p, const std::vector<float>& x, std::size_t misalign = 0) {
  const DeviceTensor in(p.elem, x, misalign);
  std::vector<float> y = run_kernel(p.elem, x.size(), misalign, [&](void* out, const kernels::Launch& where) {
    return kernels::local_response_norm(p, in.data(), out, where);
  });
  CHECK(in.check_unchanged());
  return y;
}

void check_norm(const LocalResponseNormParams& p, std::size_t misalign = 0) {
  CAPTURE(to_string(p.elem), p.pixels, p.c, p.size, p.alpha, p.beta, p.bias, misalign);
  const auto count = static_cast<std::size_t>(p.pixels * p.c);
  const std::vector<float> x = rounded(p.elem, random_uniform(1, count, -8.0F, 8.0F));
  const std::vector<double> expected = oracle(p, x);
  std::vector<double> magnitude(count);
  std::transform(expected.begin(), expected.end(), magnitude.begin(), [](double y) { return std::abs(y); });
  const auto terms = static_cast<double>(std::min<std::int64_t>(p.size, p.c));
  const auto roundings = static_cast<std::int64_t>(std::ceil(static_cast<double>(p.beta) * (terms + 2.0)));
  constexpr std::int64_t kPower = 9;  // of the power, the division
  const auto bounds = hard_bounds(gamma(roundings + kPower, unit_of(p.elem)), magnitude, expected, store_of(p.elem));
  CHECK(compare_elements(run_norm(p, x, misalign), expected, bounds));
}

TEST_CASE("local_response_norm stays within its bound of the oracle for every window", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const int c : {1, 2, 3, 4, 7, 8, 16, 24, 33, 96, 256}) {
      for (const std::int64_t size : {1, 2, 3, 4, 5, 6, 7, 12, 1000}) {
        for (const std::int64_t pixels : {0, 1, 35}) {
          check_norm({elem, pixels, c, size, 2.0F, 0.75F, 1.0F}, static_cast<std::size_t>(c == 24 ? 1 : 0));
        }
      }
    }
  }
}

TEST_CASE("local_response_norm stays within its bound of the oracle for every power", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const float beta : {0.0F, 0.5F, 0.75F, 1.0F, 2.5F}) {
      for (const float bias : {0.0625F, 1.0F, 2.0F}) {
        for (const float alpha : {0.0F, 1e-4F, 1.0F}) {
          check_norm({elem, 17, 24, 5, alpha, beta, bias});
          check_norm({elem, 17, 9, 5, alpha, beta, bias});
        }
      }
    }
  }
}

TEST_CASE("local_response_norm of a pixel does not depend on its place", "[sanitize]") {
  constexpr int kC = 24;
  for (const Elem elem : kAllElems) {
    std::vector<float> x = rounded(elem, random_uniform(2, kC));
    const std::vector<float> one = run_norm({elem, 1, kC, 5, 1.0F, 0.75F, 1.0F}, x);
    std::vector<float> expected;
    std::vector<float> many;
    for (int i = 0; i < 1000; ++i) {
      many.insert(many.end(), x.begin(), x.end());
      expected.insert(expected.end(), one.begin(), one.end());
    }
    CHECK(compare_bits(run_norm({elem, 1000, kC, 5, 1.0F, 0.75F, 1.0F}, many), expected));
  }
}

TEST_CASE("local_response_norm makes NaN of the channels whose window has one", "[sanitize]") {
  constexpr int kC = 16;
  for (const Elem elem : kAllElems) {
    std::vector<float> x(3 * kC, 1.0F);
    x[kC + 8] = std::numeric_limits<float>::quiet_NaN();
    x[2 * kC - 1] = x[kC + 8];  // the last channel of a pixel is no neighbour of the next one's first
    const std::vector<float> y = run_norm({elem, 3, kC, 4, 1.0F, 0.75F, 1.0F}, x);
    for (int i = 0; i < 3 * kC; ++i) {
      const int c = i - kC;  // a window has one channel in front and two behind
      const bool reached = (c >= 6 && c <= 9) || (c >= 13 && c <= 15);
      REQUIRE(std::isnan(y[static_cast<std::size_t>(i)]) == reached);
    }
  }
}

TEST_CASE("local_response_norm refuses negative sizes and windows of nothing") {
  CHECK(kernels::local_response_norm({Elem::F32, -1, 8, 5}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::local_response_norm({Elem::F32, 1, -8, 5}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::local_response_norm({Elem::F32, 1, 8, 0}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
}

TEST_CASE("local_response_norm once for each type", "[race]") {
  for (const Elem elem : kAllElems) check_norm({elem, 35, 33, 5, 2.0F, 0.75F, 1.0F});
}

}  // namespace
}  // namespace mobicuda::test
