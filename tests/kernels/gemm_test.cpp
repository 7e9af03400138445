#include "kernels/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/pointwise_shapes.h"
#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/oracle.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

using kernels::Clip;
using kernels::gemm_variants;
using kernels::GemmParams;
using kernels::GemmTile;
using kernels::GemmVariant;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr Clip kNoClip{-kInfinity, kInfinity};
constexpr Clip kRelu6{0.0F, 6.0F};
constexpr int kMostRowsChecked = 192;  // by the oracle; of all rows it is checked that they were written

std::size_t count(int rows, int columns) { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns); }

GemmParams make_params(Elem elem, int m, int n, int k) {
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
GemmParams with_epilogue(GemmParams p, int combination) {
  p.bias = (combination & 1) != 0;
  p.residual = (combination & 2) != 0;
  p.activation = (combination & 4) != 0 ? kRelu6 : kNoClip;
  p.output = (combination & 8) != 0 ? Elem::F32 : p.elem;
  return p;
}

/// The rows that the oracle looks at: all, or the first and the last ones and some spread between.
std::vector<int> rows_to_check(int m) {
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

std::vector<float> take_rows(std::span<const float> matrix, std::span<const int> rows, int columns) {
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
      if (!supports(variant, params_, compute_capability())) continue;
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

TEST_CASE("gemm: every variant has a name of its own and is found among its elements' variants", "[gemm]") {
  std::set<std::string_view> names;
  for (const GemmVariant variant : gemm_variants()) {
    names.insert(name(variant));
    bool taken = false;
    for (const Elem elem : kAllElems) taken |= supports(variant, make_params(elem, 64, 64, 64), 90);
    CHECK(taken);
    const GemmTile tile = kernels::gemm_tile(variant);
    CHECK((tile.bm > 0 && tile.bn > 0 && tile.bk > 0 && tile.split_k > 0 && tile.threads % 32 == 0));
  }
  CHECK(names.size() == gemm_variants().size());
}

TEST_CASE("gemm: any shape has a variant, old GPUs have no tensor-core variant", "[gemm]") {
  for (const Elem elem : kAllElems) {
    for (const int k : {1, 7, 8, 4096}) {
      const GemmParams p = make_params(elem, 13, 11, k);
      int taken = 0;
      for (const GemmVariant variant : gemm_variants()) {
        const bool old_gpu = supports(variant, p, 75);
        taken += old_gpu ? 1 : 0;
        CHECK_FALSE((old_gpu && name(variant).starts_with("mma")));
      }
      CHECK(taken > 0);
    }
  }
}

TEST_CASE("gemm: what supports() refuses is an invalid value, and an empty batch is no work", "[gemm]") {
  GemmParams p = make_params(Elem::F16, 16, 16, 12);
  CHECK(kernels::gemm(GemmVariant::Mma64x64x64, p, nullptr, nullptr, nullptr, nullptr, nullptr, {}) ==
        cudaErrorInvalidValue);
  p.m = 0;
  CHECK(kernels::gemm(GemmVariant::Simt64x64x16, p, nullptr, nullptr, nullptr, nullptr, nullptr, {}) == cudaSuccess);
  p.m = 1;
  p.bias = true;
  CHECK(kernels::gemm(GemmVariant::Simt64x64x16, p, nullptr, nullptr, nullptr, nullptr, nullptr, {}) ==
        cudaErrorInvalidValue);
  p = make_params(Elem::F32, 1, 1, 1);
  p.output = Elem::F16;
  CHECK_FALSE(supports(GemmVariant::Simt64x64x16, p, 90));
}

TEST_CASE("gemm: packed weights are rows padded with zeros", "[gemm]") {
  const std::vector<float> weight = counting(3 * 5);
  std::vector<float> packed(kernels::gemm_packed_bytes(Elem::F32, 3, 5) / sizeof(float), -1.0F);
  REQUIRE(packed.size() == 3 * 8);
  kernels::gemm_pack(Elem::F32, 3, 5, weight.data(), packed.data());
  for (int n = 0; n < 3; ++n) {
    for (int k = 0; k < 8; ++k) {
      const float expected = k < 5 ? weight[count(n, 5) + static_cast<std::size_t>(k)] : 0.0F;
      CHECK(packed[count(n, 8) + static_cast<std::size_t>(k)] == expected);
    }
  }
}

TEST_CASE("gemm: every variant is exact on whole numbers around the border of its tile", "[gemm][sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const GemmVariant variant : gemm_variants()) {
      const GemmTile tile = kernels::gemm_tile(variant);
      int combination = 0;
      for (const int m : {tile.bm - 1, tile.bm, tile.bm + 1}) {
        for (const int n : {tile.bn - 1, tile.bn, tile.bn + 1, 2 * tile.bn + 8}) {
          for (const int k : {8, tile.bk - 1, tile.bk, tile.bk + 1, tile.bk + 8, 5 * tile.bk + 16}) {
            GemmParams p = with_epilogue(make_params(elem, m, n, k), combination++ % 8);
            p.output = Elem::F32;
            if (m < 1 || n < 1 || k < 1 || !supports(variant, p, compute_capability())) continue;
            const Problem problem = Problem::whole(p, static_cast<std::uint32_t>(combination));
            problem.check(variant, true);
            CHECK(problem.inputs_unchanged());
          }
        }
      }
    }
  }
}

TEST_CASE("gemm: every variant stays within the bounds on small, prime and usual shapes", "[gemm]") {
  int combination = 0;
  for (const Elem elem : kAllElems) {
    for (const int m : {1, 2, 49, 113}) {
      for (const int n : {1, 8, 17, 96, 131}) {
        for (const int k : {1, 8, 24, 31, 132, 960}) {
          const GemmParams p = with_epilogue(make_params(elem, m, n, k), combination++ % 16);
          CHECK(Problem::random(p, static_cast<std::uint32_t>(combination)).check_all() > 0);
        }
      }
    }
  }
}

TEST_CASE("gemm: every variant takes every combination of bias, residual, clip and output type", "[gemm]") {
  for (const Elem elem : kAllElems) {
    for (int combination = 0; combination < 16; ++combination) {
      for (const int n : {72, 75}) {
        const GemmParams p = with_epilogue(make_params(elem, 70, n, 72), combination);
        Problem::random(p, static_cast<std::uint32_t>(combination)).check_all();
      }
    }
  }
}

TEST_CASE("gemm: blocks walk over many row tiles without mixing them up", "[gemm][large]") {
  for (const Elem elem : kAllElems) {
    const GemmParams p = with_epilogue(make_params(elem, 300007, 24, 40), 3);
    Problem::whole(p, 1).check_all(true);
  }
}

TEST_CASE("gemm: every variant stays within the bounds on every pointwise layer of MobileNetV2", "[gemm][large]") {
  std::uint32_t seed = 0;
  for (const Elem elem : kAllElems) {
    for (const PointwiseLayer& layer : kPointwiseLayers) {
      for (const int batch : {1, 8, 32}) {
        GemmParams p = make_params(elem, batch * layer.side * layer.side, layer.n, layer.k);
        p.bias = true;
        p.residual = layer.residual;
        if (layer.relu6) p.activation = kRelu6;
        if (layer.side == 1) p.output = Elem::F32;
        CHECK(Problem::random(p, ++seed).check_all() > 0);
      }
    }
  }
}

TEST_CASE("gemm: the residual may be the output", "[gemm][sanitize]") {
  for (const Elem elem : kAllElems) {
    GemmParams p = make_params(elem, 300, 72, 64);
    p.residual = true;
    const std::vector<float> x = random_integers(1, count(p.m, p.k));
    const std::vector<float> residual = random_integers(3, count(p.m, p.n));
    const std::vector<float> weight = random_integers(2, count(p.n, p.k));
    const Oracle oracle = gemm(p.m, p.n, p.k, {}, x, weight, {}, residual);
    std::vector<std::byte> packed(kernels::gemm_packed_bytes(elem, p.n, p.k));
    kernels::gemm_pack(elem, p.n, p.k, weight.data(), packed.data());
    const GuardedBuffer w(packed);
    const DeviceTensor x_device(elem, x);
    for (const GemmVariant variant : gemm_variants()) {
      if (!supports(variant, p, compute_capability())) continue;
      INFO(name(variant) << " " << to_string(elem));
      const DeviceTensor y(elem, residual);
      REQUIRE(kernels::gemm(variant, p, x_device.data(), w.data(), nullptr, y.data(), y.data(), {}) == cudaSuccess);
      synchronize();
      CHECK(compare_exact(y.download(), oracle.value));
    }
  }
}

TEST_CASE("gemm: NaN and infinity in one row of X stay in that row and pass the clip as they must",
          "[gemm][sanitize]") {
  constexpr int kNanRow = 17;
  constexpr int kInfiniteRow = 18;
  for (const Elem elem : kAllElems) {
    GemmParams p = make_params(elem, 40, 40, 40);
    p.activation = kRelu6;
    std::vector<float> x(count(p.m, p.k), 1.0F);
    x[count(kNanRow, p.k) + 3] = std::numeric_limits<float>::quiet_NaN();
    x[count(kInfiniteRow, p.k) + 39] = kInfinity;
    const std::vector<float> weight(count(p.n, p.k), 0.125F);
    std::vector<double> expected(count(p.m, p.n), 5.0);
    std::fill_n(expected.begin() + kNanRow * p.n, p.n, std::numeric_limits<double>::quiet_NaN());
    std::fill_n(expected.begin() + kInfiniteRow * p.n, p.n, static_cast<double>(kRelu6.hi));
    std::vector<std::byte> packed(kernels::gemm_packed_bytes(elem, p.n, p.k));
    kernels::gemm_pack(elem, p.n, p.k, weight.data(), packed.data());
    const GuardedBuffer w(packed);
    const DeviceTensor x_device(elem, x);
    for (const GemmVariant variant : gemm_variants()) {
      if (!supports(variant, p, compute_capability())) continue;
      INFO(name(variant) << " " << to_string(elem));
      const std::vector<float> actual =
          run_kernel(elem, count(p.m, p.n), 0, [&](void* y, const kernels::Launch& where) {
            return kernels::gemm(variant, p, x_device.data(), w.data(), nullptr, nullptr, y, where);
          });
      CHECK(compare_exact(actual, expected));
    }
  }
}

TEST_CASE("gemm: a chain of programmatic launches gives the bits of a chain of ordinary ones", "[gemm]") {
  if (compute_capability() < 90) MOBICUDA_SKIP("no programmatic dependent launch before sm_90");
  constexpr int kLength = 40;
  for (const Elem elem : kAllElems) {
    GemmParams p = make_params(elem, 49, 160, 160);
    p.activation = kernels::Clip{-1.0F, 1.0F};
    std::vector<std::byte> packed(kernels::gemm_packed_bytes(elem, p.n, p.k));
    kernels::gemm_pack(elem, p.n, p.k, random_uniform(1, count(p.n, p.k)).data(), packed.data());
    const GuardedBuffer w(packed);
    const std::vector<float> x = random_uniform(2, count(p.m, p.k));
    for (const GemmVariant variant : gemm_variants()) {
      if (!supports(variant, p, compute_capability())) continue;
      INFO(name(variant) << " " << to_string(elem));
      std::vector<std::byte> results[2];
      for (const bool programmatic : {false, true}) {
        const DeviceTensor a(elem, x);
        const DeviceTensor b(elem, x.size());
        cudaStream_t stream = nullptr;
        check_cuda(cudaStreamCreate(&stream), "cudaStreamCreate");
        for (int i = 0; i < kLength; i += 2) {
          const kernels::Launch where{stream, programmatic};
          check_cuda(kernels::gemm(variant, p, a.data(), w.data(), nullptr, nullptr, b.data(), where), "gemm");
          check_cuda(kernels::gemm(variant, p, b.data(), w.data(), nullptr, nullptr, a.data(), where), "gemm");
        }
        synchronize();
        check_cuda(cudaStreamDestroy(stream), "cudaStreamDestroy");
        results[programmatic ? 1 : 0] = a.download_bytes();
      }
      CHECK(results[0] == results[1]);
    }
  }
}

}  // namespace
}  // namespace mobicuda::test
