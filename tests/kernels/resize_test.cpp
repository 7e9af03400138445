#include "kernels/streaming/resize.h"

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

using kernels::ResizeLine;
using kernels::ResizeParams;

/// As ONNX's half_pixel and asymmetric have them.
ResizeLine half_pixel(int in, int out) { return {in, out, 2 * in, in - out, 2 * out}; }
ResizeLine asymmetric(int in, int out) { return {in, out, 2 * in, 0, 2 * out}; }

std::size_t input_size(const ResizeParams& p) { return static_cast<std::size_t>(p.n * p.rows.in * p.columns.in * p.c); }

struct Oracle {
  std::vector<double> expected;
  std::vector<double> magnitude;  ///< the largest of the pixels
};

double place(const ResizeLine& line, int i) {
  return static_cast<double>(line.factor * i + line.offset) / static_cast<double>(line.divisor);
}

Oracle oracle(const ResizeParams& p, const std::vector<float>& x) {
  Oracle result;
  const auto at = [&](std::int64_t image, double row, double column, int c) {
    const auto iy = static_cast<std::int64_t>(std::clamp(row, 0.0, static_cast<double>(p.rows.in - 1)));
    const auto ix = static_cast<std::int64_t>(std::clamp(column, 0.0, static_cast<double>(p.columns.in - 1)));
    return static_cast<double>(x[static_cast<std::size_t>(((image * p.rows.in + iy) * p.columns.in + ix) * p.c + c)]);
  };
  for (std::int64_t image = 0; image < p.n; ++image) {
    for (int row = 0; row < p.rows.out; ++row) {
      for (int column = 0; column < p.columns.out; ++column) {
        const double y = place(p.rows, row);
        const double left = place(p.columns, column);
        const double top = std::floor(y);
        const double first = std::floor(left);
        for (int c = 0; c < p.c; ++c) {
          const double corners[] = {at(image, top, first, c), at(image, top, first + 1, c),
                                    at(image, top + 1, first, c), at(image, top + 1, first + 1, c)};
          const double dy = p.linear ? y - top : 0.0;
          const double dx = p.linear ? left - first : 0.0;
          result.expected.push_back((corners[0] * (1 - dx) + corners[1] * dx) * (1 - dy) +
                                    (corners[2] * (1 - dx) + corners[3] * dx) * dy);
          double largest = 0.0;
          for (const double corner : corners) largest = std::max(largest, std::abs(corner));
          result.magnitude.push_back(p.linear ? largest : 0.0);
        }
      }
    }
  }
  return result;
}

std::vector<float> run_resize(const ResizeParams& p, const std::vector<float>& x, std::size_t misalign = 0) {
  const DeviceTensor in(p.elem, x, misalign);
  const auto size = static_cast<std::size_t>(p.n * p.rows.out * p.columns.out * p.c);
  std::vector<float> y = run_kernel(p.elem, size, misalign, [&](void* out, const kernels::Launch& where) {
    return kernels::resize(p, in.data(), out, where);
  });
  CHECK(in.check_unchanged());
  return y;
}

void check_resize(const ResizeParams& p, std::size_t misalign = 0) {
  CAPTURE(to_string(p.elem), p.linear, p.n, p.c, p.rows.in, p.rows.out, p.columns.in, p.columns.out, misalign);
  const std::vector<float> x = rounded(p.elem, random_uniform(1, input_size(p)));
  const Oracle exact = oracle(p, x);
  constexpr std::int64_t kRoundings = 6;  // of weights, and of two sums one behind the other
  const auto bounds =
      hard_bounds(gamma(kRoundings, unit_of(p.elem)), exact.magnitude, exact.expected, store_of(p.elem));
  const std::vector<float> y = run_resize(p, x, misalign);
  if (p.linear) {
    CHECK(compare_elements(y, exact.expected, bounds));
  } else {
    CHECK(compare_exact(y, exact.expected));
  }
}

TEST_CASE("resize stays within its bound of the oracle for every ratio and number of channels", "[sanitize]") {
  struct Extents {
    int in;
    int out;
  };
  for (const Elem elem : kAllElems) {
    for (const bool linear : {false, true}) {
      for (const auto& [in, out] : std::initializer_list<Extents>{{1, 1}, {1, 4}, {7, 14}, {7, 7}, {5, 13}, {9, 4}}) {
        for (const int c : {1, 3, 8, 24}) {
          check_resize({elem, linear, 2, c, half_pixel(in, out), asymmetric(out, in)},
                       static_cast<std::size_t>(c == 24 ? 1 : 0));
          check_resize({elem, linear, 2, c, asymmetric(in, out), half_pixel(6, 9)});
        }
      }
    }
  }
}

TEST_CASE("resize finds pixels exactly where a quotient of floats would not", "[sanitize]") {
  // Row i of 3 * 41 lies at i / 3: in floats, i * (41 / 123) falls short of a whole number now and then.
  ResizeParams p{Elem::F32, false, 1, 1, asymmetric(41, 123), asymmetric(1, 1)};
  std::vector<float> x;
  for (int i = 0; i < p.rows.in; ++i) x.push_back(static_cast<float>(i));
  const std::vector<float> y = run_resize(p, x);
  for (int i = 0; i < p.rows.out; ++i) {
    const int whole = i / 3;
    REQUIRE(y[static_cast<std::size_t>(i)] == static_cast<float>(whole));
  }
}

TEST_CASE("resize copies NaN and infinity to the pixels that read them", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    std::vector<float> x(9, 1.0F);
    x[4] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> nearest = run_resize({elem, false, 1, 1, asymmetric(3, 6), asymmetric(3, 6)}, x);
    const std::vector<float> linear = run_resize({elem, true, 1, 1, half_pixel(3, 6), half_pixel(3, 6)}, x);
    for (std::size_t i = 0; i < nearest.size(); ++i) {
      const std::size_t row = i / 6;
      const std::size_t column = i % 6;
      REQUIRE(std::isnan(nearest[i]) == (row / 2 == 1 && column / 2 == 1));
      REQUIRE(std::isnan(linear[i]) == (row >= 1 && row <= 4 && column >= 1 && column <= 4));
    }
  }
}

TEST_CASE("resize refuses sizes that make no sense") {
  const ResizeLine line = half_pixel(4, 8);
  CHECK(kernels::resize({Elem::F32, false, -1, 8, line, line}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::resize({Elem::F32, false, 1, -8, line, line}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::resize({Elem::F32, false, 1, 8, {0, 8, 1, 0, 1}, line}, nullptr, nullptr, {}) ==
        cudaErrorInvalidValue);
  CHECK(kernels::resize({Elem::F32, false, 1, 8, line, {4, 8, 1, 0, 0}}, nullptr, nullptr, {}) ==
        cudaErrorInvalidValue);
  CHECK(kernels::resize({Elem::F32, false, 1 << 20, 8, half_pixel(4, 65536), line}, nullptr, nullptr, {}) ==
        cudaErrorInvalidValue);
}

TEST_CASE("resize once for each type", "[race]") {
  for (const Elem elem : kAllElems) check_resize({elem, true, 2, 24, half_pixel(7, 14), half_pixel(9, 5)});
}

}  // namespace
}  // namespace mobicuda::test
