// The kernel of split products for configurations that no variant has: other channels, tiles and splits. Compiled as
// device code.
#include <cmath>
#include <limits>
#include <vector>

#include "emulator/inverted_residual_config.h"
#include "kernels/inverted_residual/split/host.h"
#include "kernels/inverted_residual/split/kernel.cuh"

namespace mobicuda::test {
namespace {

using namespace inverted_residual_case;
using kernels::inverted_split::Config;

template <Config kConfig>
std::vector<float> run_config(const InvertedResidualParams& p, const Data& data) {
  static_assert(kernels::inverted_split::is_valid(kConfig));
  return run_config(kConfig, kernels::inverted_split::split_kernel<kernels::inverted_split::Shape<kConfig>>, p, data);
}

/// A block of up to two tiles each way.
template <Config kConfig>
InvertedResidualParams random_block(Choice& choose) {
  for (;;) {
    const int h = 1 + choose.upto(kConfig.tile_h * kConfig.stride + 2);
    const int w = 1 + choose.upto(kConfig.tile_w * kConfig.stride + 2);
    InvertedResidualParams p =
        block(1 + choose.upto(1), h, w, kConfig.c_in, kConfig.c_hidden, kConfig.c_out, kConfig.stride);
    p.elem = Elem::F32;
    p.expand = p.split = true;
    p.pad_top = choose.upto(2);
    p.pad_left = choose.upto(2);
    p.out_h = output_extent(h, 3, p.stride, 1, p.pad_top, choose.upto(2));
    p.out_w = output_extent(w, 3, p.stride, 1, p.pad_left, choose.upto(2));
    p.residual = p.residual && p.out_h == h && p.out_w == w && choose.upto(3) > 0;
    p.expand_activation = kClips[choose.upto(2)];
    p.depthwise_activation = kClips[choose.upto(2)];
    p.project_clip = kClips[choose.upto(2)];
    if (p.out_h > 0 && p.out_w > 0) return p;
  }
}

template <Config kConfig>
void check_config(Choice& choose) {
  const InvertedResidualParams p = random_block<kConfig>(choose);
  CAPTURE(p, kConfig.tile_h, kConfig.tile_w, kConfig.chunk, kConfig.warps);
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
  const Tensor oracle_with_nan = oracle_of(p, data);  // its bounds: the largest of x may have been where the NaN is
  for (std::size_t i = 0; i < y.size(); ++i) {
    const int pixel = static_cast<int>(i) / p.c_out;
    const bool seen = pixel < p.out_h * p.out_w && sees(p, pixel / p.out_w, pixel % p.out_w, nan_y, nan_x);
    CAPTURE(i, nan_y, nan_x);
    REQUIRE(seen == (with_nan[i] != with_nan[i]));
  }
  REQUIRE(compare_elements(with_nan, oracle_with_nan.value, oracle_with_nan.bound, shape));
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
  constexpr double kMore = 16.0;  // gamma_split() of so few products is no more times gamma()
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

// stride, tile, input, hidden and output channels, chunk, warps, of which side by side in hidden channels, strip, warps
// side by side in output channels, blocks of an SM
TEST_CASE("emulator: inverted_residual in split products equals the oracle for channels of every width") {
  check_configs<
      Config{1, 14, 14, 24, 144, 24, 16, 4, 1, 7, 2, 2, 1, 3}, Config{2, 7, 8, 16, 96, 24, 32, 4, 1, 1, 8, 2, 1, 4},
      Config{2, 7, 7, 24, 144, 32, 48, 12, 3, 1, 4, 2, 2, 1}, Config{1, 7, 14, 8, 48, 8, 48, 6, 3, 7, 2, 4, 1, 2},
      Config{1, 7, 7, 32, 192, 32, 96, 12, 2, 7, 1, 2, 2, 1}, Config{2, 5, 6, 40, 72, 40, 16, 4, 1, 3, 4, 2, 1, 2},
      Config{1, 4, 8, 56, 56, 72, 64, 8, 2, 2, 3, 4, 1, 1}, Config{2, 2, 7, 48, 80, 64, 80, 10, 5, 1, 2, 2, 1, 1}>();
}

TEST_CASE("emulator: inverted_residual in split products equals the oracle for tiles of every size") {
  check_configs<
      Config{1, 1, 1, 16, 32, 16, 32, 1, 1, 1, 1, 2, 1, 1}, Config{2, 3, 9, 16, 48, 24, 16, 4, 1, 3, 2, 2, 1, 2},
      Config{1, 16, 4, 24, 32, 48, 32, 8, 1, 5, 4, 4, 1, 2}, Config{1, 2, 30, 8, 64, 32, 32, 6, 2, 2, 7, 4, 2, 1},
      Config{2, 8, 3, 88, 48, 88, 16, 8, 1, 2, 2, 2, 1, 1}>();
}

TEST_CASE("emulator: inverted_residual in split products keeps the bits of small weights and large values") {
  Choice choose(2);
  check_ranges<Config{1, 7, 14, 24, 48, 24, 16, 4, 1, 7, 1, 2, 1, 4}>(choose);
  check_ranges<Config{2, 7, 7, 32, 96, 64, 32, 4, 1, 1, 7, 2, 1, 3}>(choose);
}

}  // namespace mobicuda::test
