// The exact float cluster kernel for configurations that no variant has: other channels, clusters and tiles. Compiled
// as device code.
#include <limits>
#include <vector>

#include "emulator/inverted_residual_config.h"
#include "kernels/inverted_residual/simt_cluster/host.h"
#include "kernels/inverted_residual/simt_cluster/kernel.cuh"

namespace mobicuda::test {
namespace {

using namespace inverted_residual_case;
using kernels::inverted_simt_cluster::Config;
using kernels::inverted_simt_cluster::is_valid;

template <Config kConfig>
std::vector<float> run_config(const InvertedResidualParams& p, const Data& data) {
  return run_config(
      kConfig, kernels::inverted_simt_cluster::cluster_kernel<kernels::inverted_simt_cluster::Shape<kConfig>>, p, data);
}

/// `wide`: columns of the image.
template <Config kConfig>
void check_config(Choice& choose, int wide) {
  const int h = 1 + choose.upto(8);
  InvertedResidualParams p =
      block(1 + choose.upto(1), h, wide, kConfig.c_in, kConfig.c_hidden, kConfig.c_out, kConfig.stride);
  p.elem = Elem::F32;
  p.expand = true;
  p.residual = p.residual && choose.flip();
  CAPTURE(p, kConfig.blocks, kConfig.threads);
  Data data = random_data(p, static_cast<std::uint32_t>(choose.upto(1000)));
  const std::vector<float> y = run_config<kConfig>(p, data);
  const Tensor oracle = oracle_of(p, data);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
  REQUIRE(compare_elements(y, oracle.value, oracle.bound, shape));

  // A pixel's NaN reaches the outputs that see it, and no other.
  const int nan_y = choose.upto(h - 1);
  const int nan_x = choose.upto(wide - 1);
  data.x[static_cast<std::size_t>((nan_y * wide + nan_x) * p.c_in)] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> with_nan = run_config<kConfig>(p, data);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const int pixel = static_cast<int>(i) / p.c_out;
    const bool seen = pixel < p.out_h * p.out_w && sees(p, pixel / p.out_w, pixel % p.out_w, nan_y, nan_x);
    CAPTURE(i, nan_y, nan_x);
    if (seen) {
      REQUIRE(with_nan[i] != with_nan[i]);
    } else {
      REQUIRE(with_nan[i] == y[i]);
    }
  }
}

/// Images of any width.
template <Config... kConfigs>
void check_configs() {
  Choice choose(1);
  for (int i = 0; i < 2; ++i) (check_config<kConfigs>(choose, 1 + choose.upto(8)), ...);
}

}  // namespace

TEST_CASE("emulator: inverted_residual in exact float in clusters equals the oracle for channels of every width") {
  check_configs<Config{6, 1, 32, 192, 32, 3, 4, 6, 256, 8, 8, 4, 4, 1, 2},
                Config{9, 2, 48, 288, 80, 1, 4, 9, 128, 8, 4, 8, 1, 1, 3},
                Config{8, 1, 80, 480, 80, 4, 1, 3, 128, 8, 2, 8, 1, 1, 2},
                Config{14, 1, 88, 528, 136, 4, 7, 9, 320, 8, 8, 8, 2, 1, 1},
                Config{3, 2, 16, 96, 32, 2, 3, 7, 320, 8, 9, 4, 3, 1, 2}>();
}

TEST_CASE(
    "emulator: inverted_residual in exact float in clusters equals the oracle for hidden channels that blocks do not "
    "divide") {
  check_configs<Config{7, 1, 56, 336, 112, 1, 4, 6, 192, 8, 4, 8, 1, 1, 2},
                Config{3, 1, 8, 44, 12, 2, 3, 5, 96, 4, 3, 4, 2, 0, 2},
                Config{2, 2, 24, 25, 20, 2, 2, 5, 128, 8, 5, 4, 2, 1, 1},
                Config{5, 1, 40, 240, 36, 2, 2, 4, 128, 4, 1, 4, 1, 0, 2}>();
}

TEST_CASE(
    "emulator: inverted_residual in exact float in clusters equals the oracle where a tile's patch is cut at the "
    "sides") {
  Choice choose(2);
  check_config<Config{3, 1, 16, 96, 16, 3, 7, 8, 256, 8, 8, 4, 7, 1, 2}>(choose, 14);
  check_config<Config{8, 1, 160, 960, 320, 1, 2, 3, 320, 4, 1, 8, 1, 0, 1}>(choose, 4);
  check_config<Config{4, 2, 16, 64, 24, 1, 4, 8, 128, 8, 6, 8, 4, 1, 2}>(choose, 8);
}

TEST_CASE("configurations of inverted_residual in exact float in clusters: what cannot be compiled is told") {
  constexpr Config kGood{6, 1, 32, 192, 32, 3, 4, 6, 256, 8, 8, 4, 4, 1, 2};
  CHECK(is_valid(kGood));
  const auto with = [&](int Config::*member, int value) {
    Config c = kGood;
    c.*member = value;
    return is_valid(c);
  };
  constexpr int kLargest = 8192;  // of a value: kMostConfigValue
  for (int Config::*member :
       {&Config::blocks, &Config::stride, &Config::c_in, &Config::c_hidden, &Config::c_out, &Config::rows,
        &Config::columns, &Config::patch_columns, &Config::threads, &Config::expand_channels, &Config::expand_groups,
        &Config::project_channels, &Config::project_groups, &Config::min_blocks}) {
    CHECK_FALSE(with(member, 0));
    CHECK_FALSE(with(member, kLargest));
  }
  CHECK_FALSE(with(&Config::early, 2));
  CHECK_FALSE(with(&Config::c_in, 36));
  CHECK_FALSE(with(&Config::c_out, 34));
  CHECK_FALSE(with(&Config::threads, 128));      // fewer units than groups of channels and pixels
  CHECK_FALSE(with(&Config::patch_columns, 7));  // more than a tile has
  CHECK_FALSE(with(&Config::blocks, 1));
}

}  // namespace mobicuda::test
