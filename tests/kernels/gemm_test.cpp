#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/gemm_case.h"
#include "kernels/race_case.h"
#include "support/network_shapes.h"

namespace mobicuda::test {
namespace {

using namespace gemm_case;

TEST_CASE("gemm: every variant has a name of its own and is found among its elements' variants", "[gemm]") {
  std::set<std::string_view> names;
  for (const GemmVariant variant : gemm_variants()) {
    names.insert(name(variant));
    bool taken = false;
    for (const Elem elem : kAllElems)
      taken |= supports(variant, make_params(elem, 64, 64, 64), kernels::traits_of(90, 132));
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
        const bool old_gpu = supports(variant, p, kernels::traits_of(75, 132));
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
  CHECK_FALSE(supports(GemmVariant::Simt64x64x16, p, kernels::traits_of(90, 132)));
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
            if (m < 1 || n < 1 || k < 1 || !supports(variant, p, gpu_traits())) continue;
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

TEST_CASE("gemm: blocks that walk over row tiles are exact on few multiprocessors", "[gemm][sanitize]") {
  constexpr int kRows = 16 * 200;  // more tiles than the multiprocessors of tests/emulator run at once
  for (const auto& [variant, elem] : {std::pair{GemmVariant::Mma16x32x128K4, Elem::F16},
                                      {GemmVariant::Simt16x32x64K8, Elem::F32},
                                      {GemmVariant::Dmma16x32x64K4, Elem::F64}}) {
    const GemmTile tile = kernels::gemm_tile(variant);
    GemmParams p = with_epilogue(make_params(elem, kRows + 5, 24, tile.bk + 8), 3);
    p.output = Elem::F32;
    if (supports(variant, p, gpu_traits())) Problem::whole(p, 12).check(variant, true);
  }
}

TEST_CASE("gemm: blocks walk over many row tiles without mixing them up", "[gemm][large]") {
  for (const Elem elem : kAllElems) {
    const GemmParams p = with_epilogue(make_params(elem, 300007, 24, 40), 3);
    Problem::whole(p, 1).check_all(true);
  }
  const GemmParams rows = with_epilogue(make_params(Elem::F16, 300007, 24, 40), 1);
  if (supports(GemmVariant::MmaRows, rows, gpu_traits())) Problem::whole(rows, 2).check(GemmVariant::MmaRows, true);
}

TEST_CASE("gemm: every variant stays within the bounds on every pointwise layer of MobileNetV2", "[gemm][large]") {
  std::uint32_t seed = 0;
  for (const Elem elem : kAllElems) {
    for (const PointwiseLayer& layer : mobilenet_v2_pointwise()) {
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
      if (!supports(variant, p, gpu_traits())) continue;
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
      if (!supports(variant, p, gpu_traits())) continue;
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
  if (gpu_traits().code < 90) MOBICUDA_SKIP("no programmatic dependent launch before sm_90");
  constexpr int kLength = 40;
  // Of 64 channels whole rows are copied out, too.
  for (const auto& [elem, channels] :
       {std::pair{Elem::F32, 160}, {Elem::F16, 160}, {Elem::F64, 160}, {Elem::F16, 64}}) {
    GemmParams p = make_params(elem, 49, channels, channels);
    p.activation = kernels::Clip{-1.0F, 1.0F};
    std::vector<std::byte> packed(kernels::gemm_packed_bytes(elem, p.n, p.k));
    kernels::gemm_pack(elem, p.n, p.k, random_uniform(1, count(p.n, p.k)).data(), packed.data());
    const GuardedBuffer w(packed);
    const std::vector<float> x = random_uniform(2, count(p.m, p.k));
    for (const GemmVariant variant : gemm_variants()) {
      if (!supports(variant, p, gpu_traits())) continue;
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

TEST_CASE("gemm: whole rows are exact for every k, few and many rows and columns", "[gemm][sanitize]") {
  constexpr int kManyRows = 16 * 5000;  // several tiles for a warp
  if (gpu_traits().code < 90) MOBICUDA_SKIP("no copies of whole rows before sm_90");
  int combination = 0;
  for (int k = 16; k <= 64; k += 8) {
    for (const int n : {8, 32, 72, 144, 256}) {
      for (const int m : {1, 16, 133, n == 72 ? kManyRows + 5 : 8}) {
        combination += 1;
        const GemmParams p = with_epilogue(make_params(Elem::F16, m, n, k), combination % 2 + combination % 3 / 2 * 4);
        REQUIRE(supports(GemmVariant::MmaRows, p, gpu_traits()));
        const Problem problem = Problem::whole(p, static_cast<std::uint32_t>(combination));
        problem.check(GemmVariant::MmaRows, true);
        CHECK(problem.inputs_unchanged());
      }
    }
  }
}

TEST_CASE("gemm: whole rows are refused where rows of Y are not whole packets of half", "[gemm]") {
  const kernels::DeviceTraits gpu = kernels::traits_of(90, 132);
  const GemmParams taken = make_params(Elem::F16, 100, 72, 24);
  CHECK(supports(GemmVariant::MmaRows, taken, gpu));
  CHECK_FALSE(supports(GemmVariant::MmaRows, taken, kernels::traits_of(80, 132)));
  for (const int n : {68, 264}) CHECK_FALSE(supports(GemmVariant::MmaRows, make_params(Elem::F16, 100, n, 24), gpu));
  for (const int k : {8, 20, 72}) CHECK_FALSE(supports(GemmVariant::MmaRows, make_params(Elem::F16, 100, 72, k), gpu));
  GemmParams p = taken;
  p.residual = true;
  CHECK_FALSE(supports(GemmVariant::MmaRows, p, gpu));
  p = taken;
  p.output = Elem::F32;
  CHECK_FALSE(supports(GemmVariant::MmaRows, p, gpu));
}

/// Slices enough to wrap around every ring; two tiles in either direction, the second one mostly outside.
void check_each_once(std::vector<GemmVariant> variants) {
  race_case::EachOnce<GemmVariant> each(std::move(variants));
  for (const Elem elem : kAllElems) {
    for (const GemmVariant variant : each.variants()) {
      const GemmTile tile = kernels::gemm_tile(variant);
      std::vector<GemmParams> shapes;
      for (const int slices : {11, 5}) {
        const int k = kernels::round_up(slices * tile.bk, 8) + 8;
        shapes.push_back(with_epilogue(make_params(elem, tile.bm + 5, tile.bn + 8, k), 3));
      }
      shapes.push_back(with_epilogue(make_params(elem, tile.bm + 5, 72, 40), 1));  // of whole rows
      each.run_one(variant, shapes, [&](const GemmParams& p, auto) { Problem::random(p, 11).check(variant); });
    }
  }
  each.check_all_ran();
}

TEST_CASE("gemm: every variant on tensor cores once", "[race]") {
  check_each_once(race_case::named(gemm_variants(), true, {"mma", "dmma"}));
}

TEST_CASE("gemm: every variant without tensor cores once", "[race]") {
  check_each_once(race_case::named(gemm_variants(), false, {"mma", "dmma"}));
}

/// A ring passes from one tile to the next one of its block.
TEST_CASE("gemm: blocks walk over many row tiles in light runs", "[race]") {
  constexpr int kTiles = 132 * 8 * 2;  // more than a GPU of sm_90 runs at once
  for (const auto& [variant, elem] : {std::pair{GemmVariant::Mma16x32x128K4, Elem::F16},
                                      {GemmVariant::Mma64x32x64K2, Elem::F16},
                                      {GemmVariant::Simt16x32x64K8, Elem::F32},
                                      {GemmVariant::Dmma16x32x64K4, Elem::F64}}) {
    const GemmTile tile = kernels::gemm_tile(variant);
    const GemmParams p = with_epilogue(make_params(elem, tile.bm * kTiles + 5, 24, tile.bk + 8), 3);
    if (supports(variant, p, gpu_traits())) Problem::random(p, 12).check(variant);
  }
  const GemmParams rows = with_epilogue(make_params(Elem::F16, 16 * 5000 + 5, 8, 16), 1);  // two tiles for a warp
  if (supports(GemmVariant::MmaRows, rows, gpu_traits())) Problem::random(rows, 13).check(GemmVariant::MmaRows);
}

}  // namespace
}  // namespace mobicuda::test
