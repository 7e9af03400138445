// The kernel of split products in clusters for configurations that no variant has: channels that the instructions'
// steps do not divide, weights in shared memory. Compiled as device code.
#include <cmath>
#include <limits>
#include <vector>

#include "emulator/inverted_residual_config.h"
#include "kernels/inverted_residual/split_cluster/host.h"
#include "kernels/inverted_residual/split_cluster/kernel.cuh"

namespace mobicuda::test {
namespace {

using namespace inverted_residual_case;
using kernels::inverted_split_cluster::Config;

template <Config kConfig>
std::vector<float> run_config(const InvertedResidualParams& p, const Data& data) {
  using kernels::inverted_split_cluster::Shape;
  return run_config(kConfig, kernels::inverted_split_cluster::split_cluster_kernel<Shape<kConfig>>, p, data);
}

template <Config kConfig>
InvertedResidualParams random_block(Choice& choose) {
  const int h = 1 + choose.upto(8);
  const int w = 1 + choose.upto(8);
  InvertedResidualParams p =
      block(1 + choose.upto(1), h, w, kConfig.c_in, kConfig.c_hidden, kConfig.c_out, kConfig.stride);
  p.elem = Elem::F32;
  p.expand = p.split = true;
  p.residual = p.residual && choose.flip();
  p.expand_activation = kClips[choose.upto(2)];
  p.depthwise_activation = kClips[choose.upto(2)];
  p.project_clip = kClips[choose.upto(2)];
  return p;
}

template <Config kConfig>
void check_config(Choice& choose) {
  const InvertedResidualParams p = random_block<kConfig>(choose);
  CAPTURE(p, kConfig.blocks, kConfig.warps, kConfig.staged);
  Data data = random_data(p, static_cast<std::uint32_t>(choose.upto(1000)), choose.upto(3) > 0);
  const std::vector<float> y = run_config<kConfig>(p, data);
  const Tensor oracle = oracle_of(p, data);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
  REQUIRE(compare_elements(y, oracle.value, oracle.bound, shape));

  // A NaN reaches every output whose window sees it, and no other.
  const int nan_y = choose.upto(p.h - 1);
  const int nan_x = choose.upto(p.w - 1);
  data.x[static_cast<std::size_t>((nan_y * p.w + nan_x) * p.c_in)] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> with_nan = run_config<kConfig>(p, data);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const int pixel = static_cast<int>(i) / p.c_out;
    const bool seen = pixel < p.out_h * p.out_w && sees(p, pixel / p.out_w, pixel % p.out_w, nan_y, nan_x);
    CAPTURE(i, nan_y, nan_x);
    REQUIRE(seen == (with_nan[i] != with_nan[i]));
  }
}

/// Rows of weights of very different sizes, and small values: products keep the bits of their factors.
template <Config kConfig>
void check_ranges(Choice& choose) {
  InvertedResidualParams p = random_block<kConfig>(choose);
  p.expand_activation = p.depthwise_activation = p.project_clip = kNone;
  p.residual = false;
  Data data = random_data(p, static_cast<std::uint32_t>(choose.upto(1000)), false);
  // Values between the convolutions are below a half's range then.
  for (float& weight : data.expand) weight = std::ldexp(weight, -20);
  constexpr int kSteps = 12;
  for (std::size_t i = 0; i < data.project.size(); ++i) {
    data.project[i] = std::ldexp(data.project[i], static_cast<int>(i) / p.c_hidden % kSteps * -3);
  }
  for (float& value : data.x) value = std::ldexp(value, -20);
  const std::vector<float> y = run_config<kConfig>(p, data);
  p.split = false;  // the bounds of split products near zero know the largest of all rows only
  const Tensor oracle = oracle_of(p, data);
  constexpr double kMore = 16.0;  // the bounds of both products in a chain are no more times those of exact float
  std::vector<double> bounds = oracle.bound;
  for (double& bound : bounds) bound *= kMore;
  const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
  REQUIRE(compare_elements(y, oracle.value, bounds, shape));
}

template <Config... kConfigs>
void check_configs() {
  Choice choose(1);
  for (int i = 0; i < 2; ++i) (check_config<kConfigs>(choose), ...);
}

}  // namespace

// stride, input, hidden and output channels, columns, blocks, warps, of which by output and by hidden channels, blocks
// of an SM, weights of project in shared memory
TEST_CASE("emulator: inverted_residual in split products and clusters equals the oracle for channels of every width") {
  check_configs<Config{1, 24, 144, 24, 4, 2, 5, 2, 1, 2, 0}, Config{2, 32, 192, 56, 4, 2, 6, 4, 1, 2, 1},
                Config{1, 56, 336, 112, 4, 3, 7, 7, 1, 2, 0}, Config{1, 48, 288, 48, 4, 3, 6, 3, 2, 2, 1},
                Config{2, 48, 288, 80, 4, 3, 6, 5, 1, 2, 0}, Config{1, 80, 480, 160, 4, 5, 10, 5, 2, 1, 1},
                Config{2, 136, 816, 224, 4, 7, 8, 8, 1, 1, 1}, Config{1, 160, 960, 320, 4, 8, 10, 10, 1, 1, 1}>();
}

TEST_CASE("emulator: inverted_residual in split products and large clusters equals the oracle") {
  check_configs<Config{1, 208, 1248, 208, 4, 13, 7, 7, 1, 1, 0}, Config{1, 224, 1344, 224, 4, 14, 7, 7, 1, 1, 1}>();
}

TEST_CASE("emulator: inverted_residual in split products and clusters equals the oracle for odd hidden channels") {
  check_configs<Config{1, 8, 24, 24, 4, 2, 1, 1, 1, 1, 0}, Config{1, 16, 72, 18, 4, 2, 3, 1, 1, 1, 1},
                Config{2, 24, 88, 42, 4, 2, 4, 2, 2, 1, 1}, Config{1, 40, 121, 18, 4, 2, 4, 1, 2, 1, 0}>();
}

TEST_CASE("emulator: inverted_residual in split products and clusters keeps the bits of small weights and values") {
  Choice choose(2);
  check_ranges<Config{1, 24, 48, 24, 4, 2, 2, 2, 1, 2, 0}>(choose);
  check_ranges<Config{2, 32, 96, 64, 4, 2, 3, 2, 1, 2, 1}>(choose);
}

}  // namespace mobicuda::test
