// The exact-float kernel in tiles for configurations that no variant has: other channels, tiles and splits. Compiled as
// device code.
#include <limits>
#include <vector>

#include "emulator/inverted_residual_config.h"
#include "kernels/inverted_residual/simt/host.h"
#include "kernels/inverted_residual/simt/kernel.cuh"

namespace mobicuda::test {
namespace {

using namespace inverted_residual_case;
using kernels::inverted_simt::Config;
using kernels::inverted_simt::expands;

template <Config kConfig>
std::vector<float> run_config(const InvertedResidualParams& p, const Data& data) {
  static_assert(kernels::inverted_simt::is_valid(kConfig));
  return run_config(kConfig, kernels::inverted_simt::fused_kernel<kernels::inverted_simt::Shape<kConfig>>, p, data);
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
    p.expand = expands(kConfig);
    p.pad_top = choose.upto(2);
    p.pad_left = choose.upto(2);
    p.out_h = output_extent(h, 3, p.stride, 1, p.pad_top, choose.upto(2));
    p.out_w = output_extent(w, 3, p.stride, 1, p.pad_left, choose.upto(2));
    p.residual = p.residual && p.expand && p.out_h == h && p.out_w == w && choose.upto(3) > 0;
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
  for (std::size_t i = 0; i < y.size(); ++i) {
    const int pixel = static_cast<int>(i) / p.c_out;
    const bool seen = pixel < p.out_h * p.out_w && sees(p, pixel / p.out_w, pixel % p.out_w, nan_y, nan_x);
    CAPTURE(i, nan_y, nan_x);
    REQUIRE((seen ? with_nan[i] != with_nan[i] : with_nan[i] == y[i]));
  }
}

template <Config... kConfigs>
void check_configs() {
  Choice choose(1);
  for (int i = 0; i < 2; ++i) (check_config<kConfigs>(choose), ...);
}

}  // namespace

TEST_CASE("emulator: inverted_residual in tiles of exact float equals the oracle without expand") {
  check_configs<Config{1, 16, 16, 16, 16, 8, 16, 3, 0, 4, 4, 4, 11, 2, 3, 1, 0, 0, 4, 4},
                Config{1, 8, 16, 24, 24, 16, 24, 3, 0, 4, 2, 4, 8, 4, 2, 1, 0, 0, 4, 6},
                Config{1, 4, 8, 40, 40, 24, 40, 5, 0, 1, 2, 4, 4, 6, 1, 5, 1, 0, 0, 3},
                Config{2, 5, 7, 24, 24, 12, 24, 4, 0, 5, 7, 1, 3, 4, 2, 1, 0, 0, 0, 1},
                Config{2, 8, 8, 48, 48, 48, 48, 6, 0, 8, 1, 4, 8, 6, 1, 3, 1, 0, 0, 1}>();
}

TEST_CASE("emulator: inverted_residual in tiles of exact float equals the oracle for channels of every width") {
  check_configs<Config{2, 7, 8, 8, 48, 16, 16, 3, 4, 7, 1, 2, 7, 4, 1, 2, 0, 8, 0, 5},
                Config{1, 8, 14, 16, 96, 16, 32, 4, 5, 2, 7, 2, 7, 4, 2, 2, 1, 0, 8, 4},
                Config{2, 7, 14, 32, 192, 48, 16, 7, 4, 1, 2, 4, 13, 4, 1, 2, 0, 0, 8, 2},
                Config{2, 7, 7, 48, 192, 80, 96, 12, 4, 1, 7, 2, 7, 10, 1, 4, 1, 8, 0, 1},
                Config{2, 7, 7, 48, 96, 88, 48, 15, 3, 7, 1, 2, 7, 8, 1, 4, 0, 8, 0, 1},
                Config{1, 7, 7, 88, 96, 88, 48, 9, 3, 1, 7, 4, 7, 12, 1, 4, 0, 0, 0, 1},
                Config{1, 7, 14, 88, 48, 136, 16, 6, 3, 1, 7, 2, 13, 6, 1, 1, 0, 0, 16, 2},
                Config{1, 7, 7, 224, 64, 224, 32, 16, 1, 7, 1, 2, 7, 8, 1, 1, 0, 16, 0, 1}>();
}

TEST_CASE("emulator: inverted_residual in tiles of exact float equals the oracle for maps of every size") {
  check_configs<Config{1, 10, 10, 96, 128, 96, 64, 12, 3, 10, 5, 1, 13, 6, 1, 2, 0, 16, 0, 1},
                Config{2, 5, 5, 96, 96, 160, 32, 4, 4, 1, 5, 2, 4, 10, 1, 1, 1, 0, 8, 2},
                Config{1, 5, 5, 64, 384, 64, 192, 12, 4, 1, 5, 4, 4, 8, 1, 4, 1, 8, 24, 1},
                Config{1, 2, 4, 160, 192, 160, 96, 12, 1, 1, 1, 4, 1, 10, 1, 2, 0, 8, 0, 1},
                Config{2, 8, 8, 24, 144, 32, 16, 4, 5, 1, 2, 4, 8, 8, 1, 4, 0, 0, 8, 3},
                Config{1, 6, 6, 24, 144, 28, 144, 9, 3, 3, 6, 1, 5, 14, 1, 9, 1, 8, 0, 1}>();
}

}  // namespace mobicuda::test
