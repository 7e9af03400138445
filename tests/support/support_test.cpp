// The comparators decide what every kernel test is worth: each kind of wrong tensor must be rejected.
#include <limits>
#include <numeric>

#include "support/catch.h"
#include "support/oracle.h"
#include "support/random.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

constexpr int kRows = 12;
constexpr int kChannels = 32;
constexpr std::int64_t kProducts = 40;

/// A right result and what it is compared with.
struct Case {
  std::vector<double> expected;
  std::vector<double> allowed;
  std::vector<float> actual;

  Comparison elements() const {
    const int shape[] = {kRows, kChannels};
    return compare_elements(actual, expected, allowed, shape);
  }
  Comparison norm() const { return compare_rel_l2(actual, expected, rel_l2_alarm(kProducts, kStoreF32)); }
};

Case make_case() {
  const int k = static_cast<int>(kProducts);
  const std::vector<float> x = random_uniform(1, static_cast<std::size_t>(kRows * k));
  const std::vector<float> weight = random_uniform(2, static_cast<std::size_t>(kChannels * k));
  const Oracle oracle = gemm(kRows, kChannels, k, {}, x, weight);
  Case result;
  result.expected = oracle.value;
  result.allowed = hard_bounds(gamma(kProducts), oracle.magnitude, oracle.value, kStoreF32);
  for (int row = 0; row < kRows; ++row) {
    for (int channel = 0; channel < kChannels; ++channel) {
      float sum = 0.0F;
      for (int i = 0; i < k; ++i) {
        sum += x[static_cast<std::size_t>(row * k + i)] * weight[static_cast<std::size_t>(channel * k + i)];
      }
      result.actual.push_back(sum);
    }
  }
  return result;
}

TEST_CASE("comparators accept a sum in float") {
  const Case right = make_case();
  CHECK(right.elements());
  CHECK(right.norm());
  CHECK(right.elements().worst > 0.0);
}

TEST_CASE("comparators reject one element beyond its bound and say where it is") {
  Case wrong = make_case();
  const std::size_t place = 5 * kChannels + 7;
  wrong.actual[place] = static_cast<float>(wrong.expected[place] + 4.0 * wrong.allowed[place]);
  const Comparison verdict = wrong.elements();
  CHECK_FALSE(verdict);
  CHECK(verdict.index == place);
  CHECK(verdict.reason.find("[5, 7]") != std::string::npos);
}

TEST_CASE("comparators reject NaN in the result") {
  Case wrong = make_case();
  wrong.actual.back() = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(wrong.elements());
  CHECK_FALSE(wrong.norm());
  CHECK_FALSE(compare_exact(wrong.actual, wrong.expected));
}

TEST_CASE("comparators reject infinity in the result") {
  Case wrong = make_case();
  wrong.actual.front() = -std::numeric_limits<float>::infinity();
  CHECK_FALSE(wrong.elements());
  CHECK_FALSE(wrong.norm());
}

TEST_CASE("comparators reject a finite number where NaN or infinity is due") {
  const std::vector<float> finite{1.0F};
  const std::vector<double> allowed{std::numeric_limits<double>::infinity()};
  const std::vector<double> nan{std::numeric_limits<double>::quiet_NaN()};
  const std::vector<double> infinity{std::numeric_limits<double>::infinity()};
  CHECK_FALSE(compare_elements(finite, nan, allowed));
  CHECK_FALSE(compare_elements(finite, infinity, allowed));
  const std::vector<float> negative_infinity{-std::numeric_limits<float>::infinity()};
  CHECK_FALSE(compare_elements(negative_infinity, infinity, allowed));
}

TEST_CASE("comparators reject wrong sizes") {
  Case wrong = make_case();
  wrong.actual.pop_back();
  CHECK_FALSE(wrong.elements());
  CHECK_FALSE(wrong.norm());
  CHECK_FALSE(compare_bits(wrong.actual, make_case().actual));
  CHECK_FALSE(compare_elements({}, wrong.expected, wrong.allowed));
  wrong = make_case();
  wrong.allowed.pop_back();
  CHECK_FALSE(wrong.elements());
}

TEST_CASE("comparators reject an all-zero result") {
  Case wrong = make_case();
  std::fill(wrong.actual.begin(), wrong.actual.end(), 0.0F);
  CHECK_FALSE(wrong.elements());
  CHECK_FALSE(wrong.norm());
}

TEST_CASE("comparators reject any result where all zeros are due") {
  const std::vector<double> zeros(kChannels, 0.0);
  const std::vector<float> ones(kChannels, 1.0F);
  CHECK_FALSE(compare_elements(ones, zeros, zeros));
  CHECK_FALSE(compare_rel_l2(ones, zeros, rel_l2_alarm(kProducts, kStoreF16)));
}

TEST_CASE("comparators reject permuted channels") {
  Case wrong = make_case();
  for (int row = 0; row < kRows; ++row) {
    std::swap(wrong.actual[static_cast<std::size_t>(row * kChannels)],
              wrong.actual[static_cast<std::size_t>(row * kChannels + 1)]);
  }
  CHECK_FALSE(wrong.elements());
  CHECK_FALSE(wrong.norm());
}

TEST_CASE("comparators reject a result shifted by one row") {
  Case wrong = make_case();
  std::rotate(wrong.actual.begin(), wrong.actual.begin() + kChannels, wrong.actual.end());
  CHECK_FALSE(wrong.elements());
  CHECK_FALSE(wrong.norm());
}

TEST_CASE("comparators reject half precision where float is due") {
  Case wrong = make_case();
  for (float& value : wrong.actual) value *= 1.0F + static_cast<float>(kUnitF16);
  CHECK_FALSE(wrong.elements());
  CHECK_FALSE(wrong.norm());
}

TEST_CASE("comparators reject one neglected product of a sum") {
  Case wrong = make_case();
  const std::vector<float> x = random_uniform(1, static_cast<std::size_t>(kRows * kProducts));
  const std::vector<float> weight = random_uniform(2, static_cast<std::size_t>(kChannels * kProducts));
  wrong.actual[0] -= x[0] * weight[0];
  CHECK_FALSE(wrong.elements());
}

TEST_CASE("bitwise comparison tells -0 from 0 and takes any NaN for another") {
  const std::vector<float> zero{0.0F};
  const std::vector<float> negative_zero{-0.0F};
  const std::vector<double> zero_expected{0.0};
  CHECK_FALSE(compare_bits(negative_zero, zero));
  CHECK(compare_exact(negative_zero, zero_expected));
  const std::vector<float> nan{std::numeric_limits<float>::quiet_NaN()};
  const std::vector<float> other_nan{-std::numeric_limits<float>::quiet_NaN()};
  CHECK(compare_bits(nan, other_nan));
  CHECK_FALSE(compare_bits(nan, zero));
}

TEST_CASE("bitwise comparison rejects a change of one unit in the last place") {
  std::vector<float> changed = random_uniform(3, kChannels);
  const std::vector<float> right = changed;
  changed[9] = std::nextafter(changed[9], 2.0F);
  const Comparison verdict = compare_bits(changed, right);
  CHECK_FALSE(verdict);
  CHECK(verdict.index == 9);
}

TEST_CASE("an empty tensor equals an empty tensor") {
  CHECK(compare_elements({}, {}, {}));
  CHECK(compare_rel_l2({}, {}, 0.0));
  CHECK(compare_bits({}, {}));
}

TEST_CASE("bounds grow with the sum and with the storage format") {
  CHECK(gamma(9) > 11.0 * kUnitF32);
  CHECK(gamma(9) < 11.001 * kUnitF32);
  CHECK(gamma(1280) > gamma(9));
  CHECK(gamma_tensor_core(16) > 2.0 * gamma(16));
  CHECK(hard_bound(0.0, 1.0, 1.0, kStoreF16) == kUnitF16);
  CHECK(hard_bound(0.0, 1.0, 0.0, kStoreF16) == kStoreF16.underflow);
}

TEST_CASE("oracle convolution agrees with a case worked by hand") {
  // 1x2x2x1 image, 3x3 kernel of ones, padding 1: every output pixel sees the whole image.
  OracleConv p;
  p.h = p.w = p.out_h = p.out_w = 2;
  p.kernel_h = p.kernel_w = 3;
  p.pad_top = p.pad_left = 1;
  p.clip = {0.0, 6.0};
  const std::vector<float> x{1.0F, 2.0F, -3.0F, 4.0F};
  const std::vector<float> ones(9, 1.0F);
  const std::vector<float> bias{0.5F};
  const std::vector<float> residual{0.0F, 1.0F, 2.0F, -9.0F};
  const Oracle oracle = conv2d(p, x, ones, bias, residual);
  CHECK(oracle.value == std::vector<double>{4.5, 5.5, 6.0, 0.0});
  CHECK(oracle.magnitude == std::vector<double>{10.5, 11.5, 12.5, 19.5});
  CHECK(oracle.products == 9);
}

TEST_CASE("oracle convolution keeps groups, strides and dilation apart") {
  OracleConv p;
  p.h = 3;
  p.w = 5;
  p.c_in = 4;
  p.c_out = 2;
  p.groups = 2;
  p.kernel_w = 2;
  p.dilation_w = 2;
  p.stride_w = 2;
  p.stride_h = 2;
  p.out_h = 2;
  p.out_w = 2;
  std::vector<float> x(3 * 5 * 4);
  std::iota(x.begin(), x.end(), 0.0F);
  // Output channel 0 takes channel 1 at the left tap, output channel 1 takes channel 2 at the right tap.
  const std::vector<float> weight{0.0F, 0.0F, 1.0F, 0.0F, 0.0F, 1.0F, 0.0F, 0.0F};
  const Oracle oracle = conv2d(p, x, weight);
  CHECK(oracle.value == std::vector<double>{1, 10, 9, 18, 41, 50, 49, 58});
}

TEST_CASE("random data are reproducible, of both signs, and whole in the exact mode") {
  CHECK(random_uniform(7, 100) == random_uniform(7, 100));
  CHECK(random_uniform(7, 100) != random_uniform(8, 100));
  const std::vector<float> values = random_integers(7, 1000);
  CHECK(*std::min_element(values.begin(), values.end()) == -4.0F);
  CHECK(*std::max_element(values.begin(), values.end()) == 4.0F);
}

}  // namespace
}  // namespace mobicuda::test
