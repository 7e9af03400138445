#include "kernels/streaming/softmax.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

using kernels::SoftmaxParams;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
/// A denormal exp() is off by up to two denormal steps, and rounding the quotient adds half of one.
constexpr double kDenormal = 5.0 * kStoreF32.underflow;

struct Types {
  Elem elem;
  Elem output;
};
constexpr Types kTypes[] = {{Elem::F32, Elem::F32},
                            {Elem::F16, Elem::F32},
                            {Elem::F16, Elem::F16},
                            {Elem::F64, Elem::F32},
                            {Elem::F64, Elem::F64}};

std::vector<float> run_softmax(const SoftmaxParams& p, const std::vector<float>& x, std::size_t misalign = 0) {
  const DeviceTensor in(p.elem, x, misalign);
  std::vector<float> y = run_kernel(p.output, x.size(), misalign, [&](void* out, const kernels::Launch& where) {
    return kernels::softmax(p, in.data(), out, where);
  });
  CHECK(in.check_unchanged());
  return y;
}

/// What an element y may be off before it is stored; `distance` is its input's from the largest of its row.
double error_of(const SoftmaxParams& p, double y, double distance) {
  const double unit = unit_of(p.elem);
  return p.logarithm ? log_softmax_error(y, unit) : softmax_relative_error(distance, unit) * y + kDenormal;
}

/// Checks every element against fp64, and the sum of every row.
void check_form(const SoftmaxParams& p, const std::vector<float>& x, std::size_t misalign) {
  CAPTURE(to_string(p.elem), to_string(p.output), p.rows, p.columns, p.logarithm, misalign);
  const double lowest = p.output == Elem::F16 ? -65504.0 : double{std::numeric_limits<float>::lowest()};
  const auto columns = static_cast<std::size_t>(p.columns);
  std::vector<double> expected(x.size());
  std::vector<double> allowed(x.size());
  for (std::size_t row = 0; row < static_cast<std::size_t>(p.rows); ++row) {
    const auto first = x.begin() + static_cast<std::ptrdiff_t>(row * columns);
    const auto largest = static_cast<double>(*std::max_element(first, first + p.columns));
    double sum = 0.0;
    for (std::size_t i = row * columns; i < (row + 1) * columns; ++i)
      sum += std::exp(static_cast<double>(x[i]) - largest);
    for (std::size_t i = row * columns; i < (row + 1) * columns; ++i) {
      const double distance = static_cast<double>(x[i]) - largest;
      expected[i] = p.logarithm ? distance - std::log(sum) : std::exp(distance) / sum;
      if (expected[i] < lowest) expected[i] = -std::numeric_limits<double>::infinity();
      const double error = std::isinf(distance) || std::isinf(expected[i]) ? 0.0 : error_of(p, expected[i], distance);
      allowed[i] = hard_bound(1.0, error, expected[i], store_of(p.output));
    }
  }
  const int shape[] = {p.rows, p.columns};
  const std::vector<float> y = run_softmax(p, x, misalign);
  CHECK(compare_elements(y, expected, allowed, shape));
  if (p.logarithm || p.output == Elem::F16) return;  // a thousand roundings to half move the sum by more
  for (std::size_t row = 0; row < static_cast<std::size_t>(p.rows); ++row) {
    const auto first = y.begin() + static_cast<std::ptrdiff_t>(row * columns);
    CHECK(std::abs(std::accumulate(first, first + p.columns, 0.0) - 1.0) <= kSoftmaxRowSum);
  }
}

constexpr bool kLogarithms[] = {false, true};

/// The softmax and its logarithm.
void check_softmax(SoftmaxParams p, const std::vector<float>& x, std::size_t misalign = 0) {
  for (const bool logarithm : kLogarithms) {
    p.logarithm = logarithm;
    check_form(p, x, misalign);
  }
}

std::size_t elements(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

TEST_CASE("softmax stays within its bound of the oracle on rows held in registers", "[sanitize]") {
  for (const Types& types : kTypes) {
    for (const int columns : {1, 2, 31, 32, 33, 255, 256, 257, 768, 1000, 1001, 1023, 1024}) {
      for (const int rows : {0, 1, 2, 33}) {
        const SoftmaxParams p{types.elem, types.output, rows, columns};
        const std::vector<float> x = rounded(types.elem, random_uniform(1, elements(rows, columns), -12.0F, 12.0F));
        check_softmax(p, x, static_cast<std::size_t>(rows % 2));
      }
    }
  }
}

TEST_CASE("softmax stays within its bound of the oracle on long rows", "[sanitize]") {
  for (const Types& types : kTypes) {
    for (const int columns : {1025, 2047, 4096, 5001, 21843}) {
      const SoftmaxParams p{types.elem, types.output, 3, columns};
      check_softmax(p, rounded(types.elem, random_uniform(2, elements(3, columns), -12.0F, 12.0F)));
    }
  }
}

TEST_CASE("softmax does not overflow, and underflows to denormals and zero") {
  for (const Types& types : kTypes) {
    check_softmax({types.elem, types.output, 1, 8}, {6e4F, 6e4F, 0.0F, -6e4F, 1.0F, 59392.0F, -1.0F, 6e4F});
    check_softmax({types.elem, types.output, 1, 6}, {0.0F, -80.0F, -87.0F, -95.0F, -103.0F, -110.0F});
  }
  const float largest = std::numeric_limits<float>::max();
  check_softmax({Elem::F32, Elem::F32, 1, 3}, {largest, 0.0F, -largest});
}

TEST_CASE("softmax gives minus infinity no weight, whose logarithm is minus infinity") {
  for (const int columns : {5, 1100}) {
    std::vector<float> x(static_cast<std::size_t>(columns), -kInfinity);
    x[3] = 2.0F;
    x.back() = 2.0F;
    check_softmax({Elem::F32, Elem::F32, 1, columns}, x);
  }
}

TEST_CASE("softmax makes the whole row NaN from a NaN, plus infinity or nothing but minus infinity", "[sanitize]") {
  for (const int columns : {5, 1100}) {
    for (const float bad : {kNan, kInfinity}) {
      std::vector<float> x = random_uniform(3, elements(3, columns));
      x[static_cast<std::size_t>(columns) + 2] = bad;
      for (const bool logarithm : kLogarithms) {
        const std::vector<float> y = run_softmax({Elem::F32, Elem::F32, 3, columns, 1, logarithm}, x);
        for (std::size_t i = 0; i < y.size(); ++i) {
          const bool in_row = i / static_cast<std::size_t>(columns) == 1;
          REQUIRE(std::isnan(y[i]) == in_row);
        }
      }
    }
    const std::vector<float> nothing(static_cast<std::size_t>(columns), -kInfinity);
    for (const bool logarithm : kLogarithms) {
      for (const float value : run_softmax({Elem::F32, Elem::F32, 1, columns, 1, logarithm}, nothing)) {
        REQUIRE(std::isnan(value));
      }
    }
  }
}

TEST_CASE("softmax of equal numbers is exact where the count is a power of two") {
  for (const int columns : {1, 2, 256, 1024, 4096}) {
    const std::vector<float> x(static_cast<std::size_t>(columns), -3.5F);
    const std::vector<double> expected(x.size(), 1.0 / columns);
    CHECK(compare_exact(run_softmax({Elem::F16, Elem::F32, 1, columns}, x), expected));
  }
}

TEST_CASE("softmax of columns that lie apart stays within its bound of the oracle", "[sanitize]") {
  for (const Types& types : kTypes) {
    for (const auto& [outer, columns, inner] : {std::array{2, 5, 7}, {1, 21, 130}, {3, 1, 4}, {2, 130, 3}, {0, 4, 5}}) {
      CAPTURE(to_string(types.elem), to_string(types.output), outer, columns, inner);
      const std::vector<float> x =
          rounded(types.elem, random_uniform(4, elements(outer, columns * inner), -12.0F, 12.0F));
      std::vector<float> rows(x.size());  // columns side by side
      const auto place = [&](std::size_t i) {
        const auto c = i / static_cast<std::size_t>(inner) % static_cast<std::size_t>(columns);
        const auto picture = i / elements(columns, inner);
        return (picture * static_cast<std::size_t>(inner) + i % static_cast<std::size_t>(inner)) *
                   static_cast<std::size_t>(columns) +
               c;
      };
      for (std::size_t i = 0; i < x.size(); ++i) rows[place(i)] = x[i];
      for (const bool logarithm : kLogarithms) {
        CAPTURE(logarithm);
        const SoftmaxParams together{types.elem, types.output, outer * inner, columns, 1, logarithm};
        SoftmaxParams apart = together;
        apart.inner = inner;
        const auto y = run_softmax(apart, x);
        const auto expected = run_softmax(together, rows);
        // Two correct results, each within the bound of the oracle; a row's sum is one chain here.
        constexpr double kTwo = 2.0;
        const Store store = store_of(types.output);
        std::vector<double> value(x.size());
        std::vector<double> allowed(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) {
          value[i] = static_cast<double>(expected[place(i)]);
          const double chain = gamma(columns) * (logarithm ? 1.0 : value[i]);
          allowed[i] = hard_bound(1.0, kTwo * error_of(together, value[i], 24.0) + chain, value[i], store) +
                       store.unit * std::abs(value[i]) + store.underflow;
        }
        CHECK(compare_elements(y, value, allowed));
      }
    }
  }
}

TEST_CASE("softmax over many short rows stays within its bound of the oracle", "[sanitize]") {
  for (const Types& types : kTypes) {
    for (const int columns : {1, 3, 19, 21, 64, 127, 128, 129}) {
      check_softmax({types.elem, types.output, 1031, columns},
                    rounded(types.elem, random_uniform(5, elements(1031, columns), -12.0F, 12.0F)));
    }
  }
}

TEST_CASE("softmax refuses half output of float input and negative sizes") {
  CHECK(kernels::softmax({Elem::F64, Elem::F16, 1, 8}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::softmax({Elem::F32, Elem::F64, 1, 8}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::softmax({Elem::F32, Elem::F16, 1, 8}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::softmax({Elem::F32, Elem::F32, -1, 8}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::softmax({Elem::F32, Elem::F32, 5, 8, 2}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::softmax({Elem::F32, Elem::F32, 5, 8, 0}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
}

TEST_CASE("softmax of rows of every kind once", "[race]") {
  for (const Types& types : kTypes) {
    for (const auto& [rows, columns] : {std::pair{33, 1001}, {3, 2001}}) {
      check_softmax({types.elem, types.output, rows, columns},
                    rounded(types.elem, random_uniform(6, elements(rows, columns), -12.0F, 12.0F)));
    }
    // Columns that lie apart: run_kernel compares two runs.
    for (const bool logarithm : kLogarithms) {
      run_softmax({types.elem, types.output, 2 * 7, 130, 7, logarithm},
                  rounded(types.elem, random_uniform(7, elements(14, 130))));
    }
  }
}

}  // namespace
}  // namespace mobicuda::test
