#include "kernels/streaming/normalize.h"

#include <cmath>
#include <limits>

#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

using kernels::NormalizeParams;

std::size_t elements(const NormalizeParams& p) { return static_cast<std::size_t>(p.images * p.pixels * p.c); }

/// Calls body(the elements' positions) for each of what is normalised together.
template <class Body>
void for_each_row(const NormalizeParams& p, Body body) {
  const int channels = p.c / p.groups;
  for (std::int64_t row = 0; row < p.images * p.groups; ++row) {
    std::vector<std::size_t> positions;
    for (std::int64_t pixel = 0; pixel < p.pixels; ++pixel) {
      const std::int64_t first = (row / p.groups * p.pixels + pixel) * p.c + row % p.groups * channels;
      for (int c = 0; c < channels; ++c) positions.push_back(static_cast<std::size_t>(first + c));
    }
    body(positions);
  }
}

struct Oracle {
  std::vector<double> expected;
  std::vector<double> allowed;  ///< docs/numerics.md
};

Oracle oracle(const NormalizeParams& p, const std::vector<float>& x) {
  Oracle result{std::vector<double>(x.size()), std::vector<double>(x.size())};
  for_each_row(p, [&](const std::vector<std::size_t>& row) {
    const auto count = static_cast<double>(row.size());
    double sum = 0.0;
    double sizes = 0.0;
    for (const std::size_t i : row) {
      sum += static_cast<double>(x[i]);
      sizes += std::abs(static_cast<double>(x[i]));
    }
    const double mean = sum / count;
    double squares = 0.0;
    for (const std::size_t i : row) squares += (static_cast<double>(x[i]) - mean) * (static_cast<double>(x[i]) - mean);
    const double root = std::sqrt(squares / count + static_cast<double>(p.epsilon));
    const double g = gamma(static_cast<std::int64_t>(row.size()) + 4, unit_of(p.elem));
    const double of_mean = g * sizes / count / root;  // the mean's error, in roots
    for (const std::size_t i : row) {
      const double y = (static_cast<double>(x[i]) - mean) / root;
      result.expected[i] = y;
      result.allowed[i] = hard_bound(1.0, of_mean + std::abs(y) * (g + of_mean * of_mean), y, store_of(p.elem));
    }
  });
  return result;
}

std::vector<float> run_normalize(const NormalizeParams& p, const std::vector<float>& x, std::size_t misalign = 0) {
  const DeviceTensor in(p.elem, x, misalign);
  std::vector<float> y = run_kernel(p.elem, x.size(), misalign, [&](void* out, const kernels::Launch& where) {
    return kernels::normalize(p, in.data(), out, where);
  });
  CHECK(in.check_unchanged());
  return y;
}

void check_normalize(const NormalizeParams& p, float lo = -2.0F, float hi = 3.0F, std::size_t misalign = 0) {
  CAPTURE(to_string(p.elem), p.images, p.pixels, p.c, p.groups, p.epsilon, lo, hi, misalign);
  const std::vector<float> x = rounded(p.elem, random_uniform(1, elements(p), lo, hi));
  const Oracle exact = oracle(p, x);
  CHECK(compare_elements(run_normalize(p, x, misalign), exact.expected, exact.allowed));
}

TEST_CASE("normalize over channels stays within its bound of the oracle for every number of them", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const int c : {1, 2, 3, 4, 7, 8, 31, 40, 64, 96, 257, 1024, 1025, 1032, 2064}) {
      for (const std::int64_t pixels : {0, 1, 9}) {
        check_normalize({elem, pixels, 1, c}, -2.0F, 3.0F, static_cast<std::size_t>(c == 40 ? 1 : 0));
      }
    }
  }
}

TEST_CASE("normalize of groups stays within its bound of the oracle for every number of them", "[sanitize]") {
  struct Groups {
    int c;
    int groups;
  };
  for (const Elem elem : kAllElems) {
    for (const auto& [c, groups] : std::initializer_list<Groups>{{1, 1}, {6, 1}, {6, 6}, {16, 2}, {24, 8}, {48, 3}}) {
      for (const std::int64_t pixels : {1, 5, 49, 70}) {
        for (const std::int64_t images : {1, 3}) check_normalize({elem, images, pixels, c, groups});
      }
    }
  }
}

TEST_CASE("normalize keeps small differences of large numbers", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    check_normalize({elem, 5, 1, 64, 1, 1e-6F}, 100.0F, 101.0F);
    check_normalize({elem, 2, 49, 32, 4, 1e-3F}, -64.5F, -63.5F);
  }
}

TEST_CASE("normalize of equal values is 0, and NaN fills its row alone", "[sanitize]") {
  constexpr int kC = 24;
  for (const Elem elem : kAllElems) {
    std::vector<float> x(3 * kC, 1.5F);
    x[kC + 3] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> y = run_normalize({elem, 3, 1, kC, 1, 1e-5F}, x);
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (i / kC == 1) {
        REQUIRE(std::isnan(y[i]));
      } else {
        REQUIRE(y[i] == 0.0F);
      }
    }
  }
}

TEST_CASE("normalize of an image does not depend on its place", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    const NormalizeParams one{elem, 1, 49, 32, 4, 1e-5F};
    const std::vector<float> x = rounded(elem, random_uniform(2, elements(one)));
    const std::vector<float> y = run_normalize(one, x);
    NormalizeParams many = one;
    many.images = 7;
    std::vector<float> in;
    std::vector<float> expected;
    for (std::int64_t i = 0; i < many.images; ++i) {
      in.insert(in.end(), x.begin(), x.end());
      expected.insert(expected.end(), y.begin(), y.end());
    }
    CHECK(compare_bits(run_normalize(many, in), expected));
  }
}

TEST_CASE("normalize refuses negative sizes, and groups that do not divide the channels") {
  CHECK(kernels::normalize({Elem::F32, -1, 1, 8}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::normalize({Elem::F32, 1, -1, 8}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::normalize({Elem::F32, 1, 1, -8}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::normalize({Elem::F32, 1, 1, 8, 0}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::normalize({Elem::F32, 1, 1, 8, 3}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
}

TEST_CASE("normalize once for each type and length of row", "[race]") {
  for (const Elem elem : kAllElems) {
    check_normalize({elem, 35, 1, 96});
    check_normalize({elem, 2, 49, 64, 2});
  }
}

}  // namespace
}  // namespace mobicuda::test
