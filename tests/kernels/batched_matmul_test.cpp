#include "kernels/batched_matmul/batched_matmul.h"

#include <cmath>
#include <limits>

#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

using kernels::BatchedMatMulParams;

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

std::size_t a_size(const BatchedMatMulParams& p) { return size(p.batch * p.m * p.k); }
std::size_t b_size(const BatchedMatMulParams& p) { return size(p.batch * p.k * p.p); }
std::size_t y_size(const BatchedMatMulParams& p) { return size(p.batch * p.m * p.p); }

struct Oracle {
  std::vector<double> expected;
  std::vector<double> magnitude;
};

Oracle oracle(const BatchedMatMulParams& p, const std::vector<float>& a, const std::vector<float>& b) {
  Oracle result{std::vector<double>(y_size(p)), std::vector<double>(y_size(p))};
  for (std::int64_t row = 0; row < p.batch * p.m; ++row) {
    for (int i = 0; i < p.k; ++i) {
      for (int column = 0; column < p.p; ++column) {
        const double product = static_cast<double>(a[size(row * p.k + i)]) *
                               static_cast<double>(b[size((row / p.m * p.k + i) * p.p + column)]);
        result.expected[size(row * p.p + column)] += product;
        result.magnitude[size(row * p.p + column)] += std::abs(product);
      }
    }
  }
  return result;
}

std::vector<float> run_matmul(const BatchedMatMulParams& p, const std::vector<float>& a, const std::vector<float>& b,
                              std::size_t misalign = 0) {
  const DeviceTensor left(p.elem, a, misalign);
  const DeviceTensor right(p.elem, b, misalign);
  std::vector<float> y = run_kernel(p.elem, y_size(p), misalign, [&](void* out, const kernels::Launch& where) {
    return kernels::batched_matmul(p, left.data(), right.data(), out, where);
  });
  CHECK(left.check_unchanged());
  CHECK(right.check_unchanged());
  return y;
}

void check_matmul(const BatchedMatMulParams& p, std::size_t misalign = 0) {
  CAPTURE(to_string(p.elem), p.batch, p.m, p.k, p.p, misalign);
  const std::vector<float> a = rounded(p.elem, random_uniform(1, a_size(p)));
  const std::vector<float> b = rounded(p.elem, random_uniform(2, b_size(p)));
  const Oracle exact = oracle(p, a, b);
  const auto bounds = hard_bounds(gamma(p.k, unit_of(p.elem)), exact.magnitude, exact.expected, store_of(p.elem));
  CHECK(compare_elements(run_matmul(p, a, b, misalign), exact.expected, bounds));
}

TEST_CASE("batched_matmul stays within its bound of the oracle for every extent", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const int m : {1, 7, 32, 49}) {
      for (const int k : {0, 1, 31, 32, 65}) {
        for (const int p : {1, 16, 33}) check_matmul({elem, 2, m, k, p}, static_cast<std::size_t>(m == 7 ? 1 : 0));
      }
    }
    check_matmul({elem, 0, 4, 4, 4});
  }
}

TEST_CASE("batched_matmul of whole numbers has the oracle's bits", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    const BatchedMatMulParams p{elem, 3, 40, 50, 35};
    const std::vector<float> a = random_integers(3, a_size(p));
    const std::vector<float> b = random_integers(4, b_size(p));
    CHECK(compare_exact(run_matmul(p, a, b), oracle(p, a, b).expected));
  }
}

TEST_CASE("batched_matmul makes NaN of a row, and of a column, alone", "[sanitize]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Elem elem : kAllElems) {
    const BatchedMatMulParams p{elem, 2, 5, 6, 7};
    std::vector<float> a(a_size(p), 1.0F);
    std::vector<float> b(b_size(p), 1.0F);
    a[size(2 * p.k + 1)] = nan;              // row 2 of the first pair
    b[size(p.k * p.p + 3 * p.p + 4)] = nan;  // column 4 of the second
    const std::vector<float> y = run_matmul(p, a, b);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t pair = i / size(p.m * p.p);
      const std::size_t row = i / size(p.p) % size(p.m);
      REQUIRE(std::isnan(y[i]) == (pair == 0 ? row == 2 : i % size(p.p) == 4));
    }
  }
}

TEST_CASE("batched_matmul of a pair does not depend on its place", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    const BatchedMatMulParams one{elem, 1, 9, 40, 33};
    const std::vector<float> a = rounded(elem, random_uniform(5, a_size(one)));
    const std::vector<float> b = rounded(elem, random_uniform(6, b_size(one)));
    const std::vector<float> y = run_matmul(one, a, b);
    BatchedMatMulParams many = one;
    many.batch = 5;
    std::vector<float> left;
    std::vector<float> right;
    std::vector<float> expected;
    for (std::int64_t i = 0; i < many.batch; ++i) {
      left.insert(left.end(), a.begin(), a.end());
      right.insert(right.end(), b.begin(), b.end());
      expected.insert(expected.end(), y.begin(), y.end());
    }
    CHECK(compare_bits(run_matmul(many, left, right), expected));
  }
}

TEST_CASE("batched_matmul refuses negative sizes") {
  CHECK(kernels::batched_matmul({Elem::F32, -1, 1, 1, 1}, nullptr, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::batched_matmul({Elem::F32, 1, -1, 1, 1}, nullptr, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::batched_matmul({Elem::F32, 1, 1, -1, 1}, nullptr, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::batched_matmul({Elem::F32, 1, 1, 1, -1}, nullptr, nullptr, nullptr, {}) == cudaErrorInvalidValue);
}

TEST_CASE("batched_matmul once for each type", "[race]") {
  for (const Elem elem : kAllElems) check_matmul({elem, 2, 49, 40, 33});
}

}  // namespace
}  // namespace mobicuda::test
