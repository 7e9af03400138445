#include "kernels/split_gemm/split_gemm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/gemm_case.h"
#include "kernels/race_case.h"
#include "support/network_shapes.h"

namespace mobicuda::test {
namespace {

using gemm_case::count;
using gemm_case::kInfinity;
using gemm_case::kRelu6;
using gemm_case::rows_to_check;
using gemm_case::take_rows;
using kernels::split_gemm_variants;
using kernels::SplitGemmParams;
using kernels::SplitGemmVariant;

SplitGemmParams make_params(int m, int n, int k, int combination = 0) {
  SplitGemmParams p;
  p.m = m;
  p.n = n;
  p.k = k;
  p.in_range = true;
  p.bias = (combination & 1) != 0;
  p.residual = (combination & 2) != 0;
  if ((combination & 4) != 0) p.activation = kRelu6;
  return p;
}

GuardedBuffer pack(const SplitGemmParams& p, float x_bound, std::span<const float> weight) {
  std::vector<std::byte> packed(kernels::split_gemm_packed_bytes(p.n, p.k));
  kernels::split_gemm_pack(p.n, p.k, x_bound, weight.data(), packed.data());
  return GuardedBuffer(packed);
}

float largest_of(std::span<const float> values) {
  float largest = 0.0F;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

/// One problem: inputs on the device and what must come out.
class Problem {
 public:
  Problem(const SplitGemmParams& params, float x_bound, std::vector<float> x, std::vector<float> weight,
          std::vector<float> bias, std::vector<float> residual)
      : params_(params),
        rows_(rows_to_check(params.m)),
        tiny_(split_error_of_tiny(params.k, static_cast<double>(x_bound), static_cast<double>(largest_of(weight)))),
        x_(Elem::F32, x),
        bias_(Elem::F32, bias),
        residual_(Elem::F32, residual),
        packed_(pack(params, x_bound, weight)) {
    if (!params.bias) bias.clear();
    residual = params.residual ? take_rows(residual, rows_, params.n) : std::vector<float>();
    const OracleClip clip{static_cast<double>(params.activation.lo), static_cast<double>(params.activation.hi)};
    oracle_ = gemm(static_cast<int>(rows_.size()), params.n, params.k, clip, take_rows(x, rows_, params.k), weight,
                   bias, residual);
  }

  /// Of random numbers in [-1, 1).
  static Problem random(const SplitGemmParams& p, std::uint32_t seed) {
    return {p,
            1.0F,
            random_uniform(seed, count(p.m, p.k)),
            random_uniform(seed + 1, count(p.n, p.k)),
            random_uniform(seed + 2, count(1, p.n)),
            random_uniform(seed + 3, p.residual ? count(p.m, p.n) : 0)};
  }

  /// Of whole numbers in [-4, 4].
  static Problem whole(const SplitGemmParams& p, std::uint32_t seed) {
    return {p,
            4.0F,
            random_integers(seed, count(p.m, p.k)),
            random_integers(seed + 1, count(p.n, p.k)),
            random_integers(seed + 2, count(1, p.n)),
            random_integers(seed + 3, p.residual ? count(p.m, p.n) : 0)};
  }

  void check(SplitGemmVariant variant, bool exact = false) const {
    INFO(name(variant) << ": m " << params_.m << ", n " << params_.n << ", k " << params_.k << ", bias " << params_.bias
                       << ", residual " << params_.residual << ", clip [" << params_.activation.lo << ", "
                       << params_.activation.hi << "]");
    const std::vector<float> all =
        run_kernel(Elem::F32, count(params_.m, params_.n), 0, [&](void* y, const kernels::Launch& where) {
          return kernels::split_gemm(variant, params_, x_.floats(), packed_.data(),
                                     params_.bias ? bias_.floats() : nullptr,
                                     params_.residual ? residual_.floats() : nullptr, static_cast<float*>(y), where);
        });
    CHECK(std::none_of(all.begin(), all.end(), [](float value) { return std::isnan(value); }));
    const std::vector<float> actual = take_rows(all, rows_, params_.n);
    const int shape[] = {static_cast<int>(rows_.size()), params_.n};
    if (exact) {
      CHECK(compare_exact(actual, oracle_.value, shape));
      return;
    }
    std::vector<double> bounds = hard_bounds(gamma_split(params_.k), oracle_.magnitude, oracle_.value, kStoreF32);
    for (double& bound : bounds) bound += tiny_;
    CHECK(compare_elements(actual, oracle_.value, bounds, shape));
    constexpr std::size_t kManyOutputs = 1024;
    if (actual.size() >= kManyOutputs && params_.activation.lo == -kInfinity) {
      CHECK(compare_rel_l2(actual, oracle_.value, split_rel_l2_alarm(params_.k)));
    }
  }

  /// check() of every variant; returns how many.
  int check_all(bool exact = false) const {
    const int checked =
        for_each_supported(split_gemm_variants(), params_, [&](SplitGemmVariant variant) { check(variant, exact); });
    CHECK(inputs_unchanged());
    return checked;
  }

  bool inputs_unchanged() const {
    return x_.check_unchanged() && bias_.check_unchanged() && residual_.check_unchanged() && packed_.check_unchanged();
  }

 private:
  SplitGemmParams params_;
  std::vector<int> rows_;
  double tiny_;
  DeviceTensor x_;
  DeviceTensor bias_;
  DeviceTensor residual_;
  GuardedBuffer packed_;
  Oracle oracle_;
};

TEST_CASE("split_gemm: every variant has a name of its own and its place in the table", "[split_gemm]") {
  check_order(split_gemm_variants());
  std::set<std::string_view> names;
  for (const SplitGemmVariant variant : split_gemm_variants()) names.insert(name(variant));
  CHECK(names.size() == split_gemm_variants().size());
}

TEST_CASE("split_gemm: what supports() refuses is an invalid value, and an empty batch is no work", "[split_gemm]") {
  const SplitGemmVariant variant = SplitGemmVariant::Tile64x32x32;
  const auto run = [&](const SplitGemmParams& p) {
    return kernels::split_gemm(variant, p, nullptr, nullptr, nullptr, nullptr, nullptr, {});
  };
  const kernels::DeviceTraits gpu = kernels::traits_of(90, 132);
  SplitGemmParams p = make_params(0, 16, 16);
  CHECK(supports(variant, p, gpu));
  CHECK_FALSE(supports(variant, p, kernels::traits_of(75, 132)));
  CHECK(run(p) == cudaSuccess);
  p.m = 1;
  p.bias = true;
  CHECK(run(p) == cudaErrorInvalidValue);
  p = make_params(1, 16, 16);
  p.in_range = false;
  CHECK_FALSE(supports(variant, p, gpu));
  CHECK(run(p) == cudaErrorInvalidValue);
  CHECK_FALSE(supports(variant, make_params(1, 16, 18), gpu));
  p = make_params(1, 16, 16);
  p.x_pitch = 18;
  CHECK_FALSE(supports(variant, p, gpu));
}

TEST_CASE("split_gemm: every variant is exact on whole numbers around the border of its tile",
          "[split_gemm][sanitize]") {
  int combination = 0;
  for (const SplitGemmVariant variant : split_gemm_variants()) {
    for (const int m : {15, 33, 129}) {
      for (const int n : {1, 31, 36, 97}) {
        for (const int k : {4, 32, 36, 296}) {
          const SplitGemmParams p = make_params(m, n, k, combination++ % 8);
          if (!supports(variant, p, gpu_traits())) continue;
          const Problem problem = Problem::whole(p, static_cast<std::uint32_t>(combination));
          problem.check(variant, true);
          CHECK(problem.inputs_unchanged());
        }
      }
    }
  }
}

TEST_CASE("split_gemm: every variant stays within the bounds on small, prime and usual shapes", "[split_gemm]") {
  int combination = 0;
  for (const int m : {1, 2, 49, 113}) {
    for (const int n : {1, 8, 17, 96, 131}) {
      for (const int k : {4, 24, 64, 132, 960}) {
        const SplitGemmParams p = make_params(m, n, k, combination++ % 8);
        CHECK(Problem::random(p, static_cast<std::uint32_t>(combination)).check_all() > 0);
      }
    }
  }
}

TEST_CASE("split_gemm: one product has 22 bits of either factor", "[split_gemm][sanitize]") {
  // One factor is 1, at the diagonal. Random signs and exponents, down to 2^-12 of the largest.
  constexpr int kSize = 64;
  std::vector<float> identity(count(kSize, kSize), 0.0F);
  for (int i = 0; i < kSize; ++i) identity[count(i, kSize + 1)] = 1.0F;
  std::vector<float> values = random_uniform(7, count(kSize, kSize));
  const std::vector<float> exponents = random_integers(8, count(kSize, kSize));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= std::ldexp(1.0F, 2 * static_cast<int>(exponents[i]));
  const float largest = largest_of(values);
  std::vector<double> bounds;
  for (const float value : values) {
    bounds.push_back(0x1p-22 * std::abs(static_cast<double>(value)) + 0x1p-39 * static_cast<double>(largest));
  }
  const SplitGemmParams p = make_params(kSize, kSize, kSize);
  std::vector<double> expected(values.begin(), values.end());
  std::vector<double> transposed(expected.size());
  std::vector<double> transposed_bounds(expected.size());
  for (int i = 0; i < kSize; ++i) {
    for (int j = 0; j < kSize; ++j) {
      transposed[count(i, kSize) + static_cast<std::size_t>(j)] =
          expected[count(j, kSize) + static_cast<std::size_t>(i)];
      transposed_bounds[count(i, kSize) + static_cast<std::size_t>(j)] =
          bounds[count(j, kSize) + static_cast<std::size_t>(i)];
    }
  }
  const auto run = [&](SplitGemmVariant variant, const std::vector<float>& x, const std::vector<float>& w) {
    const DeviceTensor x_device(Elem::F32, x);
    const GuardedBuffer packed = pack(p, largest_of(x), w);
    return run_kernel(Elem::F32, count(kSize, kSize), 0, [&](void* y, const kernels::Launch& where) {
      return kernels::split_gemm(variant, p, x_device.floats(), packed.data(), nullptr, nullptr, static_cast<float*>(y),
                                 where);
    });
  };
  const int checked = for_each_supported(split_gemm_variants(), p, [&](SplitGemmVariant variant) {
    CHECK(compare_elements(run(variant, values, identity), expected, bounds));
    CHECK(compare_elements(run(variant, identity, values), transposed, transposed_bounds));
  });
  if (gpu_traits().code >= 80) CHECK(checked == static_cast<int>(split_gemm_variants().size()));
}

TEST_CASE("split_gemm: weights of every size and wide bounds of X keep their bits", "[split_gemm][sanitize]") {
  const SplitGemmParams p = make_params(40, 72, 96, 1);
  std::vector<float> weight = random_uniform(1, count(p.n, p.k));
  for (int row = 0; row < p.n; ++row) {  // from subnormal halves to beyond the largest
    for (int i = 0; i < p.k; ++i) {
      weight[count(row, p.k) + static_cast<std::size_t>(i)] *= std::ldexp(1.0F, row - 36);
    }
  }
  // A row's error is in proportion to its own weights: each row is a problem of its own.
  const std::vector<float> x = random_uniform(2, count(p.m, p.k));
  for (const float bound : {1.0F, 40.0F, kernels::kLargestSplit}) {
    const DeviceTensor x_device(Elem::F32, x);
    const std::vector<float> zeros(static_cast<std::size_t>(p.n), 0.0F);
    const DeviceTensor bias(Elem::F32, zeros);
    const GuardedBuffer packed = pack(p, bound, weight);
    const Oracle oracle = gemm(p.m, p.n, p.k, {}, x, weight, {}, {});
    std::vector<double> bounds = hard_bounds(gamma_split(p.k), oracle.magnitude, oracle.value, kStoreF32);
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      const std::size_t row = i % static_cast<std::size_t>(p.n);
      const auto of_row = std::span(weight).subspan(row * static_cast<std::size_t>(p.k), static_cast<std::size_t>(p.k));
      bounds[i] += split_error_of_tiny(p.k, static_cast<double>(bound), static_cast<double>(largest_of(of_row)));
    }
    for_each_supported(split_gemm_variants(), p, [&](SplitGemmVariant variant) {
      const std::vector<float> actual =
          run_kernel(Elem::F32, count(p.m, p.n), 0, [&](void* y, const kernels::Launch& where) {
            return kernels::split_gemm(variant, p, x_device.floats(), packed.data(), bias.floats(), nullptr,
                                       static_cast<float*>(y), where);
          });
      CHECK(compare_elements(actual, oracle.value, bounds));
    });
  }
}

TEST_CASE("split_gemm: blocks walk over many row tiles without mixing them up", "[split_gemm][large]") {
  Problem::whole(make_params(300007, 24, 40, 3), 1).check_all(true);
}

TEST_CASE("split_gemm: every variant stays within the bounds on every pointwise layer of MobileNetV2",
          "[split_gemm][large]") {
  std::uint32_t seed = 0;
  for (const PointwiseLayer& layer : mobilenet_v2_pointwise()) {
    for (const int batch : {1, 8, 32}) {
      const int epilogue = 1 + (layer.residual ? 2 : 0) + (layer.relu6 ? 4 : 0);
      const SplitGemmParams p = make_params(batch * layer.side * layer.side, layer.n, layer.k, epilogue);
      CHECK(Problem::random(p, ++seed).check_all() > 0);
    }
  }
}

TEST_CASE("split_gemm: rows that lie apart, and a residual that is the output", "[split_gemm][sanitize]") {
  SplitGemmParams p = make_params(70, 40, 36, 2);
  p.x_pitch = 44;
  p.y_pitch = 40;
  const std::vector<float> wide = random_integers(1, count(p.m, p.x_pitch));
  std::vector<float> x;
  for (int row = 0; row < p.m; ++row) {
    const auto from = wide.begin() + static_cast<std::ptrdiff_t>(count(row, p.x_pitch));
    x.insert(x.end(), from, from + p.k);
  }
  const std::vector<float> weight = random_integers(2, count(p.n, p.k));
  const std::vector<float> residual = random_integers(3, count(p.m, p.n));
  const Oracle oracle = gemm(p.m, p.n, p.k, {}, x, weight, {}, residual);
  const DeviceTensor x_device(Elem::F32, wide);
  const GuardedBuffer packed = pack(p, 4.0F, weight);
  for_each_supported(split_gemm_variants(), p, [&](SplitGemmVariant variant) {
    const DeviceTensor y(Elem::F32, residual);
    auto* const output = static_cast<float*>(y.data());
    REQUIRE(kernels::split_gemm(variant, p, x_device.floats(), packed.data(), nullptr, output, output, {}) ==
            cudaSuccess);
    synchronize();
    CHECK(compare_exact(y.download(), oracle.value));
  });
}

TEST_CASE("split_gemm: NaN in a row of X stays in that row, and infinity becomes NaN there", "[split_gemm][sanitize]") {
  SplitGemmParams p = make_params(40, 40, 40, 4);
  std::vector<float> x(count(p.m, p.k), 1.0F);
  x[count(17, p.k) + 3] = std::numeric_limits<float>::quiet_NaN();
  x[count(18, p.k) + 39] = kInfinity;
  const std::vector<float> weight(count(p.n, p.k), 0.125F);
  std::vector<double> expected(count(p.m, p.n), 5.0);
  std::fill_n(expected.begin() + 17 * p.n, 2 * p.n, std::numeric_limits<double>::quiet_NaN());
  const GuardedBuffer packed = pack(p, 1.0F, weight);
  const DeviceTensor x_device(Elem::F32, x);
  for_each_supported(split_gemm_variants(), p, [&](SplitGemmVariant variant) {
    const std::vector<float> actual =
        run_kernel(Elem::F32, count(p.m, p.n), 0, [&](void* y, const kernels::Launch& where) {
          return kernels::split_gemm(variant, p, x_device.floats(), packed.data(), nullptr, nullptr,
                                     static_cast<float*>(y), where);
        });
    CHECK(compare_exact(actual, expected));
  });
}

TEST_CASE("split_gemm: blocks walk over row tiles of an odd number of slices on few multiprocessors",
          "[split_gemm][sanitize]") {
  constexpr int kRows = 16 * 300 + 5;  // more tiles than the multiprocessors of tests/emulator run at once
  for (const SplitGemmVariant variant : {SplitGemmVariant::Tile16x32x256K8, SplitGemmVariant::Wgmma64x32x64,
                                         SplitGemmVariant::Wgmma64x32x64K2, SplitGemmVariant::Wgmma128x64x32}) {
    const SplitGemmParams p = make_params(kRows, 24, 164, 3);
    if (supports(variant, p, gpu_traits())) Problem::whole(p, 12).check(variant, true);
  }
}

/// A ring passes from one tile to the next one of its block.
TEST_CASE("split_gemm: every variant once", "[race]") {
  race_case::EachOnce<SplitGemmVariant> each(split_gemm_variants());
  each.run(std::vector<SplitGemmParams>{make_params(200, 40, 300, 3)},
           [](const SplitGemmParams& p, const auto& variants) {
             const Problem problem = Problem::random(p, 5);
             for (const SplitGemmVariant variant : variants) problem.check(variant);
           });
  each.check_all_ran();
}

}  // namespace
}  // namespace mobicuda::test
