// The early kernel in exact float for configurations that no variant has: other channels, clusters, tiles, threads.
// Compiled as device code.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "emulator/inverted_residual_config.h"
#include "kernels/inverted_residual/simt_early/host.h"
#include "kernels/inverted_residual/simt_early/kernel.cuh"

namespace mobicuda::test {
namespace {

using namespace inverted_residual_case;
using kernels::inverted_simt_early::Config;
using kernels::inverted_simt_early::is_valid;
using kernels::inverted_simt_early::sizes_of;

template <Config kConfig>
std::vector<float> run_config(const InvertedResidualParams& p, const Data& data) {
  return run_config(kConfig, kernels::inverted_simt_early::early_kernel<kernels::inverted_simt_early::Shape<kConfig>>,
                    p, data);
}

template <Config kConfig>
InvertedResidualParams random_block(Choice& choose) {
  for (;;) {
    InvertedResidualParams p = block(1 + choose.upto(2), 1 + choose.upto(14), 1 + choose.upto(14), kConfig.c_in,
                                     kConfig.c_hidden, kConfig.c_out, kConfig.stride);
    p.elem = Elem::F32;
    p.expand = true;
    p.pad_top = choose.upto(2);
    p.pad_left = choose.upto(2);
    p.out_h = output_extent(p.h, 3, p.stride, 1, p.pad_top, choose.upto(2));
    p.out_w = output_extent(p.w, 3, p.stride, 1, p.pad_left, choose.upto(2));
    p.residual = p.stride == 1 && p.c_in == p.c_out && p.out_h == p.h && p.out_w == p.w && choose.flip();
    if (choose.flip()) p.expand_activation = kRelu;
    if (p.out_h > 0 && p.out_w > 0) return p;
  }
}

template <Config kConfig>
void check_config(Choice& choose) {
  const InvertedResidualParams p = random_block<kConfig>(choose);
  CAPTURE(p, kConfig.blocks, kConfig.rows, kConfig.columns, kConfig.threads);
  Data data = random_data(p, static_cast<std::uint32_t>(choose.upto(1000)));
  const std::vector<float> y = run_config<kConfig>(p, data);
  const Tensor oracle = oracle_of(p, data);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
  REQUIRE(compare_elements(y, oracle.value, oracle.bound, shape));

  // What lies behind the channels of a pixel is another pixel, whose NaN must not come along.
  const int nan_y = choose.upto(p.h - 1);
  const int nan_x = choose.upto(p.w - 1);
  float& element = data.x[static_cast<std::size_t>((nan_y * p.w + nan_x) * p.c_in)];
  element = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> with_nan = run_config<kConfig>(p, data);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const int pixel = static_cast<int>(i) / p.c_out;
    const bool seen = pixel < p.out_h * p.out_w && sees(p, pixel / p.out_w, pixel % p.out_w, nan_y, nan_x);
    CAPTURE(i, nan_y, nan_x);
    REQUIRE((seen ? std::isnan(with_nan[i]) : with_nan[i] == y[i]));
  }

  // Hidden channels are bounded, those that fill up a block as well.
  InvertedResidualParams bounded = p;
  bounded.expand_activation = kRelu6;
  bounded.residual = false;
  element = std::numeric_limits<float>::infinity();
  const std::vector<float> with_infinity = run_config<kConfig>(bounded, data);
  REQUIRE(std::all_of(with_infinity.begin(), with_infinity.end(), [](float value) { return std::isfinite(value); }));
}

template <Config... kConfigs>
void check_configs() {
  Choice choose(1);
  for (int i = 0; i < 3; ++i) (check_config<kConfigs>(choose), ...);
}

void check_configurations(const InvertedResidualParams& p, const kernels::DeviceTraits& gpu, bool found) {
  const std::vector<Config> configs = kernels::inverted_simt_early::configurations(p, gpu);
  CAPTURE(p, gpu.code);
  CHECK(configs.empty() != found);
  CHECK(configs.size() <= 6);
  for (const Config& config : configs) {
    CAPTURE(kernels::inverted_simt_early::kernel_expression(config));
    CHECK(is_valid(config));
    CHECK(kernels::inverted_simt_early::supports(config, p, gpu));
  }
}

}  // namespace

TEST_CASE("emulator: early float blocks equal the oracle without a cluster") {
  check_configs<Config{1, 2, 16, 96, 24, 2, 14, 16, 16, 8, 256, 1}, Config{1, 1, 16, 96, 16, 4, 7, 8, 8, 8, 128, 2},
                Config{1, 1, 8, 48, 8, 8, 5, 8, 8, 4, 96, 4}, Config{1, 1, 24, 144, 24, 1, 1, 8, 16, 8, 160, 1},
                Config{1, 2, 8, 50, 18, 3, 3, 4, 16, 16, 64, 1}>();
}

TEST_CASE("emulator: early float blocks equal the oracle in clusters of two") {
  check_configs<Config{2, 2, 8, 48, 16, 4, 7, 4, 4, 4, 128, 4}, Config{2, 1, 16, 96, 16, 2, 3, 8, 8, 8, 256, 1},
                Config{2, 1, 32, 192, 48, 3, 4, 8, 16, 8, 256, 1}, Config{2, 1, 8, 90, 18, 3, 3, 4, 4, 4, 64, 1}>();
}

TEST_CASE("emulator: early float blocks equal the oracle in clusters of four") {
  check_configs<Config{4, 2, 24, 144, 32, 3, 10, 8, 8, 8, 256, 1}, Config{4, 1, 48, 288, 48, 3, 4, 4, 8, 8, 256, 1},
                Config{4, 2, 40, 242, 26, 2, 2, 4, 16, 8, 384, 1}, Config{4, 1, 16, 96, 16, 7, 14, 4, 8, 4, 512, 1}>();
}

TEST_CASE("emulator: early float blocks equal the oracle in clusters of eight, of which some finish nothing") {
  check_configs<Config{8, 1, 24, 144, 24, 4, 7, 4, 4, 4, 128, 2}, Config{8, 2, 32, 192, 56, 2, 7, 8, 4, 4, 256, 1},
                Config{8, 1, 64, 384, 64, 2, 4, 4, 8, 4, 256, 1}, Config{8, 1, 40, 240, 40, 4, 4, 8, 8, 8, 128, 1}>();
}

TEST_CASE("emulator: early float blocks have configurations for few images, and others none") {
  const kernels::DeviceTraits h200 = kernels::traits_of(90, 132);
  for (const int size : {14, 28, 56, 80}) {
    for (const auto& [c_in, c_out, stride] :
         {std::array{8, 16, 2}, {16, 24, 2}, {24, 24, 1}, {32, 48, 2}, {48, 48, 1}}) {
      InvertedResidualParams p = block(1, size, size, c_in, 6 * c_in, c_out, stride);
      p.elem = Elem::F32;
      check_configurations(p, h200, true);
      check_configurations(p, kernels::traits_of(89, 132), false);
      p.n = 10'000;
      check_configurations(p, h200, false);
      p.n = 1;
      p.elem = Elem::F16;
      check_configurations(p, h200, false);
    }
  }
  InvertedResidualParams wide = block(1, 14, 14, 224, 1344, 224, 1);
  wide.elem = Elem::F32;
  check_configurations(wide, h200, false);
}

TEST_CASE("emulator: early float blocks have no configuration of senseless numbers") {
  constexpr Config kOne{2, 1, 24, 144, 24, 7, 7, 4, 8, 4, 256, 2};
  static_assert(is_valid(kOne));
  using Values = std::array<int, sizeof(Config) / sizeof(int)>;
  constexpr int kValues[] = {0, 1, 2, 3, 4, 7, 8, 16, 20, 32, 64, 96, 128, 1000, 1024, 2048, 4096, 8192};
  Choice choose(1);
  int valid = 0;
  for (int i = 0; i < 200'000; ++i) {
    auto values = std::bit_cast<Values>(kOne);
    for (int changes = 1 + choose.upto(4); changes > 0; --changes) {
      values[static_cast<std::size_t>(choose.upto(static_cast<int>(values.size()) - 1))] = choose(kValues);
    }
    const auto config = std::bit_cast<Config>(values);
    if (!is_valid(config)) continue;
    ++valid;
    REQUIRE(sizes_of(config).shared_bytes > 0);
  }
  CHECK(valid > 0);
  for (const int stride : {0, 3}) CHECK_FALSE(is_valid({2, stride, 24, 144, 24, 7, 7, 4, 8, 4, 256, 2}));
  CHECK_FALSE(is_valid({2, 1, 20, 144, 24, 7, 7, 4, 8, 4, 256, 2}));
  CHECK_FALSE(is_valid({8, 1, 24, 49, 24, 7, 7, 4, 8, 4, 256, 2}));  // the last block would have no channels
  CHECK_FALSE(is_valid({2, 1, 24, 144, 24, 7, 7, 6, 8, 4, 256, 2}));
  CHECK_FALSE(is_valid({2, 1, 24, 144, 24, 7, 7, 4, 8, 4, 250, 2}));
}

}  // namespace mobicuda::test
