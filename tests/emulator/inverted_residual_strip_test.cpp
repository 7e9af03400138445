// The strip kernel for configurations that no variant has: the channels of MobileNetV2's early blocks at other widths.
// Compiled as device code.
#include <limits>
#include <vector>

#include "emulator/inverted_residual_config.h"
#include "kernels/inverted_residual/strip/host.h"
#include "kernels/inverted_residual/strip/kernel.cuh"

namespace mobicuda::test {
namespace {

using namespace inverted_residual_case;
using kernels::inverted_strip::Config;

template <Config kConfig>
std::vector<float> run_config(const InvertedResidualParams& p, const Data& data) {
  return run_config(kConfig, kernels::inverted_strip::strip_kernel<kernels::inverted_strip::Shape<kConfig>>, p, data);
}

/// Maps of up to three strips a row, odd sizes among them.
template <Config kConfig>
void check_config(Choice& choose) {
  const int n = 1 + choose.upto(2);
  const int h = 1 + choose.upto(9 * kConfig.stride);
  const int w = 1 + choose.upto(30 * kConfig.stride);
  InvertedResidualParams p = block(n, h, w, kConfig.c_in, kConfig.c_hidden, kConfig.c_out, kConfig.stride);
  p.residual = p.residual && choose.flip();
  set_activations(p, kConfig);
  CAPTURE(p, kConfig.rows, kConfig.warps, kConfig.blocks);
  Data data = random_data(p, static_cast<std::uint32_t>(choose.upto(1000)));
  const std::vector<float> y = run_config<kConfig>(p, data);
  const Tensor oracle = oracle_of(p, data);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
  REQUIRE(compare_elements(y, oracle.value, oracle.bound, shape));

  // What lies beside a pixel's channels is another pixel, whose NaN must not come along.
  const int nan_y = choose.upto(h - 1);
  const int nan_x = choose.upto(w - 1);
  data.x[static_cast<std::size_t>((nan_y * w + nan_x + 1) * p.c_in - 1)] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> with_nan = run_config<kConfig>(p, data);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const int pixel = static_cast<int>(i) / p.c_out;
    const bool seen = pixel < p.out_h * p.out_w && sees(p, pixel / p.out_w, pixel % p.out_w, nan_y, nan_x);
    CAPTURE(i, nan_y, nan_x);
    REQUIRE((seen || with_nan[i] == y[i]));
  }
}

template <Config... kConfigs>
void check_configs() {
  Choice choose(1);
  for (int i = 0; i < 3; ++i) (check_config<kConfigs>(choose), ...);
}

}  // namespace

TEST_CASE("emulator: inverted_residual in strips equals the oracle for channels of every width") {
  // 0.35 and 0.5; 0.75; 1.3 and 1.4.
  check_configs<Config{8, 48, 8, 2, 4, 8, 1}, Config{8, 48, 8, 1, 7, 4, 1}, Config{8, 48, 16, 2, 2, 4, 3},
                Config{16, 96, 16, 1, 4, 8, 1}, Config{16, 96, 16, 2, 7, 4, 1}, Config{16, 96, 32, 2, 1, 12, 1},
                Config{24, 144, 24, 2, 2, 8, 1}, Config{24, 144, 48, 2, 1, 8, 1}, Config{32, 192, 40, 2, 2, 8, 1},
                Config{32, 192, 48, 2, 1, 7, 1}, Config{40, 240, 40, 1, 2, 8, 1}, Config{40, 240, 80, 2, 1, 7, 1},
                Config{48, 288, 48, 1, 2, 8, 1}, Config{48, 288, 88, 2, 1, 7, 1}>();
}

TEST_CASE("emulator: inverted_residual in strips equals the oracle for any channels that are multiples of 8") {
  check_configs<Config{8, 40, 16, 1, 7, 2, 1}, Config{16, 56, 8, 1, 3, 3, 2}, Config{56, 72, 56, 1, 1, 4, 1},
                Config{56, 112, 72, 2, 1, 2, 1}, Config{64, 384, 64, 1, 1, 7, 1}, Config{64, 104, 96, 2, 1, 1, 1}>();
}

TEST_CASE("emulator: inverted_residual in strips equals the oracle with HardSwish") {
  check_configs<Config{40, 240, 80, 2, 1, 8, 1, 1}, Config{24, 72, 40, 1, 2, 8, 1, 1},
                Config{16, 16, 16, 1, 2, 4, 2, 1}, Config{16, 56, 24, 2, 2, 4, 1, 1}>();
}

TEST_CASE("emulator: inverted_residual has strips for the early blocks of every width") {
  // Outputs of blocks 1, 2 and 3, 4 to 6, and 7 at widths 0.35, 0.5, 0.75, 1.0, 1.3 and 1.4.
  constexpr int kChannels[][4] = {{8, 8, 16, 24},   {8, 16, 16, 32},  {16, 24, 24, 48},
                                  {16, 24, 32, 64}, {24, 32, 40, 80}, {24, 32, 48, 88}};
  struct Stage {
    int in, out, stride, shrink;
  };
  constexpr Stage kStages[] = {{0, 1, 2, 2}, {1, 1, 1, 4}, {1, 2, 2, 4}, {2, 2, 1, 8}, {2, 3, 2, 8}};
  const kernels::DeviceTraits h200 = kernels::traits_of(90, 132);
  for (const auto& channels : kChannels) {
    for (const Stage& stage : kStages) {
      for (const int pixels : {96, 160, 224, 320}) {
        for (const int n : {1, 8, 128}) {
          const int c_in = channels[stage.in];
          const int size = pixels / stage.shrink;
          const InvertedResidualParams p = block(n, size, size, c_in, 6 * c_in, channels[stage.out], stage.stride);
          CAPTURE(p);
          const std::vector<Config> configs = kernels::inverted_strip::configurations(p, h200);
          REQUIRE(!configs.empty());
          REQUIRE(configs.size() <= 6);
          for (const Config& config : configs) {
            REQUIRE(kernels::inverted_strip::is_valid(config));
            REQUIRE(kernels::inverted_strip::supports(config, p, h200));
          }
        }
      }
    }
  }
}

TEST_CASE("emulator: inverted_residual has no strips where none runs the block") {
  const kernels::DeviceTraits h200 = kernels::traits_of(90, 132);
  const auto none = [&](const InvertedResidualParams& p, const kernels::DeviceTraits& gpu) {
    return kernels::inverted_strip::configurations(p, gpu).empty();
  };
  const InvertedResidualParams good = block(8, 56, 56, 24, 144, 24, 1);
  REQUIRE(!none(good, h200));
  REQUIRE(none(good, kernels::traits_of(80, 108)));
  REQUIRE(none(block(8, 56, 56, 20, 120, 24, 1), h200));   // 8 does not divide the channels
  REQUIRE(none(block(8, 14, 14, 72, 432, 72, 1), h200));   // too many
  REQUIRE(none(block(8, 14, 14, 64, 1024, 96, 2), h200));  // more weights than shared memory
  REQUIRE(none(block(8, 112, 112, 24, 24, 16, 1), h200));  // without expand
  InvertedResidualParams other = good;
  other.elem = kernels::Elem::F32;
  REQUIRE(none(other, h200));
  other = good;
  other.depthwise_activation.lo = -1.0F;
  REQUIRE(none(other, h200));
  other = block(8, 56, 56, 24, 24, 24, 1);  // expands to as many channels
  other.expand = true;
  REQUIRE(none(other, h200));
}

TEST_CASE("emulator: inverted_residual names a strip's kernel") {
  REQUIRE(kernels::inverted_strip::kernel_expression({8, 48, 16, 2, 4, 8, 1}) ==
          "mobicuda::kernels::inverted_strip::strip_kernel<mobicuda::kernels::inverted_strip::Shape<"
          "mobicuda::kernels::inverted_strip::Config{8,48,16,2,4,8,1,0}>>");
}

}  // namespace mobicuda::test
