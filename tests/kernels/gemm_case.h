// Parameters, data and checks that the tests of gemm share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/oracle.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::test::gemm_case {

using kernels::Clip;
using kernels::gemm_variants;
using kernels::GemmParams;
using kernels::GemmTile;
using kernels::GemmVariant;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr Clip kNoClip{-kInfinity, kInfinity};
inline constexpr Clip kRelu6{0.0F, 6.0F};
inline constexpr int kMostRowsChecked = 192;  // by the oracle; of all rows it is checked that they were written

inline std::size_t count(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

inline GemmParams make_params(Elem elem, int m, int n, int k) {
  GemmParams p;
  p.elem = elem;
  p.output = elem;
  p.m = m;
  p.n = n;
  p.k = k;
  p.activation = kNoClip;
  return p;
}

/// `p` with the bias, residual, clip and output type of one of 16 combinations.
inline GemmParams with_epilogue(GemmParams p, int combination) {
  p.bias = (combination & 1) != 0;
  p.residual = (combination & 2) != 0;
  p.activation = (combination & 4) != 0 ? kRelu6 : kNoClip;
  p.output = (combination & 8) != 0 ? Elem::F32 : p.elem;
  return p;
}

/// The rows that the oracle looks at: all, or the first and the last ones and some spread between.
inline std::vector<int> rows_to_check(int m) {
  std::vector<int> rows(static_cast<std::size_t>(std::min(m, kMostRowsChecked)));
  std::iota(rows.begin(), rows.end(), 0);
  if (m <= kMostRowsChecked) return rows;
  constexpr int kThird = kMostRowsChecked / 3;
  for (int i = 0; i < kThird; ++i) {
    const std::int64_t between = static_cast<std::int64_t>(m) * i / kThird + i % 7;
    rows[static_cast<std::size_t>(kThird + i)] = static_cast<int>(std::min<std::int64_t>(between, m - 1));
    rows[static_cast<std::size_t>(2 * kThird + i)] = m - 1 - i;
  }
  return rows;
}

inline std::vector<float> take_rows(std::span<const float> matrix, std::span<const int> rows, int columns) {
  std::vector<float> taken;
  taken.reserve(rows.size() * static_cast<std::size_t>(columns));
  for (const int row : rows) {
    const auto part = matrix.subspan(count(row, columns), static_cast<std::size_t>(columns));
    taken.insert(taken.end(), part.begin(), part.end());
  }
  return taken;
}

/// One problem: inputs on the device and what must come out.
class Problem {
 public:
  Problem(const GemmParams& params, std::vector<float> x, std::vector<float> weight, std::vector<float> bias,
          std::vector<float> residual)
      : params_(params),
        rows_(rows_to_check(params.m)),
        x_(params.elem, x),
        bias_(Elem::F32, bias),
        residual_(params.elem, residual),
        packed_(pack(params, weight)) {
    if (!params.bias) bias.clear();
    residual = params.residual ? take_rows(rounded(params.elem, residual), rows_, params.n) : std::vector<float>();
    const OracleClip clip{static_cast<double>(params.activation.lo), static_cast<double>(params.activation.hi)};
    oracle_ = gemm(static_cast<int>(rows_.size()), params.n, params.k, clip,
                   take_rows(rounded(params.elem, x), rows_, params.k), rounded(params.elem, weight), bias, residual);
  }

  /// Of random numbers in [-1, 1).
  static Problem random(const GemmParams& p, std::uint32_t seed) {
    return {p, random_uniform(seed, count(p.m, p.k)), random_uniform(seed + 1, count(p.n, p.k)),
            random_uniform(seed + 2, count(1, p.n)), random_uniform(seed + 3, p.residual ? count(p.m, p.n) : 0)};
  }

  /// Of whole numbers in [-4, 4].
  static Problem whole(const GemmParams& p, std::uint32_t seed) {
    return {p, random_integers(seed, count(p.m, p.k)), random_integers(seed + 1, count(p.n, p.k)),
            random_integers(seed + 2, count(1, p.n)), random_integers(seed + 3, p.residual ? count(p.m, p.n) : 0)};
  }

  cudaError_t enqueue(GemmVariant variant, void* y, const kernels::Launch& where) const {
    return kernels::gemm(variant, params_, x_.data(), packed_.data(), params_.bias ? bias_.floats() : nullptr,
                         params_.residual ? residual_.data() : nullptr, y, where);
  }

  void check(GemmVariant variant, bool exact = false) const {
    INFO(name(variant) << ": " << to_string(params_.elem) << " to " << to_string(params_.output) << ", m " << params_.m
                       << ", n " << params_.n << ", k " << params_.k << ", bias " << params_.bias << ", residual "
                       << params_.residual << ", clip [" << params_.activation.lo << ", " << params_.activation.hi
                       << "]");
    const std::vector<float> all =
        run_kernel(params_.output, count(params_.m, params_.n), 0,
                   [&](void* y, const kernels::Launch& where) { return enqueue(variant, y, where); });
    CHECK(std::none_of(all.begin(), all.end(), [](float value) { return std::isnan(value); }));
    const std::vector<float> actual = take_rows(all, rows_, params_.n);
    const int shape[] = {static_cast<int>(rows_.size()), params_.n};
    if (exact) {
      CHECK(compare_exact(actual, oracle_.value, shape));
    } else {
      CHECK(compare_elements(actual, oracle_.value, bounds(), shape));
      if (has_alarm()) CHECK(compare_rel_l2(actual, oracle_.value, rel_l2_alarm(params_.k, store())));
    }
  }

  /// check() of every variant that takes these parameters; returns how many.
  int check_all(bool exact = false) const {
    int checked = 0;
    for (const GemmVariant variant : gemm_variants()) {
      if (!supports(variant, params_, gpu_traits())) continue;
      check(variant, exact);
      ++checked;
    }
    CHECK(inputs_unchanged());
    return checked;
  }

  bool inputs_unchanged() const {
    return x_.check_unchanged() && bias_.check_unchanged() && residual_.check_unchanged() && packed_.check_unchanged();
  }

 private:
  static GuardedBuffer pack(const GemmParams& p, std::span<const float> weight) {
    std::vector<std::byte> packed(kernels::gemm_packed_bytes(p.elem, p.n, p.k));
    kernels::gemm_pack(p.elem, p.n, p.k, weight.data(), packed.data());
    return GuardedBuffer(packed);
  }

  Store store() const { return store_of(params_.output); }

  std::vector<double> bounds() const {
    const double error =
        params_.elem == Elem::F16 ? gamma_tensor_core(params_.k) : gamma(params_.k, unit_of(params_.elem));
    return hard_bounds(error, oracle_.magnitude, oracle_.value, store());
  }

  /// The alarm is derived for many outputs of random sign, and for sums that round to nearest.
  bool has_alarm() const {
    constexpr std::size_t kManyOutputs = 1024;
    const bool many = oracle_.value.size() >= kManyOutputs && params_.activation.lo == kNoClip.lo;
    return many && (params_.elem != Elem::F16 || params_.output == Elem::F16);
  }

  GemmParams params_;
  std::vector<int> rows_;
  DeviceTensor x_;
  DeviceTensor bias_;
  DeviceTensor residual_;
  GuardedBuffer packed_;
  Oracle oracle_;
};

}  // namespace mobicuda::test::gemm_case
