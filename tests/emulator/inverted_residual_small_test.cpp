// The small kernel for configurations that no variant has: the channels of all widths. Compiled as device code.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "emulator/inverted_residual_config.h"
#include "kernels/inverted_residual/small/host.h"
#include "kernels/inverted_residual/small/kernel.cuh"

namespace mobicuda::test {
namespace {

using namespace inverted_residual_case;
using kernels::inverted_small::Config;
using kernels::inverted_small::walking;

template <Config kConfig>
std::vector<float> run_config(const InvertedResidualParams& p, const Data& data) {
  return run_config(kConfig, kernels::inverted_small::small_kernel<kernels::inverted_small::Shape<kConfig>>, p, data);
}

template <Config kConfig>
InvertedResidualParams random_block(Choice& choose) {
  InvertedResidualParams p = block(1 + choose.upto(2), 1 + choose.upto(18), 1 + choose.upto(18), kConfig.c_in,
                                   kConfig.c_hidden, kConfig.c_out, kConfig.stride);
  p.expand = true;
  p.residual = p.residual && choose.flip();
  if (choose.flip()) p.expand_activation = kRelu;
  set_activations(p, kConfig);
  return p;
}

template <Config kConfig>
void check_config(Choice& choose) {
  const InvertedResidualParams p = random_block<kConfig>(choose);
  CAPTURE(p, kConfig.tile_h, kConfig.tile_w, kConfig.slice, kConfig.parts);
  Data data = random_data(p, static_cast<std::uint32_t>(choose.upto(1000)));
  const std::vector<float> y = run_config<kConfig>(p, data);
  const Tensor oracle = oracle_of(p, data);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
  REQUIRE(compare_elements(y, oracle.value, oracle.bound, shape));
  // Blocks that walk give the same bits.
  REQUIRE(run_config<walking(kConfig)>(p, data) == y);

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

  // Hidden channels are bounded, those that pad a slice as well.
  if constexpr (kConfig.hard_swish != 0) {
    // Of negative infinity it is NaN, and it has no bound behind depthwise.
    constexpr float kLargestHalf = 65504.0F;
    element = p.residual ? 0.0F : kLargestHalf;
    for (float& weight : data.expand) weight *= 4.0F;
    for (float& weight : data.depthwise) weight *= 0x1p-12F;
  } else {
    element = p.residual ? 0.0F : std::numeric_limits<float>::infinity();
  }
  const std::vector<float> with_infinity = run_config<kConfig>(p, data);
  REQUIRE(std::all_of(with_infinity.begin(), with_infinity.end(), [](float value) { return std::isfinite(value); }));
}

void check_configurations(const InvertedResidualParams& p, const kernels::DeviceTraits& gpu) {
  const std::vector<Config> configs = kernels::inverted_small::configurations(p, gpu);
  CAPTURE(p, gpu.code);
  CHECK(!configs.empty());
  CHECK(configs.size() <= 6);
  for (const Config& config : configs) {
    CAPTURE(kernels::inverted_small::kernel_expression(config));
    CHECK(kernels::inverted_small::is_valid(config));
    CHECK(kernels::inverted_small::supports(config, p, gpu));
    CHECK(config.stride == p.stride);
  }
}

template <Config... kConfigs>
void check_configs() {
  Choice choose(1);
  for (int i = 0; i < 3; ++i) (check_config<kConfigs>(choose), ...);
}

}  // namespace

TEST_CASE("emulator: small inverted_residual equals the oracle for B2 to B7 of widths 0.35, 0.5 and 0.75") {
  check_configs<Config{8, 48, 8, 2, 8, 8, 16, 2, 1}, Config{8, 48, 8, 1, 4, 8, 16, 2, 1},
                Config{8, 48, 16, 2, 4, 8, 48, 2, 1}, Config{16, 96, 16, 1, 8, 8, 48, 4, 1},
                Config{16, 96, 16, 2, 4, 4, 32, 1, 1}, Config{16, 96, 24, 2, 2, 2, 16, 1, 1},
                Config{16, 96, 32, 2, 2, 4, 16, 1, 1}, Config{24, 144, 24, 2, 2, 4, 48, 1, 1},
                Config{24, 144, 48, 2, 2, 2, 16, 1, 1}>();
}

TEST_CASE("emulator: small inverted_residual equals the oracle for B4 to B7 of widths 1.3 and 1.4") {
  check_configs<Config{32, 192, 40, 2, 4, 4, 48, 1, 1}, Config{32, 192, 48, 2, 2, 4, 48, 1, 1},
                Config{40, 240, 40, 1, 2, 4, 48, 1, 1}, Config{40, 240, 80, 2, 2, 2, 32, 1, 1},
                Config{48, 288, 48, 1, 2, 4, 16, 1, 1}, Config{48, 288, 48, 1, 4, 4, 32, 1, 1},
                Config{48, 288, 88, 2, 2, 4, 32, 1, 1}, Config{48, 288, 88, 2, 2, 2, 16, 1, 1}>();
}

TEST_CASE("emulator: small inverted_residual equals the oracle for tiles and slices that no variant has") {
  check_configs<Config{16, 96, 24, 2, 2, 8, 32, 1, 3}, Config{40, 240, 40, 1, 2, 8, 64, 1, 1},
                Config{24, 144, 24, 1, 8, 8, 48, 4, 1}>();
}

TEST_CASE("emulator: small inverted_residual equals the oracle for slices that hidden channels do not fill") {
  check_configs<Config{8, 8, 8, 1, 1, 4, 48, 1, 1}, Config{56, 120, 8, 2, 1, 8, 32, 1, 1},
                Config{64, 72, 96, 1, 2, 2, 48, 1, 1}, Config{16, 88, 40, 1, 8, 4, 32, 2, 1},
                Config{64, 136, 64, 1, 8, 2, 32, 1, 1}>();
}

TEST_CASE("emulator: small inverted_residual equals the oracle with HardSwish") {
  check_configs<Config{40, 240, 80, 2, 2, 2, 32, 1, 1, 0, 1}, Config{40, 240, 80, 2, 4, 4, 32, 1, 1, 0, 1},
                Config{24, 72, 24, 1, 4, 8, 48, 2, 1, 0, 1}, Config{16, 88, 40, 1, 2, 4, 32, 1, 1, 0, 1}>();
}

TEST_CASE("emulator: small inverted_residual names its kernel for NVRTC") {
  CHECK(kernels::inverted_small::kernel_expression(walking(Config{48, 288, 88, 2, 2, 4, 32, 1, 3})) ==
        "mobicuda::kernels::inverted_small::small_kernel<mobicuda::kernels::inverted_small::Shape<"
        "mobicuda::kernels::inverted_small::Config{48,288,88,2,2,4,32,1,3,1,0}>>");
}

TEST_CASE("emulator: small inverted_residual has configurations for B2 to B7 of every width") {
  constexpr int kWidths[][4] = {{8, 8, 16, 24},   {8, 16, 16, 32},  {16, 24, 24, 48},
                                {16, 24, 32, 64}, {24, 32, 40, 80}, {24, 32, 48, 88}};  // behind B1, B3, B6 and B7
  const kernels::DeviceTraits gpus[] = {kernels::traits_of(80, 108), kernels::traits_of(86, 84),
                                        kernels::traits_of(90, 132)};
  for (const auto& [first, second, third, fourth] : kWidths) {
    for (const int size : {96, 160, 224, 320}) {
      for (const int n : {1, 2, 3, 8, 16, 256}) {
        const InvertedResidualParams blocks[] = {block(n, size / 2, size / 2, first, 6 * first, second, 2),
                                                 block(n, size / 4, size / 4, second, 6 * second, second, 1),
                                                 block(n, size / 4, size / 4, second, 6 * second, third, 2),
                                                 block(n, size / 8, size / 8, third, 6 * third, third, 1),
                                                 block(n, size / 8, size / 8, third, 6 * third, fourth, 2)};
        for (const InvertedResidualParams& p : blocks) {
          for (const kernels::DeviceTraits& gpu : gpus) check_configurations(p, gpu);
        }
      }
    }
  }
}

TEST_CASE("emulator: small inverted_residual has no configuration for what it does not run") {
  const kernels::DeviceTraits gpu = kernels::traits_of(90, 132);
  const InvertedResidualParams good = block(1, 28, 28, 32, 192, 32, 1);
  REQUIRE(!kernels::inverted_small::configurations(good, gpu).empty());
  CHECK(kernels::inverted_small::configurations(good, kernels::traits_of(75, 40)).empty());
  const auto check_none = [&](const auto& change) {
    InvertedResidualParams p = good;
    change(p);
    CAPTURE(p);
    CHECK(kernels::inverted_small::configurations(p, gpu).empty());
  };
  check_none([](InvertedResidualParams& p) { p.elem = Elem::F32; });
  check_none([](InvertedResidualParams& p) { p.c_in = p.c_out = 20; });
  check_none([](InvertedResidualParams& p) { p.c_hidden = 100; });
  check_none([](InvertedResidualParams& p) { p.c_out = 36; });
  check_none([](InvertedResidualParams& p) { p.expand_activation = kNone; });
  check_none([](InvertedResidualParams& p) {
    p.expand = false;
    p.c_hidden = p.c_in;
  });
}

}  // namespace mobicuda::test
