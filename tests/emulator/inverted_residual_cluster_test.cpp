// The cluster kernel for configurations that no variant has: channels that the instructions' steps do not divide.
// Compiled as device code.
#include <limits>
#include <vector>

#include "emulator/inverted_residual_config.h"
#include "kernels/inverted_residual/cluster/host.h"
#include "kernels/inverted_residual/cluster/kernel.cuh"

namespace mobicuda::test {
namespace {

using namespace inverted_residual_case;
using kernels::inverted_cluster::Config;

template <Config kConfig>
std::vector<float> run_config(const InvertedResidualParams& p, const Data& data) {
  return run_config(kConfig, kernels::inverted_cluster::cluster_kernel<kernels::inverted_cluster::Shape<kConfig>>, p,
                    data);
}

template <Config kConfig>
void check_config(Choice& choose) {
  const int h = 1 + choose.upto(8);
  const int w = 1 + choose.upto(8);
  InvertedResidualParams p =
      block(1 + choose.upto(1), h, w, kConfig.c_in, kConfig.c_hidden, kConfig.c_out, kConfig.stride);
  p.expand = true;
  p.residual = p.residual && choose.flip();
  set_activations(p, kConfig);
  CAPTURE(p, kConfig.blocks, kConfig.warps);
  Data data = random_data(p, static_cast<std::uint32_t>(choose.upto(1000)));
  const std::vector<float> y = run_config<kConfig>(p, data);
  const Tensor oracle = oracle_of(p, data);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
  REQUIRE(compare_elements(y, oracle.value, oracle.bound, shape));

  // What lies behind the channels of a pixel is another pixel, whose NaN must not come along.
  const int nan_y = choose.upto(h - 1);
  const int nan_x = choose.upto(w - 1);
  data.x[static_cast<std::size_t>((nan_y * w + nan_x) * p.c_in)] = std::numeric_limits<float>::quiet_NaN();
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

TEST_CASE("emulator: inverted_residual in clusters equals the oracle for channels of every width") {
  check_configs<Config{1, 24, 144, 24, 4, 2, 5, 2, 1, 2}, Config{2, 32, 192, 56, 4, 2, 6, 4, 1, 2},
                Config{1, 56, 336, 56, 4, 4, 6, 4, 1, 2}, Config{1, 56, 336, 112, 4, 3, 7, 7, 1, 2},
                Config{1, 48, 288, 48, 4, 3, 6, 3, 2, 2}, Config{2, 48, 288, 80, 4, 3, 6, 5, 1, 2},
                Config{1, 80, 480, 160, 4, 5, 10, 5, 2, 1}, Config{1, 88, 528, 136, 4, 6, 6, 6, 1, 1},
                Config{2, 136, 816, 224, 4, 7, 8, 8, 1, 1}, Config{1, 224, 1344, 448, 4, 8, 11, 11, 1, 1}>();
}

TEST_CASE("emulator: inverted_residual in large clusters equals the oracle") {
  check_configs<Config{1, 208, 1248, 208, 4, 13, 7, 7, 1, 1}, Config{1, 224, 1344, 224, 4, 14, 7, 7, 1, 1},
                Config{1, 224, 1344, 448, 4, 14, 7, 7, 1, 1}>();
}

TEST_CASE("emulator: inverted_residual in clusters equals the oracle with HardSwish") {
  check_configs<Config{1, 80, 200, 80, 4, 4, 5, 5, 1, 1, 1}, Config{1, 80, 184, 80, 4, 3, 5, 5, 1, 2, 1},
                Config{2, 40, 240, 80, 4, 3, 6, 5, 1, 1, 1}>();
}

TEST_CASE("emulator: inverted_residual in clusters equals the oracle for odd hidden channels, and few") {
  check_configs<Config{1, 8, 24, 24, 4, 2, 1, 1, 1, 1}, Config{1, 16, 72, 18, 4, 2, 3, 1, 1, 1},
                Config{2, 24, 88, 42, 4, 2, 4, 2, 2, 1}, Config{1, 40, 121, 18, 4, 2, 4, 1, 2, 1}>();
}

}  // namespace mobicuda::test
